"""Every public function in PyTorch's graphs: compiled as a whole, and exported."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="these are graphs of PyTorch")

from flydsl.testing.graphs import check_graphs
from flydsl_kernels import gemm

pytestmark = pytest.mark.usefixtures("gfx942")
RNG = np.random.default_rng(31)


def numbers(*shape, dtype=np.float16):
    return RNG.standard_normal(shape).astype(dtype)


X, B = numbers(4, 64), numbers(32, 64)
ROWS = numbers(32, dtype=np.float32)
MORE = {"activation": "relu", "residual": numbers(4, 32)}
ENDS = np.array([1, 4], np.int32)
STACK = numbers(2, 32, 64)


@pytest.mark.parametrize(
    ("b", "given"),
    [
        (B, {"bias": ROWS, "scale_a": 0.5, "scale_b": ROWS, **MORE, "out": X[:, :32].copy()}),
        (gemm.preshuffle_b(B), {"bias": ROWS, **MORE, "out": numbers(4, 32, dtype=np.float32)}),
        (gemm.preshuffle_b(STACK), {"bias": numbers(2, 32)}),
        (gemm.preshuffle_b(B), {"split_k": 2, "out_dtype": "float32"}),
    ],
    ids=["plain", "weights", "stack", "split"],
)
def test_products_in_graphs(b, given):
    check_graphs(gemm.gemm, a=X, b=b, **given)


@pytest.mark.parametrize("kept", [False, True])
def test_grouped_products_in_graphs(kept):
    b = gemm.preshuffle_b(STACK) if kept else STACK
    given = {"bias": numbers(2, 32), "scale_b": np.abs(numbers(2, 32, dtype=np.float32))}
    out = np.zeros((4, 32), np.float32)
    check_graphs(gemm.grouped_gemm, a=X, b=b, ends=ENDS, **given, **MORE, out=out)


def test_weights_are_prepared_in_graphs():
    check_graphs(gemm.preshuffle_b, b=B)


def test_a_configuration_ends_a_graph():
    import torch

    x, weight = torch.from_numpy(X), gemm.preshuffle_b(torch.from_numpy(B))
    problem = gemm.GemmProblem(4, 32, 64, "float16", "float16", "float16")
    config = gemm.plan_gemm(problem, "gfx942").best.config
    with pytest.raises(Exception, match="Observed exception"):
        torch.compile(gemm.gemm, fullgraph=True, backend="eager")(x, weight, config=config)


def test_operators_match_their_fakes():
    import torch

    from flydsl_kernels.gemm.ops import weight_operators as operators

    checks = "test_schema", "test_faketensor"
    a = torch.from_numpy(X)
    options = "relu|float32|nt|0"
    for b, stack in ((B, ""), (STACK, "2")):
        weight = gemm.preshuffle_b(torch.from_numpy(b))
        text = f"16x16|float16|32|64|{stack or 0}||"
        given = a, weight.data, None, [None] * 5, text, options
        torch.library.opcheck(operators.weights_operator, given, test_utils=checks)
        if stack:
            given = a, weight.data, torch.from_numpy(ENDS), None, [None] * 5, text, options
            torch.library.opcheck(operators.grouped_operator, given, test_utils=checks)
