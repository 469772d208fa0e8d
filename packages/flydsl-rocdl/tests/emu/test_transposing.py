"""Transposing loads from LDS and from memory, run: which lane gets which value."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import TargetError, UserError


@flyc.kernel
def _transpose(a: fx.Tensor, out: fx.Tensor, atom_op: fx.Constexpr, dtype: fx.Constexpr) -> None:
    lane = fx.thread_idx.x
    count = fx.const_expr(atom_op.bits // atom_op.granularity)
    storage = fx.SharedAllocator().allocate(fx.Array[dtype, 64 * count], alignment=1024)
    flat = fx.make_view(storage.ptr, fx.make_layout(64 * count, 1))
    lds = fx.logical_divide(flat, fx.make_layout(count, 1))
    rows = fx.logical_divide(a, fx.make_layout(count, 1))
    value = fx.make_rmem_tensor(count, dtype)
    wide = fx.make_copy_atom(fx.UniversalCopy(atom_op.bits), dtype)
    fx.copy_atom_call(wide, fx.slice(rows, (None, lane)), value)
    fx.copy_atom_call(wide, value, fx.slice(lds, (None, lane)))
    fx.barrier()
    atom = fx.make_copy_atom(atom_op, dtype)
    fx.copy_atom_call(atom, fx.slice(lds, (None, lane)), value)
    fx.copy_atom_call(wide, value, fx.slice(fx.logical_divide(out, fx.make_layout(count, 1)),
                                            (None, lane)))  # fmt: skip


@flyc.jit
def _launch_transpose(a: fx.Tensor, out: fx.Tensor, atom: fx.Constexpr, dt: fx.Constexpr) -> None:
    _transpose(a, out, atom, dt).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize(
    ("granularity", "dtype", "host"),
    [(16, fx.Float16, np.float16), (16, fx.BFloat16, ml_dtypes.bfloat16),
     (8, fx.Int8, np.int8), (8, fx.Float8E4M3FN, ml_dtypes.float8_e4m3fn)],
)  # fmt: skip
def test_transposing_reads(granularity: int, dtype: Any, host: Any) -> None:
    atom = fx.rocdl.cdna4.LDSReadTrans(granularity, 64)
    count = 64 // granularity
    generator = np.random.default_rng(granularity)
    a = generator.integers(-100, 100, 64 * count).astype(host)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET="gfx950"):
        _launch_transpose(a, out, atom, dtype)
    values = a.reshape(4, count, 16)
    assert np.array_equal(out.reshape(4, 16, count), values.transpose(0, 2, 1))
    source, target = atom.src_tv(granularity), atom.dst_tv(granularity)
    for lane in range(16):
        for v in range(count):
            assert source((lane, v)) == lane * count + v
            assert target((lane, (0, v))) == lane + 16 * v


@flyc.kernel
def _transpose_bits(a: fx.Tensor, out: fx.Tensor, atom_op: fx.Constexpr, dtype: fx.Constexpr
                    ) -> None:  # fmt: skip
    """Values of less than a byte: bytes in and out, `dtype` between."""
    lane = fx.thread_idx.x
    size = fx.const_expr(atom_op.bits // 8)
    count = fx.const_expr(atom_op.bits // atom_op.granularity)
    space = fx.SharedAllocator().allocate(fx.Array[fx.Uint8, 64 * size], alignment=1024)
    rows = fx.make_layout((size, 64), (1, size))
    held = fx.make_rmem_tensor(size, fx.Uint8)
    wide = fx.make_copy_atom(fx.UniversalCopy(atom_op.bits), fx.Uint8)
    fx.copy_atom_call(wide, fx.make_view(a.iter, rows)[None, lane], held)
    fx.copy_atom_call(wide, held, fx.make_view(space.ptr, rows)[None, lane])
    fx.barrier()
    values = fx.make_layout((count, 64), (1, count))
    value = fx.make_rmem_tensor(count, dtype)
    lds = fx.make_view(fx.recast_iter(dtype, space.ptr), values)
    fx.copy_atom_call(fx.make_copy_atom(atom_op, dtype), lds[None, lane], value)
    target = fx.make_view(fx.recast_iter(dtype, out.iter), values)
    whole = fx.make_copy_atom(fx.UniversalCopy(atom_op.bits), dtype)
    fx.copy_atom_call(whole, value, target[None, lane])


@flyc.jit
def _launch_bits(a: fx.Tensor, out: fx.Tensor, atom: fx.Constexpr, dt: fx.Constexpr) -> None:
    _transpose_bits(a, out, atom, dt).launch(grid=(1,), block=(64, 1, 1))


def _codes(data: Any, bits: int) -> Any:
    """Return the codes of `bits` bits each that rows of bytes hold."""
    single = np.unpackbits(data, axis=-1, bitorder="little")
    return single.reshape(*data.shape[:-1], -1, bits) @ (1 << np.arange(bits))


@pytest.mark.parametrize(
    ("granularity", "bits", "dtype"),
    [(4, 64, fx.Float4E2M1FN), (4, 64, fx.Int4), (6, 96, fx.Float6E2M3FN),
     (6, 96, fx.Float6E3M2FN), (8, 64, fx.Uint8)],
)  # fmt: skip
def test_transposing_reads_of_small_values(granularity: int, bits: int, dtype: Any) -> None:
    generator = np.random.default_rng(bits)
    a = generator.integers(0, 256, 8 * bits).astype(np.uint8)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET="gfx950"):
        _launch_bits(a, out, fx.rocdl.cdna4.LDSReadTrans(granularity, bits), dtype)
    source = _codes(a.reshape(4, 2 * bits), granularity).reshape(4, bits // granularity, 16)
    got = _codes(out.reshape(4, 16, bits // 8), granularity)
    assert np.array_equal(got, source.transpose(0, 2, 1))


@flyc.kernel
def _transpose_global(a: fx.Tensor, out: fx.Tensor, atom_op: fx.Constexpr, dtype: fx.Constexpr
                      ) -> None:  # fmt: skip
    lane = fx.thread_idx.x
    rows = fx.make_layout((8, 32), (1, 8))
    value = fx.make_rmem_tensor(8, dtype)
    source = fx.make_view(a.iter, fx.make_layout((8, 32), (1, 24)))
    if fx.const_expr(atom_op.prefix == "lds_read_trans"):
        space = fx.SharedAllocator().allocate(fx.Array[dtype, 256], alignment=1024)
        lds = fx.make_view(space.ptr, rows)
        for k in fx.range_constexpr(8):
            lds[k, lane] = source[k, lane]
        fx.barrier()
        source = lds
    fx.copy_atom_call(fx.make_copy_atom(atom_op, dtype), source[None, lane], value)
    wide = fx.make_copy_atom(fx.UniversalCopy(atom_op.bits), dtype)
    fx.copy_atom_call(wide, value, fx.make_view(out.iter, rows)[None, lane])


@flyc.jit
def _launch_global(a: fx.Tensor, out: fx.Tensor, atom: fx.Constexpr, dt: fx.Constexpr) -> None:
    _transpose_global(a, out, atom, dt).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize(
    ("arch", "shared", "bits", "mnemonic"),
    [("gfx1201", False, 16, "global_load_tr_b128"), ("gfx1250", False, 16, "global_load_tr16_b128"),
     ("gfx1250", False, 8, "global_load_tr8_b64"), ("gfx1250", True, 16, "ds_load_tr16_b128"),
     ("gfx1250", True, 8, "ds_load_tr8_b64")],
)  # fmt: skip
def test_transposing_loads_of_eight_lanes(
    arch: str, shared: bool, bits: int, mnemonic: str
) -> None:
    dtype, host = (fx.BFloat16, ml_dtypes.bfloat16) if bits == 16 else (fx.Int8, np.int8)
    maker = fx.rocdl.cdna5.LDSReadTrans if shared else fx.rocdl.cdna5.GlobalLoadTrans
    atom = maker(bits, 8 * bits)
    generator = np.random.default_rng(bits)
    a = generator.integers(-100, 100, (32, 24)).astype(host)
    out = np.zeros((32, 8), host)
    with scope(FLYDSL_TARGET=arch):
        _launch_global(a.reshape(-1), out.reshape(-1), atom, dtype)
        text = flyc.compile(_launch_global, a.reshape(-1), out.reshape(-1), atom, dtype).isa
    assert f"{mnemonic} v[" in text
    rows = a[:, :8]
    expected = np.zeros_like(out)
    for lane in range(32):
        for k in range(8):
            if bits == 16:
                source = lane // 8 * 8 + k
            else:  # lanes 0-3 and 8-11 feed the first eight of sixteen, the others the next
                source = lane // 16 * 16 + lane // 8 % 2 * 4 + (k if k < 4 else k + 4)
            expected[lane, k] = rows[source, lane % 8]
    assert np.array_equal(out, expected)
    lanes = 8 if bits == 16 else 16
    for lane in range(lanes):
        for k in range(8):
            at = (lane, (0, k)) if bits == 16 else ((lane % 8, lane // 8), (k % 4, k // 4))
            number = atom.dst_tv(bits)(at)
            assert expected[lane, k] == rows.reshape(-1)[number]
            assert atom.src_tv(bits)((lane, k)) == 8 * lane + k


def test_transposing_reads_elsewhere_are_refused() -> None:
    a = np.zeros(256, np.float16)
    atom = fx.rocdl.cdna4.LDSReadTrans16_64b()
    for arch in ("gfx942", "gfx1100", "gfx1201", "gfx1250"):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch_transpose, a, a, atom, fx.Float16)
        assert caught.value.code == "FLY-T637"
    with pytest.raises(UserError):
        fx.rocdl.cdna4.LDSReadTrans(16, 128)
    with pytest.raises(UserError):
        fx.make_copy_atom(atom, fx.Float32)
    for arch, other in (
        ("gfx950", fx.rocdl.cdna5.LDSReadTrans16_128b()),
        ("gfx950", fx.rocdl.cdna5.GlobalLoadTrans(16, 128)),
        ("gfx1201", fx.rocdl.cdna5.LDSReadTrans16_128b()),
    ):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch_global, a, a, other, fx.Float16)
        assert caught.value.code == "FLY-T637"
    small = fx.rocdl.rdna4.GlobalLoadTrans(8, 64)
    with scope(FLYDSL_TARGET="gfx1201", COMPILE_ONLY=True), pytest.raises(TargetError):
        flyc.compile(_launch_global, a.view(np.int8), a.view(np.int8), small, fx.Int8)
