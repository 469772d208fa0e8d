"""States a rotary embedding and divides it among threads: `plan_rotation`.

Of a head of `head_dim` elements, `rotary_dim` are rotated: pairs of them are turned by an angle
that depends on the token's position and on the pair. In the NeoX style element `i` is paired with
element ``i + rotary_dim / 2``, in the GPT-J style with its neighbour. A unit of work is the pairs
of one vector, or a vector of the elements that are not rotated; both elements of a pair are always
in one thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from flydsl.errors import ConfigError

__all__ = [
    "BLOCK",
    "CACHE_LAYOUTS",
    "LIMITS",
    "STYLES",
    "CachePlan",
    "NormPlan",
    "RotationPlan",
    "check_group",
    "divide_head",
    "plan_rotation",
]

STYLES = ("neox", "gptj")
CACHE_LAYOUTS = ("linear", "vectorised", "transposed")
BLOCK = 256
"""Threads of a workgroup."""
LIMITS: Mapping[str, float] = MappingProxyType(
    {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "int8": 127.0}
)
"""The largest number of each 8-bit type that a cache may have."""
MAX_HEAD_DIM = 1024


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """How one rotation is done; compiled in.

    Attributes:
        head_dim: Elements of a head.
        rotary_dim: How many of them, from `first` on, are rotated.
        first: The first rotated element.
        neox: Pairs are half a rotation apart; else they are neighbours.
        vector: Pairs of a unit, and elements of a unit that is copied.
        whole_table: The tables have a column per element; else one per pair.
        positions: Positions are given; else they are the tokens' numbers.
    """

    head_dim: int
    rotary_dim: int
    first: int
    neox: bool
    vector: int
    whole_table: bool
    positions: bool

    @property
    def rotated_units(self) -> int:
        """Units of a head that rotate pairs."""
        return self.rotary_dim // 2 // self.vector

    @property
    def copied_units(self) -> int:
        """Units of a head that are copied."""
        return (self.head_dim - self.rotary_dim) // self.vector

    @property
    def units(self) -> int:
        """Units of a head."""
        return self.rotated_units + self.copied_units


@dataclass(frozen=True, slots=True)
class CachePlan:
    """How rotated keys and plain values are put into a cache; compiled in.

    Attributes:
        rotation: How queries and keys are rotated.
        layout: One of `CACHE_LAYOUTS`.
        value_dim: Elements of a value.
        value_vector: Elements of a unit of a value.
        scaled: Elements are divided by scales; there is one, or one per head (`scale_per_head`).
        scale_per_head: See `scaled`.
        limit: The largest number of an 8-bit cache; 0 for others.
        keys_out: Rotated keys are written to an array too.
    """

    rotation: RotationPlan
    layout: str
    value_dim: int
    value_vector: int
    scaled: bool
    scale_per_head: bool
    limit: float
    keys_out: bool

    @property
    def value_units(self) -> int:
        """Units of a head's value."""
        return self.value_dim // self.value_vector


def plan_rotation(
    head_dim: int,
    rotary_dim: int,
    style: str,
    *,
    distances: Sequence[int],
    itemsize: int,
    whole_table: bool,
    positions: bool,
) -> RotationPlan:
    """Return the plan with the widest vectors that sizes and addresses allow.

    Args:
        head_dim: Elements of a head.
        rotary_dim: Rotated elements at the beginning of the head.
        style: ``"neox"`` or ``"gptj"``.
        distances: What starts of vectors are multiples of, in elements: strides and addresses.
        itemsize: Bytes of the widest element that is loaded in vectors.
        whole_table: The tables have a column per element.
        positions: Positions are given.

    Raises:
        ConfigError: A size or the style is not supported.
    """
    if style not in STYLES:
        raise ConfigError(
            "there is no rotary embedding of this style",
            code="FLY-C955",
            value=style,
            allowed=", ".join(STYLES),
        )
    if not 1 <= head_dim <= MAX_HEAD_DIM:
        raise ConfigError(
            "heads of this many elements are not rotated",
            code="FLY-C956",
            value=head_dim,
            allowed=f"1 to {MAX_HEAD_DIM}",
        )
    if rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
        raise ConfigError(
            "this many elements of a head cannot be rotated",
            code="FLY-C957",
            value=rotary_dim,
            allowed=f"an even number from 2 to head_dim = {head_dim}",
        )
    # Neighbouring pairs take two elements each.
    widest = max(1, 16 // itemsize // (1 if style == "neox" else 2))
    vector = math.gcd(widest, rotary_dim // 2, head_dim - rotary_dim, *distances)
    return RotationPlan(head_dim, rotary_dim, 0, style == "neox", vector, whole_table, positions)


@dataclass(frozen=True, slots=True)
class NormPlan:
    """How normalised, rotated and perhaps quantised heads are computed; compiled in.

    Attributes:
        rotation: How heads are rotated; neighbours are pairs.
        vector: Elements of a load.
        lanes: Threads that share a head; a power of two of at most 32.
        chunks: Vectors of a thread.
        group: Elements that share a scale; 0: results are not quantised.
        power_of_two: Scales are powers of two (E8M0).
        weights: Whether queries, and keys, are multiplied by weights.
        limit: The largest number of the quantised type.
        eps: Added to the mean square.
    """

    rotation: RotationPlan
    vector: int
    lanes: int
    chunks: int
    group: int
    power_of_two: bool
    weights: tuple[bool, bool]
    limit: float
    eps: float

    @property
    def rows(self) -> int:
        """Heads of a workgroup."""
        return BLOCK // self.lanes


MAX_HEAD_LANES = 32
"""Lanes that share a head: no wave of any target is narrower."""


def divide_head(head_dim: int, vector: int) -> tuple[int, int]:
    """Return lanes and vectors per lane of a head.

    Raises:
        ConfigError: The head is no multiple of a vector, or a lane would have too many.
    """
    vectors = head_dim // vector
    lanes = math.gcd(vectors, MAX_HEAD_LANES)
    chunks = vectors // lanes if vectors else 0
    if head_dim % vector or not 1 <= chunks <= 8:
        raise ConfigError(
            "heads of this many elements are not normalised and rotated together",
            code="FLY-C956",
            value=head_dim,
            allowed=f"multiples of {vector}, at most {8 * vector} for each power of two that "
            "divides their number of vectors",
        )
    return lanes, chunks


def check_group(group: int, head_dim: int, vector: int) -> None:
    """Check the size of a group of elements that share a scale.

    Raises:
        ConfigError: It does not divide the head into whole vectors on powers of two of lanes.
    """
    vectors = group // vector if group > 0 else 0
    lanes = math.gcd(head_dim // vector, MAX_HEAD_LANES)
    fits = vectors & (vectors - 1) == 0 if vectors <= lanes else vectors % lanes == 0
    if group <= 0 or group % vector or head_dim % group or not fits:
        raise ConfigError(
            "elements cannot share a scale in groups of this size",
            code="FLY-C958",
            value=group,
            allowed=f"{head_dim}, or {vector} times a power of two that divides {head_dim}",
        )
