"""LDS loads and stores, transposing reads, and the lane permutations of the LDS unit."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import U32
from flydsl_emu.semantics.vmem import Access, finish_load, stored

__all__: list[str] = []

_READS = {
    "b32": Access(4),
    "b64": Access(4, 2),
    "b96": Access(4, 3),
    "b128": Access(4, 4),
    "u8": Access(1),
    "i8": Access(1, signed=True),
    "u16": Access(2),
    "i16": Access(2, signed=True),
    "u8_d16": Access(1, half="lo"),
    "u8_d16_hi": Access(1, half="hi"),
    "i8_d16": Access(1, signed=True, half="lo"),
    "i8_d16_hi": Access(1, signed=True, half="hi"),
    "u16_d16": Access(2, half="lo"),
    "u16_d16_hi": Access(2, half="hi"),
}
_WRITES = {
    "b8": Access(1),
    "b16": Access(2),
    "b8_d16_hi": Access(1, half="hi"),
    "b16_d16_hi": Access(2, half="hi"),
    "b32": Access(4),
    "b64": Access(4, 2),
    "b96": Access(4, 3),
    "b128": Access(4, 4),
}


def _read(access: Access) -> Callable[..., object]:
    def call(v: VectorApi, i: Instruction, old: list[Value], address: Value) -> object:
        loaded = v.load("lds", v.add(address, i.mod("offset")), access.size, access.count)
        return finish_load(v, access, loaded, old)

    return call


def _write(access: Access) -> Callable[..., object]:
    def call(v: VectorApi, i: Instruction, address: Value, data: list[Value]) -> object:
        where = v.add(address, i.mod("offset"))
        v.store("lds", where, access.size, stored(v, access, data))
        return ()

    return call


for _name, _access in _READS.items():
    define(f"ds_read_{_name}", "regs = inst oldregs u32", _read(_access))
for _name, _access in _WRITES.items():
    define(f"ds_write_{_name}", "= inst u32 regs", _write(_access))


def _read_two(dwords: int, stride: int) -> Callable[..., object]:
    def call(v: VectorApi, i: Instruction, address: Value) -> object:
        out: list[Value] = []
        for name in ("offset0", "offset1"):
            where = v.add(address, i.mod(name) * stride)
            out += v.load("lds", where, 4, dwords)
        return out

    return call


def _write_two(dwords: int, stride: int) -> Callable[..., object]:
    def call(
        v: VectorApi, i: Instruction, address: Value, first: list[Value], second: list[Value]
    ) -> object:
        for name, data in (("offset0", first), ("offset1", second)):
            v.store("lds", v.add(address, i.mod(name) * stride), 4, data[:dwords])
        return ()

    return call


for _bits, _dwords in (("b32", 1), ("b64", 2)):
    for _tag, _scale in (("2", 1), ("2st64", 64)):
        _stride = 4 * _dwords * _scale
        define(f"ds_read{_tag}_{_bits}", "regs = inst u32", _read_two(_dwords, _stride))
        define(f"ds_write{_tag}_{_bits}", "= inst u32 regs regs", _write_two(_dwords, _stride))


# Transposing reads (gfx950) -----------------------------------------------------------------------
def _transposed(bits: int) -> Callable[..., object]:
    """Read a tile held by 16 lanes so that rows become columns.

    Each lane reads 64 (6-bit elements: 96) bits. Within 16 lanes, element e of lane l goes to lane
    ``16 / n * e' ...``: with n elements a lane, the 16 x n tile is read as n rows of 16 elements.
    """
    per_lane = 64 // bits

    def call(v: VectorApi, i: Instruction, address: Value) -> object:
        words = v.load("lds", v.add(address, i.mod("offset")), 4, 2)
        result = []
        per_word = 32 // bits
        for word in range(2):
            packed = None
            for part in range(per_word):
                element = word * per_word + part
                source = [
                    lane // 16 * 16 + element * (16 // per_lane) + lane % 16 // per_lane
                    for lane in range(v.lane_count)
                ]
                pieces = [v.shuffle(w, source) for w in words]
                field = v.bit_and(v.lane_id(), per_lane - 1)
                high = v.le(v.const(U32, per_word), field)
                chosen = v.select(high, pieces[1], pieces[0])
                shift = v.mul(v.bit_and(field, per_word - 1), bits)
                value = v.bit_and(v.shr(chosen, shift), (1 << bits) - 1)
                moved = v.shl(value, part * bits) if part else value
                packed = moved if packed is None else v.bit_or(packed, moved)
            result.append(packed)
        return result

    return call


for _element in (4, 8, 16):
    define(f"ds_read_b64_tr_b{_element}", "regs = inst u32", _transposed(_element))


# Lane permutations -------------------------------------------------------------------------------
@opcode("ds_bpermute_b32", "u32 = inst exec u32 u32")
def _pull(v: VectorApi, i: Instruction, active: Value, address: Value, data: Value) -> Value:
    """Each lane reads `data` of the lane whose byte number it names; idle lanes give 0."""
    lane = v.shr(v.add(address, i.mod("offset")), 2)
    return v.shuffle(v.select(active, data, v.const(U32, 0)), lane)


@opcode("ds_permute_b32", "u32 = inst exec u32 u32")
def _push(v: VectorApi, i: Instruction, active: Value, address: Value, data: Value) -> Value:
    """Each lane writes to the lane whose byte number it names; the highest writer wins."""
    target = v.bit_and(v.shr(v.add(address, i.mod("offset")), 2), v.lane_count - 1)
    own, busy = v.lane_id(), v.convert(active, U32)
    result = v.bit_and(own, 0)
    for lane in range(v.lane_count):
        at = v.const(U32, lane)
        hit = v.bit_and(v.eq(own, v.read_lane(target, at)), v.ne(v.read_lane(busy, at), 0))
        result = v.select(hit, v.read_lane(data, at), result)
    return result


def swizzle_lanes(offset: int, lanes: int = 64) -> tuple[int, ...]:
    """Return the source lane of every lane for a ``ds_swizzle_b32`` offset."""
    if offset & 0xE000 == 0xE000:
        raise ValueError("FFT swizzles do not exist here")
    if offset & 0xC000 == 0xC000:
        rotate = offset >> 5 & 31
        keep = offset & 31
        step = -rotate if offset >> 10 & 1 else rotate
        return tuple(
            lane & ~31 | (lane & keep) | ((lane + step) & ~keep & 31) for lane in range(lanes)
        )
    if offset & 0x8000:
        return tuple(lane & ~3 | (offset >> 2 * (lane & 3) & 3) for lane in range(lanes))
    keep, set_, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return tuple(lane & ~31 | ((lane & keep | set_) ^ flip) & 31 for lane in range(lanes))


@opcode("ds_swizzle_b32", "u32 = inst exec u32")
def _swizzle(v: VectorApi, i: Instruction, active: Value, data: Value) -> Value:
    lanes = swizzle_lanes(i.mod("offset"), v.lane_count)
    return v.shuffle(v.select(active, data, v.const(U32, 0)), lanes)


@opcode("ds_nop", "=")
def _nothing(_v: VectorApi) -> tuple[()]:
    return ()
