"""The loop of products with preshuffled weights on RDNA4."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_kernels.gemm import compile_fp8_gemm


def test_loads_run_ahead_of_the_matrix_instructions() -> None:
    """Each turn has both tiles' products and loads; no wait is for all loads on their way."""
    m, n, k = 32, 256, 2048
    codes, ones = np.zeros((n, k), np.uint8), np.ones(n, np.float32)
    with scope(FLYDSL_TARGET="gfx1201", COMPILE_ONLY="1"):
        compiled = flyc.compile(
            compile_fp8_gemm(M=m, N=n, K=k), np.zeros((m, n), ml_dtypes.bfloat16), codes[:m], codes,
            ones[:m], ones, None,
        )  # fmt: skip
        isa = compiled.isa
    (kernel,) = compiled.kernels
    assert (kernel.spills, kernel.scratch, kernel.lds_static) == (0, 0, 0)
    ((_, loop),) = re.findall(r"(\.LBB\d+_\d+):(.*?)s_cbranch_\w+ \1", isa, re.DOTALL)
    assert len(re.findall(r"\bv_wmma_f32_16x16x16_fp8_fp8\b", loop)) == 32
    assert len(re.findall(r"\bbuffer_load_b128\b", loop)) == 4
    assert len(re.findall(r"\bbuffer_load_b64\b", loop)) == 16
    waits = [int(count, 0) for count in re.findall(r"s_wait_loadcnt (\w+)", loop)]
    assert waits
    assert min(waits) == 10  # a tile of loads stays on its way
