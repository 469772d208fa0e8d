"""Which part of an offset is uniform: sums split into wave-uniform terms and the rest.

A value is uniform when it derives from constants, kernel arguments, block indices and loop indices
alone. The split is exact for indices that do not overflow: where the sum of 32-bit terms would
wrap, the sum of the parts does not, and an index so large is outside layouts of 32-bit extents.
"""

from __future__ import annotations

from typing import Any

from flydsl import mlir
from flydsl.passes.ranges import Bounds, Ranges

__all__ = ["Term", "is_uniform", "split_sum", "terms_range"]

Term = tuple[Any, int]
"""An integer SSA value and what it is multiplied by."""

_INDICES = frozenset(
    {"gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.cluster_id", "rocdl.readfirstlane",
     "rocdl.readlane"}
)  # fmt: skip
_CASTS = frozenset({"arith.extsi", "arith.index_cast"})
_DEPTH = 24


def _constant(value: Any) -> int | None:
    owner = value.owner
    if isinstance(owner, mlir.ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return int(attribute.value) if isinstance(attribute, mlir.ir.IntegerAttr) else None


def is_uniform(value: Any, depth: int = _DEPTH) -> bool:
    """Return whether every active lane of a wave holds the same `value`, as far as can be seen."""
    owner = value.owner
    if isinstance(owner, mlir.ir.Block):
        parent = owner.owner
        if parent.name == "gpu.func":
            return True
        number = mlir.ir.BlockArgument(value).arg_number
        if parent.name != "scf.for" or number != 0 or depth == 0:
            return False
        first, _, step = list(parent.operands)[:3]
        return is_uniform(first, depth - 1) and is_uniform(step, depth - 1)
    if owner.name in _INDICES or owner.name == "arith.constant":
        return True
    if not owner.name.startswith("arith.") or depth == 0:
        return False
    return all(is_uniform(operand, depth - 1) for operand in owner.operands)


def _terms(value: Any, scale: int, depth: int) -> list[Term]:
    owner = value.owner
    if isinstance(owner, mlir.ir.Block) or depth == 0:
        return [(value, scale)]
    name = owner.name
    if name in _CASTS:
        inner = owner.operands[0]
        # An index narrowed to 32 bits keeps its meaning; see the module's docstring.
        return _terms(inner, scale, depth - 1)
    if name in ("arith.addi", "arith.subi"):
        left, right = owner.operands
        sign = -1 if name == "arith.subi" else 1
        return _terms(left, scale, depth - 1) + _terms(right, sign * scale, depth - 1)
    if name in ("arith.muli", "arith.shli"):
        for one, other in ((0, 1), (1, 0)) if name == "arith.muli" else ((0, 1),):
            factor = _constant(owner.operands[other])
            if factor is not None and (name == "arith.muli" or 0 <= factor < 32):
                times = factor if name == "arith.muli" else 1 << factor
                return _terms(owner.operands[one], scale * times, depth - 1)
    return [(value, scale)]


def split_sum(value: Any) -> tuple[list[Term], list[Term]]:
    """Split an integer into the (uniform, other) terms of the sum that it is."""
    uniform: list[Term] = []
    other: list[Term] = []
    for term in _terms(value, 1, _DEPTH):
        (uniform if is_uniform(term[0]) else other).append(term)
    return uniform, other


def terms_range(ranges: Ranges, terms: list[Term]) -> Bounds:
    """Return the bounds of a sum of terms."""
    low = high = 0
    for value, scale in terms:
        a, b = (bound * scale for bound in ranges.of(value))
        low, high = low + min(a, b), high + max(a, b)
    return low, high
