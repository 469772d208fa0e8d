"""Copy operations beyond plain and buffer copies, and what reads a buffer's descriptor."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl.expr.layout_functions import get_iter
from flydsl.expr.numeric import Int32, Numeric
from flydsl.expr.pointers import Pointer, element_class
from flydsl.expr.tensors import Tensor
from flydsl.expr.vector import Vector
from flydsl_rocdl.atoms import memory
from flydsl_rocdl.expr.access import amd_facts, immediate, intrinsic, ir_i32

__all__ = [
    "BufferAtomic",
    "BufferAtomicAdd",
    "BufferAtomicMax",
    "BufferAtomicMin",
    "BufferAtomicPkAdd",
    "BufferCopyLDS",
    "BufferCopyLDS32b",
    "BufferCopyLDS64b",
    "BufferCopyLDS128b",
    "BufferLoadAsyncLDS",
    "GlobalLoadAsyncLDS",
    "GlobalLoadTrans",
    "LDSReadTrans",
    "get_buffer_rsrc",
    "s_buffer_load",
]

_DESCRIPTOR = "!llvm.ptr<8>"


def BufferAtomic(operation: Any, dtype: Any, *, pair: bool = False) -> memory.BufferAtomic:  # noqa: N802
    """Return the atomic operation of registers with a buffer; the old value is dropped.

    Args:
        operation: `fx.AtomicOp` or its name: add, sub, min, max, and, or, xor, inc, dec.
        dtype: Numeric class; min and max of unsigned classes compare unsigned.
        pair: Combine two elements of 16 bits at once.

    Raises:
        UserError: No architecture has such an instruction. One that the architecture compiled for
            lacks is a `TargetError` when compiling.
    """
    kind = element_class(dtype)
    text = kind.ir_text
    if kind.is_integer and not kind.signed:
        text = "u" + text
    name = getattr(operation, "name", operation)
    return memory.BufferAtomic(str(name).lower(), text, pair)


def BufferAtomicAdd(dtype: Any) -> memory.BufferAtomic:  # noqa: N802
    """Return the atomic addition to a buffer."""
    return BufferAtomic("add", dtype)


def BufferAtomicMax(dtype: Any) -> memory.BufferAtomic:  # noqa: N802
    """Return the atomic maximum with a buffer."""
    return BufferAtomic("max", dtype)


def BufferAtomicMin(dtype: Any) -> memory.BufferAtomic:  # noqa: N802
    """Return the atomic minimum with a buffer."""
    return BufferAtomic("min", dtype)


def BufferAtomicPkAdd(dtype: Any) -> memory.BufferAtomic:  # noqa: N802
    """Return the atomic addition of pairs of 16-bit floats to a buffer."""
    return BufferAtomic("add", dtype, pair=True)


def BufferCopyLDS(bits: int, cache_modifier: int = 0) -> memory.BufferCopyLDS:  # noqa: N802
    """Return the load of `bits` bits per lane from a buffer into LDS, without registers."""
    return memory.BufferCopyLDS(bits, cache_modifier)


def BufferCopyLDS32b(cache_modifier: int = 0) -> memory.BufferCopyLDS:  # noqa: N802
    """Return ``BufferCopyLDS(32)``."""
    return memory.BufferCopyLDS(32, cache_modifier)


def BufferCopyLDS64b(cache_modifier: int = 0) -> memory.BufferCopyLDS:  # noqa: N802
    """Raise: no architecture loads 64 bits per lane into LDS."""
    return memory.BufferCopyLDS(64, cache_modifier)


def BufferCopyLDS128b(cache_modifier: int = 0) -> memory.BufferCopyLDS:  # noqa: N802
    """Return ``BufferCopyLDS(128)``."""
    return memory.BufferCopyLDS(128, cache_modifier)


def BufferLoadAsyncLDS(bits: int, cache_modifier: int = 0) -> memory.BufferCopyLDS:  # noqa: N802
    """Return the load into LDS that `asyncmark` groups; the same instruction as `BufferCopyLDS`."""
    return memory.BufferCopyLDS(bits, cache_modifier)


def GlobalLoadAsyncLDS(bits: int, cache_modifier: int = 0) -> memory.GlobalCopyLDS:  # noqa: N802
    """Return the load of `bits` bits per lane from global memory into LDS."""
    return memory.GlobalCopyLDS(bits, cache_modifier)


def LDSReadTrans(granularity: int, bits: int, group: int = 16) -> memory.LDSReadTrans:  # noqa: N802
    """Return the transposing read of `bits` bits per lane in values of `granularity` bits.

    Args:
        granularity: Bits of a value.
        bits: Bits per lane.
        group: 16 for the reads of CDNA4, 8 for those of CDNA5.
    """
    return memory.LDSReadTrans(granularity, bits, group)


def GlobalLoadTrans(granularity: int, bits: int) -> memory.GlobalLoadTrans:  # noqa: N802
    """Return the transposing load of `bits` bits per lane from global memory."""
    return memory.GlobalLoadTrans(granularity, bits)


def get_buffer_rsrc(ptr: Any) -> IRValue:
    """Return the descriptor of a buffer pointer, an ``!llvm.ptr<8>``.

    Raises:
        UserValueError: The pointer is no buffer pointer.
    """
    session = require("get_buffer_rsrc")
    pointer = get_iter(ptr) if isinstance(ptr, Tensor) else ptr
    if not isinstance(pointer, Pointer) or "buffer" not in pointer.kind.space:
        raise UserValueError(
            "only a buffer pointer has a descriptor", code="FLY-U633", value=ptr,
            hint="fx.rocdl.make_buffer_ptr(ptr)",
        )  # fmt: skip
    return emit("fly.to_llvm_ptr", session.ir.Type.parse(_DESCRIPTOR), (pointer.value,))


def s_buffer_load(ptr: Any, offset: Any, *, count: int = 1, cache_modifier: int = 0) -> Any:
    """Load words that are the same for the whole wave, into scalar registers.

    Args:
        ptr: A buffer pointer.
        offset: Bytes from its base, uniform over the wave and a multiple of 4.
        count: 1 (an Int32) or 4 (a vector).
        cache_modifier: Bits as the architecture defines them.

    Raises:
        UserTypeError: Not a buffer pointer.
        UserValueError: Another count.
    """
    amd_facts("s_buffer_load")
    if not isinstance(ptr, Pointer) or ptr.kind.space != "buffer":
        raise UserTypeError("s_buffer_load reads through a buffer pointer", code="FLY-U638",
                            value=ptr)  # fmt: skip
    if count not in (1, 4):
        raise UserValueError("s_buffer_load reads 1 or 4 words", code="FLY-U638", value=count,
                             allowed="1, 4")  # fmt: skip
    session = require("s_buffer_load")
    policy = constant(session, "i32", immediate("the cache modifier", cache_modifier, 0, 31))
    result = Int32.ir_type if count == 1 else session.ir.Type.parse("vector<4xi32>")
    bits = emit("llvm.ptrtoint", session.ir.Type.parse("i128"), (get_buffer_rsrc(ptr),))
    words = emit("llvm.bitcast", session.ir.Type.parse("vector<4xi32>"), (bits,))
    operands = (words, ir_i32("the offset", offset), policy)
    found = intrinsic("amdgcn.s.buffer.load", result, operands)
    kind: type[Numeric] = Int32
    return kind.wrap(found) if count == 1 else Vector(found, 4, kind)
