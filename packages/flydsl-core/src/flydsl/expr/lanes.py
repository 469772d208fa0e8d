"""Operations on vectors: the arithmetic of numbers applied to all lanes at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from flydsl.errors import UserIndexError, UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, note, require
from flydsl.expr.emit import emit
from flydsl.expr.numeric import BY_TEXT, Boolean, Index, Numeric, as_numeric, common_type, fold
from flydsl.expr.numeric.base import is_numeric_class, laned, literal
from flydsl.expr.numeric.convert import convert_value
from flydsl.expr.numeric.divide import absolute, negate, quotient_type
from flydsl.expr.numeric.operators import emit_arithmetic, emit_comparison
from flydsl.expr.numeric.promote import as_operand

__all__ = [
    "Lanes",
    "binary",
    "bitcast",
    "broadcast",
    "comparison",
    "convert",
    "element",
    "flat_extents",
    "gather",
    "select",
    "shuffle",
    "splat",
    "sub_vector",
    "unary",
    "vector_parts",
]

L = TypeVar("L", bound="Lanes")

_WIDENS = frozenset({"add", "sub", "mul", "div", "floordiv", "mod"})
_BITWISE = frozenset({"and", "or", "xor", "shl", "shr"})


class Lanes:
    """What the operations here need of a vector; `flydsl.expr.vector.Vector` is one.

    Results are of the class of their vector operand, so this module need not know that class.
    """

    __slots__ = ("dtype", "shape", "value")

    def __init__(self, value: Any, shape: Any, dtype: type[Numeric]) -> None:
        self.value: IRValue = value
        self.shape: tuple[Any, ...] = shape
        self.dtype = dtype
        note(self)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(flat_extents(self.shape))


def _make(like: L, value: IRValue, shape: Any, dtype: type[Numeric]) -> L:
    return type(like)(value, shape, dtype)


def vector_parts(value: IRValue, dtype: type[Numeric] | None) -> tuple[int, type[Numeric]]:
    """Return the lane count and element class of an IR vector.

    Raises:
        UserTypeError: The value is no one-dimensional vector, or of other elements than `dtype`.
    """
    text = str(getattr(value, "type", ""))
    if not text.startswith("vector<") or text.count("x") < 1:
        raise UserTypeError(
            "a Vector holds an IR vector", code="FLY-U244", value=text or type(value).__name__
        )
    count, _, spelled = text[7:-1].partition("x")
    if not spelled or not count.isdigit() or spelled[0].isdigit():
        raise UserTypeError("a Vector holds a flat IR vector", code="FLY-U244", value=text)
    kind = BY_TEXT[spelled] if dtype is None else dtype
    if kind.ir_text != spelled:
        raise UserTypeError(
            "the IR vector has other elements", code="FLY-U244", value=text, allowed=kind.ir_text
        )
    return int(count), kind


def gather(items: Sequence[Any], dtype: type[Numeric] | None) -> tuple[IRValue, type[Numeric]]:
    """Emit the vector of the given numbers, converted to `dtype` or their common class.

    Raises:
        UserValueError: The list is empty.
        UserTypeError: An item is no number.
    """
    if not items:
        raise UserValueError("a vector needs at least one element", code="FLY-U244")
    numbers = [as_numeric(item) for item in items]
    for item, number in zip(items, numbers, strict=True):
        if number is None:
            raise UserTypeError("a vector is made of numbers", code="FLY-U244", value=item)
    found = [number for number in numbers if number is not None]
    kind = dtype
    if kind is None:
        kind = type(found[0])
        for number in found[1:]:
            kind = common_type(kind, type(number))
    values = [number.to(kind).ir_value() for number in found]
    session = require("a vector")
    result = session.type(f"vector<{len(values)}x{kind.ir_text}>")
    return emit("vector.from_elements", result, values), kind


def splat(value: Any, dtype: type[Numeric], count: int) -> IRValue:
    """Emit an IR vector of `count` elements with one number in every lane.

    Raises:
        UserTypeError: `value` is no number.
    """
    number = as_numeric(value)
    if number is None:
        raise UserTypeError("a vector is filled with a number", code="FLY-U244", value=value)
    scalar = dtype(value) if not isinstance(value, Numeric) else number.to(dtype)
    kind = laned(dtype, count)
    if scalar.is_static():
        return literal(kind, scalar.value)
    return emit("vector.broadcast", kind.ir_type, (scalar.ir_value(),))


def flat_extents(shape: Any) -> tuple[int, ...]:
    """Return the extents of a possibly nested shape in order."""
    if isinstance(shape, (tuple, list)):
        return tuple(extent for item in shape for extent in flat_extents(item))
    return (int(shape),)


def _operands(
    a: Any, b: Any, widen: bool, quotient: bool = False
) -> tuple[Numeric, Numeric, Any, type[Numeric], Lanes] | None:
    """Return both operands as lanes of their common class; the result's shape, class and kind."""
    kinds: list[type[Numeric]] = []
    for value in (a, b):
        if isinstance(value, Lanes):
            kinds.append(value.dtype)
            continue
        number = as_operand(value)
        if number is None:
            return None
        kinds.append(type(number))
    common = common_type(kinds[0], kinds[1], widen)
    if quotient and common.is_integer:
        common = quotient_type(common)
    vectors = [value for value in (a, b) if isinstance(value, Lanes)]
    shape = vectors[0].shape
    if len(vectors) == 2 and flat_extents(a.shape) != flat_extents(b.shape):
        extents = _broadcast_shape(flat_extents(a.shape), flat_extents(b.shape))
        a, b = broadcast(a, extents), broadcast(b, extents)
        shape = extents
    count = math.prod(flat_extents(shape))
    kind = laned(common, count)
    out = []
    for value in (a, b):
        if isinstance(value, Lanes):
            out.append(kind.wrap(_converted(value, common)))
        else:
            number = as_operand(value)
            assert number is not None
            number = number.to(common)
            if number.is_static():
                out.append(kind.static(number.value))
            else:
                out.append(kind.wrap(splat(number, common, count)))
    return out[0], out[1], shape, common, vectors[0]


