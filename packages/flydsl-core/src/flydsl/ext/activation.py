"""Activation functions of neural networks.

All take a number or vector of a float class. `Float16` and `BFloat16` are widened to `Float32`,
which is exact, and the result is rounded once, to nearest even, to the class of the argument;
`Float32` and `Float64` are computed in their own class, where every step rounds. Where a docstring
states an error, it is that of the `Float32` computation, in units in the last place (ULP) of the
exact result, for results that are normal numbers.

NaN gives NaN. Infinities give the limits: `silu`, the GELU forms and the gated forms of minus
infinity are zero, where a direct evaluation of the formula would give NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import math_ops
from flydsl.expr.extremes import extreme
from flydsl.expr.fast import flags
from flydsl.expr.numeric import Float32, Float64, Numeric, as_numeric
from flydsl.expr.vector import Vector

__all__ = [
    "clamp",
    "geglu",
    "gelu",
    "gelu_quick",
    "gelu_tanh",
    "leaky_relu",
    "relu",
    "relu_squared",
    "sigmoid",
    "silu",
    "softcap",
    "swiglu",
    "tanh",
]

_FLOOR = -200.0
"""Below this, x times a factor like exp(x) is no `Float32`; limits x, so that it is no infinity."""
_FLOOR_WIDE = -1000.0
"""The same for `Float64`."""


def _checked(x: Any, name: str) -> Any:
    """Return `x` as a vector or numeric of a float class.

    Raises:
        UserTypeError: It is neither.
    """
    value = x if isinstance(x, Vector) else as_numeric(x)
    if value is None or not value.dtype.is_float or value.dtype.width < 16:
        raise UserTypeError(
            f"{name} needs a float number or vector",
            code="FLY-U286",
            value=x,
            allowed="Float16, BFloat16, Float32, Float64",
        )
    return value


def _computed(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], fastmath: Any
) -> Any:
    """Return `function` of the arguments, computed in `Float32` or `Float64` and rounded once."""
    values = [_checked(x, name) for x in arguments]
    kind: type[Numeric] = values[0].dtype
    if any(value.dtype is not kind for value in values):
        raise UserTypeError(
            f"the arguments of {name} are of different classes",
            code="FLY-U286",
            value=", ".join(value.dtype.__name__ for value in values),
            hint="convert one with .to(...)",
        )
    wide = Float64 if kind.width == 64 else Float32
    with flags(fastmath):
        return function(*(value.to(wide) for value in values)).to(kind)


def _limited(x: Any, alpha: float = 1.0) -> Any:
    """Return `x`, but no less than where functions of `alpha * x` have vanished; NaN stays."""
    floor, largest = (_FLOOR, 3.4e38) if x.dtype is Float32 else (_FLOOR_WIDE, 1.7e308)
    return extreme("max", x, x.dtype(max(floor / min(alpha, 1.0), -largest)))


def _sigmoid(x: Any) -> Any:
    one = x.dtype(1.0)
    small = math_ops.exp(-math_ops.absf(x))
    return (x < x.dtype(0.0)).select(small, one) / (one + small)


def sigmoid(x: Any, *, fastmath: Any = None) -> Any:
    """Return ``1 / (1 + exp(-x))``, computed from ``exp(-|x|)``, which does not overflow."""
    return _computed("sigmoid", _sigmoid, (x,), fastmath)


def _silu(x: Any, alpha: float = 1.0) -> Any:
    x = _limited(x, alpha)
    return x * _sigmoid(x if alpha == 1.0 else x * x.dtype(alpha))


def silu(x: Any, *, beta: float = 1.0, fastmath: Any = None) -> Any:
    """Return ``x * sigmoid(beta * x)`` (SiLU; with `beta` also called Swish).

    Args:
        x: The argument.
        beta: Compile-time factor, positive.
        fastmath: Flags for the operations.
    """
    return _computed("silu", lambda v: _silu(v, _positive("beta", beta)), (x,), fastmath)


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise UserValueError(
            f"{name} is a positive, compile-time number", code="FLY-U286", value=value
        )
    return float(value)


def swiglu(
    gate: Any,
    up: Any,
    *,
    limit: float | None = None,
    alpha: float = 1.0,
    up_offset: float = 0.0,
    fastmath: Any = None,
) -> Any:
    """Return ``gate * sigmoid(alpha * gate) * (up + up_offset)``.

    With ``limit=7.0, alpha=1.702, up_offset=1.0`` this is the clamped form of GPT-OSS.

    Args:
        gate: Argument of the sigmoid.
        up: The factor, of the same class.
        limit: Compile-time limit: `gate` is at most this, `up` is within plus and minus this,
            before anything else; None: no limit.
        alpha: Compile-time factor, positive.
        up_offset: Compile-time number added to `up`.
        fastmath: Flags for the operations.
    """
    alpha = _positive("alpha", alpha)

    def compute(g: Any, u: Any) -> Any:
        if limit is not None:
            most = _positive("limit", limit)
            g = extreme("min", g, g.dtype(most))
            u = _clamped(u, -most, most)
        if up_offset:
            u = u + u.dtype(up_offset)
        return _silu(g, alpha) * u

    return _computed("swiglu", compute, (gate, up), fastmath)


def _clamped(x: Any, low: Any, high: Any) -> Any:
    return extreme("min", extreme("max", x, x.dtype(low)), x.dtype(high))


def clamp(x: Any, low: float, high: float) -> Any:
    """Return `x` limited to ``[low, high]``, exactly; the bounds round to the class of `x`.

    Raises:
        UserValueError: `low` is greater than `high`, or one is NaN.
    """
    if not low <= high:
        raise UserValueError("the bounds are in no order", code="FLY-U286", value=(low, high))
    return _computed("clamp", lambda v: _clamped(v, low, high), (x,), None)


def relu(x: Any) -> Any:
    """Return the larger of `x` and zero, exactly; zero for both zeros."""
    return _computed("relu", lambda v: extreme("max", v, v.dtype(0.0)), (x,), None)


def relu_squared(x: Any, *, fastmath: Any = None) -> Any:
    """Return the square of `relu`, rounded once."""

    def compute(v: Any) -> Any:
        part = extreme("max", v, v.dtype(0.0))
        return part * part

    return _computed("relu_squared", compute, (x,), fastmath)


def leaky_relu(x: Any, slope: float = 0.01, *, fastmath: Any = None) -> Any:
    """Return `x` where it is positive, else ``slope * x``, rounded once (slope to `Float32`)."""

    def compute(v: Any) -> Any:
        return (v > v.dtype(0.0)).select(v, v * v.dtype(slope))

    return _computed("leaky_relu", compute, (x,), fastmath)


def _gelu(x: Any) -> Any:
    x = _limited(x)
    half, scale = x.dtype(0.5), x.dtype(-math.sqrt(0.5))
    return x * half * math_ops.erfc(x * scale)


def gelu(x: Any, *, fastmath: Any = None) -> Any:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``, the exact form of GELU.

    It is computed as ``x / 2 * erfc(-x / sqrt(2))``, which keeps its relative accuracy where the
    result is small: the error grows with the square of `x` there.
    """
    return _computed("gelu", _gelu, (x,), fastmath)


