"""Windows of global memory contain what they should, whatever their extents' words are."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl_kernels.gemm.device.windows import REACH, window

EXTENTS = [-(1 << 33) + 4, -5, 0, 4, 128, 252, 1 << 31, (1 << 32) - 1, (1 << 32) + 4, 1 << 40]


@flyc.kernel
def read_kernel(source: fx.Tensor, out: fx.Tensor, extent: fx.Int64) -> None:
    place = fx.thread_idx.x * 4
    out[fx.thread_idx.x] = (window(source.iter, fx.Int64(0), extent) + place).load(fx.Int32)


@flyc.jit
def launch_read(source: fx.Tensor, out: fx.Tensor, extent: fx.Int64) -> None:
    read_kernel(source, out, extent).launch(grid=(1,), block=(64,))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_a_window_bounds_loads(arch):
    source = np.arange(1, 65, dtype=np.int32)
    with config.scope(FLYDSL_TARGET=arch):
        for extent in EXTENTS:
            out = np.full(64, -1, np.int32)
            launch_read(source, out, extent)
            inside = np.arange(64) * 4 + 4 <= min(max(extent, 0), REACH)
            assert np.array_equal(out, np.where(inside, source, 0)), extent
