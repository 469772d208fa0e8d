"""Builders of pointer and memory operations, tiles, and packing of run-time leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import (
    Operand,
    as_value,
    attribute,
    create,
    ordered_leaves,
    segments,
    static,
)
from flydsl.dialects.elements import check_alignment, storage_bits
from flydsl.dialects.leaves import leaf_widths
from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.evaluate import check_coord
from flydsl.layout.tuples import format_tuple, has_none
from flydsl.mlir import context_state

__all__ = [
    "alloca",
    "element_type",
    "get_dyn_shared",
    "inttoptr",
    "make_fragment_like",
    "make_ptr",
    "make_tile",
    "memref_alloca",
    "memref_load",
    "memref_load_vec",
    "memref_store",
    "memref_store_vec",
    "natural_alignment",
    "pack",
    "ptr_load",
    "ptr_store",
    "ptrtoint",
    "recast_iter",
    "static_layout_size",
    "to_llvm_ptr",
    "unpack",
    "vector_type",
]


def _pointer(x: mlir.ir.Value, what: str = "the pointer") -> ft.PtrType:
    kind = ft.of(x.type)
    if not isinstance(kind, ft.PtrType):
        raise UserTypeError(f"{what} is no pointer", code="FLY-U321", value=str(x.type))
    return kind


def _memref(x: mlir.ir.Value) -> ft.MemRefType:
    kind = ft.of(x.type)
    if not isinstance(kind, ft.MemRefType):
        hint = ""
        if isinstance(kind, ft.CoordTensorType):
            hint = "a coordinate tensor has no memory; crd2idx gives its element"
        raise UserTypeError("not a tensor in memory", code="FLY-U321", value=str(x.type), hint=hint)
    return kind


def natural_alignment(element: str) -> int:
    """Return the alignment in bytes of one element."""
    size = max(1, storage_bits(element) // 8)
    return size & -size


def element_type(element: str) -> mlir.ir.Type:
    """Return the builtin type of an element text in the current context."""
    cache = context_state().types
    found = cache.get(element)
    if found is None:
        found = cache[element] = mlir.ir.Type.parse(element)
    return found


def static_layout_size(layout: fl.Layout | fl.ComposedLayout, what: str) -> int:
    """Return the size of a layout whose shape must be static.

    Raises:
        UserError: An extent is known only at run time.
    """
    size = fl.size(layout)
    if not isinstance(size, int):
        raise UserValueError(
            f"{what} needs extents that are known at compile time",
            code="FLY-U322",
            value=str(layout),
        )
    return size


def vector_type(size: int, element: str) -> mlir.ir.Type:
    """Return ``vector<size x element>``."""
    cache = context_state().types
    key = ("vector", size, element)
    found = cache.get(key)
    if found is None:
        found = cache[key] = mlir.ir.VectorType.get(
            [size], element_type(element), loc=mlir.ir.Location.unknown()
        )
    return found


def alloca(pointer: ft.PtrType, size: int, sym: str = "") -> mlir.ir.Value:
    """Allocate `size` bytes of register or shared memory (``fly.alloca``).

    Args:
        pointer: Type of the result; its alignment holds for the allocation.
        size: Bytes, at least 1.
        sym: Name of a shared allocation, unique in its gpu.module; required there.

    Raises:
        UserError: The space has no static allocations, or the size or name is missing.
    """
    if pointer.space not in ("register", "shared"):
        raise UserValueError(
            "static allocations exist in register and shared memory only",
            code="FLY-U323",
            value=pointer.space,
        )
    given: object = size
    if not isinstance(given, int) or given < 1:
        raise UserValueError("an allocation needs a positive size", code="FLY-U323", value=size)
    if (pointer.space == "shared") != bool(sym):
        raise UserValueError(
            "a shared allocation needs a symbol name, a register allocation has none",
            code="FLY-U323",
            value=sym,
        )
    attributes = {"bytes": attribute(size)}
    if sym:
        attributes["sym"] = attribute(sym)
    return create("alloca", (pointer.ir,), (), attributes).result


def memref_alloca(kind: ft.MemRefType, sym: str = "") -> mlir.ir.Value:
    """Allocate a tensor in register or shared memory; the layout must be static.

    Raises:
        UserError: The layout is not static, or see `alloca`.
    """
    if kind.space not in ("register", "shared") or (kind.space == "shared") != bool(sym):
        raise UserValueError(
            "a tensor is allocated in register memory, or with a symbol name in shared memory",
            code="FLY-U323",
            value=kind.space,
        )
    if not kind.layout.is_static:
        raise UserValueError(
            "an allocated tensor needs a layout that is known at compile time",
            code="FLY-U322",
            value=str(kind.layout),
        )
    if static_layout_size(kind.layout, "an allocation") == 0:
        raise UserValueError(
            "an allocated tensor has no elements", code="FLY-U323", value=str(kind.layout)
        )
    return create("memref_alloca", (kind.ir,), (), {"sym": attribute(sym)} if sym else None).result


def make_fragment_like(src: Operand, element: str = "") -> mlir.ir.Value:
    """Allocate the register tensor with the fragment layout of a layout or tensor.

    Args:
        src: Layout, tensor or coordinate tensor value.
        element: Element type text; default: that of the tensor.

    Raises:
        UserError: There is no element type, or the layout is not static.
    """
    kind = ft.of(as_value(src).type)
    layout: Any = None
    if isinstance(kind, ft.MemRefType):
        layout, element = kind.layout, element or kind.element
    elif isinstance(kind, ft.CoordTensorType):
        layout = kind.tensor.layout
    elif isinstance(kind, ft.LayoutType | ft.ComposedLayoutType):
        layout = kind.layout
    if layout is None or not element:
        raise UserTypeError(
            "a fragment needs a layout or tensor, and an element type", code="FLY-U321", value=src
        )
    like = fl.make_fragment_layout_like(layout)
    return memref_alloca(ft.MemRefType(element, "register", like, natural_alignment(element)))


def memref_load(memref: mlir.ir.Value, indices: Operand) -> mlir.ir.Value:
    """Load the element at a coordinate without wildcards.

    Raises:
        UserError: The coordinate does not fit, or `memref` is no tensor.
    """
    kind = _memref(memref)
    coord = as_value(indices)
    _check_coordinate(coord, memref, kind)
    return create("memref_load", (element_type(kind.element),), (memref, coord)).result


def memref_store(value: mlir.ir.Value, memref: mlir.ir.Value, indices: Operand) -> None:
    """Store an element at a coordinate without wildcards.

    Raises:
        UserError: The coordinate does not fit, or the value is not of the element type.
    """
    kind = _memref(memref)
    coord = as_value(indices)
    _check_coordinate(coord, memref, kind)
    _check_type(value, element_type(kind.element), "the stored value")
    create("memref_store", (), (value, memref, coord))


def memref_load_vec(memref: mlir.ir.Value) -> mlir.ir.Value:
    """Load a whole tensor of static shape as a vector, in colexicographic order.

    Raises:
        UserError: The shape is not static.
    """
    kind = _memref(memref)
    size = static_layout_size(kind.layout, "a vector load")
    return create("memref_load_vec", (vector_type(size, kind.element),), (memref,)).result


def memref_store_vec(vector: mlir.ir.Value, memref: mlir.ir.Value) -> None:
    """Store a vector over a whole tensor of static shape, in colexicographic order.

    Raises:
        UserError: The shape is not static, or the vector has another type.
    """
    kind = _memref(memref)
    size = static_layout_size(kind.layout, "a vector store")
    _check_type(vector, vector_type(size, kind.element), "the stored vector")
    create("memref_store_vec", (), (vector, memref))


def _check_coordinate(coord: mlir.ir.Value, memref: mlir.ir.Value, kind: ft.MemRefType) -> None:
    coord_type = coord.type
    checked = context_state(coord_type.context).attributes
    key = ("coordinate", coord_type, memref.type)
    if key in checked:
        return
    found = ft.of(coord_type)
    value = found.value if isinstance(found, ft.IntTupleType) else fl.Dyn()
    if has_none(value):
        raise UserTypeError(
            "an element needs a coordinate without wildcards",
            code="FLY-U318",
            value=format_tuple(value),
            hint="slice the tensor instead",
        )
    check_coord(value, kind.layout.shape)
    checked[key] = True


def _check_type(value: mlir.ir.Value, wanted: mlir.ir.Type, what: str) -> None:
    if value.type != wanted:
        raise UserTypeError(
            f"{what} has another type than the elements",
            code="FLY-U324",
            value=str(value.type),
            allowed=str(wanted),
            hint="convert it first",
        )


def ptr_load(ptr: mlir.ir.Value, result_type: mlir.ir.Type | None = None) -> mlir.ir.Value:
    """Load one element, or what `result_type` (a scalar or vector) says, from a pointer."""
    kind = _pointer(ptr)
    result = element_type(kind.element) if result_type is None else result_type
    return create("ptr_load", (result,), (ptr,)).result


def ptr_store(value: mlir.ir.Value, ptr: mlir.ir.Value) -> None:
    """Store a scalar or vector of elements through a pointer.

    Raises:
        UserError: The value is neither of the element type nor a vector of it.
    """
    kind = _pointer(ptr)
    stored = str(value.type)
    if stored != kind.element and not stored.endswith(f"x{kind.element}>"):
        _check_type(value, element_type(kind.element), "the stored value")
    create("ptr_store", (), (value, ptr))


def recast_iter(element: str | ft.PtrType, src: mlir.ir.Value) -> mlir.ir.Value:
    """Return the same address as a pointer to other elements; alignment and swizzle are kept.

    Raises:
        UserError: The alignment is no multiple of the new element's.
    """
    kind = _pointer(src)
    if isinstance(element, str):
        new = ft.PtrType(element, kind.space, kind.alignment, kind.swizzle)
    else:
        new = element
    if new.space != kind.space:
        raise UserTypeError(
            "a recast cannot change the address space",
            code="FLY-U321",
            value=new.space,
            allowed=kind.space,
        )
    if new.alignment > kind.alignment or new.alignment % natural_alignment(new.element):
        raise UserValueError(
            "the pointer is not known to be aligned enough for the new element type",
            code="FLY-U311",
            value=f"{kind.alignment} bytes",
            allowed=f"a multiple of {max(new.alignment, natural_alignment(new.element))} bytes",
        )
    return create("recast_iter", (new.ir,), (src,)).result


def inttoptr(kind: ft.PtrType, value: mlir.ir.Value) -> mlir.ir.Value:
    """Return the pointer of an integer address (i32 or i64).

    Raises:
        UserError: The space has no addresses.
    """
    if kind.space == "register":
        raise UserValueError("register memory has no addresses", code="FLY-U323", value=str(kind))
    return create("inttoptr", (kind.ir,), (value,)).result


def ptrtoint(ptr: mlir.ir.Value) -> mlir.ir.Value:
    """Return a pointer's address: i32 in shared memory, else i64.

    Raises:
        UserError: The space has no addresses.
    """
    kind = _pointer(ptr)
    if kind.space == "register":
        raise UserValueError("register memory has no addresses", code="FLY-U323", value=str(kind))
    return create(
        "ptrtoint", (element_type("i32" if kind.space == "shared" else "i64"),), (ptr,)
    ).result


def to_llvm_ptr(ptr: mlir.ir.Value, llvm_address_space: int) -> mlir.ir.Value:
    """Return a pointer as ``!llvm.ptr<address space>``; a target knows the numbers."""
    _pointer(ptr)
    text = f"!llvm.ptr<{llvm_address_space}>" if llvm_address_space else "!llvm.ptr"
    attributes = {"llvm_address_space": attribute(llvm_address_space)}
    return create("to_llvm_ptr", (element_type(text),), (ptr,), attributes).result


def get_dyn_shared(element: str = "i8", alignment: int = 1024) -> mlir.ir.Value:
    """Return the start of the workgroup's dynamic shared memory."""
    check_alignment(alignment)
    return create("get_dyn_shared", (ft.PtrType(element, "shared", alignment).ir,), ()).result


