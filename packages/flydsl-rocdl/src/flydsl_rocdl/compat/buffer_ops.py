"""Raw buffer descriptors with hand-written offsets, as older kernels use them.

New kernels use ``fx.rocdl.make_buffer_tensor`` with layouts and ``fx.copy``.
"""

from __future__ import annotations

import warnings
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl.expr.layout_functions import cosize, get_iter, get_layout
from flydsl.expr.numeric import Boolean, Float32, Int32, Int64, Numeric, as_numeric
from flydsl.expr.pointers import Pointer, PointerType, element_class, inttoptr
from flydsl.expr.vector import Vector
from flydsl_rocdl.expr.access import amd_facts, effect, immediate, intrinsic, ir_i32
from flydsl_rocdl.expr.buffers import make_buffer_ptr
from flydsl_rocdl.expr.copies import get_buffer_rsrc

__all__ = [
    "buffer_load",
    "buffer_store",
    "create_buffer_resource",
    "create_buffer_resource_from_addr",
]

_UNBOUNDED = 0xFFFFFFF0
"""Bytes of a descriptor without a bound; the last 16 stay outside, for what a mask excludes."""
_WORDS = {8: "i8", 16: "i16", 32: "i32", 64: "vector<2xi32>", 96: "vector<3xi32>",
          128: "vector<4xi32>"}  # fmt: skip


def _legacy(name: str, instead: str) -> None:
    warnings.warn(
        f"buffer_ops.{name} is kept for existing kernels; write {instead}",
        DeprecationWarning,
        stacklevel=3,
    )


def create_buffer_resource(
    memory: Any, max_size: bool = True, num_records_bytes: Any = None
) -> IRValue:
    """Return the descriptor of a tensor's or pointer's memory.

    Args:
        memory: A tensor or pointer in global memory.
        max_size: Leave it unbounded (up to 4 GiB); False bounds a tensor by its layout.
        num_records_bytes: Explicit bound in bytes, which wins.

    Raises:
        UserError: The memory is not global, or the bound does not fit.
    """
    _legacy("create_buffer_resource", "fx.rocdl.make_buffer_tensor(tensor)")
    pointer = memory if isinstance(memory, Pointer) else get_iter(memory)
    records = num_records_bytes
    if records is None and (max_size or pointer is memory):
        records = _UNBOUNDED
    elif records is None:
        size = cosize(get_layout(memory))
        scalar = size.__fly_scalar__() if hasattr(size, "__fly_scalar__") else size
        extent = Int64(scalar) * (max(8, pointer.element.width) // 8)
        records = (extent > _UNBOUNDED).select(Int64(_UNBOUNDED), extent)
    return get_buffer_rsrc(make_buffer_ptr(pointer, records))


def create_buffer_resource_from_addr(address: Any, num_records_bytes: Any = None) -> IRValue:
    """Return the descriptor of the memory at an address (a 64-bit integer)."""
    _legacy("create_buffer_resource_from_addr", "fx.rocdl.make_buffer_ptr(fx.inttoptr(...))")
    pointer = inttoptr(PointerType.get(Float32, "global", 4), Int64(address))
    records = _UNBOUNDED if num_records_bytes is None else num_records_bytes
    return get_buffer_rsrc(make_buffer_ptr(pointer, records))


def _address(offset: Any, size: int, mask: Any) -> IRValue:
    """Return the byte offset as i32, outside every descriptor where `mask` is false."""
    number = as_numeric(offset)
    if number is None or not number.is_integer:
        raise UserTypeError("a buffer offset is an integer", code="FLY-U614", value=offset)
    scaled = number.to(Int32) * size
    if mask is None:
        return ir_i32("the offset", scaled)
    chosen = as_numeric(mask)
    if chosen is None or type(chosen) is not Boolean:
        raise UserTypeError("a mask is a Boolean", code="FLY-U614", value=mask)
    return ir_i32("the offset", chosen.select(Int32(scaled), Int32(_UNBOUNDED - (1 << 32))))


def _tail(rsrc: IRValue, at: IRValue, soffset: Any, modifier: int) -> tuple[IRValue, ...]:
    session = require("buffer_ops")
    scalar = constant(session, "i32", 0) if soffset is None else ir_i32("soffset_bytes", soffset)
    policy = constant(session, "i32", immediate("the cache modifier", modifier, 0, 31))
    return rsrc, at, scalar, policy


def _words(bits: int) -> Any:
    if bits not in _WORDS:
        raise UserValueError("no buffer instruction moves this many bits", code="FLY-U631",
                             value=bits, allowed=", ".join(map(str, _WORDS)))  # fmt: skip
    return require("buffer_ops").ir.Type.parse(_WORDS[bits])


def buffer_load(
    rsrc: IRValue,
    offset: Any,
    vec_width: int = 1,
    dtype: Any = None,
    mask: Any = None,
    cache_modifier: int = 0,
    soffset_bytes: Any = None,
) -> Any:
    """Load `vec_width` numbers through a descriptor.

    Args:
        rsrc: The descriptor.
        offset: Offset in elements.
        vec_width: Elements.
        dtype: Numeric class; default Float32.
        mask: Boolean; where it is false the result is zero.
        cache_modifier: Bits as the architecture defines them.
        soffset_bytes: Uniform offset in bytes.

    Returns:
        A number, or a vector.

    Raises:
        UserError: An operand has a wrong type, or no instruction moves this many bits.
    """
    _legacy("buffer_load", "fx.copy from fx.rocdl.make_buffer_tensor(tensor)")
    amd_facts("buffer_load")
    kind: type[Numeric] = Float32 if dtype is None else element_class(dtype)
    words = _words(kind.width * vec_width)
    at = _address(offset, kind.width // 8, mask)
    tail = _tail(rsrc, at, soffset_bytes, cache_modifier)
    loaded = intrinsic("amdgcn.raw.ptr.buffer.load", words, tail)
    if vec_width == 1:
        same = words == kind.ir_type
        return kind.wrap(loaded if same else emit("llvm.bitcast", kind.ir_type, (loaded,)))
    vector = require("buffer_ops").ir.Type.parse(f"vector<{vec_width}x{kind.ir_text}>")
    if vector != words:
        loaded = emit("llvm.bitcast", vector, (loaded,))
    return Vector(loaded, (vec_width,), kind)


def buffer_store(
    data: Any,
    rsrc: IRValue,
    offset: Any,
    mask: Any = None,
    cache_modifier: int = 0,
    soffset_bytes: Any = None,
) -> None:
    """Store a number or vector through a descriptor; see `buffer_load`."""
    _legacy("buffer_store", "fx.copy to fx.rocdl.make_buffer_tensor(tensor)")
    amd_facts("buffer_store")
    if isinstance(data, Vector):
        bits, value, size = data.numel * data.dtype.width, data.value, data.dtype.width // 8
    else:
        number = as_numeric(data)
        if number is None:
            raise UserTypeError("a buffer store takes a number or a vector", code="FLY-U614",
                                value=data)  # fmt: skip
        bits, value, size = number.width, number.ir_value(), number.width // 8
    words = _words(bits)
    if value.type != words:
        value = emit("llvm.bitcast", words, (value,))
    at = _address(offset, size, mask)
    tail = _tail(rsrc, at, soffset_bytes, cache_modifier)
    effect("amdgcn.raw.ptr.buffer.store", (value, *tail))
