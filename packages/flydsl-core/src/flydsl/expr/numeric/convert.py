"""Conversion and bit reinterpretation of numbers, static and dynamic alike.

Rules. Integer to integer: truncate, or extend by the *source's* signedness; static values wrap the
same way. Integer to float: to nearest even, rounded once. Float to integer: towards zero; a static
value outside the range is refused, a dynamic one is undefined as in LLVM. Float to float: to
nearest even unless a rounding mode is given; formats of equal width go through `Float32`. Anything
to `Boolean`: ``!= 0``.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric.attributes import float_attributes, predicate
from flydsl.expr.numeric.base import Numeric, is_numeric_class, laned, like, named
from flydsl.expr.numeric.formats import FloatFormat
from flydsl.expr.numeric.promote import scalar_from_ir

__all__ = [
    "ROUNDING_MODES",
    "bitcast",
    "convert",
    "convert_value",
    "fold_integer",
    "initial_value",
    "limits",
    "narrowed",
    "resize",
    "rounding",
    "widened",
]

N = TypeVar("N", bound=Numeric)

ROUNDING_MODES = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
"""Spellings of ``arith.roundingmode``."""


def fold_integer(kind: type[Numeric], value: int) -> int:
    """Return `value` modulo two to the width, in the class's range (a bool for `Boolean`)."""
    width = kind.width
    if width == 1:
        return bool(value & 1)
    value &= (1 << width) - 1
    return value - (1 << width) if kind.signed and value >> (width - 1) else value


