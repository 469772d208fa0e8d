"""Lane moves, DPP, SDWA, op_sel, clamp and omod, branches and program-counter moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.semantics.value_types import F16, F32, I32, U16, U32, U64
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
LANE = np.arange(64)

CASES = (
    "v_readfirstlane_b32 v_readlane_b32 v_writelane_b32 v_mbcnt_lo_u32_b32 "
    "v_mbcnt_hi_u32_b32 v_permlane32_swap_b32 v_permlane16_swap_b32 v_swap_b32 v_nop ds_nop "
    "ds_bpermute_b32 ds_permute_b32 ds_swizzle_b32 ds_read_b64_tr_b4 ds_read_b64_tr_b8 "
    "ds_read_b64_tr_b16 s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz "
    "s_cbranch_execz s_cbranch_execnz s_getpc_b64 s_setpc_b64 s_swappc_b64 s_call_b64 "
    "v_bitop3_b32 v_bitop3_b16 v_pk_mov_b32"
).split()
SAVE_EXEC = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "andn2": lambda s, e: s & ~e,
    "orn2": lambda s, e: s | ~e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "andn1": lambda s, e: ~s & e,
    "orn1": lambda s, e: ~s | e,
}
WRITE_EXEC = {"andn1": lambda s, e: ~s & e, "andn2": lambda s, e: s & ~e}
CASES += [f"s_{n}_saveexec_b64" for n in SAVE_EXEC] + [f"s_{n}_wrexec_b64" for n in WRITE_EXEC]
NO_EFFECT = (
    "s_nop s_waitcnt s_sleep s_setprio s_icache_inv s_dcache_inv s_dcache_wb s_dcache_inv_vol "
    "s_dcache_wb_vol buffer_wbl2 buffer_inv s_sendmsg s_incperflevel s_decperflevel s_ttracedata "
    "s_code_end s_sethalt s_wakeup"
).split()
CASES += NO_EFFECT


def bench(seed: int = 1, active: float = 1.0) -> tuple[InstructionBench, Array, Array]:
    """A bench with random v8 and EXEC; returns it, v8 and EXEC."""
    rng = np.random.default_rng(seed)
    b = InstructionBench("gfx950", WAVES)
    x = rng.integers(0, 2**32, (WAVES, 64), dtype=np.uint32)
    mask = rng.random((WAVES, 64)) < active
    b.write(Operand("v", 8), x, U32)
    b.write(Operand("v", 9), x[::-1] ^ 0x5A5A5A5A, U32)
    b.set_exec(mask)
    return b, x, mask


def run(
    b: InstructionBench, name: str, *operands: Operand, format: str = "VOP1", **mods: int
) -> Any:
    encoding = "dpp" if "dpp_ctrl" in mods else "sdwa" if "src0_sel" in mods else ""
    return b.execute(Instruction(0x100, 8, format, name, encoding, operands, mods))


V8, V9, V20 = Operand("v", 8), Operand("v", 9), Operand("v", 20)
S30 = Operand("s", 30)


@pytest.mark.opcodes("v_readfirstlane_b32")
def test_read_first_lane() -> None:
    b, x, mask = bench(2, 0.3)
    run(b, "v_readfirstlane_b32", S30, V8)
    assert b.read(S30, U32).tolist() == [int(x[w, np.argmax(mask[w])]) for w in range(WAVES)]
    b.set_exec(np.zeros((WAVES, 64), bool))
    run(b, "v_readfirstlane_b32", S30, V8)
    assert b.read(S30, U32).tolist() == x[:, 0].tolist()


@pytest.mark.opcodes("v_readlane_b32 v_writelane_b32")
def test_read_and_write_lane() -> None:
    b, x, _ = bench(3, 0.5)
    b.write(Operand("s", 40), np.array([5, 63 + 64]), U32)
    run(b, "v_readlane_b32", S30, V8, Operand("s", 40))
    assert b.read(S30, U32).tolist() == [x[0, 5], x[1, 63]]
    run(b, "v_writelane_b32", V8, Operand("i", 0, 1, 7), Operand("s", 40))
    want = x.copy()
    want[0, 5] = want[1, 63] = 7
    assert np.array_equal(b.read(V8, U32), want)


@pytest.mark.opcodes("v_mbcnt_{part}_u32_b32")
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_masked_bit_count(part: str) -> None:
    b, _, _ = bench()
    word = np.array([0xF0F01234, 0xFFFFFFFF])
    b.write(S30, word, U32)
    run(b, f"v_mbcnt_{part}_u32_b32", V20, S30, Operand("i", 0, 1, 3))
    got = b.read(V20, U32)
    for w in range(WAVES):
        for lane in range(64):
            below = (1 << lane) - 1 if part == "lo" else (1 << max(lane - 32, 0)) - 1
            assert got[w, lane] == 3 + (int(word[w]) & below & 0xFFFFFFFF).bit_count()


@pytest.mark.opcodes("v_permlane{rows}_swap_b32")
@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("mods", [{}, {"bound_ctrl": 1}, {"fi": 1}])
def test_permlane_swap(rows: int, mods: dict[str, int]) -> None:
    b, x, mask = bench(4, 0.8)
    y = b.read(V9, U32).copy()
    run(b, f"v_permlane{rows}_swap_b32", V8, V9, format="VOP3", **mods)
    first, second = b.read(V8, U32), b.read(V9, U32)
    for w in range(WAVES):
        for lane in range(64):
            want = [x[w, lane], y[w, lane]]
            if mask[w, lane]:
                partner = lane ^ rows
                reachable = mask[w, partner] or "fi" in mods
                odd = lane // rows % 2
                moved = (y if odd else x)[w, partner]
                if reachable:
                    want[0 if odd else 1] = moved
                elif mods:
                    want[0 if odd else 1] = 0
            assert [first[w, lane], second[w, lane]] == want


@pytest.mark.opcodes("v_swap_b32")
def test_swap() -> None:
    b, x, mask = bench(5, 0.5)
    y = b.read(V9, U32).copy()
    run(b, "v_swap_b32", V8, V9)
    assert np.array_equal(b.read(V8, U32), np.where(mask, y, x))
    assert np.array_equal(b.read(V9, U32), np.where(mask, x, y))


@pytest.mark.opcodes("v_pk_mov_b32")
def test_packed_move_may_overlap() -> None:
    b, _, _ = bench()
    b.state.vector[10], b.state.vector[11] = 1, 2
    pair = Operand("v", 10, 2)
    run(b, "v_pk_mov_b32", pair, pair, pair, format="VOP3P", op_sel=1, op_sel_hi=1)
    assert b.state.vector[10:12, 0, 0].tolist() == [2, 1]


@pytest.mark.opcodes("ds_bpermute_b32 ds_permute_b32")
def test_pull_and_push_permutations() -> None:
    b, x, mask = bench(6, 0.7)
    rng = np.random.default_rng(0)
    target = np.stack([rng.permutation(64) for _ in range(WAVES)])
    b.write(V9, (target * 4 - 4) & 0xFFFFFFFF, U32)
    run(b, "ds_bpermute_b32", V20, V9, V8, format="DS", offset=4)
    pulled = b.read(V20, U32)
    run(b, "ds_permute_b32", V20, V9, V8, format="DS", offset=4)
    pushed = b.read(V20, U32)
    for w in range(WAVES):
        delivered = dict(zip(target[w][mask[w]].tolist(), x[w][mask[w]].tolist(), strict=True))
        for lane in range(64):
            if mask[w, lane]:
                source = target[w, lane]
                assert pulled[w, lane] == (x[w, source] if mask[w, source] else 0)
                assert pushed[w, lane] == delivered.get(lane, 0)


SWIZZLES = {
    0x041F: lambda lane: lane ^ 1,
    0x401F: lambda lane: lane ^ 16,
    0x001F | 3 << 5: lambda lane: lane | 3,
    0x0018 | 5 << 5: lambda lane: lane & ~7 | 5,
    0x801B: lambda lane: lane & ~3 | 3 - lane % 4,
    0x7C1F: lambda lane: lane & 32 | 31 - lane % 32,
    0xC000 | 3 << 5: lambda lane: lane & 32 | (lane + 3) % 32,
    0xC400 | 3 << 5: lambda lane: lane & 32 | (lane - 3) % 32,
}


@pytest.mark.opcodes("ds_swizzle_b32")
@pytest.mark.parametrize("offset", SWIZZLES)
def test_swizzle(offset: int) -> None:
    b, x, _ = bench()
    run(b, "ds_swizzle_b32", V20, V8, format="DS", offset=offset)
    lanes = [SWIZZLES[offset](lane) for lane in range(64)]
    assert np.array_equal(b.read(V20, U32), x[:, lanes])


@pytest.mark.opcodes("ds_read_b64_tr_b{bits}")
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_transposing_read(bits: int) -> None:
    """16 lanes hold n rows of 16 elements; each receives a column."""
    b, _, _ = bench()
    per_lane = 64 // bits
    rng = np.random.default_rng(1)
    tiles = rng.integers(0, 1 << bits, (WAVES, 4, per_lane, 16))
    for w in range(WAVES):
        for t in range(4):
            number = 0
            for k, element in enumerate(tiles[w, t].reshape(-1).tolist()):
                number |= element << k * bits
            b.lds[w, t * 128 : t * 128 + 128] = list(number.to_bytes(128, "little"))
    b.write(V9, np.broadcast_to(LANE * 8, (WAVES, 64)), U32)
    pair = Operand("v", 20, 2)
    run(b, f"ds_read_b64_tr_b{bits}", pair, V9, format="DS")
    got = b.read(pair, U64)
    for w in range(WAVES):
        for lane in range(64):
            column = tiles[w, lane // 16, :, lane % 16].tolist()
            assert int(got[w, lane]) == sum(e << k * bits for k, e in enumerate(column))


DPP = {
    0x1B: lambda lane: (lane & ~3 | 3 - lane % 4, True),
    0x101: lambda lane: (lane + 1, lane % 16 < 15),
    0x10F: lambda lane: (lane + 15, lane % 16 == 0),
    0x111: lambda lane: (lane - 1, lane % 16 > 0),
    0x118: lambda lane: (lane - 8, lane % 16 >= 8),
    0x124: lambda lane: (lane & ~15 | (lane - 4) % 16, True),
    0x130: lambda lane: (lane + 1, lane < 63),
    0x134: lambda lane: ((lane + 1) % 64, True),
    0x138: lambda lane: (lane - 1, lane > 0),
    0x13C: lambda lane: ((lane - 1) % 64, True),
    0x140: lambda lane: (lane & ~15 | 15 - lane % 16, True),
    0x141: lambda lane: (lane & ~7 | 7 - lane % 8, True),
    0x142: lambda lane: (lane // 16 * 16 - 1, lane >= 16),
    0x143: lambda lane: (31, lane >= 32),
    0x155: lambda lane: (lane & ~15 | 5, True),
}


@pytest.mark.parametrize("bound", [0, 1])
@pytest.mark.parametrize("control", DPP)
def test_dpp(control: int, bound: int) -> None:
    b, x, mask = bench(7, 0.85)
    old = np.full((WAVES, 64), 77, np.uint32)
    b.write(V20, old, U32)
    mods = {"dpp_ctrl": control, "row_mask": 0xD, "bank_mask": 0xB}
    if bound:
        mods["bound_ctrl"] = 1
    run(b, "v_add_u32", V20, V8, V9, format="VOP2", **mods)
    y = b.read(V9, U32)
    got = b.read(V20, U32)
    for w in range(WAVES):
        for lane in range(64):
            source, exists = DPP[control](lane)
            readable = exists and mask[w, source]
            enabled = 0xD >> lane // 16 & 1 and 0xB >> lane % 16 // 4 & 1
            want = 77
            if mask[w, lane] and enabled and (readable or bound):
                want = (int(x[w, source] if readable else 0) + int(y[w, lane])) & 0xFFFFFFFF
            assert got[w, lane] == want, (lane, source)


def field(x: int, select: int) -> tuple[int, int]:
    if select == 6:
        return x, 32
    if select < 4:
        return x >> 8 * select & 0xFF, 8
    return x >> 16 * (select - 4) & 0xFFFF, 16


@pytest.mark.parametrize("select", range(7))
@pytest.mark.parametrize("extend", [False, True])
def test_sdwa_sources(select: int, extend: bool) -> None:
    b, x, _ = bench()
    operand = Operand("v", 8, 1, 0, False, False, extend)
    mods = {"dst_sel": 6, "dst_unused": 0, "src0_sel": select, "src1_sel": 6}
    run(b, "v_add_u32", V20, operand, V9, format="VOP2", **mods)
    y = b.read(V9, U32)
    for lane in range(64):
        value, bits = field(int(x[0, lane]), select)
        if extend and value >> bits - 1:
            value -= 1 << bits
        assert b.read(V20, U32)[0, lane] == (value + int(y[0, lane])) & 0xFFFFFFFF


@pytest.mark.parametrize("select", range(7))
@pytest.mark.parametrize("unused", range(3))
def test_sdwa_destination(select: int, unused: int) -> None:
    b, x, _ = bench()
    old = 0xA5C3F00F
    b.write(V20, np.full((WAVES, 64), old), U32)
    mods = {"dst_sel": select, "dst_unused": unused, "src0_sel": 6, "src1_sel": 6}
    run(b, "v_or_b32", V20, V8, Operand("i", 0, 1, 0), format="VOP2", **mods)
    for lane in range(64):
        value = int(x[0, lane])
        size, shift = (
            ((8, 8 * select) if select < 4 else (16, 16 * (select - 4))) if select < 6 else (32, 0)
        )
        low = value & (1 << size) - 1
        want = low << shift
        if unused == 1 and low >> size - 1:
            want |= -1 << (shift + size)
        if unused == 2:
            want |= old & ~(((1 << size) - 1) << shift)
        assert b.read(V20, U32)[0, lane] == want & 0xFFFFFFFF


def test_sdwa_half_operands_and_signs() -> None:
    b, _, _ = bench()
    halves = np.linspace(-4, 4, 128).astype(np.float16).view(np.uint32)
    b.write(V8, np.tile(halves, (WAVES, 1)), U32)
    operand = Operand("v", 8, 1, 0, True, True)
    run(b, "v_cvt_f32_f16", V20, operand, src0_sel=5, dst_sel=6, dst_unused=0)
    want = -np.abs(halves.view(np.float16)[1::2].astype(np.float32))
    assert np.array_equal(b.read(V20, F32)[0], want)


@pytest.mark.parametrize("select", range(8))
def test_op_sel_of_half_operations(select: int) -> None:
    b, _, _ = bench()
    rng = np.random.default_rng(8)
    x, y = (rng.standard_normal((WAVES, 128)).astype(np.float16) for _ in range(2))
    b.write(V8, x.view(np.uint32), U32)
    b.write(V9, y.view(np.uint32), U32)
    b.write(V20, np.full((WAVES, 64), 0x11112222), U32)
    mods = {"op_sel": select & 3 | (select >> 2) << 3}
    run(b, "v_add_f16", V20, V8, V9, format="VOP3", **mods)
    total = (x[:, select & 1 :: 2] + y[:, select >> 1 & 1 :: 2]).view(np.uint16).astype(np.uint32)
    want = 0x2222 | total << 16 if select & 4 else total
    assert np.array_equal(b.read(V20, U32), want)


def test_three_operand_halves_keep_the_other_half() -> None:
    b, _, _ = bench()
    b.write(V20, np.full((WAVES, 64), 0x77770000), U32)
    run(
        b,
        "v_mad_u16",
        V20,
        Operand("i", 0, 1, 3),
        Operand("i", 0, 1, 5),
        Operand("i", 0, 1, 1),
        format="VOP3",
    )
    assert (b.read(V20, U32) == 0x77770010).all()


@pytest.mark.parametrize(("omod", "factor"), [(1, 2.0), (2, 4.0), (3, 0.5)])
def test_output_modifier_and_clamp(omod: int, factor: float) -> None:
    b, _, _ = bench()
    x = np.tile(np.linspace(-1, 1, 64, dtype=np.float32), (WAVES, 1))
    x[0, 0] = np.nan
    b.write(V8, x, F32)
    run(b, "v_add_f32", V20, V8, Operand("i", 0, 1, 0), format="VOP3", omod=omod)
    assert np.array_equal(b.read(V20, F32), x * np.float32(factor), equal_nan=True)
    run(b, "v_add_f32", V20, V8, Operand("i", 0, 1, 0), format="VOP3", omod=omod, clamp=1)
    want = np.clip(np.nan_to_num(x * np.float32(factor)), 0, 1)
    assert np.array_equal(b.read(V20, F32), want)


CLAMPED = {
    "v_add_u32": (U32, lambda a, b: a + b),
    "v_sub_u32": (U32, lambda a, b: a - b),
    "v_subrev_u32": (U32, lambda a, b: b - a),
    "v_add_i32": (I32, lambda a, b: a + b),
    "v_sub_i32": (I32, lambda a, b: a - b),
    "v_add_u16": (U16, lambda a, b: a + b),
    "v_sub_u16": (U16, lambda a, b: a - b),
}


@pytest.mark.parametrize("name", CLAMPED)
def test_integer_clamp_saturates(name: str) -> None:
    kind, function = CLAMPED[name]
    low = -(1 << kind.bits - 1) if kind.kind == "i" else 0
    high = low + (1 << kind.bits) - 1
    rng = np.random.default_rng(9)
    a, b = (rng.integers(low, high + 1, (WAVES, 64)) for _ in range(2))
    (got,) = InstructionBench("gfx942", WAVES).evaluate(name, a, b, mods={"clamp": 1})
    assert got.tolist() == np.clip(function(a, b), low, high).tolist()


@pytest.mark.opcodes("v_bitop3_{kind}")
@pytest.mark.parametrize("table", [0x00, 0x96, 0xCA, 0xE8, 0xFF, 0x01])
@pytest.mark.parametrize("kind", ["b32", "b16"])
def test_bitop3(table: int, kind: str) -> None:
    rng = np.random.default_rng(table)
    dtype = np.uint32 if kind == "b32" else np.uint16
    a, b, c = (
        rng.integers(0, 1 << (32 if kind == "b32" else 16), (WAVES, 64)).astype(dtype)
        for _ in range(3)
    )
    (got,) = InstructionBench("gfx950", WAVES).evaluate(
        f"v_bitop3_{kind}", a, b, c, mods={"bitop3": table}
    )
    want = np.zeros_like(a)
    for bit in range(32 if kind == "b32" else 16):
        row = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        want |= ((table >> row.astype(np.uint32)) & 1).astype(dtype) << dtype(bit)
    assert np.array_equal(got, want)


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        (F32, Operand("f", 0, 1, 0.5), 0.5),
        (F16, Operand("f", 0, 1, -4.0), -4.0),
        (F32, Operand("l", 0, 1, 0x40490FDB), 3.1415927410125732),
        (F32, Operand("i", 0, 1, 1), 1.401298464324817e-45),
    ],
)
def test_constants_take_the_operand_type(kind: Any, value: Operand, want: float) -> None:
    b, _, _ = bench()
    run(b, f"v_add_{kind.name}", V20, value, Operand("i", 0, 1, 0), format="VOP3")
    word = b.read(V20, U32)[0, 0]
    got = np.uint16(word & 0xFFFF).view(np.float16) if kind is F16 else word.view(np.float32)
    assert float(got) == want


# Control -----------------------------------------------------------------------------------------
@pytest.mark.opcodes("s_cbranch_{name}")
@pytest.mark.parametrize("name", ["scc0", "scc1", "vccz", "vccnz", "execz", "execnz"])
def test_branch_conditions(name: str) -> None:
    b, _, _ = bench()
    states = np.array([True, False])
    b.state.scc[:, 0] = states
    lanes = np.zeros((WAVES, 64), bool)
    lanes[0, 40] = True
    b.state.scalar[106, 0], b.state.scalar[107, 0] = 0, 1 << 8
    b.state.scalar[106, 1] = b.state.scalar[107, 1] = 0
    b.set_exec(lanes)
    taken = run(b, f"s_cbranch_{name}", format="SOPP", simm16=0)
    want = ~states if name in ("scc0", "vccz", "execz") else states
    assert np.broadcast_to(taken, (WAVES, 1))[:, 0].tolist() == want.tolist()


@pytest.mark.opcodes("s_getpc_b64 s_setpc_b64 s_swappc_b64 s_call_b64")
def test_program_counter_moves() -> None:
    b, _, _ = bench()
    pair = Operand("s", 30, 2)
    run(b, "s_getpc_b64", pair, format="SOP1")
    assert b.read(pair, U64).tolist() == [0x108] * WAVES
    b.write(Operand("s", 40, 2), np.array([0x500000001234, 0x2000]), U64)
    gone = run(b, "s_setpc_b64", Operand("s", 40, 2), format="SOP1")
    assert gone[:, 0].tolist() == [0x500000001234, 0x2000]
    assert run(b, "s_swappc_b64", pair, Operand("s", 40, 2), format="SOP1")[:, 0].tolist() == [
        0x500000001234,
        0x2000,
    ]
    assert b.read(pair, U64).tolist() == [0x108] * WAVES
    target = run(b, "s_call_b64", pair, Operand("i", 0, 1, 0xFFFE), format="SOPK")
    assert int(np.broadcast_to(target, (WAVES, 1))[0, 0]) == 0x108 - 8


@pytest.mark.opcodes("s_{name}_saveexec_b64")
@pytest.mark.parametrize("name", SAVE_EXEC)
def test_save_exec(name: str) -> None:
    rng = np.random.default_rng(3)
    before, source = (rng.integers(0, 2**63, WAVES, dtype=np.uint64) for _ in range(2))
    before[1] = source[1] if name == "xor" else before[1]
    check_exec(f"s_{name}_saveexec_b64", before, source, before, SAVE_EXEC[name](source, before))


@pytest.mark.opcodes("s_{name}_wrexec_b64")
@pytest.mark.parametrize("name", WRITE_EXEC)
def test_write_exec(name: str) -> None:
    rng = np.random.default_rng(3)
    before, source = (rng.integers(0, 2**63, WAVES, dtype=np.uint64) for _ in range(2))
    after = WRITE_EXEC[name](source, before)
    check_exec(f"s_{name}_wrexec_b64", before, source, after, after)


def check_exec(name: str, before: Array, source: Array, result: Array, after: Array) -> None:
    b, _, _ = bench()
    b.set_exec((before[:, None] >> LANE.astype(np.uint64) & np.uint64(1)).astype(bool))
    got, exec_bits, scc = b.evaluate(name, source)
    assert got.tolist() == result.tolist()
    assert exec_bits.tolist() == after.tolist()
    assert scc.tolist() == (after != 0).tolist()


@pytest.mark.parametrize("name", [*NO_EFFECT, "v_nop", "ds_nop"])
def test_no_effect(name: str) -> None:
    b, _, _ = bench()
    before = b.state.vector.copy(), b.state.scalar.copy()
    run(b, name, format="SOPP", simm16=0)
    assert np.array_equal(b.state.vector, before[0])
    assert np.array_equal(b.state.scalar, before[1])
