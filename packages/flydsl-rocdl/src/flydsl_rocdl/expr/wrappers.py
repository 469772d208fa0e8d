"""Builders of `fx.rocdl` that take less than the intrinsic does: defaults, checks, addresses.

The other builders (`builders`) call an intrinsic as it is. To add a wrapper, write it here and
export it in `flydsl_rocdl.expr`.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError, UserValueError
from flydsl.expr import llvm
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant
from flydsl.expr.gpu import barrier
from flydsl.expr.layout_functions import get_iter
from flydsl.expr.numeric import BFloat16, Boolean, Float32, Int32, as_numeric
from flydsl.expr.pointers import Pointer, PointerType, add_offset, recast_iter, to_llvm_ptr
from flydsl.expr.tensors import Tensor
from flydsl_rocdl.expr.access import amd_facts, effect, immediate, intrinsic, ir_i32
from flydsl_rocdl.expr.tensor_words import tensor_facts

__all__ = [
    "barrier",
    "buffer_load_to_lds",
    "cvt_sr_f32_to_bf16",
    "disable_xdl_arb_stall",
    "lds_transpose_load",
    "perm_b32",
    "raw_ptr_buffer_atomic_fadd",
    "raw_ptr_buffer_atomic_fmax",
    "raw_ptr_buffer_load",
    "raw_ptr_buffer_load_lds",
    "raw_ptr_buffer_store",
    "tensor_load_to_lds",
    "tensor_store_from_lds",
]

_ARBITER_STALL = 154
"""Immediate of s_setreg that names the bit of the matrix arbiter."""


def _policy(aux: Any) -> Int32:
    return Int32(0 if aux is None else immediate("the cache policy", aux, 0, 31))


def raw_ptr_buffer_load(res: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> Any:
    """Load through a descriptor.

    Args:
        res: Numeric class, vector type or IR type of the result.
        rsrc: Descriptor, an ``!llvm.ptr<8>`` (`get_buffer_rsrc`).
        offset: Bytes from its base, per lane.
        soffset: Bytes more, the same for all lanes.
        aux: Cache policy bits; default 0.
    """
    amd_facts("raw_ptr_buffer_load")
    name = "llvm.amdgcn.raw.ptr.buffer.load"
    return llvm.call_intrinsic(name, res, rsrc, Int32(offset), Int32(soffset), _policy(aux))


def raw_ptr_buffer_store(value: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None) -> None:
    """Store a number or vector through a descriptor; see `raw_ptr_buffer_load`."""
    amd_facts("raw_ptr_buffer_store")
    name = "llvm.amdgcn.raw.ptr.buffer.store"
    llvm.call_intrinsic(name, None, value, rsrc, Int32(offset), Int32(soffset), _policy(aux))


def _atomic(operation: str, operands: tuple[Any, ...], aux: Any) -> Any:
    value, rsrc, offset, soffset = operands
    amd_facts(f"raw_ptr_buffer_atomic_{operation}")
    number = as_numeric(value)
    kind: Any = type(number) if number is not None else str(value.ir_value().type)
    name = f"llvm.amdgcn.raw.ptr.buffer.atomic.{operation}"
    return llvm.call_intrinsic(name, kind, value, rsrc, Int32(offset), Int32(soffset), _policy(aux))


def raw_ptr_buffer_atomic_fadd(
    value: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None
) -> Any:
    """Add a float (or a pair of 16 bits) to memory through a descriptor; return what was there."""
    return _atomic("fadd", (value, rsrc, offset, soffset), aux)


def raw_ptr_buffer_atomic_fmax(
    value: Any, rsrc: Any, offset: Any, soffset: Any, aux: Any = None
) -> Any:
    """Keep the larger float in memory through a descriptor; return what was there."""
    return _atomic("fmax", (value, rsrc, offset, soffset), aux)


def _lds_pointer(memory: Any) -> IRValue:
    found = get_iter(memory) if isinstance(memory, Tensor) else memory
    return to_llvm_ptr(found) if isinstance(found, Pointer) else found


def raw_ptr_buffer_load_lds(
    rsrc: Any, lds: Any, size: int, voffset: Any, soffset: Any, offset: Any, aux: Any = None
) -> None:
    """Load bytes of each lane through a descriptor into LDS, lanes next to each other.

    Args:
        rsrc: Descriptor, an ``!llvm.ptr<8>``.
        lds: Pointer to shared memory: where lane 0 of the wave writes.
        size: Bytes per lane.
        voffset: Bytes from the descriptor's base, per lane.
        soffset: Bytes more, the same for all lanes.
        offset: Constant bytes, added on both sides.
        aux: Cache policy bits; default 0.

    Raises:
        TargetError: The architecture has no loads into LDS of this size.
    """
    facts = amd_facts("raw_ptr_buffer_load_lds")
    if size not in facts.lds_dma_bytes:
        raise TargetError(
            f"{facts.name} does not load {size} bytes per lane into LDS", code="FLY-T636",
            value=size, allowed=", ".join(map(str, facts.lds_dma_bytes)) or "nothing",
        )  # fmt: skip
    session = require("raw_ptr_buffer_load_lds")
    fixed = [constant(session, "i32", immediate(what, value, 0, limit)) for what, value, limit in (
        ("the size", size, 16), ("the offset", offset, 4095),
        ("the cache policy", 0 if aux is None else aux, 31),
    )]  # fmt: skip
    place = (ir_i32("the offset", Int32(voffset)), ir_i32("soffset", Int32(soffset)))
    operands = (rsrc, _lds_pointer(lds), fixed[0], *place, *fixed[1:])
    effect("amdgcn.raw.ptr.buffer.load.lds", operands)


def buffer_load_to_lds(
    rsrc: Any, lds: Any, voffset: Any, size_bytes: int = 4, soffset: Any = 0, offset: int = 0
) -> None:
    """Load bytes of each lane through a descriptor into LDS; see `raw_ptr_buffer_load_lds`."""
    raw_ptr_buffer_load_lds(rsrc, lds, size_bytes, voffset, soffset, offset)


def lds_transpose_load(result_type: Any, lds: Any, elem_offset: Any, elem_bytes: int) -> Any:
    """Read 16 bytes of each lane from LDS and transpose values of 16 bits of 8 lanes.

    Args:
        result_type: Vector of eight 16-bit elements.
        lds: Pointer or tensor in shared memory.
        elem_offset: Elements from there on, per lane.
        elem_bytes: Bytes of an element: 2.

    Raises:
        UserValueError: Elements of another size.
        TargetError: The architecture has no such read.
    """
    facts = amd_facts("lds_transpose_load")
    if elem_bytes != 2:
        raise UserValueError("this read transposes elements of 2 bytes", code="FLY-U637",
                             value=elem_bytes)  # fmt: skip
    if "tdm" not in facts.has:
        raise TargetError(f"{facts.name} has no transposing LDS read of 16 bytes per lane",
                          code="FLY-T637", value=facts.name,
                          hint="fx.rocdl.cdna4.LDSReadTrans is the one of CDNA4")  # fmt: skip
    found = get_iter(lds) if isinstance(lds, Tensor) else lds
    kind = PointerType.get(BFloat16, "shared", 16)
    place = add_offset(recast_iter(kind, found), Int32(elem_offset))
    return llvm.call_intrinsic("llvm.amdgcn.ds.load.tr16.b128", result_type, to_llvm_ptr(place))


def _groups(name: str, groups: tuple[Any, ...], cache_policy: Any) -> None:
    tensor_facts(name)
    *four, fifth = groups
    if fifth is not None and not _is_zero(fifth):
        raise TargetError(
            "tensor transfers of LLVM 22.1 have four groups of words", code="FLY-T644",
            value="a fifth group", allowed="None or zeros",
        )  # fmt: skip
    intrinsic_name = f"llvm.amdgcn.{name.replace('_', '.')}"
    llvm.call_intrinsic(intrinsic_name, None, *four, _policy(cache_policy))


def _is_zero(value: Any) -> bool:
    """Return whether a vector is known to be all zeros."""
    found = value.ir_value() if hasattr(value, "ir_value") else value
    owner: Any = getattr(found, "owner", None)
    if getattr(owner, "name", "") not in ("arith.constant", "llvm.mlir.zero"):
        return False
    return owner.name == "llvm.mlir.zero" or "dense<0>" in str(owner.attributes["value"])


def tensor_load_to_lds(
    g0: Any, g1: Any, g2: Any, g3: Any, g4: Any = None, cache_policy: Any = None
) -> None:
    """Start a tensor load by the words of its descriptor, vectors of 4, 8, 4 and 4 Int32.

    Raises:
        TargetError: The architecture has no tensor data mover; or `g4` is not zero.
    """
    _groups("tensor_load_to_lds", (g0, g1, g2, g3, g4), cache_policy)


def tensor_store_from_lds(
    g0: Any, g1: Any, g2: Any, g3: Any, g4: Any = None, cache_policy: Any = None
) -> None:
    """Start a tensor store; see `tensor_load_to_lds`."""
    _groups("tensor_store_from_lds", (g0, g1, g2, g3, g4), cache_policy)


def perm_b32(hi: Any, lo: Any, sel: Any) -> Int32:
    """Return four bytes chosen from eight: selectors 0 to 3 name those of `lo`, 4 to 7 of `hi`."""
    amd_facts("perm_b32")
    operands = tuple(ir_i32("a word", x) for x in (hi, lo, sel))
    return Int32.wrap(intrinsic("amdgcn.perm", Int32.ir_type, operands))


def disable_xdl_arb_stall() -> None:
    """Set the bit of CDNA5 that keeps matrix instructions from stalling the arbiter.

    Raises:
        TargetError: Another architecture.
    """
    tensor_facts("disable_xdl_arb_stall")
    session = require("disable_xdl_arb_stall")
    operands = (constant(session, "i32", _ARBITER_STALL), constant(session, "i32", 1))
    effect("amdgcn.s.setreg", operands)


def cvt_sr_f32_to_bf16(x: Any, rand: Any) -> BFloat16:
    """Return an f32 rounded up or down to bf16, with the chance that `rand` (Int32) decides.

    Raises:
        TargetError: The architecture does not round so.
    """
    facts = amd_facts("cvt_sr_f32_to_bf16")
    if "scaled-cvt" not in facts.has:
        raise TargetError(f"{facts.name} has no stochastic rounding to bf16", code="FLY-T642",
                          value="cvt_sr_f32_to_bf16", allowed="CDNA4")  # fmt: skip
    import flydsl.expr as fx

    old = fx.Vector([BFloat16(0.0), BFloat16(0.0)])
    pair = llvm.call_intrinsic(
        "llvm.amdgcn.cvt.sr.bf16.f32", fx.BFloat16x2, old, Float32(x), Int32(rand), Boolean(False)
    )
    return BFloat16(pair[0])
