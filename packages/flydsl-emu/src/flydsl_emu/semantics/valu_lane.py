"""Moves between lanes and between vector and scalar registers; DPP is in `modifiers`."""

from __future__ import annotations

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.registry import opcode
from flydsl_emu.semantics.value_types import U32

__all__: list[str] = []


@opcode("v_readfirstlane_b32", "u32 = exec u32")
def _read_first(v: VectorApi, active: Value, x: Value) -> Value:
    return v.read_lane(x, v.first_lane(active))


@opcode("v_readlane_b32", "u32 = u32 u32")
def _read(v: VectorApi, x: Value, lane: Value) -> Value:
    return v.read_lane(x, lane)


@opcode("v_writelane_b32", "always.u32 = old u32 u32")
def _write(v: VectorApi, old: Value, element: Value, lane: Value) -> Value:
    return v.write_lane(old, element, lane)


@opcode("v_mbcnt_lo_u32_b32", "u32 = u32 u32")
def _count_below_low(v: VectorApi, mask: Value, base: Value) -> Value:
    lane = v.lane_id()
    below = v.sub(v.shl(v.const(U32, 1), lane), 1)
    below = v.select(v.lt(lane, 32), below, v.const(U32, 0xFFFFFFFF))
    return v.add(v.popcount(v.bit_and(mask, below)), base)


@opcode("v_mbcnt_hi_u32_b32", "u32 = u32 u32")
def _count_below_high(v: VectorApi, mask: Value, base: Value) -> Value:
    lane = v.lane_id()
    below = v.sub(v.shl(v.const(U32, 1), lane), 1)
    below = v.select(v.lt(lane, 32), v.const(U32, 0), below)
    return v.add(v.popcount(v.bit_and(mask, below)), base)


def _exchange(
    v: VectorApi, i: Instruction, active: Value, first: Value, second: Value, rows: int
) -> tuple[Value, Value]:
    """Swap the odd groups of `rows` lanes of one register with the even ones of the other."""
    partner = tuple(lane ^ rows for lane in range(v.lane_count))
    upper = v.ne(v.bit_and(v.lane_id(), rows), 0)
    from_second = v.shuffle(second, partner)
    from_first = v.shuffle(first, partner)
    # A lane whose partner does not execute reads its own value unless `fi` fetches anyway.
    reachable = v.shuffle(active, partner)
    if i.mod("fi"):
        new_first = v.select(upper, from_second, first)
        new_second = v.select(upper, second, from_first)
        return new_first, new_second
    missing = v.const(U32, 0)
    zero = bool(i.mod("bound_ctrl"))
    lost_second = missing if zero else first
    lost_first = missing if zero else second
    new_first = v.select(upper, v.select(reachable, from_second, lost_second), first)
    new_second = v.select(upper, second, v.select(reachable, from_first, lost_first))
    return new_first, new_second


@opcode("v_permlane32_swap_b32", "u32 both.u32 = inst exec old u32")
def _swap32(
    v: VectorApi, i: Instruction, active: Value, first: Value, second: Value
) -> tuple[Value, Value]:
    return _exchange(v, i, active, first, second, 32)


@opcode("v_permlane16_swap_b32", "u32 both.u32 = inst exec old u32")
def _swap16(
    v: VectorApi, i: Instruction, active: Value, first: Value, second: Value
) -> tuple[Value, Value]:
    return _exchange(v, i, active, first, second, 16)


@opcode("v_swap_b32", "u32 both.u32 = old u32")
def _swap(_v: VectorApi, first: Value, second: Value) -> tuple[Value, Value]:
    return second, first
