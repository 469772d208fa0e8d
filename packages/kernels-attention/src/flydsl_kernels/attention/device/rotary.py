"""Rotation of a unit of a head, and where its elements are."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.rotary import RotationPlan

__all__ = [
    "Angles",
    "copied_column",
    "joined",
    "load_unit",
    "parted",
    "rotated_unit",
    "store_unit",
    "table_row",
    "token_position",
]


@fx.struct
class Angles(fx.Struct):
    """Tables of cosines and sines, and the tokens' positions."""

    cos: fx.Tensor
    sin: fx.Tensor
    positions: fx.Tensor


def _load(start: Any, column: Any, count: int) -> Any:
    """Load `count` elements as an f32 vector."""
    return (start + column).load(vector_alias(start.element, (count,))).to(fx.Float32)


def token_position(positions: Any, token: Any, plan: RotationPlan) -> Any:
    """Return a token's position as a 64-bit number."""
    if not plan.positions:
        return token.to(fx.Int64)
    return (positions.iter + token.to(fx.Int64) * positions.stride).load().to(fx.Int64)


def table_row(table: Any, position: Any) -> tuple[Any, Any]:
    """Return the start of a position's row of a table, and whether the table has it."""
    there = (position >= 0) & (position < fx.Int64(table.shape[0]))
    row = fx.arith.select(there, position, fx.Int64(0))
    return table.iter + row * table.stride[0], there


def load_unit(start: Any, unit: Any, plan: RotationPlan) -> tuple[Any, Any]:
    """Load both halves of a rotated unit's pairs as f32 vectors.

    Args:
        start: Pointer to the first rotated element.
        unit: Number of the unit.
        plan: Sizes and style.
    """
    column = unit * plan.vector
    if plan.neox:
        first = _load(start, column, plan.vector)
        return first, _load(start, column + plan.rotary_dim // 2, plan.vector)
    pairs = _load(start, column * 2, 2 * plan.vector)
    return parted(pairs)


def parted(pairs: Any) -> tuple[Any, Any]:
    """Return the even and the odd elements of a vector."""
    items = list(pairs)
    return fx.Vector.from_elements(items[::2]), fx.Vector.from_elements(items[1::2])


def joined(first: Any, second: Any) -> Any:
    """Return a vector whose even and odd elements are given."""
    both = zip(first, second, strict=True)
    return fx.Vector.from_elements([item for pair in both for item in pair])


def _factors(table: Any, unit: Any, plan: RotationPlan) -> tuple[Any, Any]:
    """Load a table's factors for the first and the second elements of a unit's pairs."""
    if plan.whole_table:
        return load_unit(table, unit, plan)
    both = _load(table, unit * plan.vector, plan.vector)
    return both, both


def rotated_unit(
    start: Any, unit: Any, tables: tuple[Any, Any, Any], plan: RotationPlan
) -> tuple[Any, Any]:
    """Return the rotated pairs of a unit as f32 vectors: first elements, second elements.

    A pair (a, b) becomes (a·cos - b·sin, b·cos + a·sin), each with one rounding of the product
    that is subtracted or added and one of the whole.

    Args:
        start: Pointer to the first rotated element.
        unit: Number of the unit.
        tables: Starts of the position's rows of cosines and sines, and whether they exist; where
            they do not, the result is NaN.
        plan: Sizes and style.
    """
    a, b = load_unit(start, unit, plan)
    (cos_a, cos_b), (sin_a, sin_b) = (_factors(table, unit, plan) for table in tables[:2])
    first = fx.math.fma(a, cos_a, -(b * sin_a))
    second = fx.math.fma(b, cos_b, a * sin_b)
    lost = fx.Float32(float("nan"))
    return _chosen(tables[2], first, lost), _chosen(tables[2], second, lost)


def _chosen(condition: Any, value: Any, other: Any) -> Any:
    """Return a vector, or `other` in each element where the condition does not hold."""
    return fx.Vector.from_elements([fx.arith.select(condition, item, other) for item in value])


def store_unit(start: Any, unit: Any, pairs: tuple[Any, Any], plan: RotationPlan) -> None:
    """Store rotated pairs, rounded to the type of the memory that `start` points to."""
    column = unit * plan.vector
    if plan.neox:
        for half, value in enumerate(pairs):
            (start + (column + half * plan.rotary_dim // 2)).store(value.to(start.element))
    else:
        (start + column * 2).store(joined(*pairs).to(start.element))


@flyc.jit
def copied_column(unit: Any, plan: RotationPlan) -> Any:
    """Return the column of a unit that is copied; the rotated ones lie before or after."""
    column = (unit - plan.rotated_units) * plan.vector
    if fx.const_expr(plan.first == 0):
        column = column + plan.rotary_dim
    return column
