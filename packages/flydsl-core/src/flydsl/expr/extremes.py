"""Maximum and minimum of numbers and vectors."""

from __future__ import annotations

import math
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import lanes
from flydsl.expr.emit import emit
from flydsl.expr.fast import flags
from flydsl.expr.numeric import Numeric, common_type
from flydsl.expr.numeric.attributes import float_attributes
from flydsl.expr.numeric.base import laned
from flydsl.expr.numeric.promote import as_operand

__all__ = ["extreme", "max", "maximumf", "maxnumf", "min", "minimumf", "minnumf"]

_NAMES = {
    # (signed, unsigned, float that propagates NaN, float that ignores it)
    "max": ("arith.maxsi", "arith.maxui", "arith.maximumf", "arith.maxnumf"),
    "min": ("arith.minsi", "arith.minui", "arith.minimumf", "arith.minnumf"),
}


def extreme(op: str, a: Any, b: Any, ignore_nan: bool = False) -> Any:
    """Return the maximum (``"max"``) or minimum of two values.

    Args:
        op: ``"max"`` or ``"min"``.
        a: Number or vector.
        b: Number or vector; promoted with `a` to their common class.
        ignore_nan: Return the other operand where one is NaN, instead of NaN.

    Raises:
        UserTypeError: Narrow floats or `Index`, which have no such operation.
    """
    if isinstance(a, lanes.Lanes) or isinstance(b, lanes.Lanes):
        zero = a if isinstance(a, lanes.Lanes) else b
        template = lanes.binary("add", a, b) if not _same(a, b) else zero
        kind, count, shape = template.dtype, template.numel, template.shape
        x, y = (_lanes(item, kind, count, shape) for item in (a, b))
        return type(template)(_emit(op, kind, x, y, ignore_nan, count), shape, kind)
    left, right = as_operand(a), as_operand(b)
    if left is None or right is None:
        raise UserTypeError(f"{op} needs numbers", code="FLY-U249", value=(a, b))
    common = common_type(type(left), type(right))
    _check(op, common)
    x, y = left.to(common), right.to(common)
    if x.is_static() and y.is_static():
        return common.static(_fold(op, x.value, y.value, ignore_nan))
    return common.wrap(_emit(op, common, x.ir_value(), y.ir_value(), ignore_nan, 0))


def _same(a: Any, b: Any) -> bool:
    both = isinstance(a, lanes.Lanes) and isinstance(b, lanes.Lanes)
    return both and a.dtype is b.dtype and a.shape == b.shape


def _lanes(item: Any, kind: type[Numeric], count: int, shape: Any) -> Any:
    if isinstance(item, lanes.Lanes):
        return lanes.broadcast(lanes.convert(item, kind), lanes.flat_extents(shape)).value
    return lanes.splat(item, kind, count)


def _check(op: str, kind: type[Numeric]) -> None:
    if kind.is_index or (kind.is_float and kind.width < 16) or kind.width == 1:
        raise UserTypeError(
            f"{op} has no form for {kind!r}", code="FLY-U249", hint="convert with .to(...)"
        )


def _emit(op: str, kind: type[Numeric], x: Any, y: Any, ignore_nan: bool, count: int) -> Any:
    _check(op, kind)
    signed, unsigned, propagating, ignoring = _NAMES[op]
    result = laned(kind, count).ir_type if count else kind.ir_type
    if kind.is_float:
        name = ignoring if ignore_nan else propagating
        return emit(name, result, (x, y), float_attributes())
    return emit(signed if kind.signed else unsigned, result, (x, y))


def _fold(op: str, x: Any, y: Any, ignore_nan: bool) -> Any:
    if isinstance(x, float) and (math.isnan(x) or math.isnan(y)):
        if not ignore_nan:
            return math.nan
        return y if math.isnan(x) else x
    if x == y:  # zeros of both signs are ordered: -0.0 < 0.0
        negative = math.copysign(1.0, x) < 0 if isinstance(x, float) else False
        return (y if negative else x) if op == "max" else (x if negative else y)
    larger = x if x > y else y
    return larger if op == "max" else (y if larger is x else x)


def _many(op: str, values: tuple[Any, ...], fastmath: Any, ignore_nan: bool = False) -> Any:
    flat: list[Any] = []
    for value in values:
        flat.extend(value if isinstance(value, (list, tuple)) else [value])
    if not flat:
        raise UserValueError(f"{op} needs at least one value", code="FLY-U249")
    with flags(fastmath):
        result = flat[0]
        for value in flat[1:]:
            result = extreme(op, result, value, ignore_nan)
    return result


def max(*values: Any, fastmath: Any = None) -> Any:  # noqa: A001  (the name of the public API)
    """Return the largest of numbers, vectors or lists of them; NaN if any operand is.

    Raises:
        UserValueError: No operand.
        UserTypeError: Operands without an order (narrow floats, `Index`, `Boolean`).
    """
    return _many("max", values, fastmath)


def min(*values: Any, fastmath: Any = None) -> Any:  # noqa: A001  (the name of the public API)
    """Return the smallest of numbers, vectors or lists of them; NaN if any operand is.

    Raises:
        UserValueError: No operand.
        UserTypeError: Operands without an order (narrow floats, `Index`, `Boolean`).
    """
    return _many("min", values, fastmath)


def maximumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Return the larger float; NaN if one operand is."""
    return _many("max", (a, b), fastmath)


def minimumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Return the smaller float; NaN if one operand is."""
    return _many("min", (a, b), fastmath)


def maxnumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Return the larger float; the other operand where one is NaN."""
    return _many("max", (a, b), fastmath, True)


def minnumf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Return the smaller float; the other operand where one is NaN."""
    return _many("min", (a, b), fastmath, True)