def _converted(vector: Lanes, dtype: type[Numeric]) -> IRValue:
    if vector.dtype is dtype:
        return vector.value
    count = vector.numel
    return convert_value(laned(vector.dtype, count), laned(dtype, count), vector.value, None)


def _broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    out: list[int] = []
    for x, y in itertools.zip_longest(reversed(a), reversed(b), fillvalue=1):
        if x != y and 1 not in (x, y):
            raise UserValueError(
                "these vector shapes do not broadcast", code="FLY-U247", value=(a, b)
            )
        out.append(max(x, y))
    return tuple(reversed(out))


def binary(op: str, a: Any, b: Any) -> Any:
    """Apply a binary operator to two vectors, or a vector and a number.

    Raises:
        UserTypeError: A bitwise operator on floats.
        UserValueError: The shapes do not broadcast.
    """
    found = _operands(a, b, op in _WIDENS, op == "div")
    if found is None:
        return NotImplemented
    x, y, shape, common, like = found
    if common.is_float and op in _BITWISE:
        raise UserTypeError("bitwise operators need integers", code="FLY-U208", value=common)
    if op == "div" and common.is_integer:
        op = "floordiv"
    return _make(like, emit_arithmetic(op, x, y).ir_value(), shape, common)


def comparison(op: str, a: Any, b: Any) -> Any:
    """Compare elementwise; the result is a vector of `Boolean`."""
    found = _operands(a, b, op not in ("eq", "ne"))
    if found is None:
        return NotImplemented
    x, y, shape, _, like = found
    return _make(like, emit_comparison(op, x, y), shape, Boolean)


def unary(op: str, a: L) -> L:
    """Apply ``neg``, ``abs`` or ``invert`` elementwise."""
    x = laned(a.dtype, a.numel).wrap(a.value)
    if op == "neg":
        return _make(a, negate(x).ir_value(), a.shape, a.dtype)
    if op == "abs":
        return _make(a, absolute(x).ir_value(), a.shape, a.dtype)
    if a.dtype.is_float:
        raise UserTypeError("operator ~ needs integers", code="FLY-U208", value=a.dtype)
    ones = type(x).static(fold.all_ones(a.dtype))
    return _make(a, emit_arithmetic("xor", x, ones).ir_value(), a.shape, a.dtype)


def convert(a: L, dtype: type[Numeric], rounding_mode: object = None) -> L:
    """Convert every element by the rules for numbers."""
    if not is_numeric_class(dtype):
        raise UserTypeError("conversion needs a numeric class", code="FLY-U205", value=dtype)
    if a.dtype is dtype:
        return a
    mode = None
    if rounding_mode is not None:
        from flydsl.expr.numeric.convert import rounding

        mode = rounding(a.dtype, dtype, rounding_mode)
    count = a.numel
    value = convert_value(laned(a.dtype, count), laned(dtype, count), a.value, mode)
    return _make(a, value, a.shape, dtype)


def bitcast(a: L, dtype: type[Numeric]) -> L:
    """Reinterpret the bits as elements of another class.

    Raises:
        UserTypeError: The total width is no multiple of the new elements.
    """
    bits = a.numel * a.dtype.width
    if dtype.is_index or a.dtype.is_index or bits % dtype.width:
        raise UserTypeError(
            f"{bits} bits cannot be seen as {dtype!r}",
            code="FLY-U207",
            allowed="a class whose width divides the vector",
        )
    count = bits // dtype.width
    shape = a.shape if count == a.numel else (count,)
    if a.dtype.ir_text == dtype.ir_text:
        return _make(a, a.value, shape, dtype)
    name = "arith.bitcast" if count == a.numel else "vector.bitcast"
    return _make(a, emit(name, laned(dtype, count).ir_type, (a.value,)), shape, dtype)


