"""Wrapped builders of fx.rocdl: defaults, checks, and what they compute."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError, UserError


@flyc.kernel
def _do(a: fx.Tensor, out: fx.Tensor, what: fx.Constexpr) -> None:
    what(a, out, fx.thread_idx.x)


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor, what: fx.Constexpr) -> None:
    _do(a, out, what).launch(grid=(1,), block=(64, 1, 1))


def _run(arch: str, what: Any, a: Any, out: Any) -> Any:
    with scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        _launch(a, out, what)
    return out


def _buffers(a: Any, out: Any, lane: Any) -> None:
    source, target = (fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_tensor(x)) for x in (a, out))
    two = fx.rocdl.raw_ptr_buffer_load(fx.Float32x2, source, lane * 8, 0)
    fx.rocdl.raw_ptr_buffer_store(two, target, lane * 8, 0, 0)
    one = fx.rocdl.raw_ptr_buffer_load(fx.Float32, source, lane * 4, 16)
    fx.rocdl.raw_ptr_buffer_atomic_fadd(one, target, lane * 8, 0)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_buffers(arch: str) -> None:
    a = np.arange(128, dtype=np.float32)
    out = _run(arch, _buffers, a, np.zeros_like(a))
    expected = a.copy()
    expected[::2] += np.arange(4, 68)
    assert np.array_equal(out, expected)


def _maximum(a: Any, out: Any, lane: Any) -> None:
    target = fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_tensor(out))
    fx.rocdl.raw_ptr_buffer_atomic_fmax(a[lane], target, 0, 0)


def test_buffer_maximum() -> None:
    a = np.random.default_rng(1).random(64, np.float32)
    assert _run("gfx1201", _maximum, a, np.zeros(1, np.float32))[0] == a.max()


def _into_lds(a: Any, out: Any, lane: Any) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64], alignment=256)
    source = fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_tensor(a))
    fx.rocdl.buffer_load_to_lds(source, space.ptr, lane * 4)
    fx.rocdl.s_waitcnt(vmcnt=0)
    fx.rocdl.barrier()
    out[lane] = fx.make_view(space.ptr, fx.make_layout(64, 1))[63 - lane]


def test_loads_into_lds() -> None:
    a = np.arange(64, dtype=np.float32)
    for arch in ("gfx942", "gfx950"):
        assert np.array_equal(_run(arch, _into_lds, a, np.zeros_like(a)), a[::-1])
    for arch in ("gfx1100", "gfx1201"):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch, a, a, _into_lds)
        assert caught.value.code == "FLY-T636"


def _words(a: Any, out: Any, lane: Any) -> None:
    word = a[lane]
    out[lane, 0] = fx.rocdl.perm_b32(word, 0x11223344, 0x07010600)
    half = fx.rocdl.inline_asm.cvt_off_f32_i4(word, 2)
    out[lane, 1] = fx.Int32(half * fx.Float32(16.0))
    low = fx.rocdl.inline_asm.cvt_off_f32_i4(word)
    out[lane, 2] = fx.Int32(low * fx.Float32(16.0))
    x = fx.Float32(word) * fx.Float32(0.001)
    out[lane, 3] = fx.rocdl.inline_asm.cvt_pk_bf16_f32(x, -x)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_words(arch: str) -> None:
    a = np.random.default_rng(2).integers(-(2**31), 2**31, 64).astype(np.int32)
    out = _run(arch, _words, a, np.zeros((64, 4), np.int32))
    b = a.view(np.uint8).reshape(64, 4).astype(np.int64)
    want = 0x44 | b[:, 2] << 8 | 0x33 << 16 | b[:, 3] << 24
    assert np.array_equal(out[:, 0].view(np.uint32), want.astype(np.uint32))
    for column, nibble in ((1, b[:, 2] & 15), (2, b[:, 0] & 15)):
        assert np.array_equal(out[:, column], np.where(nibble < 8, nibble, nibble - 16))
    x = a.astype(np.float32) * np.float32(0.001)
    pair = np.stack([x, -x], axis=1).astype(ml_dtypes.bfloat16)
    assert np.array_equal(out[:, 3], pair.view(np.int32)[:, 0])


def _stochastic(a: Any, out: Any, lane: Any) -> None:
    out[lane] = fx.rocdl.cdna4.cvt_sr_f32_to_bf16(a[lane], lane * 0x3FF0000 + 5)


def test_stochastic_rounding() -> None:
    a = np.linspace(-3, 3, 64, dtype=np.float32)
    out = _run("gfx950", _stochastic, a, np.zeros(64, ml_dtypes.bfloat16))
    bits = a.view(np.uint32)
    low, high = (bits & 0xFFFF0000), (bits & 0xFFFF0000) + 0x10000
    got = out.astype(np.float32).view(np.uint32)
    assert ((got == low) | (got == high)).all()
    with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True), pytest.raises(TargetError):
        flyc.compile(_launch, a, out, _stochastic)


def _transposed(a: Any, out: Any, lane: Any) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 256], alignment=256)
    lds = fx.make_view(space.ptr, fx.make_layout(256, 1))
    if lane < 32:
        for k in fx.range_constexpr(8):
            lds[lane * 8 + k] = a[lane * 8 + k]
    fx.barrier()
    got = fx.rocdl.lds_transpose_load(fx.Float16x8, lds, lane % 32 * 8, 2)
    for k in fx.range_constexpr(8):
        out[lane, k] = got[k]


def test_transposing() -> None:
    a = np.arange(256).astype(np.float16)
    out = _run("gfx1250", _transposed, a, np.zeros((64, 8), np.float16))
    want = a.reshape(4, 8, 8).transpose(0, 2, 1).reshape(32, 8)
    assert np.array_equal(out, np.concatenate([want, want]))
    with scope(FLYDSL_TARGET="gfx950", COMPILE_ONLY=True), pytest.raises(TargetError):
        flyc.compile(_launch, a, out, _transposed)


def _raw_tensor(a: Any, out: Any, lane: Any) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 256], alignment=256)
    made = fx.rocdl.tdm_ops.make_tensor_descriptor_2d(
        a, space.ptr, (0, 0), (16, 16), (16, 1), (16, 16), 2
    )
    groups = [
        fx.Vector([fx.Int32(x - (1 << 32) if isinstance(x, int) and x >> 31 else x) for x in row])
        for row in made.words.words
    ]
    fx.rocdl.tensor_load_to_lds(*groups)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    lds = fx.make_view(space.ptr, fx.make_layout(256, 1))
    for k in fx.range_constexpr(4):
        out[k * 64 + lane] = lds[k * 64 + lane]


def test_tensor_words() -> None:
    a = np.random.default_rng(3).random((16, 16)).astype(np.float16)
    out = _run("gfx1250", _raw_tensor, a, np.zeros(256, np.float16))
    assert np.array_equal(out, a.reshape(-1))


def test_the_rest_is_refused_or_compiles() -> None:
    a = np.zeros(64, np.float32)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        text = flyc.compile(_launch, a, a.copy(), lambda *_: fx.rocdl.disable_xdl_arb_stall()).isa
        assert "s_setreg" in text
        for name in ("sched_bank", "sched_vgpr", "sched_sgpr", "sched_agpr"):
            hint = getattr(fx.rocdl.experimental, name)
            with pytest.raises(TargetError) as caught:
                flyc.compile(_launch, a, a.copy(), lambda *_, h=hint: h(1, 2))
            assert caught.value.code == "FLY-T644"
    wrong = [
        lambda *_: fx.rocdl.disable_xdl_arb_stall(),
        lambda *_: fx.rocdl.ptr_s_buffer_load(fx.Int32, 0, 0, 0),
        lambda a, *_: fx.rocdl.lds_transpose_load(fx.Float16x8, a, 0, 4),
    ]
    for what in wrong:
        with (
            scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True),
            pytest.raises((TargetError, UserError)),
        ):
            flyc.compile(_launch, a, a.copy(), what)


@flyc.kernel
def _sizes(out: fx.Tensor) -> None:
    rocdl = fx.rocdl
    found = [
        rocdl.workgroup_dim_x(fx.Int32), rocdl.workgroup_dim_y(), rocdl.workgroup_dim_z(),
        rocdl.grid_dim_x(), rocdl.grid_dim_y(), rocdl.grid_dim_z(fx.Int32),
    ]  # fmt: skip
    for k in fx.range_constexpr(6):
        out[k] = found[k]


@flyc.jit
def _launch_sizes(out: fx.Tensor, x: fx.Int32) -> None:
    _sizes(out).launch(grid=(2, x, 3), block=(x, 2, 1))


def test_sizes() -> None:
    out = np.zeros(6, np.int32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_sizes(out, 5)
    assert out.tolist() == [5, 2, 1, 2, 5, 3]
    with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True), pytest.raises(UserError):
        flyc.compile(_launch, out, out, lambda *_: fx.rocdl.grid_dim_x(fx.Float32))
