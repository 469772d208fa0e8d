"""Preshuffled weights that go straight to registers, on every architecture, against float64.

All runs are under the sanitizer, with weights in memory of exactly their size.
"""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import After, check, dtype_of, fp8, operand, padded, product

import flydsl_emu
from flydsl import config
from flydsl_kernels.gemm import gemm, preshuffle_b

ARCHS = ("gfx1100", "gfx1201", "gfx1250")
KINDS = ("bfloat16", "float16", "int8", "fp8")
FORMATS = [(arch, kind) for arch in ARCHS for kind in KINDS if kind != "fp8" or arch != "gfx1100"]


@pytest.fixture(autouse=True)
def _checked():
    with flydsl_emu.sanitize():
        yield


def run(arch, kind, extents, out="float32", parts=8, order="16x16", **options):
    """Multiply an A with gaps between its rows by weights, and check the result."""
    random = np.random.default_rng()
    name = fp8(arch) if kind == "fp8" else kind
    m, n, k = extents
    a, b = operand(random, (m, k), name), operand(random, (n, k), name)
    with config.scope(FLYDSL_TARGET=arch):
        got = gemm(padded(a), preshuffle_b(b, layout=order), out_dtype=out, **options)
    after = After(
        options.get("scale_a", np.ones(1))[:, None], options.get("scale_b", 1.0),
        options.get("bias", 0.0), options.get("activation"), options.get("residual", 0.0),
    )  # fmt: skip
    check(got, *product(a, b.astype(np.float64).T, after, out, parts))


@pytest.mark.parametrize(("arch", "kind"), FORMATS)
def test_every_format(arch, kind):
    """Rows and columns that no tile has whole, a tail of K, and parts of K."""
    random = np.random.default_rng()
    step = 64 // dtype_of(fp8(arch) if kind == "fp8" else kind).itemsize
    run(arch, kind, (17, 80, 5 * step))
    m, n = int(random.choice([1, 2, 16, 33])), 16 * int(random.integers(1, 6))
    run(arch, kind, (m, n, 9 * step), split_k=2)
