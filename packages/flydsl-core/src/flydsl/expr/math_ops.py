"""Mathematical functions of numbers and vectors (``fx.math``).

Functions of floats accept `Float16`, `BFloat16`, `Float32` and `Float64` (and vectors of them);
Python numbers and integers are refused rather than converted, except that Python floats are
`Float32`. Accuracy is the target's; see its documentation.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.emit import emit
from flydsl.expr.fast import flags
from flydsl.expr.numeric import Boolean, Numeric, as_numeric, common_type
from flydsl.expr.numeric.attributes import float_attributes
from flydsl.expr.numeric.base import laned, like
from flydsl.expr.numeric.promote import as_operand
from flydsl.expr.vector import Vector

__all__ = [
    "absf", "absi", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
    "clampf", "copysign", "cos", "cosh", "ctlz", "ctpop", "cttz", "erf", "erfc", "exp", "exp2",
    "expm1", "floor", "fma", "fpowi", "ipowi", "isfinite", "isinf", "isnan", "isnormal", "log",
    "log1p", "log2", "log10", "powf", "round", "roundeven", "rsqrt", "sin", "sincos", "sinh",
    "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip

_FLOAT, _INTEGER = "float", "integer"


def _value(x: Any, wanted: str, name: str) -> tuple[Numeric, Any]:
    """Return the operand in the form that operations take, and its vector shape (None: number)."""
    if isinstance(x, Vector):
        number: Numeric | None = laned(x.dtype, x.numel).wrap(x.value)
        shape: Any = x.shape
        kind = x.dtype
    else:
        number, shape = as_numeric(x), None
        if number is None:
            raise UserTypeError(f"{name} needs a number or vector", code="FLY-U256", value=x)
        kind = type(number)
    fits = kind.is_float and kind.width >= 16 if wanted == _FLOAT else kind.is_integer
    if not fits or kind.is_index or (wanted == _INTEGER and kind.width == 1):
        allowed = "Float16, BFloat16, Float32, Float64" if wanted == _FLOAT else "integers"
        raise UserTypeError(
            f"{name} has no form for {kind!r}",
            code="FLY-U256",
            allowed=allowed,
            hint="convert with .to(...)",
        )
    assert number is not None
    return number, shape


def _apply(name: str, operands: tuple[Any, ...], fastmath: Any, wanted: str = _FLOAT) -> Any:
    """Emit ``math.<name>`` on operands of one class; numbers broadcast against vectors."""
    if len(operands) > 1:
        operands = _matched(operands, name)
    parts = [_value(item, wanted, name) for item in operands]
    number, shape = parts[0]
    with flags(fastmath):
        attributes = float_attributes() if wanted == _FLOAT else None
        values = [item.ir_value() for item, _ in parts]
        result = emit(f"math.{name}", type(number).ir_type, values, attributes)
    if shape is None:
        return type(number).wrap(result)
    dtype = next(item.dtype for item in operands if isinstance(item, Vector))
    return Vector(result, shape, dtype)


def _matched(operands: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    numbers = [item if isinstance(item, Vector) else as_operand(item) for item in operands]
    for item, number in zip(operands, numbers, strict=True):
        if number is None:
            raise UserTypeError(f"{name} needs numbers or vectors", code="FLY-U256", value=item)
    found = [number for number in numbers if number is not None]
    common = found[0].dtype
    for number in found[1:]:
        common = common_type(common, number.dtype)
    shapes = [item.shape for item in operands if isinstance(item, Vector)]
    if not shapes:
        return tuple(number.to(common) for number in found)
    return tuple(
        item.to(common) if isinstance(item, Vector) else Vector.filled(shapes[0], item, common)
        for item in operands
    )


def _predicate(name: str, x: Any, fastmath: Any) -> Any:
    from flydsl.expr.ambient import require

    number, shape = _value(x, _FLOAT, name)
    result = require(name).type(like(type(number), "i1"))
    with flags(fastmath):
        value = emit(f"math.{name}", result, (number.ir_value(),), float_attributes())
    return Boolean.wrap(value) if shape is None else Vector(value, shape, Boolean)


def exp(x: Any, *, fastmath: Any = None) -> Any:
    """Return e to the power of `x`."""
    return _apply("exp", (x,), fastmath)


def exp2(x: Any, *, fastmath: Any = None) -> Any:
    """Return 2 to the power of `x`."""
    return _apply("exp2", (x,), fastmath)


def expm1(x: Any, *, fastmath: Any = None) -> Any:
    """Return ``exp(x) - 1``, accurate near zero."""
    return _apply("expm1", (x,), fastmath)


def log(x: Any, *, fastmath: Any = None) -> Any:
    """Return the natural logarithm."""
    return _apply("log", (x,), fastmath)


def log2(x: Any, *, fastmath: Any = None) -> Any:
    """Return the logarithm to base 2."""
    return _apply("log2", (x,), fastmath)


def log10(x: Any, *, fastmath: Any = None) -> Any:
    """Return the logarithm to base 10."""
    return _apply("log10", (x,), fastmath)


def log1p(x: Any, *, fastmath: Any = None) -> Any:
    """Return ``log(1 + x)``, accurate near zero."""
    return _apply("log1p", (x,), fastmath)


def sqrt(x: Any, *, fastmath: Any = None) -> Any:
    """Return the square root."""
    return _apply("sqrt", (x,), fastmath)


def rsqrt(x: Any, *, fastmath: Any = None) -> Any:
    """Return the reciprocal of the square root."""
    return _apply("rsqrt", (x,), fastmath)


def cbrt(x: Any, *, fastmath: Any = None) -> Any:
    """Return the cube root."""
    return _apply("cbrt", (x,), fastmath)


def sin(x: Any, *, fastmath: Any = None) -> Any:
    """Return the sine of an angle in radians."""
    return _apply("sin", (x,), fastmath)


def cos(x: Any, *, fastmath: Any = None) -> Any:
    """Return the cosine of an angle in radians."""
    return _apply("cos", (x,), fastmath)


def sincos(x: Any, *, fastmath: Any = None) -> tuple[Any, Any]:
    """Return sine and cosine of an angle in radians."""
    return sin(x, fastmath=fastmath), cos(x, fastmath=fastmath)


def tan(x: Any, *, fastmath: Any = None) -> Any:
    """Return the tangent of an angle in radians."""
    return _apply("tan", (x,), fastmath)


def asin(x: Any, *, fastmath: Any = None) -> Any:
    """Return the arc sine in radians."""
    return _apply("asin", (x,), fastmath)


def acos(x: Any, *, fastmath: Any = None) -> Any:
    """Return the arc cosine in radians."""
    return _apply("acos", (x,), fastmath)


def atan(x: Any, *, fastmath: Any = None) -> Any:
    """Return the arc tangent in radians."""
    return _apply("atan", (x,), fastmath)


def atan2(y: Any, x: Any, *, fastmath: Any = None) -> Any:
    """Return the angle of the point (x, y) in radians."""
    return _apply("atan2", (y, x), fastmath)


def sinh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the hyperbolic sine."""
    return _apply("sinh", (x,), fastmath)


