"""Buffer tensors: the hardware's range check at both ends of a copy."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope


@flyc.kernel
def _add_one(a: fx.Tensor, out: fx.Tensor) -> None:
    source = fx.logical_divide(fx.rocdl.make_buffer_tensor(a), fx.make_layout(1, 1))
    target = fx.logical_divide(fx.rocdl.make_buffer_tensor(out), fx.make_layout(1, 1))
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    value = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy_atom_call(atom, fx.slice(source, (None, i)), value)
    fx.memref_store_vec(fx.memref_load_vec(value) + 1.0, value)
    fx.copy_atom_call(atom, value, fx.slice(target, (None, i)))


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor) -> None:
    _add_one(a, out).launch(grid=(2,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_reads_past_the_end_are_zero_and_writes_are_dropped(arch: str) -> None:
    a = np.arange(100, dtype=np.float32)
    out = np.full(120, -5, np.float32)
    with scope(FLYDSL_TARGET=arch):
        _launch(a[:90], out[:100])
    assert np.array_equal(out[:90], a[:90] + 1)
    assert np.array_equal(out[90:100], np.ones(10))
    assert np.array_equal(out[100:], np.full(20, -5))


@flyc.kernel
def _static_bounds(a: fx.Tensor, out: fx.Tensor, records: fx.Constexpr) -> None:
    static = fx.make_view(fx.get_iter(a), fx.make_layout(40, 1))
    buffer = fx.rocdl.make_buffer_tensor(static, num_records_bytes=records)
    out[fx.thread_idx.x] = buffer[fx.thread_idx.x]


@flyc.jit
def _launch_static_bounds(a: fx.Tensor, out: fx.Tensor, records: fx.Constexpr) -> None:
    _static_bounds(a, out, records).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize(("records", "inside"), [(None, 40), (32, 8)])
def test_bounds_known_at_compile_time(records: int | None, inside: int) -> None:
    a, out = np.arange(1, 65, dtype=np.float32), np.zeros(64, np.float32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_static_bounds(a, out, records)
    assert np.array_equal(out, np.where(np.arange(64) < inside, a, 0))
