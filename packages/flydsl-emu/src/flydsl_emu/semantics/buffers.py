"""Addresses and range checks of buffer accesses.

A gfx9 descriptor holds the base (48 bits), the stride (14 bits), the swizzle enable (bit 63), the
number of records (bits 64 to 95), and in its last dword the data format (bits 15 to 18), which
extends the stride when lane ids are added to the index (bit 23), and the index stride of swizzling
(bits 21 and 22: 8, 16, 32 or 64). Swizzled elements have 4 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import extract
from flydsl_emu.semantics.buffer_words import buffer_words
from flydsl_emu.semantics.generation import generation
from flydsl_emu.semantics.value_types import U32, U64

__all__ = ["BufferAccess"]


class BufferAccess:
    """One buffer access of all lanes.

    All arithmetic is in 64 bits, so an offset of -4 is far out of range rather than just before the
    buffer. On gfx9 the number of records counts bytes, or, where there are a stride and an index in
    a register, records; later generations choose by two bits of the descriptor.

    Args:
        v: Vector API.
        i: Instruction.
        registers: Its address registers, or None.
        descriptor: Four dwords.
        scalar_offset: Offset from a scalar register.
        arch: Architecture.
    """

    def __init__(
        self,
        v: VectorApi,
        i: Instruction,
        registers: Sequence[Value] | None,
        descriptor: Sequence[Value],
        scalar_offset: Value,
        arch: str,
    ) -> None:
        self._v = v
        self._descriptor = descriptor
        self._gfx9 = generation(arch).unified_file
        wide = generation(arch).wide_buffers
        words = buffer_words(v, descriptor, wide)
        self._base, self._records = words.base, words.records
        rest = list(registers or ())
        self._indexed = bool(i.mod("idxen"))
        index = v.convert(rest.pop(0), U64) if self._indexed else v.const(U64, 0)
        own = v.const(U64, i.mod("offset"))
        if i.mod("offen"):
            own = v.add(v.convert(rest.pop(0), U64), own)
        stride = words.stride
        adds_lane = v.ne(v.bit_and(descriptor[3], 1 << 23), 0)
        self._swizzled = v.eq(v.shr(descriptor[1], 31), 1)
        if self._gfx9:
            what = "buffer descriptors that add lane ids in compiled code"
            given, short = index, stride
            index = v.rarely(adds_lane, lambda: v.add(given, self._lane()), index, what)
            stride = v.rarely(adds_lane, lambda: self._long_stride(short), stride, what)
        elif not wide:  # where those bits are the base's and the extent's
            v.require(v.bit_not(self._swizzled), "swizzled buffer descriptors of this architecture")
            v.require(v.bit_not(adds_lane), "buffer descriptors that add lane ids")
        self._index, self._own, self._stride = index, own, stride
        self._scalar = v.convert(scalar_offset, U64)
        self._total = v.add(v.add(own, self._scalar), v.mul(index, stride))

    def _lane(self) -> Value:
        return self._v.convert(self._v.lane_id(), U64)

    def _long_stride(self, stride: Value) -> Value:
        v = self._v
        upper = v.convert(extract(v, self._descriptor[3], 15, 4), U64)
        return v.bit_or(stride, v.shl(upper, 14))

    def at(self, offset: int = 0) -> Value:
        """Return the ``U64`` address of the byte `offset` bytes into each lane's element."""
        v = self._v
        where = v.add(self._base, self._total)
        if offset:
            where = v.add(where, offset)
        if not self._gfx9:
            return where
        what = "swizzled buffer descriptors in compiled code"
        return v.rarely(self._swizzled, lambda: self._swizzle(offset), where, what)

    def _swizzle(self, offset: int) -> Value:
        """Records of 8 to 64 indices interleave their elements of 4 bytes."""
        v = self._v
        own = v.add(self._own, offset) if offset else self._own
        power = v.convert(v.add(extract(v, self._descriptor[3], 21, 2), 3), U64)
        group = v.shr(self._index, power)
        within = v.sub(self._index, v.shl(group, power))
        line = v.add(v.mul(group, self._stride), v.bit_and(own, (1 << 64) - 4))
        part = v.add(v.shl(within, 2), v.bit_and(own, 3))
        local = v.add(v.shl(line, power), part)
        return v.add(v.add(self._base, self._scalar), local)

    def inside(self, end: int | Value) -> Value:
        """Return which lanes may access up to byte `end` (an int or ``U64``) of their element."""
        v = self._v
        records = self._records
        raw = v.le(v.add(self._total, end), records)
        if self._gfx9 and not self._indexed:
            return raw
        by_index = v.lt(self._index, records)
        if self._gfx9:
            return v.select(v.ne(self._stride, 0), by_index, raw)
        choice = extract(v, self._descriptor[3], 28, 2)
        within = v.bit_and(by_index, v.le(v.add(self._own, end), self._stride))
        unchecked = v.select(v.eq(choice, 2), v.ne(records, 0), raw)
        checked = v.select(v.eq(choice, 1), by_index, unchecked)
        return v.select(v.eq(choice, v.const(U32, 0)), within, checked)
