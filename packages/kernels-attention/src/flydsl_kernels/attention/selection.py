"""Chooses how attention is computed: `select_flash`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flydsl.errors import ConfigError
from flydsl_kernels.attention.problem import FlashProblem
from flydsl_rocdl.arch import ArchFacts

__all__ = ["CUT", "FlashPlan", "matching_unit", "select_flash", "select_gradient"]

_UNITS = {
    "mfma-16": ("mfma.f32.32x32x16.bf16",),
    "mfma-8": ("mfma.f32.32x32x8bf16.1k",),
    "wmma": ("wmma.f32.16x16x16.bf16",),
}
_BYTE_UNITS = {
    "mfma-fp8": ("mfma.f32.32x32x16.fp8.fp8",),
    "wmma-fp8": ("wmma.f32.16x16x16.fp8.fp8",),
}
_FLAVOURS = {"fnuz": "float8_e4m3fnuz", "ocp": "float8_e4m3fn"}

CUT = 1.0 + 2.0**-8 / (2.0 * math.log(2.0))
"""By how much weights that are cut to bf16 are enlarged before: what cutting takes on average, for
mantissas whose logarithms are evenly spread. A weight is off by at most 1.3 * 2^-8."""


@dataclass(frozen=True, slots=True)
class FlashPlan:
    """What a forward kernel is compiled for.

    Attributes:
        unit: Matrix instruction, a key of `device.matrix.UNITS`.
        element: Element type of q, k and v.
        d_qk: Elements of a row of q and k, a multiple of 8.
        d_v: Elements of a row of v and of the result, a multiple of 8.
        waves: Waves of a workgroup.
        columns: Blocks of `Unit.rows` queries that a wave has.
        tile: Keys of a tile.
        left: Whether a row sees no keys further to the left than a run-time distance.
        right: The same for the right.
        varlen: Whether sequences are packed, and found by their cumulative lengths.
        lengths: Whether the number of keys of each sequence is in an array.
        page: Keys of a page, 0 where keys are not paged.
        vectorised: Whether pages have chunks of keys next to each other.
        bias: Whether a bias is added to the scores.
        alibi: Whether scores fall with the distance.
        sink: Whether the denominator has a term of its own per head.
        splits: Parts of the keys that different workgroups take.
        lse: Whether the logarithm of the sum is written.
        ahead: Whether scores are made beside the softmax of the half of a tile before; tiles then
            have two halves of `Unit.rows` keys.
    """

    unit: str
    element: str
    d_qk: int
    d_v: int
    waves: int
    columns: int
    tile: int = 64
    left: bool = False
    right: bool = False
    varlen: bool = False
    lengths: bool = False
    page: int = 0
    vectorised: bool = False
    bias: bool = False
    alibi: bool = False
    sink: bool = False
    splits: int = 1
    lse: bool = False
    ahead: bool = False

    @property
    def wide_qk(self) -> int:
        """`d_qk` rounded up to the depth and width of the products."""
        return max(self.least, -(-self.d_qk // 32) * 32)

    @property
    def least(self) -> int:
        """Least width of a row in LDS, so that every thread has a part of a tile."""
        return 2048 // self.tile

    @property
    def wide_v(self) -> int:
        """`d_v` rounded up likewise."""
        return max(self.least, -(-self.d_v // 32) * 32)

    @property
    def uneven(self) -> bool:
        """Whether some rows of a block see keys that others do not."""
        return self.left or self.right

    @property
    def byte(self) -> bool:
        """Whether elements have 8 bits."""
        return self.element.startswith("float8")

    @property
    def sums(self) -> int:
        """Partial sums of a row's weights that a lane has.

        Two of the weights that the result is divided by; where those are rounded to 8 bits and the
        logarithm is wanted, two of the weights themselves.
        """
        return 4 if self.byte and self.lse else 2

    @property
    def cut(self) -> bool:
        """Whether weights are cut to bf16: there is no instruction that rounds them."""
        return self.element == "bfloat16" and self.unit in ("mfma-8", "wmma-11", "wmma-12")

    @property
    def raised_by(self) -> float:
        """Power of two that the largest weight has when a reference is set."""
        return (3.0 if self.byte else 0.0) + (math.log2(CUT) if self.cut else 0.0)

    @property
    def limit(self) -> float:
        """Power of two that no weight exceeds."""
        return 7.0 if self.byte else 8.0


def matching_unit(units: Mapping[str, tuple[str, ...]], facts: ArchFacts, what: str) -> str:
    """Return the name of the first matrix instruction that an architecture has.

    Args:
        units: Intrinsics that each needs; of ``wmma`` there are two kinds, with and without copies.
        facts: The architecture.
        what: What it is for.

    Raises:
        ConfigError: It has none of them.
    """
    known = {shape.intrinsic for shape in facts.matrix}
    for name, needed in units.items():
        if known.issuperset(needed):
            copies = "11" if "wmma-copies" in facts.has else "12"
            return f"{name}-{copies}" if name == "wmma" else name
    raise ConfigError(
        f"{what} has no kernel for this architecture",
        code="FLY-C945",
        value=facts.name,
        allowed="architectures with one of " + ", ".join(n for u in units.values() for n in u),
    )


def _unit(problem: FlashProblem, facts: ArchFacts) -> str:
    """Return the fastest matrix instruction of an architecture.

    Raises:
        ConfigError: It has none for this element type.
    """
    units = _BYTE_UNITS if problem.byte else _UNITS
    return matching_unit(units, facts, f"flash attention of {problem.dtype}")


def _fits(problem: FlashProblem) -> bool:
    """Return whether two blocks of 32 queries fit the 512 registers of a lane of an MFMA wave.

    Of the result they take an element's width in registers, of the queries half a row's, and of the
    operands of two halves of a tile half of both. What is left is for scores.
    """
    d_qk, d_v = (-(-width // 32) * 32 for width in (problem.d_qk, problem.d_v))
    return d_v <= 160 and 2 * d_qk + 3 * d_v <= 800


def select_flash(problem: FlashProblem, facts: ArchFacts) -> FlashPlan:
    """Return the plan for a problem.

    Args:
        problem: The problem.
        facts: The architecture.

    Raises:
        ConfigError: The architecture cannot, and what it can.
    """
    unit = _unit(problem, facts)
    if problem.byte and problem.dtype != _FLAVOURS[facts.fp8]:
        raise ConfigError(
            "the architecture computes with the other flavour of 8-bit floats",
            code="FLY-C946",
            value=f"{problem.dtype} on {facts.name}",
            allowed=_FLAVOURS[facts.fp8],
            hint="the same bits mean other values; convert the arrays",
        )
    ahead = unit == "mfma-16" and not problem.vectorised
    waves, columns = 4, 1 if unit.startswith("mfma") else 2
    if ahead and _fits(problem):
        waves, columns = 2 if problem.short else 4, 2
    plan = FlashPlan(
        unit, problem.dtype, problem.d_qk, problem.d_v, waves, columns, left=problem.left >= 0,
        right=problem.right >= 0, varlen=problem.varlen, lengths=problem.lengths,
        page=problem.page, vectorised=problem.vectorised, bias=problem.bias,
        alibi=problem.alibi, sink=problem.sink, splits=problem.splits, lse=problem.lse,
        ahead=ahead,
    )  # fmt: skip
    return replace(plan, sink=False, lse=True) if plan.splits > 1 else plan


def select_gradient(problem: FlashProblem, keys: bool, facts: ArchFacts) -> FlashPlan:
    """Return the plan for the gradients.

    Args:
        problem: The problem of the forward pass.
        keys: Gradients of keys and values instead of queries: what a plan calls left is right.
        facts: The architecture.

    Raises:
        ConfigError: The architecture cannot, and what it can.
    """
    left, right = problem.left >= 0, problem.right >= 0
    wide = -(-problem.d_qk // 32) * 32 + -(-problem.d_v // 32) * 32
    # Both sides' rows, and those turned, are in LDS at once.
    tile = 64 if 4 * 64 * wide <= facts.lds.capacity else 32
    return FlashPlan(
        _unit(problem, facts), problem.dtype, problem.d_qk, problem.d_v, waves=4, columns=1,
        tile=tile, left=right if keys else left, right=left if keys else right,
        varlen=problem.varlen,
    )  # fmt: skip
