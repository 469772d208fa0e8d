"""The tensor data mover by descriptors: tiles of two modes, gathered rows, waits and prefetches.

A descriptor is made once and issued as often as wanted; ``update_*`` functions give one with
another address. Tuples are (outer, inner). All words must be the same for the lanes of a wave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import require
from flydsl.expr.emit import constant, emit
from flydsl.expr.layout_functions import get_iter
from flydsl.expr.numeric import Int32, Int64, as_numeric
from flydsl.expr.pointers import Pointer, ptrtoint
from flydsl.expr.tensors import Tensor
from flydsl_rocdl.arch.tensor import GATHERED
from flydsl_rocdl.expr.access import effect, immediate, when
from flydsl_rocdl.expr.tensor_addresses import (
    add_addr_with_carry,
    at_address,
    with_both_words,
    with_lds_address,
    with_low_word,
)
from flydsl_rocdl.expr.tensor_atoms import Moved, tile_descriptor
from flydsl_rocdl.expr.tensor_tiles import compute_padding_encoding, compute_warp_distribution
from flydsl_rocdl.expr.tensor_words import Descriptor, descriptor, issue, known, tensor_facts
from flydsl_rocdl.expr.waits import s_wait_tensorcnt

__all__ = [
    "TDMDescriptor2D",
    "TDMGatherDescriptor",
    "add_addr_with_carry",
    "compute_padding_encoding",
    "compute_warp_distribution",
    "l2_prefetch_tile",
    "make_tensor_descriptor_2d",
    "make_tensor_gather_descriptor",
    "make_tensor_gather_dgroup0",
    "tensor_load_2d",
    "tensor_load_gather",
    "tensor_store_2d",
    "tensor_store_gather",
    "tensor_wait",
    "update_tensor_descriptor_2d_addr64",
    "update_tensor_descriptor_2d_addr_lo",
    "update_tensor_descriptor_2d_addr_lo_hi",
    "update_tensor_descriptor_2d_lds_addr",
    "update_tensor_gather_descriptor_addr64",
    "update_tensor_gather_descriptor_addr_lo",
    "update_tensor_gather_descriptor_addr_lo_hi",
]


@dataclass(frozen=True, slots=True)
class TDMDescriptor2D:
    """Descriptor of a tile of two modes.

    Attributes:
        words: Its words.
    """

    words: Descriptor

    @property
    def dgroup0(self) -> tuple[Any, ...]:
        """The words that say where."""
        return self.words.words[0]

    @property
    def dgroup1(self) -> tuple[Any, ...]:
        """The words that say what."""
        return self.words.words[1]


@dataclass(frozen=True, slots=True)
class TDMGatherDescriptor:
    """Descriptor of gathered rows.

    Attributes:
        words: Its words.
    """

    words: Descriptor


def _address(pointer: Any, space: str, what: str) -> Any:
    """Return the byte address of a tensor or pointer of a space.

    Raises:
        UserTypeError: It is neither.
    """
    found = get_iter(pointer) if isinstance(pointer, Tensor) else pointer
    if not isinstance(found, Pointer) or found.kind.space != space:
        raise UserTypeError(f"{what} is a pointer or tensor in {space} memory", code="FLY-U655",
                            value=pointer)  # fmt: skip
    return ptrtoint(found)


def _lds(memory: Any, offset: Any) -> Any:
    address = _address(memory, "shared", "the destination in LDS")
    return address if offset is None else Int32(address) + Int32(offset)


def _stride(value: Any) -> Any:
    """Return an outer stride.

    Raises:
        UserTypeError: Not an integer.
    """
    number = as_numeric(value)
    if number is None or not number.is_integer:
        raise UserTypeError("the outer stride of a tensor is an integer", code="FLY-U655",
                            value=value)  # fmt: skip
    return int(number) if number.is_static() else Int64(number)


def make_tensor_descriptor_2d(
    global_ptr: Any,
    lds_memref: Any,
    global_offset: Sequence[Any],
    tensor_shape: Sequence[Any],
    strides: Sequence[Any],
    tile_shape: Sequence[int],
    elem_bytes: int = 2,
    **options: Any,
) -> TDMDescriptor2D:
    """Return the descriptor of a tile of two modes, of this wave's part of it.

    Args:
        global_ptr: Pointer or tensor in global memory.
        lds_memref: Pointer or tensor in shared memory.
        global_offset: Place of the tile in the tensor.
        tensor_shape: Extents of the tensor; they bound nothing (see the bounds).
        strides: Elements between rows, and 1.
        tile_shape: Extents of the tile.
        elem_bytes: 1, 2, 4 or 8.
        **options: ``pad_interval`` and ``pad_amount`` (elements), ``num_warps``, ``pred``,
            ``workgroup_mask``, ``lds_byte_offset``, ``for_store`` (pads become part of the tile's
            rows), ``atomic_barrier_enable`` (the address of an LDS barrier, or False),
            ``early_timeout``, ``cache_policy`` (kept for `tensor_load_2d`),
            ``oob_outer_bound``, ``oob_inner_bound``: extents of the tensor beyond which a load
            gives zero and a store does nothing.

    Raises:
        UserError: An argument is not what the hardware takes.
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("make_tensor_descriptor_2d")
    given = _Options(**{k: v for k, v in options.items() if k in _Options.__slots__})
    unknown = options.keys() - set(_Options.__slots__)
    if unknown:
        raise UserTypeError(
            "make_tensor_descriptor_2d has no such argument", code="FLY-U655",
            value=sorted(unknown)[0], allowed=", ".join(_Options.__slots__),
        )  # fmt: skip
    if known(strides[1]) != 1 or len(tensor_shape) != 2:
        raise UserValueError("the inner mode of a tensor transfer is contiguous", code="FLY-U655",
                             value=tuple(strides), allowed="(stride, 1)")  # fmt: skip
    outer = _stride(strides[0])
    inner_known = known(global_offset[1]) == 0
    if given.oob_inner_bound is not None and (given.num_warps != 1 or not inner_known):
        raise UserValueError(
            "an inner bound needs one wave and a tile that starts at column 0", code="FLY-U655",
            value=f"num_warps={given.num_warps}, global_offset={tuple(global_offset)}",
        )  # fmt: skip
    place = Int64(global_offset[0]) * Int64(outer) + Int64(global_offset[1])
    tile = (tile_shape[0], tile_shape[1])
    bounds: list[Any] = [None, None]
    if given.oob_outer_bound is not None:
        bounds[0] = _left(given.oob_outer_bound, global_offset[0])
    if given.oob_inner_bound is not None:
        bounds[1] = given.oob_inner_bound
    row = tile[1]
    fields: dict[str, Any] = {"workgroup_mask": given.workgroup_mask}
    if given.early_timeout:
        fields["early_timeout"] = 1
    if given.atomic_barrier_enable is not False:
        address = known(given.atomic_barrier_enable)
        at = given.atomic_barrier_enable
        fields |= {"barrier": 1, "barrier_address": Int32(at) >> 3 if address is None
                   else address >> 3}  # fmt: skip
    moved = Moved(
        address=Int64(_address(global_ptr, "global", "the tensor")) + place * elem_bytes,
        lds=_lds(lds_memref, given.lds_byte_offset),
        element=elem_bytes,
        tile=tile,
        strides=(outer, 1),
        lds_strides=(row, 1),
        extents=tuple(bounds),
        waves=given.num_warps,
        pad=(given.pad_interval, given.pad_amount),
        store=bool(given.for_store),
        valid=given.pred,
        options=fields,
    )
    return TDMDescriptor2D(tile_descriptor(moved))


