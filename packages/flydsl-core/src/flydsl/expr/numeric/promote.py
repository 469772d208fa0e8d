"""The common type of two operands (the promotion table of the language reference)."""

from __future__ import annotations

from functools import cache
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import current
from flydsl.expr.numeric.base import Numeric, named

__all__ = ["as_numeric", "as_operand", "common_type", "literal_type", "scalar_from_ir"]

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def literal_type(value: object) -> type[Any] | None:
    """Return the class that a Python number stands for in an expression, None for other objects.

    ``bool`` is `Boolean`, ``float`` is `Float32`, ``int`` is `Int32` if it fits, else `Int64`.

    Raises:
        UserValueError: An int that needs more than 64 bits.
    """
    if isinstance(value, bool):
        return named("Boolean")
    if isinstance(value, int):
        if _INT32_MIN <= value <= _INT32_MAX:
            return named("Int32")
        if _INT64_MIN <= value <= _INT64_MAX:
            return named("Int64")
        raise UserValueError(
            "this integer literal needs more than 64 bits",
            code="FLY-U202",
            value=value,
            hint="name a type: fx.Uint64(...), fx.Int128(...)",
        )
    return named("Float32") if isinstance(value, float) else None


def as_numeric(value: object) -> Numeric | None:
    """Return a numeric for a numeric, a Python number or an object that is one; else None.

    Objects that are a number: scalar IR values, and whatever has ``__fly_scalar__`` (an integer
    tuple of one leaf).
    """
    if isinstance(value, Numeric):
        return value
    kind = literal_type(value)
    if kind is not None:
        if kind.is_float:
            value = kind.format.round(value)
        return kind.static(value)  # type: ignore[no-any-return]
    scalar = getattr(type(value), "__fly_scalar__", None)
    if scalar is not None:
        return as_numeric(scalar(value))
    return scalar_from_ir(value)


_BY_TEXT = {
    "i1": "Boolean", "i4": "Int4", "i8": "Int8", "i16": "Int16", "i32": "Int32", "i64": "Int64",
    "i128": "Int128", "index": "Index", "f16": "Float16", "bf16": "BFloat16", "f32": "Float32",
    "f64": "Float64",
}  # fmt: skip


def scalar_from_ir(value: object) -> Numeric | None:
    """Wrap a scalar IR value (signless integers as signed); None for anything else."""
    session = current()
    if session is None or not isinstance(value, session.value_class):
        return None
    text = str(value.type)  # type: ignore[attr-defined]
    name = _BY_TEXT.get(text) or (f"Float{text[1:]}" if text[0] == "f" else "")
    return named(name).wrap(value) if name else None


def as_operand(value: object) -> Numeric | None:
    """Return `value` as `as_numeric` does, but a Python float not yet rounded.

    It counts as a `Float32` for promotion; converting it to the common type rounds it once, from
    the number that was written.
    """
    return named("Float32").static(value) if isinstance(value, float) else as_numeric(value)


@cache
def common_type(a: type[Numeric], b: type[Numeric], widen_bool: bool = False) -> type[Numeric]:
    """Return the type that a binary operation on `a` and `b` computes in.

    Equal signedness: the wider integer. Mixed: the unsigned one if it is at least as wide. Float
    with integer: the float if it is at least as wide, else the narrowest of Float32 and Float64
    that is. Two floats: the wider if that has 16 bits or more; f16 with bf16 is Float32.

    Args:
        a: Class of one operand.
        b: Class of the other.
        widen_bool: Take `Boolean` as `Int32` (for ``+ - * / // %``).

    Raises:
        UserValueError: Two different floats of eight bits or fewer.
    """
    if widen_bool:
        a = named("Int32") if a is named("Boolean") else a
        b = named("Int32") if b is named("Boolean") else b
    if a is b:
        return a
    if a.is_float and b.is_float:
        return _common_float(a, b)
    if a.is_float or b.is_float:
        real, whole = (a, b) if a.is_float else (b, a)
        if real.width >= whole.width:
            return real
        if whole.width > 64:
            raise UserTypeError(
                f"no float type is as wide as {whole!r}",
                code="FLY-U204",
                hint="convert one operand with .to(...)",
            )
        return named("Float32") if whole.width <= 32 else named("Float64")
    if a.signed == b.signed:
        return a if a.width >= b.width else b
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.width >= signed.width else signed


def _common_float(a: type[Numeric], b: type[Numeric]) -> type[Numeric]:
    if a.width != b.width and max(a.width, b.width) >= 16:
        return a if a.width > b.width else b
    if a.width == 16:
        return named("Float32")
    raise UserValueError(
        f"{a!r} and {b!r} have no common float type",
        code="FLY-U204",
        hint="cast one of them explicitly with .to(...)",
    )
