"""Device functions in f64, compiled for the host, against arithmetic of 200 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from host_functions import host_function

from flydsl_rocdl.devlib import FUNCTIONS

EACH = 150


def _power(x: Any, y: Any) -> Any:
    return mpmath.nan if x < 0 and y != mpmath.floor(y) else mpmath.power(x, y)


REFERENCES: dict[str, Callable[..., Any]] = {
    "acos": mpmath.acos,
    "acosh": mpmath.acosh,
    "asin": mpmath.asin,
    "asinh": mpmath.asinh,
    "atan": mpmath.atan,
    "atan2": mpmath.atan2,
    "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "cos": mpmath.cos,
    "cosh": mpmath.cosh,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "expm1": mpmath.expm1,
    "fmod": lambda x, y: mpmath.sign(x) * mpmath.fmod(abs(x), abs(y)),
    "log": mpmath.log,
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "pow": _power,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sin": mpmath.sin,
    "sinh": mpmath.sinh,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
}
# Of every 3-bit pattern of the exponent; multiples of pi/2 that lie nearest to a double (the last
# one is the worst of all, Muller et al., Handbook of Floating-Point Arithmetic, table 11.1).
HARD = [
    1.5707963267948966,
    3.141592653589793,
    1e22,
    2.0**30,
    2.0**30 * 1.1,
    6381956970095103 * 2.0**797,
]
EDGES = [709.782712893384, 709.7827128933841, -745.1, -708.4, 1023.999, 0.41421356237309503, 0.75,
         1 - 2.0**-53, 1 + 2.0**-52, 5e-324, 2.0**-1022, 1.7976931348623157e308, 27.2, 26.5, 1e-8,
         710.4758, 40.0, 2.0**28, 2.0**-28, 20.0, 6.0, 1.4142135623730951]  # fmt: skip


def _values(rng: Any, turn: int) -> Any:
    """Return numbers of all magnitudes, around 1, and around what exp can take."""
    bits = rng.integers(0, 2**64, EACH, dtype=np.uint64).view(np.float64)
    scaled = rng.normal(0, 1, EACH) * 10.0 ** rng.integers(-12, 3, EACH)
    near = 1 + rng.normal(0, 1, EACH) * 10.0 ** rng.integers(-9, 0, EACH)
    plain = rng.normal(0, 3, EACH)
    fixed = np.array([*HARD, *EDGES, *[-x for x in EDGES]])
    values = np.concatenate([bits, scaled, near, plain, fixed])
    return values if not turn else np.roll(values, rng.integers(len(values)))


def _exact(name: str, row: tuple[float, ...]) -> Any:
    """Return the exact result, or None where it is no real number or far out of range."""
    if not all(math.isfinite(x) for x in row):
        return None
    if name in ("exp", "sinh", "cosh", "expm1", "exp2") and row[0] > 2000:
        return mpmath.inf
    if name in ("exp", "exp2", "erfc", "expm1") and abs(row[0]) > 2000:
        row = (math.copysign(2000.0, row[0]),)
    if name in ("sinh", "cosh", "tanh", "erf"):
        row = (max(-2000.0, min(2000.0, row[0])),)
    # Enough for the bits of 2/pi, of a remainder, and of 1 + a tiny number.
    bits = 2400 if name in ("sin", "cos", "tan", "fmod") and abs(row[0]) > 1e9 else 200
    with mpmath.workprec(bits):
        try:
            want = REFERENCES[name](*(mpmath.mpf(x) for x in row))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        return want if isinstance(want, mpmath.mpf) and not mpmath.isnan(want) else None


def _error(got: float, want: Any) -> float:
    """Return the distance in units in the last place."""
    nearest = float(want)
    if math.isinf(nearest) or not math.isfinite(got):
        return 0.0 if got == nearest else math.inf
    unit = float(np.spacing(max(abs(nearest), 2.0**-1022)))
    return float(abs(mpmath.mpf(got) - want) / unit)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_error_bound(name: str) -> None:
    function = FUNCTIONS[f"{name}_f64"]
    rng = np.random.default_rng(17)
    inputs = [_values(rng, turn) for turn in range(function.arity)]
    if name == "pow":  # exponents for which the power is in range
        inputs[1] = np.concatenate([rng.normal(0, 20, 2 * EACH), inputs[1][2 * EACH :]])
    got = host_function(f"{name}_f64")(*inputs)
    checked, worst = 0, (0.0, ())
    for row, result in zip(zip(*(x.tolist() for x in inputs), strict=True), got, strict=True):
        want = _exact(name, row)
        if want is None:
            continue
        if name == "pow" and (abs(row[1]) > 1e5 or row[0] == 0):
            continue
        checked += 1
        worst = max(worst, (_error(float(result), want), row))
    assert checked > EACH // 2
    assert worst[0] <= function.ulp, worst


SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 5e-324,
                    -5e-324, 1.7e308, -1.7e308, 1e10])  # fmt: skip
NUMPY: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "pow": np.power,
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_special_values(name: str) -> None:
    """Zeros with their sign, infinities, NaN and the ends of the range are as C99 says."""
    arity = FUNCTIONS[f"{name}_f64"].arity
    inputs = [axis.ravel().copy() for axis in np.meshgrid(*[SPECIAL] * arity)]
    got = host_function(f"{name}_f64")(*inputs)
    with np.errstate(all="ignore"):
        want = (NUMPY.get(name) or getattr(np, name))(*inputs)
    np.testing.assert_allclose(got, want, rtol=1e-14, atol=5e-324)
    whole = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[whole]), np.signbit(want[whole]))


def test_every_function_has_a_reference() -> None:
    doubles = {n.removesuffix("_f64") for n, f in FUNCTIONS.items() if f.kind == "double"}
    assert doubles == REFERENCES.keys()
