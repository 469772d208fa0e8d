"""No kernel of flash attention has races, undefined values, missing waits or stray accesses."""

from __future__ import annotations

import numpy as np
import pytest
from attention_reference import FNUZ, FP8
from flash_cases import normal, paged

import flydsl_emu
from flydsl import config
from flydsl_kernels.attention import flash_attention
from flydsl_kernels.attention.ops.backward import run_backward
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import run_forward


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_sanitizer_finds_nothing(arch):
    random = np.random.default_rng()
    q, k, v = (normal(random, (1, n, 1, 64)) for n in (40, 150, 150))
    extras = Extras(causal=True)
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        found = run_forward((q, k, v), Sequences(), Keys(), extras, True)
        flash_attention(q, k, v, window=(100, 5), num_splits=2)
        paged([100, 33], 3, 16, "linear", window=(9, 0))
        paged([40], 3, 64, "vectorised")
        run_backward((q, k, v), found, (q, None), Sequences(), extras)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_the_sanitizer_finds_nothing_on_waves_of_32(arch):
    test_the_sanitizer_finds_nothing(arch)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_bytes_too(arch):
    random = np.random.default_rng()
    dtype = FNUZ if arch == "gfx942" else FP8
    q, k, v = (normal(random, (1, n, 1, 128), dtype) for n in (40, 100, 100))
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        flash_attention(q, k, v)


@pytest.mark.parametrize("d", [(64, 64), (96, 96), (192, 128)], ids=str)
def test_the_wait_states_after_a_loop(d, gfx942):
    """LLVM counts a branch that is not executed before copies of the sums."""
    random = np.random.default_rng()
    q, k, v = (normal(random, (1, 64, 1, n)) for n in (d[0], *d))
    with flydsl_emu.sanitize():
        flash_attention(q, k, v)
