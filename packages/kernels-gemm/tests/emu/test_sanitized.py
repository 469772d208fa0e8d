"""No kernel of the family has races, undefined values, missing waits or accesses that stray."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import fp8, operand, padded

import flydsl_emu
from flydsl import config
from flydsl_kernels.gemm import gemm


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_the_sanitizer_finds_nothing(arch):
    random = np.random.default_rng()
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        a, b = operand(random, (33, 72), "bfloat16"), operand(random, (72, 65), "bfloat16")
        gemm(padded(a), padded(b), layout="nn", activation="gelu", bias=b[0, :65].copy())
        name = fp8(arch) or "int8"
        a, b = operand(random, (17, 256), name), operand(random, (130, 256), name)
        scales = np.ones((17, 2), np.float32), np.ones((2, 2), np.float32)
        gemm(a, b, scale_a=scales[0], scale_b=scales[1], split_k=2, out_dtype="float16")
