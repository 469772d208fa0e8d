"""Scalar memory loads."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import sign_extend
from flydsl_emu.semantics.buffer_words import buffer_words
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.value_types import I32, I64, U32, U64

__all__: list[str] = []

_WIDTHS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


def _offset(v: VectorApi, i: Instruction, register: Value, size: int) -> Value:
    """Return immediate and register offset together, as ``U64``, for an access of `size` bytes."""
    last = i.operands[-1]
    if last.kind == "k":
        return v.const(U64, int(last.value))
    offset = v.convert(register, U64)
    if i.mod("scale_offset"):
        offset = v.mul(offset, size)
    if "offset" in i.mods:
        wide = v.cast(v.convert(v.const(I32, i.mods["offset"]), I64), U64)
        offset = v.add(offset, wide)
    return offset


def _load(count: int) -> Callable[..., list[Value]]:
    def call(v: VectorApi, i: Instruction, base: Value, register: Value) -> list[Value]:
        address = v.add(base, _offset(v, i, register, 4 * count))
        return v.load_scalar(v.bit_and(address, ~3 & (1 << 64) - 1), count)

    return call


def _buffer(v: VectorApi, i: Instruction, descriptor: list[Value]) -> tuple[Value, Value]:
    """Return a buffer's address and bytes: its records, each of `stride` bytes if there is one."""
    words = buffer_words(v, descriptor, i.isa == "gfx1250")
    whole = v.mul(words.records, words.stride)
    return words.base, v.select(v.eq(words.stride, 0), words.records, whole)


def _buffer_load(count: int) -> Callable[..., list[Value]]:
    def call(v: VectorApi, i: Instruction, descriptor: list[Value], register: Value) -> list[Value]:
        base, limit = _buffer(v, i, descriptor)
        offset = v.bit_and(_offset(v, i, register, 4 * count), ~3 & (1 << 64) - 1)
        valid = [v.le(v.add(offset, 4 * k + 4), limit) for k in range(count)]
        return v.load_scalar(v.add(base, offset), count, valid)

    return call


# Narrow loads and three dwords (gfx12) -----------------------------------------------------------
def _extended(v: VectorApi, x: Value, size: int, signed: bool) -> list[Value]:
    return [v.cast(sign_extend(v, x, 8 * size), U32) if signed else x]


def _narrow_load(size: int, signed: bool) -> Callable[..., list[Value]]:
    def call(v: VectorApi, i: Instruction, base: Value, register: Value) -> list[Value]:
        (loaded,) = v.load_scalar(v.add(base, _offset(v, i, register, size)), 1, None, size)
        return _extended(v, loaded, size, signed)

    return call


def _narrow_buffer_load(size: int, signed: bool) -> Callable[..., list[Value]]:
    def call(v: VectorApi, i: Instruction, descriptor: list[Value], register: Value) -> list[Value]:
        base, limit = _buffer(v, i, descriptor)
        offset = _offset(v, i, register, size)
        valid = [v.le(v.add(offset, size), limit)]
        (loaded,) = v.load_scalar(v.add(base, offset), 1, valid, size)
        return _extended(v, loaded, size, signed)

    return call


for _name, _size, _signed in (
    ("u8", 1, False),
    ("i8", 1, True),
    ("u16", 2, False),
    ("i16", 2, True),
):
    define(f"s_load_{_name}", "regs = inst u64 auto", _narrow_load(_size, _signed))
    define(f"s_buffer_load_{_name}", "regs = inst regs auto", _narrow_buffer_load(_size, _signed))
define("s_load_b96", "regs = inst u64 auto", _load(3))
define("s_buffer_load_b96", "regs = inst regs auto", _buffer_load(3))

for _name, _count in _WIDTHS.items():
    define(f"s_load_{_name}", "regs = inst u64 auto", _load(_count))
    define(f"s_buffer_load_{_name}", "regs = inst regs auto", _buffer_load(_count))
