"""No kernel of the family has races, undefined values, missing waits or accesses that stray."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl_emu
from flydsl import config
from flydsl_kernels.norm import fused_add_layernorm, layernorm_quantised, rmsnorm, softmax
from flydsl_kernels.norm.ops.gradients import norm_gradients, softmax_gradient
from flydsl_kernels.norm.ops.normalise import Norm


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("columns", [75, 2061, 33003])
def test_the_sanitizer_finds_nothing(columns, arch):
    random = np.random.default_rng()
    x, other = (random.standard_normal((3, columns)).astype(np.float32) for _ in range(2))
    w, b = (random.standard_normal(columns).astype(np.float32) for _ in range(2))
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        y = softmax(x)
        rmsnorm(x, w)
        fused_add_layernorm(x, other, w, b)
        layernorm_quantised(x, w, b)
        norm_gradients(x, w, b, other, Norm(True, 1e-5))
        softmax_gradient(y, other, False)