@dataclass(frozen=True, slots=True)
class _Options:
    pad_interval: int = 0
    pad_amount: int = 0
    num_warps: int = 1
    cache_policy: int = 0
    pred: Any = 1
    workgroup_mask: Any = 0
    lds_byte_offset: Any = None
    for_store: bool = False
    atomic_barrier_enable: Any = False
    early_timeout: bool = False
    oob_outer_bound: Any = None
    oob_inner_bound: Any = None


def _left(bound: Any, start: Any) -> Any:
    """Return how much of a bound lies after a start, at least 0."""
    first, second = known(bound), known(start)
    if first is not None and second is not None:
        return max(0, first - second)
    rest = Int32(Int32(bound) - Int32(start))
    return (rest > 0).select(rest, Int32(0))


def make_tensor_gather_dgroup0(
    global_ptr: Any, lds: Any, *, index_size: int = 32, lds_byte_offset: Any = None,
    global_byte_offset: Any = None, pred: Any = 1,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the words of a gathering descriptor that say where; see the function below."""
    return descriptor(_gather_place(global_ptr, lds, index_size, lds_byte_offset,
                                    global_byte_offset, pred)).words[0]  # fmt: skip


def _gather_place(
    global_ptr: Any, lds: Any, index_size: int, lds_offset: Any, global_offset: Any, pred: Any
) -> dict[str, Any]:
    tensor_facts("a gathering tensor transfer")
    if index_size not in GATHERED:
        raise UserValueError("row numbers have 16 or 32 bits", code="FLY-U655", value=index_size,
                             allowed="16, 32")  # fmt: skip
    address = _address(global_ptr, "global", "the tensor")
    if global_offset is not None:
        address = Int64(address) + Int64(global_offset)
    number = known(pred)
    return {
        "valid": Int32(pred) if number is None else int(bool(number)),
        "gather": 1,
        "wide_rows": int(index_size == 32),
        "lds_address": _lds(lds, lds_offset),
        "address": address,
    }


def make_tensor_gather_descriptor(
    global_ptr: Any,
    lds: Any,
    row_indices: Sequence[Any],
    row_width: int,
    tensor_dim0: Any,
    tensor_dim1: Any,
    stride: Any,
    **options: Any,
) -> TDMGatherDescriptor:
    """Return the descriptor of rows with given numbers, which lie one after the other in LDS.

    Args:
        global_ptr: Pointer or tensor in global memory.
        lds: Pointer or tensor in shared memory.
        row_indices: Numbers of up to 8 rows, or 16 with 16 bits; what is not below `tensor_dim1`
            is loaded as zero and not stored.
        row_width: Elements of a row that are moved; whole dwords.
        tensor_dim0: Elements of a row that exist.
        tensor_dim1: Rows of the tensor.
        stride: Elements between rows.
        **options: ``elem_bytes`` (1), ``pad_interval`` and ``pad_amount`` (elements),
            ``index_size`` (32 or 16), ``gather_tile_dim1`` (how many of the rows count),
            ``lds_byte_offset``, ``global_byte_offset``, ``workgroup_mask``, ``pred``.

    Raises:
        UserError: An argument is not what the hardware takes.
        TargetError: The architecture has no tensor data mover.
    """
    given: dict[str, Any] = {"elem_bytes": 1, "pad_interval": 0, "pad_amount": 0, "index_size": 32,
             "gather_tile_dim1": None, "lds_byte_offset": None, "global_byte_offset": None,
             "workgroup_mask": 0, "pred": 1}  # fmt: skip
    unknown = options.keys() - given.keys()
    if unknown:
        raise UserTypeError("make_tensor_gather_descriptor has no such argument", code="FLY-U655",
                            value=sorted(unknown)[0], allowed=", ".join(given))  # fmt: skip
    given |= options
    size, each = given["index_size"], given["elem_bytes"]
    fields = _gather_place(global_ptr, lds, size, given["lds_byte_offset"],
                           given["global_byte_offset"], given["pred"])  # fmt: skip
    count = len(row_indices)
    if not 0 < count <= GATHERED[size]:
        raise UserValueError(
            f"a gathering transfer has 1 to {GATHERED[size]} rows with numbers of {size} bits",
            code="FLY-U655", value=count,
        )  # fmt: skip
    if row_width * each % 4:
        raise UserValueError("gathered rows are whole dwords", code="FLY-U655",
                             value=f"{row_width} elements of {each} bytes")  # fmt: skip
    if given["pad_interval"] or given["pad_amount"]:
        codes = compute_padding_encoding(given["pad_interval"], given["pad_amount"], each)
        fields |= {"pad": 1, "pad_interval": codes[0], "pad_amount": codes[1]}
    rows = given["gather_tile_dim1"]
    fields |= {
        "element": each.bit_length() - 1,
        "workgroup_mask": given["workgroup_mask"],
        "size0": row_width,
        "size1": count if rows is None else rows,
        "extent0": tensor_dim0,
        "extent1": tensor_dim1,
        "stride1": _stride(stride),
    }
    return TDMGatherDescriptor(descriptor(fields, _row_words(row_indices, size)))


def _row_words(rows: Sequence[Any], size: int) -> list[Any]:
    if size == 32:
        return [x if (x := known(row)) is not None else Int32(row) for row in rows]
    words: list[Any] = []
    for first in range(0, len(rows), 2):
        pair = [*rows[first : first + 2], 0][:2]
        numbers = [known(row) for row in pair]
        if all(n is not None for n in numbers):
            low, high = (int(n) for n in numbers if n is not None)
            words.append(low & 0xFFFF | (high & 0xFFFF) << 16)
        else:
            words.append(Int32(Int32(pair[0]) & 0xFFFF | Int32(pair[1]) << 16))
    return words


def tensor_load_2d(desc: TDMDescriptor2D, cache_policy: int = 0) -> None:
    """Start loading a tile into LDS."""
    issue(desc.words, store=False, cache_modifier=cache_policy)


def tensor_store_2d(desc: TDMDescriptor2D, cache_policy: int = 0) -> None:
    """Start storing a tile from LDS; the descriptor was made with ``for_store`` if it has pads."""
    issue(desc.words, store=True, cache_modifier=cache_policy)


def tensor_load_gather(desc: TDMGatherDescriptor, cache_policy: int = 0) -> None:
    """Start loading rows into LDS."""
    issue(desc.words, store=False, cache_modifier=cache_policy)


def tensor_store_gather(desc: TDMGatherDescriptor, cache_policy: int = 0) -> None:
    """Start storing rows from LDS."""
    issue(desc.words, store=True, cache_modifier=cache_policy)


def tensor_wait(count: int = 0) -> None:
    """Wait until at most `count` of this wave's transfers are outstanding.

    Other waves see what arrived after a barrier.
    """
    s_wait_tensorcnt(count)


# Addresses ----------------------------------------------------------------------------------------
def update_tensor_descriptor_2d_addr64(desc: TDMDescriptor2D, address: Any) -> TDMDescriptor2D:
    """Return the descriptor with another address (Int64)."""
    return replace(desc, words=at_address(desc.words, address))


def update_tensor_descriptor_2d_addr_lo(desc: TDMDescriptor2D, low: Any) -> TDMDescriptor2D:
    """Return the descriptor with the address nearest to the present one whose low word is `low`.

    The high word follows where the way there, of up to 2 GiB, passes a multiple of 4 GiB.
    """
    return replace(desc, words=with_low_word(desc.words, low))


def update_tensor_descriptor_2d_addr_lo_hi(
    desc: TDMDescriptor2D, low: Any, high: Any
) -> TDMDescriptor2D:
    """Return the descriptor with both words of another address."""
    return replace(desc, words=with_both_words(desc.words, low, high))


def update_tensor_descriptor_2d_lds_addr(desc: TDMDescriptor2D, address: Any) -> TDMDescriptor2D:
    """Return the descriptor with another byte address in LDS (Int32)."""
    return replace(desc, words=with_lds_address(desc.words, address))


def update_tensor_gather_descriptor_addr64(
    desc: TDMGatherDescriptor, address: Any
) -> TDMGatherDescriptor:
    """Return the descriptor with another address (Int64)."""
    return replace(desc, words=at_address(desc.words, address))


def update_tensor_gather_descriptor_addr_lo(
    desc: TDMGatherDescriptor, low: Any
) -> TDMGatherDescriptor:
    """Return the descriptor with the nearest address whose low word is `low`; see the tile's."""
    return replace(desc, words=with_low_word(desc.words, low))


def update_tensor_gather_descriptor_addr_lo_hi(
    desc: TDMGatherDescriptor, low: Any, high: Any
) -> TDMGatherDescriptor:
    """Return the descriptor with both words of another address."""
    return replace(desc, words=with_both_words(desc.words, low, high))


# Prefetching --------------------------------------------------------------------------------------
def l2_prefetch_tile(
    global_ptr: Any,
    global_offset: Sequence[Any],
    tile_shape: Sequence[int],
    strides: Sequence[Any],
    elem_bytes: int = 2,
    *,
    thread_id: Any,
    **options: Any,
) -> None:
    """Ask for a tile's memory in the L2 cache: each thread one byte of a row.

    Args:
        global_ptr: Pointer or tensor in global memory.
        global_offset: Place of the tile in the tensor.
        tile_shape: Extents of the tile.
        strides: Elements between rows, and 1.
        elem_bytes: Bytes of an element.
        thread_id: This thread's number in its block.
        **options: ``block_threads`` (256; threads beyond the rows take the next part of a row),
            ``scope`` (8 for the shader engine's cache, 16 for the device's), and ``num_warps`` and
            ``wave_id``, which `thread_id` implies.

    Raises:
        UserTypeError: Another option.
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("l2_prefetch_tile")
    names = ("block_threads", "scope", "num_warps", "wave_id")
    unknown = options.keys() - set(names)
    if unknown:
        raise UserTypeError("l2_prefetch_tile has no such argument", code="FLY-U655",
                            value=sorted(unknown)[0], allowed=", ".join(names))  # fmt: skip
    block_threads, scope = options.get("block_threads", 256), options.get("scope", 8)
    rows, columns = tile_shape
    parts = max(1, block_threads // rows)
    step = -(-columns * elem_bytes // parts)
    row, part = Int32(thread_id) % rows, Int32(thread_id) // rows
    start = Int64(global_offset[0]) + Int64(row)
    place = (start * Int64(_stride(strides[0])) + Int64(global_offset[1])) * elem_bytes
    found = get_iter(global_ptr) if isinstance(global_ptr, Tensor) else global_ptr
    _address(found, "global", "the tensor")
    address = Int64(ptrtoint(found)) + place + Int64(part) * step
    session = require("l2_prefetch_tile")
    kind = session.ir.Type.parse("!llvm.ptr<1>")
    policy = constant(session, "i32", immediate("the scope", scope, 0, 31))
    with when((part < parts).ir_value()):
        where = emit("llvm.inttoptr", kind, (Int64(address).ir_value(),))
        effect("amdgcn.global.prefetch", (where, policy))
