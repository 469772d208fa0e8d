"""Buffer pointers taken apart: the descriptor and the offset that buffer intrinsics want."""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse
from flydsl_rocdl.passes.memtypes import PointerType, bit_width
from flydsl_rocdl.passes.wide import WIDE, descriptor

__all__ = ["parts"]

_MAKE = "llvm.amdgcn.make.buffer.rsrc"
_DESCRIPTOR_SPACE = 8
_DYNAMIC = -(2**31)


def parts(
    low: Lowering, op: Any, pointer: Value, kind: PointerType, size: int
) -> tuple[Value, Value]:
    """Return (descriptor, offset in bytes as i32) of a buffer pointer.

    Args:
        low: The lowering.
        op: The access.
        pointer: The lowered pointer.
        kind: What it was.
        size: Bytes of the access.

    Raises:
        TargetError: A wide buffer's offset may leave the reach of one descriptor.
    """
    if kind.space == WIDE:
        near = descriptor(low, op, pointer, size)
        if near is None:
            raise refuse(
                op, "the lanes of a wave may be more than 1 GiB apart in this buffer, which one "
                "descriptor does not reach", code="FLY-T638",
                hint="bound the buffer with num_records_bytes below 4 GiB, use static strides, or"
                " a plain copy",
            )  # fmt: skip
        pointer = near
    b = low.b
    offset = b.constant(0)
    while getattr(pointer.owner, "name", "") == "llvm.getelementptr":
        offset = b.binary("llvm.add", offset, _step(low, pointer.owner))
        pointer = pointer.owner.operands[0]
    owner = pointer.owner
    if getattr(owner, "name", "") == "llvm.call_intrinsic" and owner.attributes["intrin"] == (
        b.ir.StringAttr.get(_MAKE, b.context)
    ):
        operands = tuple(owner.operands)
        made = b.intrinsic("amdgcn.make.buffer.rsrc", b.pointer(_DESCRIPTOR_SPACE), operands)
        return made.result, offset
    # A pointer that comes out of control flow: its bits are the descriptor above the offset.
    whole = b.value("llvm.ptrtoint", b.type("i160"), (pointer,))
    upper = b.binary("llvm.lshr", whole, b.constant(32, "i160"))
    bits = b.value("llvm.trunc", b.type("i128"), (upper,))
    start = b.value("llvm.trunc", b.type("i32"), (whole,))
    made = b.value("llvm.inttoptr", b.pointer(_DESCRIPTOR_SPACE), (bits,))
    return made, b.binary("llvm.add", start, offset)


def _step(low: Lowering, op: Any) -> Value:
    """Return how many bytes an address computation adds, as i32."""
    b = low.b
    size = max(8, bit_width(str(op.attributes["elem_type"].value))) // 8
    (index,) = op.attributes["rawConstantIndices"]
    if index != _DYNAMIC:
        return b.constant(int(index) * size)
    number = op.operands[1]
    if str(number.type) != "i32":
        number = b.value("llvm.trunc", b.type("i32"), (number,))
    return number if size == 1 else b.binary("llvm.mul", number, b.constant(size))
