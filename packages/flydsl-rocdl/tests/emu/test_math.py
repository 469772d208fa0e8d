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
