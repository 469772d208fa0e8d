"""Device functions, compiled for the host: error bounds over all magnitudes and special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from host_functions import host_function

from flydsl_rocdl.devlib import FUNCTIONS, link_text

REFERENCES: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]),
    "expm1": np.expm1,
    "fmod": np.fmod,
    "log1p": np.log1p,
    "pow": np.power,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 1e-45, -1e-45, 1e-39,
     3.4e38, -3.4e38, 1.5, -1.5, 1e10, 2.0**30, 2.0**31, -(2.0**100)], np.float32,
)  # fmt: skip
COUNT = 30_000


def _inputs(arity: int) -> list[list[Any]]:
    rng = np.random.default_rng(7)
    any_bits = [
        rng.integers(0, 2**32, COUNT, dtype=np.uint32).view(np.float32) for _ in range(arity)
    ]
    moderate = [rng.normal(0, 3, COUNT).astype(np.float32) for _ in range(arity)]
    grid = np.meshgrid(*[SPECIAL] * arity)
    return [any_bits, moderate, [axis.ravel().copy() for axis in grid]]


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_error_bound(name: str) -> None:
    function = FUNCTIONS[name]
    for inputs in _inputs(function.arity):
        got = host_function(name)(*inputs)
        with np.errstate(all="ignore"):
            want = REFERENCES[name](*(x.astype(np.float64) for x in inputs))
            nearest = want.astype(np.float32)
            unit = np.spacing(np.maximum(np.abs(nearest), np.float32(2.0**-126)))
            error = np.abs(got.astype(np.float64) - want) / unit
            error[got == nearest] = np.where(np.isinf(nearest), 0, error)[got == nearest]
        both_nan = np.isnan(got) & np.isnan(want)
        error[both_nan] = 0
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        assert error[worst] <= function.ulp, [x[worst] for x in inputs]
        signs = np.signbit(got) == np.signbit(nearest)
        assert np.all(signs | both_nan)


def test_every_function_has_a_reference_or_is_hardware() -> None:
    assert {n for n, f in FUNCTIONS.items() if f.ulp and f.kind == "float"} == REFERENCES.keys()


def test_integer_powers() -> None:
    rng = np.random.default_rng(3)
    base = rng.integers(-(2**31), 2**31, COUNT, dtype=np.int64).astype(np.int32)
    base[: COUNT // 2] = rng.integers(-5, 6, COUNT // 2)
    exponent = rng.integers(-3, 40, COUNT).astype(np.int32)
    got = host_function("ipow_i32")(base, exponent)
    for b, e, out in zip(
        base[::37].tolist(), exponent[::37].tolist(), got[::37].tolist(), strict=True
    ):
        want = pow(b, e, 2**32) if e >= 0 else {1: 1, -1: (-1) ** e}.get(b, 0)
        assert (out - int(want)) % 2**32 == 0, (b, e)


def test_declarations_become_definitions_once() -> None:
    text = (
        "declare float @__fly_tanh(float)\n\ndeclare float @llvm.fma.f32(float, float, float)\n"
        "define float @f(float %x) {\n  %y = call float @__fly_tanh(float %x)\n  ret float %y\n}\n"
    )
    linked = link_text(text)
    assert linked.count("@llvm.fma.f32(float, float, float)\n") == 1
    assert "define internal float @__fly_tanh" in linked
    llvm.parse_assembly(linked).verify()
    assert link_text("define void @f() { ret void }") == "define void @f() { ret void }"
