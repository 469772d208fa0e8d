"""Operands that lie in odd places: repeated, empty, and where the result goes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from product_reference import After, check, operand, product

from flydsl_kernels.gemm import gemm, grouped_gemm, preshuffle_b


def _checked(got, a, b):
    for one, left, right in zip(got, a, b, strict=True):
        check(one, *product(left, right.T, After(), "float32"))


@pytest.mark.parametrize("repeated", ["a", "b", "both"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_batch_that_repeats_one_matrix(library, repeated, gfx942):
    """Every matrix of the result is written, and nothing past the one in memory is read."""
    random = np.random.default_rng()
    a, b = operand(random, (4, 5, 33), "float16"), operand(random, (4, 7, 33), "float16")
    a = np.broadcast_to(a[0], a.shape) if repeated != "b" else a
    b = np.broadcast_to(b[0], b.shape) if repeated != "a" else b
    left, right, out = a, b, np.full((4, 5, 7), np.nan, np.float32)
    if library == "torch":
        left, right = (torch.from_numpy(x[0].copy()).expand(x.shape) if x.strides[0] == 0
                       else torch.from_numpy(x) for x in (a, b))  # fmt: skip
        gemm(left, right, out=torch.from_numpy(out))
    else:
        gemm(left, right, out=out)
    _checked(out, a, b)


def test_empty_batches(gfx942):
    a, b = np.ones((0, 5, 33), np.float16), np.ones((7, 33), np.float16)
    assert gemm(a, b).shape == (0, 5, 7)
    assert gemm(b, a).shape == (0, 7, 5)
    graph = torch.compile(gemm, backend="eager")
    assert graph(torch.from_numpy(a), torch.from_numpy(b)).shape == (0, 5, 7)


def test_one_matrix_in_a_batch_of_its_own(gfx942):
    """Gradients have the shapes of the operands, and so has the operator's result."""
    a = torch.randn(1, 5, 32, dtype=torch.bfloat16, requires_grad=True)
    b = torch.randn(3, 16, 32, dtype=torch.bfloat16, requires_grad=True)
    got = torch.compile(gemm, backend="aot_eager")(a, b)
    assert got.shape == (3, 5, 16)
    got.sum().backward()
    expected = b.detach().double().sum((0, 1)).expand(1, 5, 32)
    assert a.grad.shape == a.shape
    assert torch.allclose(a.grad.double(), expected, atol=0.1 + 2**-7 * expected.abs().max())


@pytest.mark.parametrize("place", ["a", "b", "shuffled", "grouped"])
def test_a_result_over_an_operand(place, gfx942):
    """Workgroups read what others have written already, unless the operand is copied."""
    random = np.random.default_rng()
    a, b = operand(random, (288, 288), "float16"), operand(random, (288, 288), "float16")
    left, right = a.copy(), b.copy()
    out = right if place == "b" else left
    if place == "shuffled":
        gemm(left, preshuffle_b(right), out=out)
    elif place == "grouped":
        grouped_gemm(left, right[None], np.array([288], np.int32), out=out)
    else:
        gemm(left, right, out=out)
    check(out, *product(a, b.T, After(), "float16"))


def test_a_result_over_a_part_of_the_residual(gfx942):
    random = np.random.default_rng()
    a, b = operand(random, (300, 64), "float16"), operand(random, (256, 64), "float16")
    whole = operand(random, (301, 256), "float16")
    residual = whole[:300].copy()
    gemm(a, b, residual=whole[:300], out=whole[1:])
    check(whole[1:], *product(a, b.T, After(residual=residual), "float16"))