def select(condition: Any, yes: Any, no: Any) -> Any:
    """Choose lane by lane (vector condition) or as a whole (scalar condition)."""
    found = _operands(yes, no, False) if isinstance(yes, Lanes) or isinstance(no, Lanes) else None
    if found is None:
        if not isinstance(condition, Lanes):
            raise UserTypeError(
                "select needs two numbers or two vectors", code="FLY-U209", value=(yes, no)
            )
        number = as_numeric(yes)
        other = as_numeric(no)
        if number is None or other is None:
            raise UserTypeError("select needs numbers", code="FLY-U209", value=(yes, no))
        common = common_type(type(number), type(other))
        yes, no = (
            _make(condition, splat(item, common, condition.numel), condition.shape, common)
            for item in (number, other)
        )
        found = _operands(yes, no, False)
        assert found is not None
    x, y, shape, common, like = found
    if isinstance(condition, Lanes):
        flag = _converted(condition, Boolean)
    else:
        number = as_numeric(condition)
        if number is None:
            raise UserTypeError("this is not a condition", code="FLY-U209", value=condition)
        chosen = number.to(Boolean)
        if chosen.is_static():
            return _make(like, (x if chosen.value else y).ir_value(), shape, common)
        flag = chosen.ir_value()
    result = emit("arith.select", type(x).ir_type, (flag, x.ir_value(), y.ir_value()))
    return _make(like, result, shape, common)


def element(a: Lanes, position: Any) -> Numeric:
    """Return one element; a run-time position is not checked."""
    result = a.dtype.ir_type
    if isinstance(position, int):
        return a.dtype.wrap(_extract(a.value, result, position))
    index = position.to(Index).ir_value()
    session = require("a vector element")
    marker = session.ir.DenseI64ArrayAttr.get([-(1 << 63)])
    return a.dtype.wrap(
        emit("vector.extract", result, (a.value, index), {"static_position": marker})
    )


def _extract(value: IRValue, result: Any, position: int) -> IRValue:
    session = require("a vector element")
    key = ("position", position)
    attribute = session.attributes.get(key)
    if attribute is None:
        attribute = session.ir.DenseI64ArrayAttr.get([position])
        session.attributes[key] = attribute
    return emit("vector.extract", result, (value,), {"static_position": attribute})


def sub_vector(a: L, index: Sequence[Any], extents: Sequence[int]) -> L:
    """Return the vector over the free (None) extents at a fixed index of the others.

    Raises:
        UserTypeError: A fixed index is a run-time value.
    """
    for item in index:
        if isinstance(item, Numeric):
            raise UserTypeError(
                "a slice of a vector needs static indices", code="FLY-U245", value=item
            )
    axes = [range(n) if i is None else (i,) for i, n in zip(index, extents, strict=True)]
    picked = []
    for point in itertools.product(*axes):
        position = 0
        for item, extent in zip(point, extents, strict=True):
            position = position * extent + item
        picked.append(position)
    shape = tuple(n for i, n in zip(index, extents, strict=True) if i is None)
    return _make(a, _shuffled(a.value, a.value, picked, a.dtype), shape, a.dtype)


def _shuffled(a: IRValue, b: IRValue, mask: Sequence[int], dtype: type[Numeric]) -> IRValue:
    session = require("a shuffle")
    attributes = {"mask": session.ir.DenseI64ArrayAttr.get(list(mask))}
    return emit("vector.shuffle", laned(dtype, len(mask)).ir_type, (a, b), attributes)


def shuffle(a: L, b: L, mask: tuple[Any, ...]) -> L:
    """Return elements picked from `a` followed by `b`.

    Raises:
        UserIndexError: A mask entry is out of range.
        UserTypeError: The element classes differ.
    """
    if a.dtype is not b.dtype:
        raise UserTypeError(
            "a shuffle needs vectors of one class", code="FLY-U247", value=(a.dtype, b.dtype)
        )
    total = a.numel + b.numel
    for item in mask:
        if not isinstance(item, int) or not 0 <= item < total:
            raise UserIndexError(
                "a shuffle mask entry is out of range",
                code="FLY-U247",
                value=item,
                allowed=f"0 to {total - 1}",
            )
    return _make(a, _shuffled(a.value, b.value, mask, a.dtype), (len(mask),), a.dtype)


def broadcast(a: L, extents: tuple[int, ...]) -> L:
    """Return the vector repeated to the extents, as in NumPy.

    Raises:
        UserValueError: The shapes are incompatible.
    """
    own = flat_extents(a.shape)
    if own == extents:
        return a
    if _broadcast_shape(own, extents) != extents:
        raise UserValueError(
            "the vector does not broadcast to this shape", code="FLY-U247", value=(own, extents)
        )
    padded = (1,) * (len(extents) - len(own)) + own
    mask = []
    for point in itertools.product(*(range(extent) for extent in extents)):
        position = 0
        for item, extent in zip(point, padded, strict=True):
            position = position * extent + (0 if extent == 1 else item)
        mask.append(position)
    return _make(a, _shuffled(a.value, a.value, mask, a.dtype), extents, a.dtype)
