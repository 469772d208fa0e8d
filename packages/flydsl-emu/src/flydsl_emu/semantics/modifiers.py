"""Operand and result modifiers, written over the vector API for every tier."""

from __future__ import annotations

from functools import cache

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import sign_extend
from flydsl_emu.semantics.value_types import F16, F32, F64, U32, U64, Type

__all__ = [
    "clamp",
    "dpp8_lanes",
    "dpp_fills_zero",
    "dpp_lanes",
    "dpp_source",
    "dpp_write_lanes",
    "has_dpp",
    "output_scale",
    "sdwa_result",
    "sdwa_source",
    "sign_modified",
]

_SELECT_SIZE = (8, 8, 8, 8, 16, 16, 32)
_SELECT_SHIFT = (0, 8, 16, 24, 0, 16, 0)


def sign_modified(v: VectorApi, x: Value, type: Type, absolute: bool, negate: bool) -> Value:
    """Apply ``|x|`` and ``-x``; on an integer type they act on the sign bit of its float view."""
    if not absolute and not negate:
        return x
    floats = {16: F16, 32: F32, 64: F64}
    y = v.cast(x, floats[type.bits]) if type.kind != "f" else x
    if absolute:
        y = v.abs(y)
    if negate:
        y = v.neg(y)
    return v.cast(y, type) if type.kind != "f" else y


def clamp(v: VectorApi, x: Value, type: Type, nan_to_zero: bool = True) -> Value:
    """Clamp a float result to [0, 1]; NaN gives 0, or stays (MODE.DX10_CLAMP off)."""
    zero, one = v.const(type, 0.0), v.const(type, 1.0)
    bounded = v.min(v.max(x, zero), one)
    return v.select(v.is_nan(x), zero if nan_to_zero else x, bounded)


def output_scale(v: VectorApi, x: Value, omod: int) -> Value:
    """Multiply a float result by 2, 4 or one half."""
    return v.mul(x, (1.0, 2.0, 4.0, 0.5)[omod])


# DPP ---------------------------------------------------------------------------------------------
def has_dpp(i: Instruction) -> bool:
    """Return whether the first source of an instruction comes from other lanes."""
    return "dpp_ctrl" in i.mods or "dpp8" in i.mods


@cache
def dpp_lanes(control: int, lanes: int = 64) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Return the source lane of every lane for a DPP control, and whether it exists.

    Raises:
        ValueError: A reserved control.
    """
    sources, valid = [], []
    for lane in range(lanes):
        source, exists = _dpp_source_lane(control, lane, lanes)
        sources.append(source if exists else lane)
        valid.append(exists)
    return tuple(sources), tuple(valid)


def _dpp_source_lane(control: int, lane: int, lanes: int) -> tuple[int, bool]:
    row, at = lane & ~15, lane & 15
    kind, amount = control >> 4, control & 15
    if control < 0x100:
        return lane & ~3 | (control >> 2 * (lane & 3) & 3), True
    if kind == 0x10 and amount:
        return lane + amount, at + amount < 16
    if kind == 0x11 and amount:
        return lane - amount, at >= amount
    if kind == 0x12 and amount:
        return row | (at - amount) & 15, True
    if kind == 0x15:
        return row | amount, True
    if kind == 0x16:
        return row | at ^ amount, True
    whole = {
        0x130: (lane + 1, lane < lanes - 1),
        0x134: ((lane + 1) % lanes, True),
        0x138: (lane - 1, lane > 0),
        0x13C: ((lane - 1) % lanes, True),
        0x140: (row | 15 - at, True),
        0x141: (lane & ~7 | 7 - (lane & 7), True),
        0x142: (row - 1, row > 0),
        0x143: (31, lane >= 32),
    }
    if control not in whole:
        raise ValueError(f"reserved DPP control {control:#x}")
    return whole[control]


@cache
def dpp8_lanes(selects: int, lanes: int) -> tuple[int, ...]:
    """Return the source lane of every lane for DPP8: three bits for each lane of a group of 8."""
    return tuple(lane & ~7 | selects >> 3 * (lane & 7) & 7 for lane in range(lanes))


def dpp_fills_zero(i: Instruction) -> bool:
    """Return whether a lane whose source does not exist or execute reads 0 (else: keeps its own).

    DPP8 has no bound control; it always reads 0.
    """
    return bool(i.mod("bound_ctrl")) or "dpp8" in i.mods


def dpp_write_lanes(i: Instruction, lanes: int = 64) -> tuple[bool, ...]:
    """Return the lanes that row and bank masks let a DPP instruction write."""
    rows, banks = i.mod("row_mask", 15), i.mod("bank_mask", 15)
    return tuple(
        bool(rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1) for lane in range(lanes)
    )


def dpp_source(v: VectorApi, i: Instruction, x: Value, active: Value) -> tuple[Value, Value]:
    """Return the moved source and the lanes that read a lane that exists and executes.

    With ``fi`` (fetch inactive) lanes that do not execute are read as well.
    """
    if "dpp8" in i.mods:
        lanes = dpp8_lanes(i.mods["dpp8"], v.lane_count)
        exists = (True,) * v.lane_count
    else:
        lanes, exists = dpp_lanes(i.mod("dpp_ctrl"), v.lane_count)
    reads = v.lanes(v.const(U64, _bits(exists)))
    if not i.mod("fi"):
        reads = v.bit_and(v.shuffle(active, lanes), reads)
    return v.shuffle(x, lanes), reads


def _bits(flags: tuple[bool, ...]) -> int:
    return sum(1 << k for k, flag in enumerate(flags) if flag)


# SDWA --------------------------------------------------------------------------------------------
def sdwa_source(v: VectorApi, x: Value, select: int, extend: bool) -> Value:
    """Return the selected byte, word or dword of a ``U32``, zero- or sign-extended."""
    size, shift = _SELECT_SIZE[select], _SELECT_SHIFT[select]
    if size == 32:
        return x
    moved = v.shr(x, shift) if shift else x
    if extend:
        return v.cast(sign_extend(v, moved, size), U32)
    return v.bit_and(moved, (1 << size) - 1)


def sdwa_result(v: VectorApi, i: Instruction, result: Value, old: Value) -> Value:
    """Place a ``U32`` result into the selected part of the destination."""
    select = i.mod("dst_sel", 6)
    size, shift = _SELECT_SIZE[select], _SELECT_SHIFT[select]
    if size == 32:
        return result
    field = ((1 << size) - 1) << shift
    placed = v.bit_and(v.shl(result, shift), field)
    unused = i.mod("dst_unused")
    if unused == 2:
        return v.bit_or(placed, v.bit_and(old, ~field & 0xFFFFFFFF))
    if unused == 1:
        extended = v.cast(sign_extend(v, result, size), U32)
        above = v.shl(extended, shift)
        return v.bit_and(above, 0xFFFFFFFF ^ ((1 << shift) - 1))
    return placed