def limits(kind: type[Numeric]) -> tuple[int, int]:
    """Return the least and greatest value of an integer class."""
    if kind.width == 1:
        return 0, 1
    if kind.signed:
        return -(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1
    return 0, (1 << kind.width) - 1


def initial_value(kind: type[Numeric], value: object) -> Any:
    """Return what ``kind(value)`` stores."""
    if isinstance(value, Numeric):
        return convert(value, kind).value
    if isinstance(value, (bool, int, float)):
        return _from_python(kind, value)
    scalar = getattr(value, "__fly_scalar__", None)
    if scalar is not None:
        return initial_value(kind, scalar())
    found = scalar_from_ir(value)
    if found is None:
        raise UserTypeError(
            f"{kind!r} cannot be made from {type(value).__name__}",
            code="FLY-U205",
            value=value,
            allowed="a Python number, another numeric, or a scalar IR value",
        )
    if found.ir_text == kind.ir_text:
        return found.value
    if kind.is_float and found.is_integer:
        raise UserValueError(
            f"a bare IR integer does not say whether it is signed, so it cannot become {kind!r}",
            code="FLY-U205",
            hint="wrap it first: fx.Int32(value) or fx.Uint32(value)",
        )
    return convert(found, kind).value


def _from_python(kind: type[Numeric], value: bool | int | float) -> Any:
    if kind.format is not None:
        return _rounded(kind.format, value)
    if kind.width == 1:
        return bool(value)
    if isinstance(value, float):
        return _truncated(kind, value)
    low, high = limits(kind)
    if not low <= value <= high:
        raise UserValueError(
            f"this integer does not fit {kind!r}",
            code="FLY-U202",
            value=int(value),
            allowed=f"{low} to {high}",
            hint="convert explicitly to wrap: fx.Int64(value).to(...)",
        )
    return int(value)


def _rounded(form: FloatFormat, value: bool | int | float) -> float:
    return form.round(value) if isinstance(value, float) else form.round_integer(int(value))


def _truncated(kind: type[Numeric], value: float) -> int:
    if math.isnan(value) or math.isinf(value):
        raise UserValueError(f"{kind!r} has no such value", code="FLY-U206", value=value)
    low, high = limits(kind)
    whole = math.trunc(value)
    if not low <= whole <= high:
        raise UserValueError(
            f"this number does not fit {kind!r}",
            code="FLY-U202",
            value=value,
            allowed=f"{low} to {high}",
        )
    return whole


def convert(x: Numeric, kind: type[N], rounding_mode: object = None) -> N:
    """Convert `x` to class `kind`.

    Args:
        x: The number.
        kind: The wanted class.
        rounding_mode: For a dynamic float that becomes a narrower float: one of
            `ROUNDING_MODES` (a string or an enum member of that value). Ignored where every value
            of the source is one of `kind`.

    Raises:
        UserTypeError: `kind` is not a numeric class; a rounding mode where none applies.
        UserValueError: A static value that `kind` cannot hold, or an unknown rounding mode.
    """
    source: type[Numeric] = type(x)
    if source is kind and rounding_mode is None and not isinstance(x.value, float):
        unchanged: Any = x
        return unchanged  # type: ignore[no-any-return]
    if not is_numeric_class(kind):
        raise UserTypeError(
            "conversion needs a numeric class",
            code="FLY-U205",
            value=kind,
            allowed="fx.Float32, fx.Int32, …",
        )
    mode = None
    if rounding_mode is not None:
        if x.is_static():
            raise UserValueError(
                "a constant is always rounded to nearest even", code="FLY-U205", value=rounding_mode
            )
        mode = rounding(source, kind, rounding_mode)
    if source is kind and not (isinstance(x.value, float) and kind.format is not None):
        return cast("N", x)
    if x.is_static():
        return kind.static(_fold(source, kind, x.value))
    return kind.wrap(convert_value(source, kind, x.value, mode))


def rounding(source: type[Numeric], kind: type[Numeric], mode: object) -> str | None:
    """Return MLIR's spelling of a rounding mode, None where widening makes it irrelevant.

    Raises:
        UserTypeError: A class that is no float.
        UserValueError: An unknown mode.
    """
    text = getattr(mode, "value", mode)
    if not (source.is_float and kind.is_float):
        raise UserTypeError(
            "a rounding mode applies to conversions between float types only",
            code="FLY-U205",
            value=mode,
        )
    if text not in ROUNDING_MODES:
        raise UserValueError(
            "no such rounding mode", code="FLY-U205", value=mode, allowed=", ".join(ROUNDING_MODES)
        )
    assert source.format is not None
    assert kind.format is not None
    return None if kind.format.holds(source.format) else str(text)


def _fold(source: type[Numeric], kind: type[Numeric], value: Any) -> Any:
    if kind.format is not None:
        return _rounded(kind.format, value)
    if kind.width == 1:
        return value != 0
    if source.is_float:
        return _truncated(kind, value)
    return fold_integer(kind, value)


def convert_value(
    source: type[Numeric], kind: type[Numeric], value: IRValue, mode: str | None
) -> Any:
    """Emit the conversion of an IR value between two different classes (scalars or lanes)."""
    if kind.width == 1:
        return _nonzero(source, value)
    if source.is_integer and kind.is_integer:
        return resize(source, kind, value)
    session = require("a conversion")
    if source.is_integer:
        if source.is_index:
            value = emit("arith.index_castui", session.type(like(kind, "i64")), [value])
        name = "arith.sitofp" if source.signed and source.width > 1 else "arith.uitofp"
        return emit(name, session.type(kind.ir_text), [value])
    if kind.is_integer:
        if source.width < 16:
            value = emit("arith.extf", session.type(like(kind, "f32")), [value])
        name = "arith.fptosi" if kind.signed else "arith.fptoui"
        if not kind.is_index:
            return emit(name, session.type(kind.ir_text), [value])
        whole = emit(name, session.type(like(kind, "i64")), [value])
        return emit("arith.index_castui", session.type(kind.ir_text), [whole])
    return _resize_float(source, kind, value, mode)


def _unsigned(kind: type[Numeric]) -> bool:
    return kind.format is not None and kind.format.specials == "scale"


def widened(x: Numeric) -> Numeric:
    """Return a float of less than 32 bits (lanes too) in the class that computes for it.

    That is `Float32`, and `Float64` for `Float8E8M0FNU`, whose products leave the range of Float32.
    """
    kind = type(x)
    wide = named("Float64" if _unsigned(kind) else "Float32")
    wide = laned(wide, kind.lanes) if kind.lanes else wide
    if x.is_static():
        return wide.static(x.value)
    return wide.wrap(convert_value(kind, wide, x.value, None))


def narrowed(kind: type[N], x: Numeric) -> N:
    """Return a run-time result of `widened` operands rounded to their class."""
    return kind.wrap(convert_value(type(x), kind, x.ir_value(), None))


def _resize_float(
    source: type[Numeric], kind: type[Numeric], value: IRValue, mode: str | None
) -> Any:
    session = require("a conversion")
    result = session.type(kind.ir_text)
    single = session.type(like(kind, "f32"))
    if source.width < 16 or kind.width == source.width:
        # Formats whose values overlap only partly meet in Float32, which holds both.
        value = emit("arith.extf", single, [value])
        if kind.width == 32:
            return value
        if kind.width > 32:
            return emit("arith.extf", result, [value])
    elif kind.width > source.width:
        return emit("arith.extf", result, [value])
    attributes = dict(float_attributes() or {})
    if mode is not None:
        code = ROUNDING_MODES.index(mode)
        attributes["roundingmode"] = session.ir.Attribute.parse(f"{code} : i32")
    return emit("arith.truncf", result, [value], attributes)


def _nonzero(source: type[Numeric], value: IRValue) -> Any:
    session = require("a conversion")
    if source.is_float and source.width < 16:
        wide = widened(source.wrap(value))
        source, value = type(wide), wide.value
    zero = constant(session, source.ir_text, 0.0 if source.is_float else 0)
    name = "arith.cmpf" if source.is_float else "arith.cmpi"
    attributes = {"predicate": predicate(13 if source.is_float else 1)}  # une, ne
    return emit(name, session.type(like(source, "i1")), [value, zero], attributes)


def resize(source: type[Numeric], kind: type[Numeric], value: IRValue) -> IRValue:
    """Emit the conversion between two integer classes (not to `Boolean`)."""
    if source.ir_text == kind.ir_text:
        return value
    result = require("a conversion").type(kind.ir_text)
    signed = source.signed and source.width > 1
    if source.is_index or kind.is_index:
        return emit("arith.index_cast" if signed else "arith.index_castui", result, [value])
    if kind.width < source.width:
        return emit("arith.trunci", result, [value])
    return emit("arith.extsi" if signed else "arith.extui", result, [value])


def bitcast(x: Numeric, kind: type[N]) -> N:
    """Reinterpret the bits of `x` as class `kind`.

    Raises:
        UserTypeError: The widths differ, or `kind` is not a numeric class.
    """
    source = type(x)
    if not is_numeric_class(kind) or kind.width != source.width:
        raise UserTypeError(
            f"bitcast from {source!r} ({source.width} bits) to {kind!r} changes the width",
            code="FLY-U207",
            allowed=f"a class of {source.width} bits",
            hint="convert the value with .to(...)",
        )
    if source is kind:
        return cast("N", x)
    if x.is_static():
        code = x.value if source.format is None else source.format.encode(x.value)
        if kind.format is not None:
            return kind.static(kind.format.decode(int(code) & ((1 << kind.width) - 1)))
        return kind.static(fold_integer(kind, int(code)))
    if source.is_integer and kind.is_integer:
        return kind.wrap(resize(source, kind, x.value))
    result = require("a bitcast").type(kind.ir_text)
    return kind.wrap(emit("arith.bitcast", result, [x.value]))
