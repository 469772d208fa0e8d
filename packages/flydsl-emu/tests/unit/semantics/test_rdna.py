"""What only gfx11 and gfx12 have: dot products, small floats, narrow loads, split barriers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.execution.barriers import SplitBarriers
from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.semantics.value_types import F32, I32, U32, U64
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
SHAPE = (WAVES, 32)
V8, V9, V10, V20 = (Operand("v", n) for n in (8, 9, 10, 20))
SMALL = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}


def bench(memory: list[Array] | None = None) -> InstructionBench:
    return InstructionBench("gfx1201", WAVES, memory=memory or ())


def run(
    b: InstructionBench, name: str, *operands: Operand, format: str = "VOP3", **mods: int
) -> Any:
    return b.execute(Instruction(0x100, 8, format, name, "e64", operands, mods))


# Dot products ------------------------------------------------------------------------------------
def fields(x: Array, bits: int, signed: int) -> Array:
    parts = np.stack([x >> at & (1 << bits) - 1 for at in range(0, 32, bits)]).astype(np.int64)
    return np.where(parts >> bits - 1, parts - (1 << bits), parts) if signed else parts


@pytest.mark.opcodes("v_dot4_i32_iu8 v_dot8_i32_iu4")
@pytest.mark.parametrize("signs", range(4))
@pytest.mark.parametrize("clamp", [0, 1])
def test_dot_products_of_mixed_signs(signs: int, clamp: int) -> None:
    rng = np.random.default_rng(signs)
    for count, bits in ((4, 8), (8, 4)):
        b = bench()
        x, y = (rng.integers(0, 2**32, SHAPE, dtype=np.uint32) for _ in range(2))
        c = rng.choice(np.array([2**31 - 1, -(2**31), 0, 77, -5]), SHAPE)
        b.write(V8, x, U32)
        b.write(V9, y, U32)
        b.write(V10, c, I32)
        mods = {"neg_lo": signs, "op_sel_hi": 7} | ({"clamp": 1} if clamp else {})
        run(b, f"v_dot{count}_i32_iu{bits}", V20, V8, V9, V10, format="VOP3P", **mods)
        total = (fields(x, bits, signs & 1) * fields(y, bits, signs >> 1)).sum(0) + c
        if clamp:
            want = np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)
        else:
            want = total.astype(np.uint32).view(np.int32)
        assert np.array_equal(b.read(V20, I32), want)


@pytest.mark.opcodes("v_dot4_f32_{first}_{second}")
@pytest.mark.parametrize("first", SMALL)
@pytest.mark.parametrize("second", SMALL)
def test_dot_products_of_small_floats(first: str, second: str) -> None:
    rng = np.random.default_rng(3)
    b = bench()
    x = rng.normal(0, 2, (*SHAPE, 4)).astype(SMALL[first])
    y = rng.normal(0, 2, (*SHAPE, 4)).astype(SMALL[second])
    c = rng.normal(0, 2, SHAPE).astype(np.float32)
    b.write(V8, x.view(np.uint32)[..., 0], U32)
    b.write(V9, y.view(np.uint32)[..., 0], U32)
    b.write(V10, c, F32)
    run(b, f"v_dot4_f32_{first}_{second}", V20, V8, V9, V10, format="VOP3P", op_sel_hi=7)
    # Sums of five numbers of few digits are exact in double.
    total = (x.astype(np.float64) * y.astype(np.float64)).sum(-1) + c
    assert np.array_equal(b.read(V20, F32), total.astype(np.float32))


@pytest.mark.opcodes("v_dot2_f16_f16 v_dot2_bf16_bf16")
@pytest.mark.parametrize("high", [0, 1])
def test_dot_products_with_narrow_results(high: int) -> None:
    rng = np.random.default_rng(4 + high)
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        b = bench()
        x, y = (rng.normal(0, 2, (*SHAPE, 2)).astype(dtype) for _ in range(2))
        c = rng.normal(0, 2, SHAPE).astype(dtype)
        b.write(V8, x.view(np.uint32)[..., 0], U32)
        b.write(V9, y.view(np.uint32)[..., 0], U32)
        b.write(V10, c.view(np.uint16).astype(np.uint32) << np.uint32(16), U32)
        b.write(V20, np.full(SHAPE, 0x11112222), U32)
        target = Operand("v", 20, half=1 + high)
        run(b, f"v_dot2_{name}_{name}", target, V8, V9, Operand("v", 10, half=2))
        total = (x.astype(np.float64) * y.astype(np.float64)).sum(-1) + c.astype(np.float64)
        # Rounding to nearest from double is once; ml_dtypes goes through float.
        code = total.astype(np.float16).view(np.uint16) if name == "f16" else bf16_codes(total)
        other = 0x2222 if high else 0x1111 << 16
        assert np.array_equal(b.read(V20, U32), code.astype(np.uint32) << 16 * high | other)


def bf16_codes(x: Array) -> Array:
    """Round doubles to nearest-even bf16, by the neighbours of the truncated value."""
    low = x.astype(np.float32).view(np.uint32) >> np.uint32(16)
    codes = np.stack([low - 1, low, low + 1]).astype(np.uint32)
    values = (codes << np.uint32(16)).view(np.float32).astype(np.float64)
    distance = np.abs(values - x)
    odd = np.where(distance == distance.min(0), codes & 1, 2)
    return np.take_along_axis(codes, odd.argmin(0)[None], 0)[0]


@pytest.mark.opcodes("v_pk_max_num_f16 v_pk_min_num_f16 v_pk_maximum_f16 v_pk_minimum_f16")
def test_packed_minimum_and_maximum() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.normal(0, 2, (*SHAPE, 2)).astype(np.float16) for _ in range(2))
    for z in (x, y):
        z[rng.random(z.shape) < 0.2] = np.nan
    for name, reference in (
        ("max_num", np.fmax),
        ("min_num", np.fmin),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
    ):
        b = bench()
        b.write(V8, x.view(np.uint32)[..., 0], U32)
        b.write(V9, y.view(np.uint32)[..., 0], U32)
        run(b, f"v_pk_{name}_f16", V20, V8, V9, format="VOP3P", op_sel=1, op_sel_hi=2)
        got = b.read(V20, U32)[..., None].view(np.float16)
        assert np.array_equal(got, reference(x[..., ::-1], y), equal_nan=True)


# Small floats ------------------------------------------------------------------------------------
@pytest.mark.opcodes("v_cvt_f32_{kind} v_cvt_pk_f32_{kind} v_cvt_pk_{kind}_f32 v_cvt_sr_{kind}_f32")
@pytest.mark.parametrize("kind", SMALL)
def test_conversions_name_bytes_and_halves(kind: str) -> None:
    rng = np.random.default_rng(6)
    b = bench()
    codes = rng.normal(0, 2, (*SHAPE, 4)).astype(SMALL[kind])
    b.write(V8, codes.view(np.uint32)[..., 0], U32)
    values = codes.astype(np.float32)
    for byte in range(4):
        run(b, f"v_cvt_f32_{kind}", V20, V8, byte_sel=byte)
        assert np.array_equal(b.read(V20, F32), values[..., byte])
    for half in (0, 1):
        run(b, f"v_cvt_pk_f32_{kind}", Operand("v", 20, 2), Operand("v", 8, half=1 + half))
        assert np.array_equal(b.read(V20, F32), values[..., 2 * half])
        assert np.array_equal(b.read(Operand("v", 21), F32), values[..., 2 * half + 1])
        b.write(V20, np.full(SHAPE, 0xA1B2C3D4), U32)
        b.write(V9, values[..., 0], F32)
        b.write(V10, values[..., 1], F32)
        run(b, f"v_cvt_pk_{kind}_f32", Operand("v", 20, half=1 + half), V9, V10)
        pair = codes.view(np.uint16)[..., 0].astype(np.uint32)
        want = 0xC3D4 | pair << 16 if half else 0xA1B20000 | pair
        assert np.array_equal(b.read(V20, U32), want)
    for byte in range(4):
        b.write(V20, np.full(SHAPE, 0xA1B2C3D4), U32)
        run(b, f"v_cvt_sr_{kind}_f32", V20, V9, Operand("i", 0, 1, 0), byte_sel=byte)
        keep = 0xA1B2C3D4 & ~(0xFF << 8 * byte)
        code = codes.view(np.uint8)[..., 0].astype(np.uint32)
        assert np.array_equal(b.read(V20, U32), keep | code << 8 * byte)


# Memory ------------------------------------------------------------------------------------------
NARROW = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16}


@pytest.mark.opcodes("s_load_{kind} s_buffer_load_{kind}")
@pytest.mark.parametrize("kind", NARROW)
def test_narrow_scalar_loads(kind: str) -> None:
    dtype = np.dtype(NARROW[kind])
    data = np.random.default_rng(7).integers(0, 256, 22, dtype=np.uint8)
    b = bench([data])
    start = data.ctypes.data
    limit = 20
    for k, word in enumerate((start & 0xFFFFFFFF, start >> 32, limit, 0)):
        b.state.scalar[16 + k] = word
    result = Operand("s", 32)
    for at in (0, 1, 5, 10, 20, 22 - dtype.itemsize):
        raw = data[at : at + dtype.itemsize].copy().view(dtype)[0]
        b.state.scalar[40] = at
        run(b, f"s_load_{kind}", result, Operand("s", 16, 2), Operand("k", 0, 1, at), format="SMEM")
        assert b.read(result, I32).tolist() == [int(raw)] * WAVES
        offset = Operand("s", 40)
        run(b, f"s_buffer_load_{kind}", result, Operand("s", 16, 4), offset, format="SMEM")
        inside = at + dtype.itemsize <= limit
        assert b.read(result, I32).tolist() == [int(raw) if inside else 0] * WAVES
    with pytest.raises(AccessFault):
        run(b, f"s_load_{kind}", result, Operand("s", 16, 2), Operand("k", 0, 1, 22), format="SMEM")


@pytest.mark.opcodes("buffer_load_b32")
@pytest.mark.parametrize("choice", range(4))
def test_the_descriptor_chooses_the_range_check(choice: int) -> None:
    data = np.arange(64, dtype=np.uint32) + 100
    b = bench([data])
    start = data.ctypes.data
    stride, records = 16, {0: 5, 1: 5, 2: 1, 3: 70}[choice]
    words = (start & 0xFFFFFFFF, start >> 32 | stride << 16, records, choice << 28)
    for k, word in enumerate(words):
        b.state.scalar[16 + k] = word
    lane = np.arange(32)
    index, offset = lane % 8, lane // 8 * 4 + 4
    b.write(V8, index[None, :].repeat(WAVES, 0), U32)
    b.write(V9, offset[None, :].repeat(WAVES, 0), U32)
    operands = (V20, Operand("v", 8, 2), Operand("s", 16, 4), Operand("i"))
    run(b, "buffer_load_b32", *operands, format="MUBUF", offen=1, idxen=1)
    total = index * stride + offset
    valid = {
        0: (index < records) & (offset + 4 <= stride),
        1: index < records,
        2: lane >= 0,
        3: total + 4 <= records,
    }[choice]
    assert np.array_equal(b.read(V20, U32)[0], np.where(valid, data[total // 4], 0))
    b.state.scalar[18] = 0
    run(b, "buffer_load_b32", *operands, format="MUBUF", offen=1, idxen=1)
    assert not b.read(V20, U32).any()


@pytest.mark.opcodes("ds_storexchg_2addr{tag}_rtn_b{bits}")
@pytest.mark.parametrize("tag", ["", "_stride64"])
@pytest.mark.parametrize("bits", [32, 64])
def test_two_exchanges(tag: str, bits: int) -> None:
    rng = np.random.default_rng(8)
    b = bench()
    size = bits // 8
    words, dtype = size // 4, np.dtype(f"u{size}")
    b.lds[...] = rng.integers(0, 256, b.lds.shape)
    before = b.lds.copy().view(dtype)
    kind = U32 if words == 1 else U64
    first, second = Operand("v", 24, words), Operand("v", 28, words)
    new = [rng.integers(0, 2**bits, SHAPE, dtype=dtype) for _ in range(2)]
    b.write(first, new[0], kind)
    b.write(second, new[1], kind)
    b.write(V8, (np.arange(32) * size)[None, :].repeat(WAVES, 0), U32)
    unit = 64 if tag else 1
    places = (0, 64) if not tag else (1, 2)
    name = f"ds_storexchg_2addr{tag}_rtn_b{bits}"
    result = Operand("v", 40, 2 * words)
    mods = {"offset0": places[0], "offset1": places[1]}
    run(b, name, result, V8, first, second, format="DS", **mods)
    after = b.lds.view(dtype)
    for number, place in enumerate(places):
        at = slice(place * unit, place * unit + 32)
        assert np.array_equal(after[:, at], new[number])
        assert np.array_equal(b.read(Operand("v", 40 + number * words, words), kind), before[:, at])


@pytest.mark.opcodes("ds_load_addtid_b32 ds_store_addtid_b32")
def test_lane_addressed_lds() -> None:
    b = bench()
    data = np.random.default_rng(9).integers(0, 2**32, SHAPE, dtype=np.uint32)
    b.write(V8, data, U32)
    b.state.scalar[124] = 64
    run(b, "ds_store_addtid_b32", V8, format="DS", offset=16)
    assert np.array_equal(b.lds.view(np.uint32)[:, 20:52], data)
    run(b, "ds_load_addtid_b32", V20, format="DS", offset=16)
    assert np.array_equal(b.read(V20, U32), data)


# Registers chosen by M0 --------------------------------------------------------------------------
@pytest.mark.opcodes("v_movrels_b32 v_movreld_b32 v_movrelsd_b32 v_movrelsd_2_b32")
def test_registers_chosen_by_m0() -> None:
    b = bench()
    rng = np.random.default_rng(10)
    file = rng.integers(0, 2**32, b.state.vector.shape, dtype=np.uint32)
    mask = rng.random(SHAPE) < 0.7
    b.set_exec(mask)
    for name in ("v_movrels_b32", "v_movreld_b32", "v_movrelsd_b32", "v_movrelsd_2_b32"):
        b.state.vector[...] = file
        index = np.array([3, 200])
        target_index = np.array([7, 0]) if "_2" in name else index
        b.write(Operand("s", 124), index | (target_index << 16 if "_2" in name else 0), U32)
        run(b, name, V20, V8, format="VOP1")
        want = file.copy()
        for wave in range(WAVES):
            source = 8 if name == "v_movreld_b32" else 8 + index[wave]
            target = 20 if name == "v_movrels_b32" else 20 + target_index[wave]
            want[target, wave, mask[wave]] = file[source, wave, mask[wave]]
        assert np.array_equal(b.state.vector, want), name
    b.write(Operand("s", 124), np.array([0, 250]), U32)
    with pytest.raises(KernelFault, match="indexed register"):
        run(b, "v_movrels_b32", V20, V8, format="VOP1")


# Barriers ----------------------------------------------------------------------------------------
@pytest.mark.opcodes(
    "s_barrier_signal s_barrier_signal_isfirst s_barrier_init s_barrier_join s_barrier_wait"
    " s_barrier_leave"
)
def test_barrier_operands_reach_the_scheduler() -> None:
    b = bench()
    b.state.scalar[124] = 3 | 2 << 16
    for name in ("signal", "signal_isfirst", "init", "join"):
        got = run(b, f"s_barrier_{name}", Operand("s", 124), format="SOP1")
        assert np.broadcast_to(got, (WAVES, 1))[:, 0].tolist() == [3 | 2 << 16] * WAVES
        got = run(b, f"s_barrier_{name}", Operand("i", 0, 1, -1), format="SOP1")
        assert int(np.broadcast_to(got, (1, 1))[0, 0]) == 0xFFFFFFFF
    assert int(run(b, "s_barrier_wait", format="SOPP", simm16=0xFFFF)) == 0xFFFF
    assert int(run(b, "s_barrier_leave", format="SOPP")) == 0


def test_a_barrier_that_a_member_leaves_is_complete() -> None:
    b = Barriers()
    b.do("init", [0], 3 | 2 << 16)
    b.do("join", [0, 1], 3)
    b.do("signal", [0], 3)
    b.do("wait", [0], 1)
    assert b.held == [0]
    assert b.do("leave", [1]).tolist() == [False, True, False, False]
    assert b.held == []
    assert not b.do("leave", [1]).any()


class Barriers:
    """Four waves of two workgroups, stepped by hand."""

    def __init__(self) -> None:
        self.state = SplitBarriers(np.array([0, 0, 1, 1]), 2)
        self.live = np.ones(4, bool)

    def do(self, name: str, waves: list[int], value: int = -1) -> Any:
        current = np.isin(np.arange(4), waves)
        operand = np.full(4, value & 0xFFFFFFFF, np.int64)
        return self.state.execute(f"s_barrier_{name}", operand, current, self.live)

    @property
    def held(self) -> list[int]:
        return np.flatnonzero(self.state.held).tolist()


def test_a_wait_ends_when_all_waves_have_signalled() -> None:
    b = Barriers()
    assert b.do("signal_isfirst", [0, 2, 3]).tolist() == [True, False, True, False]
    b.do("wait", [0])
    assert b.held == [0]
    b.do("wait", [2, 3])
    assert b.held == [0]
    assert b.do("signal_isfirst", [1]).tolist() == [False] * 4
    assert b.held == []
    b.do("wait", [1])
    assert b.held == []
    # The next phase starts anew.
    b.do("signal", [0])
    b.do("wait", [0])
    assert b.held == [0]
    b.live[1] = False
    b.state.ended(b.live)
    assert b.held == []


def test_named_barriers_have_members() -> None:
    b = Barriers()
    b.do("init", [0, 1], 5 | 3 << 16)
    b.do("join", [0], 5)
    b.do("signal", [0, 1], 5)
    b.do("wait", [0], 1)
    assert b.held == [0]
    b.do("signal", [1], 5)
    assert b.held == []
    for name in ("signal", "join"):
        with pytest.raises(KernelFault, match="barrier -4"):
            b.do(name, [0], -4)
    with pytest.raises(KernelFault, match="barrier -2"):
        b.do("wait", [0], 0xFFFE)
