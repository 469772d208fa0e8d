"""Waves of 32 lanes: masks, halves of registers, DPP, dual instructions, row permutations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import EXEC, NULL, VCC, Instruction, Operand
from flydsl_emu.semantics.value_types import F16, F32, U16, U32, U64
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
LANE = np.arange(32)
V8, V9, V20 = Operand("v", 8), Operand("v", 9), Operand("v", 20)
S30, EXEC32, VCC32 = Operand("s", 30), Operand("s", EXEC), Operand("s", VCC)


def bench(seed: int = 1, active: float = 1.0, arch: str = "gfx1100", lanes: int = 32) -> Any:
    """A bench with random v8, v9 and EXEC; returns it, v8, v9 and EXEC."""
    rng = np.random.default_rng(seed)
    b = InstructionBench(arch, WAVES, lanes=lanes)
    x, y = (rng.integers(0, 2**32, (WAVES, lanes), dtype=np.uint32) for _ in range(2))
    mask = rng.random((WAVES, lanes)) < active
    b.write(V8, x, U32)
    b.write(V9, y, U32)
    b.set_exec(mask)
    return b, x, y, mask


def run(
    b: InstructionBench, name: str, *operands: Operand, format: str = "VOP3", **mods: int
) -> Any:
    encoding = "dpp" if "dpp_ctrl" in mods or "dpp8" in mods else ""
    return b.execute(Instruction(0x100, 8, format, name, encoding, operands, mods))


def bits(mask: Array) -> list[int]:
    return [sum(1 << k for k, x in enumerate(row) if x) for row in mask]


# Masks -------------------------------------------------------------------------------------------
def test_a_comparison_writes_one_register() -> None:
    b, x, y, mask = bench(2, 0.7)
    b.state.scalar[31] = 0xAAAAAAAA
    run(b, "v_cmp_lt_u32", S30, V8, V9)
    assert b.read(S30, U32).tolist() == bits((x < y) & mask)
    assert (b.state.scalar[31] == 0xAAAAAAAA).all()
    run(b, "v_cndmask_b32", V20, Operand("i", 0, 1, 1), Operand("i", 0, 1, 2), S30)
    assert np.array_equal(b.read(V20, U32)[mask], np.where(x < y, 2, 1)[mask])


def test_cmpx_without_a_destination_writes_exec_only() -> None:
    b, x, y, mask = bench(3, 0.7)
    b.state.scalar[VCC] = 0x1234
    run(b, "v_cmpx_gt_u32", V8, V9, format="VOPC")
    assert b.read(EXEC32, U32).tolist() == bits((x > y) & mask)
    assert np.array_equal(b.state.exec, (x > y) & mask)
    assert (b.state.scalar[VCC] == 0x1234).all()
    assert (b.state.scalar[EXEC + 1] == 0).all()


def test_null_reads_zero_and_drops_writes() -> None:
    b, x, _, _ = bench()
    null, wide = Operand("s", NULL), Operand("s", NULL, 2)
    b.state.scalar[NULL + 1] = 99
    run(b, "s_add_u32", null, Operand("i", 0, 1, 5), Operand("i", 0, 1, 6), format="SOP2")
    assert (b.state.scalar[NULL] == 0).all()
    assert b.state.scc.tolist() == [[False]] * WAVES
    run(b, "v_add_co_u32", V20, null, V8, V9)
    assert (b.state.scalar[NULL] == 0).all()
    run(b, "s_mov_b64", Operand("s", 40, 2), wide, format="SOP1")
    assert b.read(Operand("s", 40, 2), U64).tolist() == [0] * WAVES
    run(b, "v_mov_b32", V20, null, format="VOP1")
    assert not b.read(V20, U32).any()
    del x


SAVE = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "and_not0": lambda s, e: ~s & e,
    "and_not1": lambda s, e: s & ~e,
    "or_not0": lambda s, e: ~s | e,
    "or_not1": lambda s, e: s | ~e,
}


@pytest.mark.opcodes("s_{logic}_saveexec_b32")
@pytest.mark.parametrize("logic", SAVE)
def test_save_exec_of_32_lanes(logic: str) -> None:
    b, _, _, mask = bench(4, 0.5)
    source = np.array([0x12345678, bits(mask)[1]], np.uint32)
    before = np.array(bits(mask), np.uint32)
    saved, after, scc = b.evaluate(f"s_{logic}_saveexec_b32", source)
    want = SAVE[logic](source, before)
    assert saved.tolist() == before.tolist()
    assert after.tolist() == want.tolist()
    assert scc.tolist() == (want != 0).tolist()


@pytest.mark.opcodes("s_{logic}_saveexec_b64 s_{logic}_wrexec_b64 s_{logic}_wrexec_b32")
@pytest.mark.parametrize("logic", ["and_not0", "and_not1"])
def test_write_exec(logic: str) -> None:
    rng = np.random.default_rng(5)
    for lanes, dtype in ((32, np.uint32), (64, np.uint64)):
        for verb in ("wrexec", "saveexec")[: 1 + (lanes == 64)]:
            b, _, _, mask = bench(6, 0.5, lanes=lanes)
            before = np.array(bits(mask), dtype)
            source = rng.integers(0, 2**lanes, WAVES, dtype=dtype)
            result, after, scc = b.evaluate(f"s_{logic}_{verb}_b{lanes}", source)
            want = SAVE[logic](source, before)
            assert result.tolist() == (want if verb == "wrexec" else before).tolist()
            assert after.tolist() == want.tolist()
            assert scc.tolist() == (want != 0).tolist()


@pytest.mark.parametrize("name", ["s_or_not0_saveexec_b64", "s_or_not1_saveexec_b64"])
def test_save_exec_of_64_lanes(name: str) -> None:
    b, _, _, mask = bench(7, 0.5, lanes=64)
    source = np.array([3 << 40, 2**64 - 1], np.uint64)
    saved, after, _ = b.evaluate(name, source)
    before = np.array(bits(mask), np.uint64)
    assert saved.tolist() == before.tolist()
    assert after.tolist() == SAVE[name[2:9]](source, before).tolist()


# Halves of registers -----------------------------------------------------------------------------
@pytest.mark.parametrize("select", range(8))
def test_half_operands(select: int) -> None:
    b, _, _, mask = bench(8, 0.8)
    rng = np.random.default_rng(select)
    x, y = (rng.standard_normal((WAVES, 64)).astype(np.float16) for _ in range(2))
    b.write(V8, x.view(np.uint32), U32)
    b.write(V9, y.view(np.uint32), U32)
    old = rng.integers(0, 2**32, (WAVES, 32), dtype=np.uint32)
    b.write(V20, old, U32)
    first, second, high = select & 1, select >> 1 & 1, select >> 2
    operands = [
        Operand("v", index, half=1 + half) for index, half in ((20, high), (8, first), (9, second))
    ]
    run(b, "v_add_f16", *operands, op_sel=7)
    total = (x[:, first::2] + y[:, second::2]).view(np.uint16).astype(np.uint32)
    want = old & 0xFFFF | total << 16 if high else old & 0xFFFF0000 | total
    assert np.array_equal(b.read(V20, U32), np.where(mask, want, old))


def test_accumulating_half() -> None:
    b, _, _, _ = bench()
    b.write(V20, np.full((WAVES, 32), 0x3C00 << 16 | 0x1234), U32)
    b.write(V8, np.full((WAVES, 32), 0x4000), U32)  # 2.0
    run(b, "v_fmac_f16", Operand("v", 20, half=2), V8, Operand("v", 8, half=1), format="VOP2")
    assert (b.read(V20, U32) == (0x4500 << 16 | 0x1234)).all()  # 1 + 2 * 2 = 5


@pytest.mark.opcodes("v_swap_b16")
def test_swapped_halves() -> None:
    b, x, y, mask = bench(9, 0.6)
    run(b, "v_swap_b16", Operand("v", 8, half=2), Operand("v", 9, half=1), format="VOP1")
    want_x = np.where(mask, x & 0xFFFF | y << np.uint32(16), x)
    want_y = np.where(mask, y & 0xFFFF0000 | x >> np.uint32(16), y)
    assert np.array_equal(b.read(V8, U32), want_x)
    assert np.array_equal(b.read(V9, U32), want_y)


# DPP ---------------------------------------------------------------------------------------------
def test_dpp8_reads_any_lane_of_eight() -> None:
    order = (7, 0, 3, 3, 1, 6, 5, 2)
    selects = sum(lane << 3 * k for k, lane in enumerate(order))
    source = LANE & ~7 | np.array(order)[LANE & 7]
    for fetch in (0, 1):
        b, x, y, mask = bench(10, 0.7)
        old = b.read(V20, U32).copy()
        mods = {"dpp8": selects, **({"fi": 1} if fetch else {})}
        run(b, "v_add_nc_u32", V20, V8, V9, format="VOP2", **mods)
        moved = np.where(mask[:, source] | bool(fetch), x[:, source], 0)
        assert np.array_equal(b.read(V20, U32), np.where(mask, moved + y, old))


@pytest.mark.parametrize("control", [0x161, 0x168, 0x16F, 0x153, 0x111, 0x140])
@pytest.mark.parametrize("mods", [{}, {"fi": 1}, {"bound_ctrl": 1}, {"bound_ctrl": 1, "fi": 1}])
def test_dpp16(control: int, mods: dict[str, int]) -> None:
    b, x, _, mask = bench(11, 0.7)
    b.write(V20, np.full((WAVES, 32), 77), U32)
    row, at = LANE & 16, LANE & 15
    source, exists = {
        0x16: (row | at ^ control & 15, at >= 0),
        0x15: (row | control & 15, at >= 0),
        0x11: (LANE - 1, at > 0),
        0x14: (row | 15 - at, at >= 0),
    }[control >> 4]
    source = np.where(exists, source, LANE)
    run(
        b, "v_mov_b32", V20, V8, format="VOP1",
        dpp_ctrl=control, row_mask=1, bank_mask=0xD, **mods,
    )  # fmt: skip
    readable = exists & (mask[:, source] | bool(mods.get("fi")))
    enabled = (row == 0) & (0xD >> at // 4 & 1 == 1)
    kept = readable | bool(mods.get("bound_ctrl"))
    want = np.where(mask & enabled & kept, np.where(readable, x[:, source], 0), 77)
    assert np.array_equal(b.read(V20, U32), want)


def test_dpp_of_halves_and_masks() -> None:
    b, x, y, mask = bench(12, 0.8)
    old = b.read(V20, U32).copy()
    mods = {"dpp_ctrl": 0x111, "row_mask": 15, "bank_mask": 15}
    run(b, "v_add_nc_u16", Operand("v", 20, half=2), Operand("v", 8, half=1), V9, **mods)
    source = np.maximum(LANE - 1, 0)
    reads = (LANE % 16 > 0) & mask[:, source]
    total = (x[:, source] + y) & 0xFFFF
    want = np.where(mask & reads, old & 0xFFFF | total << np.uint32(16), old)
    assert np.array_equal(b.read(V20, U32), want)
    run(b, "v_cmp_eq_u32", S30, V8, V8, **mods)
    equal = (x[:, source] == x) & reads & mask
    assert b.read(S30, U32).tolist() == bits(equal)
    run(b, "v_cmp_ne_u32", S30, V8, V8, **mods, bound_ctrl=1)
    moved = np.where(reads, x[:, source], 0)
    assert b.read(S30, U32).tolist() == bits((moved != x) & mask)


def test_dpp_of_register_lists_and_pairs() -> None:
    b, x, _, _ = bench(13)
    b.write(V8, x.view(np.float32) * 0 + LANE.astype(np.float32), F32)
    mods = {"dpp_ctrl": 0x1B, "row_mask": 15, "bank_mask": 15, "bound_ctrl": 1}
    one, zero = Operand("f", 0, 1, 1.0), Operand("i", 0, 1, 0)
    run(b, "v_fma_mix_f32", V20, V8, one, zero, format="VOP3P", **mods)
    assert np.array_equal(b.read(V20, F32)[0], (LANE & ~3 | 3 - LANE % 4).astype(np.float32))
    pair = Operand("v", 40, 2)
    b.write(pair, np.full((WAVES, 32), 2**40 + 5), U64)
    mods["row_mask"] = 1
    del mods["bound_ctrl"]
    run(b, "v_lshlrev_b64", pair, Operand("i", 0, 1, 0), pair, **mods)
    assert (b.read(pair, U64) == 2**40 + 5).all()


# Dual instructions --------------------------------------------------------------------------------
def part(name: str, *operands: Operand) -> Instruction:
    return Instruction(0x100, 0, "VOP2", name, "e32", operands, {})


def test_dual_parts_read_before_either_writes() -> None:
    b, x, y, mask = bench(14, 0.7)
    parts = (part("v_mov_b32", V8, V9), part("v_mov_b32", V9, V8))
    b.execute(Instruction(0x100, 8, "VOPD", "v_dual_mov_b32", "", (), {}, None, parts))
    assert np.array_equal(b.read(V8, U32), np.where(mask, y, x))
    assert np.array_equal(b.read(V9, U32), np.where(mask, x, y))


def test_dual_arithmetic() -> None:
    b, x, y, mask = bench(15, 0.7)
    b.state.scalar[VCC] = 0x0F0F5555
    chosen = (0x0F0F5555 >> LANE & 1).astype(bool)
    b.write(V20, np.full((WAVES, 32), 3.0), F32)
    values = np.linspace(-4, 4, 32, dtype=np.float32)[None, :].repeat(WAVES, 0)
    b.write(Operand("v", 10), values, F32)
    parts = (
        part("v_fmac_f32", V20, Operand("v", 10), Operand("f", 0, 1, 2.0)),
        part("v_cndmask_b32", Operand("v", 21), V8, V9, VCC32),
    )
    b.execute(Instruction(0x100, 8, "VOPD", "v_dual_fmac_f32", "", (), {}, None, parts))
    assert np.array_equal(b.read(V20, F32), np.where(mask, values * 2 + 3, np.float32(3)))
    assert np.array_equal(b.read(Operand("v", 21), U32)[mask], np.where(chosen, y, x)[mask])


# Row permutations ---------------------------------------------------------------------------------
@pytest.mark.opcodes("v_permlane{letter}16_b32 v_permlane{letter}16_var_b32")
@pytest.mark.parametrize("mods", [{}, {"op_sel": 1}, {"op_sel": 2}, {"op_sel": 3}])
@pytest.mark.parametrize("letter", ["", "x"])
def test_row_permutations(letter: str, mods: dict[str, int]) -> None:
    flip = 16 if letter else 0
    b, x, _, mask = bench(16, 0.7)
    rng = np.random.default_rng(16)
    order = rng.integers(0, 16, 16)
    table = sum(int(lane) << 4 * k for k, lane in enumerate(order))
    low, high = Operand("s", 40), Operand("s", 41)
    b.write(low, np.full(WAVES, table & 0xFFFFFFFF), U32)
    b.write(high, np.full(WAVES, table >> 32), U32)
    b.write(V9, (order[LANE % 16] | 0xABC0)[None, :].repeat(WAVES, 0), U32)
    old = rng.integers(0, 2**32, (WAVES, 32), dtype=np.uint32)
    source = (LANE & 16) ^ flip | order[LANE % 16]
    select = mods.get("op_sel", 0)
    readable = mask[:, source] | bool(select & 1)
    lost = np.zeros_like(old) if select & 2 else old
    want = np.where(mask, np.where(readable, x[:, source], lost), old)
    b.write(V20, old, U32)
    run(b, f"v_permlane{letter}16_b32", V20, V8, low, high, **mods)
    assert np.array_equal(b.read(V20, U32), want)
    b.write(V20, old, U32)
    run(b, f"v_permlane{letter}16_var_b32", V20, V8, V9, **mods)
    assert np.array_equal(b.read(V20, U32), want)


@pytest.mark.opcodes("v_permlane64_b32")
def test_halves_of_a_wave() -> None:
    b, x, _, mask = bench(17, 0.5, lanes=64)
    run(b, "v_permlane64_b32", V20, V8, format="VOP1")
    assert np.array_equal(b.read(V20, U32)[mask], x[:, np.arange(64) ^ 32][mask])
    b, _, _, _ = bench(17)
    b.write(V20, np.full((WAVES, 32), 9), U32)
    run(b, "v_permlane64_b32", V20, V8, format="VOP1")
    assert (b.read(V20, U32) == 9).all()


@pytest.mark.opcodes("ds_bpermute_fi_b32 ds_bpermute_b32 ds_permute_b32 ds_swizzle_b32")
def test_permutations_through_lds_wrap_at_32_lanes() -> None:
    b, x, _, mask = bench(18, 0.6, "gfx1201")
    target = np.random.default_rng(18).permutation(32)
    b.write(V9, np.tile(target * 4 + 128, (WAVES, 1)), U32)
    run(b, "ds_bpermute_fi_b32", V20, V9, V8, format="DS")
    assert np.array_equal(b.read(V20, U32)[mask], x[:, target][mask])
    run(b, "ds_bpermute_b32", V20, V9, V8, format="DS")
    assert np.array_equal(b.read(V20, U32)[mask], np.where(mask, x, 0)[:, target][mask])
    run(b, "ds_permute_b32", V20, V9, V8, format="DS")
    pushed = np.zeros_like(x)
    for w in range(WAVES):
        pushed[w, target[mask[w]]] = x[w, mask[w]]
    assert np.array_equal(b.read(V20, U32)[mask], pushed[mask])
    run(b, "ds_swizzle_b32", V20, V8, format="DS", offset=0x7C1F)
    assert np.array_equal(b.read(V20, U32)[mask], np.where(mask, x, 0)[:, 31 - LANE][mask])


def test_lane_numbers_wrap_at_32() -> None:
    b, x, _, _ = bench(19)
    run(b, "v_readlane_b32", S30, V8, Operand("i", 0, 1, 33))
    assert b.read(S30, U32).tolist() == x[:, 1].tolist()
    run(b, "v_mbcnt_lo_u32_b32", V20, Operand("i", 0, 1, -1), Operand("i", 0, 1, 2))
    assert np.array_equal(b.read(V20, U32)[0], LANE + 2)
    run(b, "v_mbcnt_hi_u32_b32", V20, Operand("i", 0, 1, -1), Operand("i", 0, 1, 2))
    assert (b.read(V20, U32) == 2).all()


# Modes and waits ----------------------------------------------------------------------------------
NO_EFFECT = (
    "s_clause s_delay_alu s_set_inst_prefetch_distance s_version s_wait_event s_waitcnt_depctr "
    "s_waitcnt_expcnt s_waitcnt_lgkmcnt s_waitcnt_vmcnt s_waitcnt_vscnt s_sleep_var s_wait_alu "
    "s_wait_bvhcnt s_wait_dscnt s_wait_expcnt s_wait_kmcnt s_wait_loadcnt s_wait_loadcnt_dscnt "
    "s_wait_samplecnt s_wait_storecnt s_wait_storecnt_dscnt s_wait_idle s_prefetch_data "
    "s_prefetch_data_pc_rel s_prefetch_inst s_prefetch_inst_pc_rel s_buffer_prefetch_data "
    "buffer_gl0_inv buffer_gl1_inv global_inv global_wb global_wbinv s_wait_xcnt s_wait_tensorcnt "
    "s_wait_asynccnt s_monitor_sleep s_setprio_inc_wg global_prefetch_b8 flat_prefetch_b8 "
    "s_set_vgpr_msb"
).split()


@pytest.mark.parametrize("name", NO_EFFECT)
def test_no_effect(name: str) -> None:
    b, _, _, _ = bench(20, 0.5)
    before = b.state.vector.copy(), b.state.scalar.copy(), b.state.scc.copy()
    run(b, name, format="SOPP", simm16=0x23)
    after = b.state.vector, b.state.scalar, b.state.scc
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("name", "field", "want"), [("s_denorm_mode", 12, 0x3C0), ("s_round_mode", 9, 0x3F9)]
)
def test_fields_of_the_mode_register(name: str, field: int, want: int) -> None:
    b, _, _, _ = bench()
    b.state.modes[...] = 0x3F0
    run(b, name, format="SOPP", simm16=field)
    assert b.state.modes.reshape(-1).tolist() == [want] * WAVES


def test_scalar_halves_clear_the_upper_half() -> None:
    b, _, _, _ = bench()
    b.write(S30, np.full(WAVES, 0x12344000), U32)
    run(b, "s_add_f16", S30, S30, Operand("f", 0, 1, 1.0), format="SOP2")
    assert b.read(S30, U32).tolist() == [0x4200] * WAVES
    assert b.read(S30, F16).tolist() == [3.0] * WAVES
    assert b.read(S30, U16).tolist() == [0x4200] * WAVES
