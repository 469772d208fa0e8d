"""The raw buffer interface of older kernels."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_rocdl.compat import buffer_ops


@flyc.kernel
def _old(a: fx.Tensor, half: fx.Tensor, out: fx.Tensor, out_half: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    source = buffer_ops.create_buffer_resource(a, max_size=False)
    target = buffer_ops.create_buffer_resource(out)
    four = buffer_ops.buffer_load(source, lane * 4, vec_width=4, dtype=fx.Float32)
    buffer_ops.buffer_store(four, target, lane * 4, mask=lane != 3)
    one = buffer_ops.buffer_load(source, lane, mask=lane < 5, soffset_bytes=8)
    buffer_ops.buffer_store(one, target, lane + 256)
    halves = buffer_ops.create_buffer_resource(fx.get_iter(half), num_records_bytes=120)
    pair = buffer_ops.buffer_load(halves, lane, dtype=fx.Float16)
    buffer_ops.buffer_store(pair, buffer_ops.create_buffer_resource(out_half), lane)


@flyc.jit
def _launch_old(a: fx.Tensor, half: fx.Tensor, out: fx.Tensor, out_half: fx.Tensor) -> None:
    _old(a, half, out, out_half).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_old_kernels_run_and_warn(arch: str) -> None:
    a = np.arange(1, 257, dtype=np.float32)
    half = np.arange(1, 65, dtype=np.float16)
    out, out_half = np.full(320, -1, np.float32), np.zeros(64, np.float16)
    with scope(FLYDSL_TARGET=arch), pytest.warns(DeprecationWarning, match="make_buffer_tensor"):
        _launch_old(a[:250], half, out, out_half)
    expected = np.where(np.arange(256) < 250, a, 0)
    expected[12:16] = -1
    assert np.array_equal(out[:256], expected)
    assert np.array_equal(out[256:], np.where(np.arange(64) < 5, np.arange(64) + 3, 0))
    assert np.array_equal(out_half, np.where(np.arange(64) < 60, half, 0))
