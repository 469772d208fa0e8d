"""No kernel of the family has races, undefined values, missing waits or accesses that stray."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl_emu
from flydsl import config
from flydsl_kernels.norm import (
    QuantFormat,
    fused_add_layernorm,
    fused_add_rmsnorm_quantised,
    layernorm_quantised,
    rmsnorm,
    softmax,
)
from flydsl_kernels.norm.ops.gradients import norm_gradients, softmax_gradient
from flydsl_kernels.norm.ops.normalise import Norm


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("columns", [75, 2061, 33003, 65603])
def test_the_sanitizer_finds_nothing(columns, arch):
    """Rows in waves, in workgroups, looped over (gradients of 33003) and split (65603)."""
    random = np.random.default_rng()
    x, other = (random.standard_normal((3, columns)).astype(np.float32) for _ in range(2))
    w, b = (random.standard_normal(columns).astype(np.float32) for _ in range(2))
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        y = softmax(x)
        rmsnorm(x, w)
        fused_add_layernorm(x, other, w, b)
        layernorm_quantised(x, w, b)
        fused_add_rmsnorm_quantised(x, other, w, dtype=QuantFormat("int8", 128))
        norm_gradients(x, w, b, other, Norm(True, 1e-5))
        softmax_gradient(y, other, False)
