"""`fly-layout-lowering`, part two: allocations, loads and stores of tensors, swizzled pointers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import attribute
from flydsl.dialects.checks import static_size
from flydsl.dialects.elements import storage_bits
from flydsl.dialects.fly_memory import element_type, natural_alignment, vector_type
from flydsl.dialects.views import View
from flydsl.errors import UserValueError
from flydsl.layout import evaluate as ev
from flydsl.passes.pointers import SsaPointer

if TYPE_CHECKING:
    from flydsl.passes.layout_lowering import Lowering

__all__ = [
    "MEMORY_HANDLERS",
    "access_pointer",
    "concatenated",
    "load_view",
    "overlaid",
    "part",
    "runs",
    "store_view",
]

Handler = Callable[["Lowering", Any], None]

_VECTOR_BYTES = 16
"""Widest single load or store that is formed from neighbouring elements."""


def access_pointer(low: Lowering, pointer: SsaPointer) -> mlir.ir.Value:
    """Return a pointer to load from or store to; a byte swizzle is applied to its address."""
    kind = pointer.type
    value = pointer.value
    if kind.swizzle is None:
        return value
    plain = ft.PtrType(kind.element, kind.space, natural_alignment(kind.element))
    width = 32 if kind.space == "shared" else 64
    address = low.create("fly.ptrtoint", [element_type(f"i{width}")], [value]).result
    swizzled = kind.swizzle(low.emitter.leaf(address, width, kind.alignment, nonnegative=True))
    number = low.emitter.value_of(swizzled, width)
    return low.create("fly.inttoptr", [plain.ir], [number]).result


def runs(view: View) -> list[tuple[SsaPointer, int, int]]:
    """Split a tensor of static shape into runs of neighbouring elements, in colexicographic order.

    Returns:
        (pointer to the first element, elements, number of the first element); a run is at most
        `_VECTOR_BYTES` wide in memory and unbounded in registers.
    """
    size = fl.size(view.layout)
    if not isinstance(size, int):
        raise UserValueError(
            "a whole tensor is accessed whose extents are known only at run time",
            code="FLY-U322",
            value=str(view.layout),
        )
    kind: ft.PtrType = view.pointer.type
    layout = view.layout
    static = isinstance(layout, fl.Layout) and layout.is_static
    if not static:
        # Without static strides neighbours are unknown: one element at a time.
        return [(view.at(_coordinate(view, i)), 1, i) for i in range(size)]
    offsets = [ev.evaluate(i, layout.shape, layout.stride) for i in range(size)]
    limit = size if kind.space == "register" else _run_limit(kind)
    out: list[tuple[SsaPointer, int, int]] = []
    start = 0
    for i in range(1, size + 1):
        if i < size and offsets[i] == offsets[i - 1] + 1 and i - start < limit:
            continue
        out.extend(_aligned_run(view.pointer, offsets[start], i - start, start))
        start = i
    return out


def _run_limit(kind: ft.PtrType) -> int:
    return max(1, _VECTOR_BYTES * 8 // storage_bits(kind.element))


def _aligned_run(
    pointer: SsaPointer, offset: int, count: int, first: int
) -> list[tuple[SsaPointer, int, int]]:
    """Return a run of memory in powers of two that its alignment allows; registers in one piece."""
    kind: ft.PtrType = pointer.type
    if kind.space == "register":
        return [(pointer.moved(offset), count, first)]
    out = []
    while count:
        here = pointer.moved(offset)
        bytes_each = max(1, storage_bits(kind.element) // 8)
        step = 1
        while step * 2 <= count and here.type.alignment % (step * 2 * bytes_each) == 0:
            step *= 2
        out.append((here, step, first))
        offset, count, first = offset + step, count - step, first + step
    return out


def _coordinate(view: View, number: int) -> Any:
    """Return the colexicographic coordinate of element `number`, nested like the shape."""
    shape = view.layout.shape
    compact = fl.make_ordered_layout(shape, 0)
    return fl.idx2crd(number, compact)


def load_view(low: Lowering, view: View) -> mlir.ir.Value:
    """Return a tensor of static shape as a vector, in colexicographic order."""
    element = view.pointer.type.element
    pieces = [
        low.create(
            "fly.ptr_load", [vector_type(count, element)], [access_pointer(low, pointer)]
        ).result
        for pointer, count, _ in runs(view)
    ]
    return concatenated(low.create, pieces, element)


def concatenated(
    create: Callable[..., Any], pieces: Sequence[mlir.ir.Value], element: str
) -> mlir.ir.Value:
    """Return the concatenation of vectors."""
    if len(pieces) == 1:
        return pieces[0]
    lengths = [mlir.ir.VectorType(piece.type).shape[0] for piece in pieces]
    type_ = vector_type(sum(lengths), element)
    if all(length == 1 for length in lengths):
        scalars = [
            create(
                "vector.extract",
                [element_type(element)],
                [piece],
                {"static_position": mlir.ir.DenseI64ArrayAttr.get([0])},
            ).result
            for piece in pieces
        ]
        return create("vector.from_elements", [type_], scalars).result
    out = pieces[0]
    for piece in pieces[1:]:
        length, more = (mlir.ir.VectorType(x.type).shape[0] for x in (out, piece))
        out = _shuffle(create, out, piece, range(length + more), element)
    return out


def _shuffle(
    create: Callable[..., Any],
    first: mlir.ir.Value,
    second: mlir.ir.Value,
    mask: Sequence[int],
    element: str,
) -> mlir.ir.Value:
    """Return the elements of two vectors, taken one after the other, that `mask` numbers."""
    attributes = {"mask": mlir.ir.DenseI64ArrayAttr.get(list(mask))}
    return create(
        "vector.shuffle", [vector_type(len(mask), element)], [first, second], attributes
    ).result


def part(
    create: Callable[..., Any], vector: mlir.ir.Value, at: int, count: int, element: str
) -> mlir.ir.Value:
    """Return elements ``[at, at + count)`` of a vector as a vector."""
    if mlir.ir.VectorType(vector.type).shape[0] == count:
        return vector
    return _shuffle(create, vector, vector, range(at, at + count), element)


def overlaid(
    create: Callable[..., Any], vector: mlir.ir.Value, piece: mlir.ir.Value, at: int, element: str
) -> mlir.ir.Value:
    """Return a vector with the elements of a shorter one in the places from `at` on."""
    size, count = (mlir.ir.VectorType(x.type).shape[0] for x in (vector, piece))
    mask = [size + i - at if at <= i < at + count else i for i in range(size)]
    return _shuffle(create, vector, piece, mask, element)


def store_view(low: Lowering, vector: mlir.ir.Value, view: View) -> None:
    """Store a vector over a tensor of static shape, in colexicographic order."""
    element = view.pointer.type.element
    for pointer, count, first in runs(view):
        piece = part(low.create, vector, first, count, element)
        low.create("fly.ptr_store", [], [piece, access_pointer(low, pointer)])


def _alloca(low: Lowering, op: Any) -> None:
    kind = ft.of(op.result.type)
    if not isinstance(kind, ft.MemRefType):
        return
    layout = kind.layout
    elements = static_size(fl.cosize(layout))
    size = max(1, -(-elements * storage_bits(kind.element) // 8))
    attributes = {"bytes": attribute(size)}
    if "sym" in op.attributes:
        attributes["sym"] = op.attributes["sym"]
    made = low.create("fly.alloca", [kind.pointer.ir], [], attributes).result
    low.bind(op.result, View(SsaPointer(low.emitter, made, kind.pointer), layout))
    low.done(op)


def _load(low: Lowering, op: Any) -> None:
    view, coord = low.get(op.operands[0]), low.get(op.operands[1])
    pointer = access_pointer(low, view.at(coord))
    loaded = low.create("fly.ptr_load", [op.result.type], [pointer])
    op.result.replace_all_uses_with(loaded.result)
    low.done(op)


def _store(low: Lowering, op: Any) -> None:
    view, coord = low.get(op.operands[1]), low.get(op.operands[2])
    low.create("fly.ptr_store", [], [op.operands[0], access_pointer(low, view.at(coord))])
    low.done(op)


def _load_vec(low: Lowering, op: Any) -> None:
    op.result.replace_all_uses_with(load_view(low, low.get(op.operands[0])))
    low.done(op)


def _store_vec(low: Lowering, op: Any) -> None:
    store_view(low, op.operands[0], low.get(op.operands[1]))
    low.done(op)


def _pointer_load(low: Lowering, op: Any) -> None:
    pointer = low.get(op.operands[0])
    loaded = low.create(
        "fly.ptr_load", [op.result.type], [access_pointer(low, pointer)], _attributes(op)
    )
    op.result.replace_all_uses_with(loaded.result)
    low.done(op)


def _attributes(op: Any) -> dict[str, Any] | None:
    return {name: op.attributes[name] for name in op.attributes} if len(op.attributes) else None


def _atomic(low: Lowering, op: Any) -> None:
    """Atomic operations take the pointer to access; one that is LLVM's own stays."""
    pointer, *rest = op.operands
    if ft.of(pointer.type) is None:
        return
    operands = [access_pointer(low, low.get(pointer)), *rest]
    made = low.create(op.name, [r.type for r in op.results], operands, _attributes(op))
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    low.done(op)


def _pointer_store(low: Lowering, op: Any) -> None:
    pointer = low.get(op.operands[1])
    operands = [op.operands[0], access_pointer(low, pointer)]
    low.create("fly.ptr_store", [], operands, _attributes(op))
    low.done(op)


MEMORY_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "memref_alloca": _alloca,
        "memref_load": _load,
        "memref_store": _store,
        "memref_load_vec": _load_vec,
        "memref_store_vec": _store_vec,
        "ptr_load": _pointer_load,
        "ptr_store": _pointer_store,
        "atomic_rmw": _atomic,
        "atomic_cas": _atomic,
    }
)
"""Operation name -> how `fly-layout-lowering` lowers it."""
