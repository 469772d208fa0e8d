"""Opcodes and address forms that only gfx1250 has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.semantics.value_types import F32, F64, U32, U64
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
SHAPE = (WAVES, 32)
V8, V9, V10, V20 = (Operand("v", n) for n in (8, 9, 10, 20))


def bench(memory: list[Array] | None = None) -> InstructionBench:
    return InstructionBench("gfx1250", WAVES, memory=memory or ())


def run(
    b: InstructionBench, name: str, *operands: Operand, format: str = "VOP3P", **mods: int
) -> None:
    b.execute(Instruction(0, 8, format, name, "", operands, mods, None, (), "gfx1250"))


@pytest.mark.opcodes("v_bitop2_b32")
@pytest.mark.parametrize("table", range(0, 256, 5))
def test_two_operand_tables(table: int) -> None:
    b = bench()
    rng = np.random.default_rng(table)
    x, y = (rng.integers(0, 2**32, SHAPE, dtype=np.uint32) for _ in range(2))
    b.write(V8, x, U32)
    b.write(V9, y, U32)
    run(b, "v_bitop2_b32", V20, V8, V9, format="VOP2", bitop3=table)
    want = np.zeros(SHAPE, np.uint32)
    for row in range(4):
        if table >> 2 * row & 1:
            want |= (x if row & 2 else ~x) & (y if row & 1 else ~y)
    assert np.array_equal(b.read(V20, U32), want)


@pytest.mark.opcodes("v_fmaak_f64 v_add_nc_u64 s_mov_b64")
def test_literals_of_64_bits() -> None:
    b = bench()
    x = np.linspace(-3, 3, 64).reshape(SHAPE)
    b.write(Operand("v", 8, 2), x, F64)
    number = int(np.float64(-0.1).view(np.uint64))
    literal = Operand("q", 0, 2, number)
    pair = Operand("v", 20, 2)
    run(b, "v_fmaak_f64", pair, Operand("f", 0, 2, 2.0), Operand("v", 8, 2), literal, format="VOP2")
    assert np.array_equal(b.read(pair, F64), x * 2 - 0.1)
    run(b, "v_add_nc_u64", pair, literal, Operand("i", 0, 2, 1), format="VOP2")
    assert (b.read(pair, U64) == number + 1).all()
    run(b, "s_mov_b64", Operand("s", 30, 2), literal, format="SOP1")
    assert b.read(Operand("s", 30, 2), U64).tolist() == [number] * WAVES


# bf16 --------------------------------------------------------------------------------------------
def bf16_of(x: Array) -> Array:
    """Round doubles to nearest-even bf16 codes; ties are judged exactly."""
    low = x.astype(np.float32).view(np.uint32) >> np.uint32(16)
    codes = np.stack([low - 1, low, low + 1]).astype(np.uint32)
    values = (codes << np.uint32(16)).view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(values - x), nan=np.inf)
    odd = np.where(distance == distance.min(0), codes & 1, 2)
    return np.take_along_axis(codes, odd.argmin(0)[None], 0)[0]


PACKED: dict[str, tuple[int, Callable[..., Array]]] = {
    "add": (2, lambda a, b: a + b),
    "mul": (2, lambda a, b: a * b),
    "fma": (3, lambda a, b, c: a * b + c),
    "min_num": (2, np.fmin),
    "max_num": (2, np.fmax),
}


@pytest.mark.opcodes("v_pk_{operation}_bf16")
@pytest.mark.parametrize("operation", PACKED)
@pytest.mark.parametrize("clamp", [0, 1])
def test_packed_bf16(operation: str, clamp: int) -> None:
    count, reference = PACKED[operation]
    rng = np.random.default_rng(count)
    b = bench()
    values = [rng.normal(0, 1, (*SHAPE, 2)).astype(ml_dtypes.bfloat16) for _ in range(count)]
    operands = (V8, V9, V10)[:count]
    for operand, x in zip(operands, values, strict=True):
        b.write(operand, x.view(np.uint32)[..., 0], U32)
    mods = {"op_sel": 1, "op_sel_hi": 6, "neg_lo": 2, "neg_hi": 1} | ({"clamp": 1} if clamp else {})
    run(b, f"v_pk_{operation}_bf16", V20, *operands, **mods)
    parts = []
    for high in (0, 1):
        select, negate = (6, 1) if high else (1, 2)
        wide = [
            x[..., select >> k & 1].astype(np.float64) * (-1 if negate >> k & 1 else 1)
            for k, x in enumerate(values)
        ]
        total = reference(*wide)
        parts.append(bf16_of(np.clip(total, 0, 1) if clamp else total))
    assert np.array_equal(b.read(V20, U32), parts[0] | parts[1] << np.uint32(16))


@pytest.mark.opcodes("v_pk_fma_bf16 v_pk_add_bf16")
def test_ties_are_decided_by_what_double_loses() -> None:
    b = bench()
    one, half_ulp, tiny = 0x3F80, 0x3B80, 0x0D80  # 1, 2**-8, 2**-100
    product = 0x3FC0  # 1.5
    b.write(V8, np.full(SHAPE, product), U32)
    b.write(V9, np.full(SHAPE, 0x3FA1), U32)  # 1.2578125: the product ends in a half
    for code, want in ((tiny, 0x3FF2), (tiny | 0x8000, 0x3FF1), (0, 0x3FF2)):
        b.write(V10, np.full(SHAPE, code), U32)
        run(b, "v_pk_fma_bf16", V20, V8, V9, V10)
        assert (b.read(V20, U32) & 0xFFFF == want).all(), hex(code)
    b.write(V8, np.full(SHAPE, one), U32)
    b.write(V9, np.full(SHAPE, half_ulp), U32)
    run(b, "v_pk_add_bf16", V20, V8, V9)
    assert (b.read(V20, U32) & 0xFFFF == one).all()


@pytest.mark.opcodes("v_fma_mix_f32_bf16 v_fma_mixlo_bf16 v_fma_mixhi_bf16")
@pytest.mark.parametrize("select", range(8))
@pytest.mark.parametrize("clamp", [0, 1])
def test_mixed_bf16(select: int, clamp: int) -> None:
    rng = np.random.default_rng(select)
    b = bench()
    halves = [rng.normal(0, 1, (*SHAPE, 2)).astype(ml_dtypes.bfloat16) for _ in range(3)]
    singles = [x.view(np.float32)[..., 0] for x in halves]
    for operand, x in zip((V8, V9, V10), singles, strict=True):
        b.write(operand, x, F32)
    # Even sources are halves: the high one where `select` says so.
    mods = {"op_sel_hi": 5, "op_sel": select} | ({"clamp": 1} if clamp else {})
    wide = [
        x[..., select >> k & 1].astype(np.float64) if k != 1 else singles[k].astype(np.float64)
        for k, x in enumerate(halves)
    ]
    total = -wide[0] * wide[1] + wide[2]
    total = np.clip(total, 0, 1) if clamp else total
    operands = (Operand("v", 8, 1, 0, True), V9, V10)
    run(b, "v_fma_mix_f32_bf16", V20, *operands, **mods)
    assert np.array_equal(b.read(V20, F32), total.astype(np.float32))
    for part in ("lo", "hi"):
        b.write(V20, np.full(SHAPE, 0x11112222), U32)
        run(b, f"v_fma_mix{part}_bf16", V20, *operands, **mods)
        code = bf16_of(total)
        want = 0x2222 | code << np.uint32(16) if part == "hi" else 0x11110000 | code
        assert np.array_equal(b.read(V20, U32), want)


# Addresses ---------------------------------------------------------------------------------------
@pytest.mark.opcodes("global_load_b64 global_store_b32 global_atomic_add_u32 s_load_b64")
def test_offsets_count_accesses_and_are_signed() -> None:
    data = np.arange(128, dtype=np.uint32)
    before = data.copy()
    b = bench([data])
    base = data.ctypes.data + 256
    b.state.scalar[16], b.state.scalar[17] = base & 0xFFFFFFFF, base >> 32
    pair = Operand("s", 16, 2)
    index = np.arange(32, dtype=np.int32) - 16
    b.write(V8, (index[None, :].repeat(WAVES, 0)).view(np.uint32), U32)
    run(b, "global_load_b64", Operand("v", 20, 2), V8, pair, format="FLAT2", scale_offset=1)
    assert np.array_equal(b.read(V20, U32)[0], before[64 + 2 * index])
    assert np.array_equal(b.read(Operand("v", 21), U32)[1], before[65 + 2 * index])
    b.write(V9, (index * 4)[None, :].repeat(WAVES, 0).view(np.uint32), U32)
    run(b, "global_load_b32", V20, V9, pair, format="FLAT2", offset=-8)
    assert np.array_equal(b.read(V20, U32)[0], before[62 + index])
    b.write(V10, np.full(SHAPE, 7), U32)
    run(b, "global_store_b32", V8, V10, pair, format="FLAT2", scale_offset=1)
    assert (data[48:80] == 7).all()
    run(b, "global_atomic_add_u32", V8, V10, pair, format="FLAT2", scale_offset=1)
    assert (data[48:80] == 7 + 7 * WAVES).all()
    assert np.array_equal(data[80:], before[80:])
    b.state.scalar[20] = 5
    run(
        b, "s_load_b64", Operand("s", 32, 2), pair, Operand("s", 20),
        format="SMEM", offset=8, scale_offset=1,
    )  # fmt: skip
    assert b.state.scalar[32:34, 0, 0].tolist() == data[76:78].tolist()


def _descriptor(address: int, records: int, stride: int = 0, mode: int = 3) -> list[int]:
    """Return the words that LLVM builds: base, records and stride at bits 0, 57 and 108."""
    whole = address | records << 57 | stride << 108 | mode << 124
    return [whole >> 32 * k & 2**32 - 1 for k in range(4)]


@pytest.mark.opcodes("buffer_load_dword buffer_store_dword s_buffer_load_dwordx2")
@pytest.mark.parametrize("records", [0, 4, 100, 128, 1000, 2**40])
def test_wide_buffer_descriptors(records: int) -> None:
    memory = np.arange(1, 257, dtype=np.uint32)
    b = bench([memory])
    for k, word in enumerate(_descriptor(memory.ctypes.data, records)):
        b.write(Operand("s", 8 + k), np.full(WAVES, word, np.uint32), U32)
    rng = np.random.default_rng(records % 1000)
    offsets = 4 * rng.permutation(256)[:64].reshape(SHAPE)
    if records < 1000:
        offsets[0, 0] = 2**32 - 4
    b.write(V9, offsets, U32)
    quad, zero = Operand("s", 8, 4), Operand("i", 0, 1, 0)
    run(b, "buffer_load_dword", V8, V9, quad, zero, format="MUBUF", offen=1)
    inside = offsets.astype(np.int64) + 4 <= records
    assert np.array_equal(b.read(V8, U32), np.where(inside, offsets // 4 % 256 + 1, 0))
    b.write(V8, np.full(SHAPE, 7777), U32)
    run(b, "buffer_store_dword", V8, V9, quad, zero, format="MUBUF", offen=1)
    touched = offsets[inside] // 4
    assert (memory[touched] == 7777).all()
    assert (memory == 7777).sum() == len(np.unique(touched))
    memory[:] = np.arange(1, 257)
    run(b, "s_buffer_load_dwordx2", Operand("s", 20, 2), quad, zero, format="SMEM", offset=96)
    for k in range(2):
        want = 25 + k if 96 + 4 * k + 4 <= records else 0
        assert (b.read(Operand("s", 20 + k), U32) == want).all()
