"""LDS operations beyond loads, stores and plain atomics."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import join64, split64
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import U32, U64

__all__: list[str] = []


# Exchanges
def _exchange_two(dwords: int, stride: int) -> Callable[..., object]:
    def call(
        v: VectorApi, i: Instruction, address: Value, first: list[Value], second: list[Value]
    ) -> object:
        out: list[Value] = []
        for name, data in (("offset0", first), ("offset1", second)):
            where = v.add(address, i.mod(name) * stride)
            element = data[0] if dwords == 1 else join64(v, data[0], data[1])
            old = v.atomic("lds", "swap", where, [element], None)
            out += [old] if dwords == 1 else split64(v, old)
        return out

    return call


for _bits, _dwords in (("b32", 1), ("b64", 2)):
    for _tag, _scale in (("2", 1), ("2st64", 64)):
        define(
            f"ds_wrxchg{_tag}_rtn_{_bits}",
            "regs = inst u32 regs regs",
            _exchange_two(_dwords, 4 * _dwords * _scale),
        )


@opcode("ds_condxchg32_rtn_b64", "regs = inst u32 regs")
def _conditional_exchange(
    v: VectorApi, i: Instruction, address: Value, data: list[Value]
) -> list[Value]:
    """Write each dword whose top bit is set, without that bit; return what was there."""
    where = v.add(address, i.mod("offset"))
    element = join64(v, data[0], data[1])
    return list(split64(v, v.atomic("lds", "condxchg", where, [element], None)))


# Counters
def _count(operation: str) -> Callable[..., Value]:
    """Add or subtract the number of executing lanes at an address that M0 gives."""

    def call(v: VectorApi, i: Instruction, active: Value, m0: Value) -> Value:
        lane = v.lane_id()
        first = v.first_lane(active)
        where = v.add(v.bit_and(lane, 0), v.add(v.bit_and(m0, 0xFFFF), i.mod("offset")))
        lanes = v.convert(v.popcount(v.ballot(active)), U32)
        data = v.add(v.bit_and(lane, 0), lanes)
        old = v.atomic("lds", operation, where, [data], v.eq(lane, first))
        return v.add(v.bit_and(lane, 0), v.read_lane(old, first))

    return call


define("ds_append", "u32 = inst exec m0", _count("add"))
define("ds_consume", "u32 = inst exec m0", _count("sub"))


# Addresses from the lane number
def _own_slot(v: VectorApi, i: Instruction, m0: Value) -> Value:
    slot = v.shl(v.lane_id(), 2)
    return v.add(v.add(slot, v.bit_and(m0, 0xFFFF)), i.mod("offset"))


@opcode("ds_read_addtid_b32", "regs = inst m0")
def _read_own(v: VectorApi, i: Instruction, m0: Value) -> list[Value]:
    return v.load("lds", _own_slot(v, i, m0), 4, 1)


@opcode("ds_write_addtid_b32", "= inst m0 regs")
def _write_own(v: VectorApi, i: Instruction, m0: Value, data: list[Value]) -> object:
    v.store("lds", _own_slot(v, i, m0), 4, data)
    return ()


# Transposing read of 6-bit elements (gfx950)
@opcode("ds_read_b96_tr_b6", "regs = inst u32")
def _transposed_sixes(v: VectorApi, i: Instruction, address: Value) -> list[Value]:
    """Transpose the 16 x 16 tile of 6-bit elements that 16 lanes read, 96 bits each."""
    words = v.load("lds", v.add(address, i.mod("offset")), 4, 3)
    field = v.bit_and(v.lane_id(), 15)
    late = v.le(v.const(U32, 10), field)
    start = v.sub(v.mul(field, 6), v.select(late, v.const(U32, 32), v.const(U32, 0)))
    shift = v.convert(start, U64)
    out: list[Value] = [None, None, None]
    for element in range(16):
        source = tuple(lane & ~15 | element for lane in range(64))
        low, middle, high = (v.shuffle(x, source) for x in words)
        pair = v.select(late, join64(v, middle, high), join64(v, low, middle))
        code = v.convert(v.bit_and(v.shr(pair, shift), 63), U32)
        word, at = divmod(6 * element, 32)
        parts = [(word, v.shl(code, at) if at else code)]
        if at > 26:
            parts.append((word + 1, v.shr(code, 32 - at)))
        for k, part in parts:
            out[k] = part if out[k] is None else v.bit_or(out[k], part)
    return out