def _gelu_tanh(x: Any) -> Any:
    x = _limited(x)
    inner = x * (x.dtype(1.0) + x.dtype(0.044715) * x * x)
    return x * _sigmoid(inner * x.dtype(2 * math.sqrt(2 / math.pi)))


def gelu_tanh(x: Any, *, fastmath: Any = None) -> Any:
    """Return ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    It is computed as ``x * sigmoid(2 * …)``, which is the same function with one exponential.
    """
    return _computed("gelu_tanh", _gelu_tanh, (x,), fastmath)


def gelu_quick(x: Any, *, fastmath: Any = None) -> Any:
    """Return ``x * sigmoid(1.702 * x)``."""
    return silu(x, beta=1.702, fastmath=fastmath)


def geglu(gate: Any, up: Any, *, approximate: str = "none", fastmath: Any = None) -> Any:
    """Return ``gelu(gate) * up``.

    Args:
        gate: Argument of the GELU.
        up: The factor, of the same class.
        approximate: ``"none"`` for `gelu`, ``"tanh"`` for `gelu_tanh`.
        fastmath: Flags for the operations.

    Raises:
        UserValueError: There is no such approximation.
    """
    if approximate not in ("none", "tanh"):
        raise UserValueError(
            "there is no such form of GELU",
            code="FLY-U286",
            value=approximate,
            allowed="none, tanh",
        )
    form = _gelu if approximate == "none" else _gelu_tanh
    return _computed("geglu", lambda g, u: form(g) * u, (gate, up), fastmath)


def tanh(x: Any, *, fastmath: Any = None) -> Any:
    """Return the hyperbolic tangent; error as `fx.math.tanh`."""
    return _computed("tanh", math_ops.tanh, (x,), fastmath)


def softcap(x: Any, cap: float, *, fastmath: Any = None) -> Any:
    """Return ``cap * tanh(x / cap)``, which is nearly `x` near zero and within ``[-cap, cap]``.

    The division is a product with the reciprocal of `cap`, rounded to the class computed in.

    Args:
        x: The argument.
        cap: Compile-time bound, positive.
        fastmath: Flags for the operations.
    """
    bound = _positive("cap", cap)
    return _computed(
        "softcap",
        lambda v: v.dtype(bound) * math_ops.tanh(v * v.dtype(1.0 / bound)),
        (x,),
        fastmath,
    )
