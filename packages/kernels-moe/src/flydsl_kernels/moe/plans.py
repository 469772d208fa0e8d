"""What a grouped product is compiled for: `GemmPlan`, and `select_gemm`, which chooses tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext.arguments import is_finite
from flydsl_kernels.moe.formats import FORMATS, Format

__all__ = ["Activation", "GemmPlan", "gemm_plan"]

ACTIVATIONS = ("silu", "gelu", "gelu_tanh")


@dataclass(frozen=True, slots=True)
class Activation:
    """What becomes of gate and gated columns.

    Attributes:
        name: ``silu`` or ``gelu`` (its tanh form is ``gelu_tanh``).
        limit: The gate is at most this, the gated number within plus and minus this; None: no
            limit.
        alpha: Factor inside the logistic function of ``silu``.
        offset: Added to the gated number.

    Raises:
        ConfigError: There is no activation of this name, or a number is not finite.
    """

    name: str = "silu"
    limit: float | None = None
    alpha: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in ACTIVATIONS:  # type: ignore[redundant-expr]
            raise ConfigError("there is no such activation of gates", code="FLY-C975",
                              value=self.name, allowed=", ".join(ACTIVATIONS))  # fmt: skip
        for name, value in (("limit", self.limit), ("alpha", self.alpha), ("offset", self.offset)):
            absent = name == "limit" and value is None
            if not absent and not is_finite(value):
                raise ConfigError(f"the {name} of an activation is no finite number",
                                  code="FLY-C975", value=value,
                                  allowed="finite numbers")  # fmt: skip
        if self.limit is not None and self.limit < 0:
            raise ConfigError("the limit of an activation is negative", code="FLY-C975",
                              value=self.limit, allowed="numbers from 0 on")  # fmt: skip


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """What a grouped product is compiled for.

    Attributes:
        format: Name of the format.
        tile_m: Entries of a tile: the unit of the sorted order.
        tiles: Blocks of 16 channels of a wave.
        source: Rows of the activations: ``token``, ``pair`` (token * slots + slot) or ``slot``
            (slot * tokens + token).
        activation: For products with gates; None without.
        weighted: Multiply by the weights of the pairs.
        atomic: Add to the row of the token instead of writing the row of the pair.
        ragged_k: Whether the last step has fewer columns.
        ragged_n: Whether the last tile has fewer channels.
        channel_step: 4 where the number of channels is a multiple of 4, else 1.
        group: Columns that share a scale of 4-bit integers.
        flavour: Kind of the 8-bit floats, ``ocp`` or ``fnuz``; empty without.
        modern: Whether the architecture has scaled matrix instructions and those of twice the
            columns; filled in while tracing.
    """

    format: str
    tile_m: int
    tiles: int
    source: str
    activation: Activation | None = None
    weighted: bool = False
    atomic: bool = False
    ragged_k: bool = False
    ragged_n: bool = False
    channel_step: int = 4
    group: int = 128
    flavour: str = ""
    modern: bool = False

    @property
    def numbers(self) -> Format:
        """The format."""
        return FORMATS[self.format]

    @property
    def whole_eight(self) -> bool:
        """Whether 8-bit floats are multiplied 128 columns at a time, by the scaled instruction."""
        return self.modern and self.format in ("fp8", "fp8_block")

    @property
    def chunks(self) -> int:
        """Groups of columns that are multiplied together in a step."""
        return 1 if self.whole_eight else self.numbers.chunks

    def pieces(self, chunk: int, group: int) -> tuple[int, ...]:
        """Return the pieces of an activation's row that a lane multiplies; see `Format.piece`."""
        first = self.numbers.piece(chunk, group)
        both = self.whole_eight or self.format == "mxfp8_mxfp4"
        return (first, first + 4) if both else (first,)

    @property
    def halves(self) -> int:
        """2 with gates, else 1."""
        return 1 if self.activation is None else 2

    @property
    def columns(self) -> int:
        """16 entries each."""
        return self.tile_m // 16

    @property
    def tile_n(self) -> int:
        """Channels of a workgroup of four waves."""
        return 64 * self.tiles


def gemm_plan(
    activation: Activation | None, format: str, tile_m: int, tiles: int, source: str, *more: Any
) -> GemmPlan:
    """Return `GemmPlan(format, tile_m, tiles, source, activation, *more)`.

    It is the same object in repeated calls.
    """
    numbers: tuple[str, ...] = ()
    if activation is not None:
        # As texts: 1, 1.0 and True are equal, as 0.0 and -0.0 are, and mean other programs.
        numbers = repr(activation.limit), repr(activation.alpha), repr(activation.offset)
    return _gemm_plan(numbers, format, tile_m, tiles, source, activation, *more)


@lru_cache(maxsize=4096, typed=True)
def _gemm_plan(numbers: tuple[str, ...], *values: Any) -> GemmPlan:
    del numbers  # in the key
    return GemmPlan(*values)
