"""Buffers read and written in words, with the two offsets that the instructions have.

The offset of a lane is in a vector register and what is the same for the wave in a scalar one, so
a loop that only moves the scalar one needs no vector instruction for its addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl_rocdl.expr.access import effect, intrinsic
from flydsl_rocdl.expr.buffers import make_buffer_ptr
from flydsl_rocdl.expr.copies import get_buffer_rsrc

__all__ = ["OUTSIDE", "WordBuffer", "beyond", "pinned"]

_QUAD_AS_IT_IS = 0xE4
OUTSIDE = -(2**31)
"""A lane's offset, as Int32, that is outside every buffer of less than 2 GiB."""


@dataclass(frozen=True, slots=True)
class WordBuffer:
    """Memory behind a buffer descriptor; loads outside give zero, stores outside are dropped.

    Attributes:
        descriptor: The descriptor.
        zero: The number 0 as an IR value.
    """

    descriptor: IRValue
    zero: IRValue

    @classmethod
    def of(cls, pointer: Any, records: Any) -> WordBuffer:
        """Return the buffer of `records` bytes, below 2 GiB, from a global pointer on.

        Args:
            pointer: Pointer to global memory, the same for the wave.
            records: Bytes; 0 or less is an empty buffer.
        """
        size = records
        if not isinstance(records, int):
            size = fx.max(records, type(records)(0))
        descriptor = get_buffer_rsrc(make_buffer_ptr(pointer, size))
        return cls(descriptor, constant(require("WordBuffer"), "i32", 0))

    def load(self, lane: Any, wave: Any = 0, *, words: int = 4) -> Any:
        """Return `words` (1, 2, 4) Int32 from a lane's offset plus the wave's, both in bytes."""
        session = require("WordBuffer")
        kind = session.type(f"vector<{words}xi32>" if words > 1 else "i32")
        operands = (self.descriptor, _word(lane), self._wave(wave), self.zero)
        value = intrinsic("amdgcn.raw.ptr.buffer.load", kind, operands)
        return fx.Vector(value, None, fx.Int32) if words > 1 else fx.Int32.wrap(value)

    def store(self, value: Any, lane: Any, wave: Any = 0) -> None:
        """Store a number or vector of 8, 16, 32, 64 or 128 bits; offsets in bytes."""
        session = require("WordBuffer")
        bits = value.numel * value.dtype.width if isinstance(value, fx.Vector) else value.width
        kind = f"vector<{bits // 32}xi32>" if bits > 32 else f"i{bits}"
        data = value.ir_value()
        if str(data.type) != kind:
            data = emit("llvm.bitcast", session.type(kind), (data,))
        operands = (data, self.descriptor, _word(lane), self._wave(wave), self.zero)
        effect("amdgcn.raw.ptr.buffer.store", operands)

    def _wave(self, offset: Any) -> IRValue:
        return self.zero if isinstance(offset, int) and offset == 0 else _word(offset)


def beyond(lane: Any, distance: int) -> Any:
    """Return an offset that is some bytes past a lane's.

    Instructions take the distance as a constant of their own, which some architectures do only if
    the sum is known not to exceed 32 bits; that holds for `OUTSIDE` too.

    Args:
        lane: The lane's offset, an Int32 that counts unsigned.
        distance: Bytes, from 0 on.
    """
    if distance == 0:
        return lane
    session = require("beyond")
    flags = session.attributes.get("no unsigned wrap")
    if flags is None:
        found = session.ir.Attribute.parse("#arith.overflow<nuw>")
        flags = session.attributes["no unsigned wrap"] = {"overflowFlags": found}
    value = _word(lane)
    operands = value, constant(session, "i32", distance)
    return fx.Int32.wrap(emit("arith.addi", value.type, operands, flags))


def pinned(number: Any) -> Any:
    """Return an Int32 as one value that the compiler keeps in one register of each lane.

    Sums in addresses are otherwise computed again where they are used, from the parts, which takes
    more registers and instructions in a loop. It costs one instruction where it stands.
    """
    session = require("pinned")
    same = constant(session, "i32", _QUAD_AS_IT_IS)
    every = constant(session, "i32", 15)
    value = _word(number)
    operands = (value, value, same, every, every, constant(session, "i1", 1))
    return fx.Int32.wrap(intrinsic("amdgcn.update.dpp", value.type, operands))


def _word(offset: Any) -> IRValue:
    return fx.Int32(offset).ir_value()
