"""Mathematical functions, traced from Python and run, within their stated error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_rocdl.devlib import FUNCTIONS

COUNT = 1024
REFERENCES: dict[str, Callable[..., Any]] = {
    "absf": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "roundeven": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
EXPANDED = {"exp": 2, "exp2": 2, "log": 2, "log2": 2, "log10": 2, "rsqrt": 1, "sqrt": 0.5}
SPECIAL = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1e-45, -1e-45, 1e-39, 3.4e38,
           2.5, -2.5, 1e10]  # fmt: skip


@flyc.kernel
def _apply(x: fx.Tensor, out: fx.Tensor, name: fx.Constexpr[str]) -> None:
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    out[i] = getattr(fx.math, name)(x[i])


@flyc.jit
def _launch(x: fx.Tensor, out: fx.Tensor, name: fx.Constexpr[str]) -> None:
    _apply(x, out, name).launch(grid=(COUNT // 256,), block=(256, 1, 1))


def _inputs() -> Any:
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**32, COUNT // 2 - len(SPECIAL), dtype=np.uint32).view(np.float32)
    moderate = rng.normal(0, 3, COUNT // 4).astype(np.float32)
    unit = rng.uniform(0, 1, COUNT // 4).astype(np.float32)
    return np.concatenate([np.array(SPECIAL, np.float32), bits, moderate, unit])


CASES = [(arch, name) for arch in ("gfx942", "gfx1100", "gfx1201") for name in sorted(REFERENCES)]
# The same instructions: a few stand for all.
CASES += [("gfx950", name) for name in ("exp", "log", "sin", "tanh", "rsqrt")]


@pytest.mark.parametrize(("arch", "name"), CASES)
def test_error_bound(arch: str, name: str) -> None:
    x, out = _inputs(), np.zeros(COUNT, np.float32)
    with scope(FLYDSL_TARGET=arch):
        _launch(x, out, name)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.float64))
        nearest = want.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(nearest), np.float32(2.0**-126)))
        error = np.abs(out.astype(np.float64) - want) / unit
    error[(out == nearest) & np.isinf(nearest)] = 0
    error[np.isnan(out) & np.isnan(want)] = 0
    bound = EXPANDED.get(name) or (FUNCTIONS[name].ulp if name in FUNCTIONS else 0)
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    assert error[worst] <= bound, (x[worst], out[worst], want[worst])


DOUBLES = sorted(REFERENCES.keys() & {n.removesuffix("_f64") for n in FUNCTIONS if "_f64" in n})


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("name", DOUBLES)
def test_error_bound_of_f64(arch: str, name: str) -> None:
    """As on the host, where many more values are compared (codegen/devlib)."""
    rng = np.random.default_rng(12)
    x = np.concatenate([rng.normal(0, 3, COUNT // 2), rng.uniform(0, 1, COUNT // 2)])
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e22, 1e300]
    out = np.zeros(COUNT)
    with scope(FLYDSL_TARGET=arch):
        _launch(x, out, name)
    exact = name not in ("erf", "erfc")  # those of Python are no better than ours
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.longdouble) if exact else x)
        nearest = want.astype(np.float64)
        error = np.abs(out - want) / np.spacing(np.maximum(np.abs(nearest), 2.0**-1022))
    if name in ("sin", "cos", "tan"):
        error[6:8] = 0  # the C library's extended functions lose these
        assert np.isfinite(out[6:8]).all()
    error[(out == nearest) & np.isinf(nearest)] = 0
    error[np.isnan(out) & np.isnan(nearest)] = 0
    assert np.max(error) <= FUNCTIONS[f"{name}_f64"].ulp + (0 if exact else 1)


@flyc.kernel
def _two_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Tensor, out: fx.Tensor) -> None:
    i = fx.thread_idx.x
    out[0, i] = fx.math.powf(x[i], y[i])
    out[1, i] = fx.math.atan2(x[i], y[i])
    out[2, i] = fx.math.fpowi(x[i], n[i])
    out[3, i] = fx.math.sincos(x[i])[1]
    pair = fx.math.exp(fx.Vector([x[i], y[i]]))
    out[4, i] = pair[1]
    with fx.fastmath("fast"):
        out[5, i] = fx.math.sin(x[i]) + fx.rsqrt(y[i] * y[i])


@flyc.jit
def _two(x: fx.Tensor, y: fx.Tensor, n: fx.Tensor, out: fx.Tensor) -> None:
    _two_kernel(x, y, n, out).launch(grid=1, block=256)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_two_and_of_vectors(dtype: Any) -> None:
    rng = np.random.default_rng(13)
    x, y = (rng.normal(0, 3, 256).astype(dtype) for _ in range(2))
    n = rng.integers(-9, 10, 256).astype(np.int32)
    x[:3], n[:3] = -1.0, [2**24 + 1, -(2**31) + 1, 2**31 - 1]
    out = np.zeros((6, 256), dtype)
    with scope(FLYDSL_TARGET="gfx942"):
        _two(x, y, n, out)
    a, b = x.astype(np.longdouble), y.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        want = [a**b, np.arctan2(a, b), a ** n.astype(np.longdouble), np.cos(a), np.exp(b),
                np.sin(a) + 1 / np.abs(b)]  # fmt: skip
    for row, (got, exact) in enumerate(zip(out, want, strict=True)):
        eps = float(np.finfo(dtype).eps)
        rtol, atol = (1.5 * eps, 0) if row < 5 else (8 * eps, 8 * eps)  # the last one cancels
        np.testing.assert_allclose(got, exact.astype(dtype), rtol, atol, err_msg=f"row {row}")