def cosh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the hyperbolic cosine."""
    return _apply("cosh", (x,), fastmath)


def tanh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the hyperbolic tangent."""
    return _apply("tanh", (x,), fastmath)


def asinh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the inverse hyperbolic sine."""
    return _apply("asinh", (x,), fastmath)


def acosh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the inverse hyperbolic cosine."""
    return _apply("acosh", (x,), fastmath)


def atanh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the inverse hyperbolic tangent."""
    return _apply("atanh", (x,), fastmath)


def erf(x: Any, *, fastmath: Any = None) -> Any:
    """Return the error function."""
    return _apply("erf", (x,), fastmath)


def erfc(x: Any, *, fastmath: Any = None) -> Any:
    """Return the complementary error function."""
    return _apply("erfc", (x,), fastmath)


def absf(x: Any, *, fastmath: Any = None) -> Any:
    """Return the absolute value of a float."""
    return _apply("absf", (x,), fastmath)


def ceil(x: Any, *, fastmath: Any = None) -> Any:
    """Return `x` rounded up to a whole number, as a float."""
    return _apply("ceil", (x,), fastmath)


def floor(x: Any, *, fastmath: Any = None) -> Any:
    """Return `x` rounded down to a whole number, as a float."""
    return _apply("floor", (x,), fastmath)


def trunc(x: Any, *, fastmath: Any = None) -> Any:
    """Return `x` rounded towards zero to a whole number, as a float."""
    return _apply("trunc", (x,), fastmath)


def round(x: Any, *, fastmath: Any = None) -> Any:  # noqa: A001  (the name of the public API)
    """Return `x` rounded to the nearest whole number, halves away from zero."""
    return _apply("round", (x,), fastmath)


def roundeven(x: Any, *, fastmath: Any = None) -> Any:
    """Return `x` rounded to the nearest whole number, halves to even."""
    return _apply("roundeven", (x,), fastmath)


def copysign(x: Any, sign: Any, *, fastmath: Any = None) -> Any:
    """Return the magnitude of `x` with the sign of `sign`."""
    return _apply("copysign", (x, sign), fastmath)


def powf(x: Any, y: Any, *, fastmath: Any = None) -> Any:
    """Return `x` to the power `y`."""
    return _apply("powf", (x, y), fastmath)


def fma(a: Any, b: Any, c: Any, *, fastmath: Any = None) -> Any:
    """Return ``a * b + c`` with one rounding."""
    return _apply("fma", (a, b, c), fastmath)


def clampf(x: Any, low: Any, high: Any, *, fastmath: Any = None) -> Any:
    """Return `x` limited to ``[low, high]``."""
    return _apply("clampf", (x, low, high), fastmath)


def fpowi(x: Any, n: Any, *, fastmath: Any = None) -> Any:
    """Return the float `x` to the integer power `n`."""
    number, shape = _value(x, _FLOAT, "fpowi")
    power, _ = _value(n, _INTEGER, "fpowi")
    with flags(fastmath):
        operands = (number.ir_value(), power.ir_value())
        result = emit("math.fpowi", type(number).ir_type, operands, float_attributes())
    return type(number).wrap(result) if shape is None else Vector(result, shape, x.dtype)


def ipowi(x: Any, n: Any) -> Any:
    """Return the integer `x` to the integer power `n`."""
    return _apply("ipowi", (x, n), None, _INTEGER)


def absi(x: Any) -> Any:
    """Return the absolute value of an integer; the least one maps to itself."""
    return abs(x)


def ctlz(x: Any) -> Any:
    """Return the number of leading zero bits."""
    return _apply("ctlz", (x,), None, _INTEGER)


def cttz(x: Any) -> Any:
    """Return the number of trailing zero bits."""
    return _apply("cttz", (x,), None, _INTEGER)


def ctpop(x: Any) -> Any:
    """Return the number of one bits."""
    return _apply("ctpop", (x,), None, _INTEGER)


def isnan(x: Any, *, fastmath: Any = None) -> Any:
    """Return whether `x` is NaN."""
    return _predicate("isnan", x, fastmath)


def isinf(x: Any, *, fastmath: Any = None) -> Any:
    """Return whether `x` is infinite."""
    return _predicate("isinf", x, fastmath)


def isfinite(x: Any, *, fastmath: Any = None) -> Any:
    """Return whether `x` is neither infinite nor NaN."""
    return _predicate("isfinite", x, fastmath)


def isnormal(x: Any, *, fastmath: Any = None) -> Any:
    """Return whether `x` is neither zero, subnormal, infinite nor NaN."""
    return _predicate("isnormal", x, fastmath)
