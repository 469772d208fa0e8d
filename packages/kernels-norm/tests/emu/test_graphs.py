"""Every public function in PyTorch's graphs: compiled as a whole, and exported."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="these are graphs of PyTorch")

from flydsl.testing.graphs import check_graphs
from flydsl_kernels import norm

pytestmark = pytest.mark.usefixtures("gfx942")
RNG = np.random.default_rng(31)


def numbers(*shape, dtype=np.float16):
    return RNG.standard_normal(shape).astype(dtype)


X, ROW = numbers(4, 64), numbers(64, dtype=np.float32)
MORE = {"weight": ROW, "eps": 1e-5}
BOTH = {"out": X.copy(), "residual_out": X.copy()}
SMALL = np.zeros((4, 64), np.int8), np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (norm.rmsnorm, {**MORE, "out": X.copy()}),
        (norm.layernorm, {**MORE, "bias": ROW, "out": X.copy()}),
        (norm.softmax, {"out": X.copy()}),
        (norm.log_softmax, {}),
        (norm.fused_add_rmsnorm, {"residual": numbers(4, 64), **MORE, **BOTH}),
        (norm.fused_add_layernorm, {"residual": numbers(4, 64), **MORE, "bias": ROW}),
        (norm.rmsnorm_quantised, {**MORE, "dtype": "int8", "smooth": ROW, "out": SMALL}),
        (norm.layernorm_quantised, {**MORE, "dtype": norm.QuantFormat("int8", 128)}),
        (norm.fused_add_rmsnorm_quantised, {"residual": X, **MORE}),
        (norm.fused_add_layernorm_quantised, {"residual": X, "bias": ROW, "smooth": ROW}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_calls_in_graphs(function, given):
    x = numbers(4, 128) if isinstance(given.get("dtype"), norm.QuantFormat) else X
    if x is not X:
        given = {**given, "weight": numbers(128, dtype=np.float32)}
    check_graphs(function, x=x, **given)
