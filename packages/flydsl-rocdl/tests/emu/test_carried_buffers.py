"""Buffer pointers that loops carry: descriptors come out of control flow."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope


@flyc.kernel
def _carried(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32, wide: fx.Constexpr[bool]) -> None:
    lane = fx.thread_idx.x
    tensor = fx.rocdl.make_buffer_tensor(out) if wide else fx.rocdl.make_buffer_tensor(
        out, num_records_bytes=4 * 64 * 3
    )  # fmt: skip
    pointer = fx.get_iter(tensor)
    value = fx.make_rmem_tensor(1, fx.Int32)
    plain = fx.make_copy_atom(fx.UniversalCopy(32), fx.Int32)
    fx.copy(plain, fx.slice(fx.logical_divide(a, fx.make_layout(1, 1)), (None, lane)), value)
    add = fx.make_copy_atom(fx.rocdl.BufferAtomic("add", fx.Int32), fx.Int32)
    store = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Int32)
    for _ in range(steps):
        place = fx.make_view(pointer + lane, fx.make_layout(1, 1))
        if fx.const_expr(wide):
            fx.copy_atom_call(store, value, place)
        else:
            fx.copy_atom_call(add, value, place)
        pointer = pointer + 64


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32, wide: fx.Constexpr[bool]) -> None:
    _carried(a, out, steps, wide).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("wide", [True, False])
def test_a_pointer_moved_by_a_loop_keeps_its_bound(arch: str, wide: bool) -> None:
    a = np.arange(1, 65, dtype=np.int32)
    out = np.zeros(64 * 5, np.int32)
    with scope(FLYDSL_TARGET=arch):
        _launch(a, out[: 64 * 3], 5, wide)
    assert np.array_equal(out.reshape(5, 64), np.outer([1, 1, 1, 0, 0], a))