def make_ptr(
    kind: ft.PtrType, args: Sequence[mlir.ir.Value] = (), attributes: dict[str, Any] | None = None
) -> mlir.ir.Value:
    """Make a pointer of a target's own space from up to four operands, for that target to lower."""
    encoded = {name: attribute(value) for name, value in (attributes or {}).items()}
    encoded["operandSegmentSizes"] = segments([1] * len(args) + [0] * (4 - len(args)))
    return create("make_ptr", (kind.ir,), list(args), encoded).result


def make_tile(*modes: Any) -> mlir.ir.Value:
    """Return the tile of static tilers: int, None, nested tuple, layout, or static layout value.

    Raises:
        UserError: A mode is of another kind or not static.
    """
    return static(fl.make_tile(*(_tiler(mode) for mode in modes)))


def _tiler(mode: Any) -> Any:
    if isinstance(mode, tuple | list):
        return tuple(_tiler(m) for m in mode)
    if isinstance(mode, mlir.ir.Value):
        kind = ft.of(mode.type)
        if isinstance(kind, ft.LayoutType):
            return kind.layout
        if isinstance(kind, ft.TileType):
            return kind.tile
        if isinstance(kind, ft.IntTupleType):
            return kind.value
    return mode


def pack(
    kind: ft.FlyType, leaves: Sequence[mlir.ir.Value], iterator: mlir.ir.Value | None = None
) -> mlir.ir.Value:
    """Return the value of a type from its run-time leaves (i32 ones first, then i64).

    Args:
        kind: The type; a static one gives ``fly.static``.
        leaves: Its run-time integers in ABI order.
        iterator: The pointer, for a tensor in memory.
    """
    if iterator is None and not leaves:
        return create("static", (kind.ir,), ()).result
    operands, (narrow, wide) = ordered_leaves(leaves)
    sizes = segments((int(iterator is not None), narrow, wide))
    before = [] if iterator is None else [iterator]
    return create("pack", (kind.ir,), before + operands, {"operandSegmentSizes": sizes}).result


def unpack(value: mlir.ir.Value) -> tuple[mlir.ir.Value | None, list[mlir.ir.Value]]:
    """Return the pointer (of a tensor) and the run-time leaves of a Fly value, in ABI order."""
    kind = ft.of(value.type)
    if kind is None:
        raise UserTypeError("not a Fly value", code="FLY-U321", value=str(value.type))
    widths = leaf_widths(kind)
    pointer = [kind.pointer.ir] if isinstance(kind, ft.MemRefType) else []
    if not widths and not pointer:
        return None, []
    results = pointer + [element_type(f"i{w}") for w in widths]
    narrow = sum(1 for w in widths if w == 32)
    sizes = segments((len(pointer), narrow, len(widths) - narrow))
    op = create("unpack", results, (value,), {"resultSegmentSizes": sizes})
    found = list(op.results)
    return (found[0], found[1:]) if pointer else (None, found)
