"""Builders of copy and MMA atoms, their calls, `copy`, `gemm` and tiled operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl.dialects import fly_types as ft
from flydsl.dialects.atoms import CopyOp, MmaOp
from flydsl.dialects.building import Builder, Operand, attribute, create, segments
from flydsl.dialects.checks import (
    check_copy,
    check_copy_call,
    check_gemm,
    check_mma_call,
    static_size,
)
from flydsl.dialects.fly_memory import element_type, memref_alloca, natural_alignment
from flydsl.dialects.tiled import TRAVERSAL_ORDERS, traversal
from flydsl.errors import UserTypeError, UserValueError

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = [
    "atom_set_value",
    "copy",
    "copy_atom_call",
    "copy_atom_call_ssa",
    "gemm",
    "gemm_steps",
    "make_copy_atom",
    "make_mma_atom",
    "mma_atom_call",
    "mma_atom_call_ssa",
    "mma_make_fragment",
    "tiled_mma_partition",
    "tiled_mma_partition_shape",
]

_PARTITION = Builder("tiled_mma_partition")
_PARTITION_SHAPE = Builder("tiled_mma_partition_shape")


def make_copy_atom(operation: CopyOp, bits: int, args: Sequence[ir.Value] = ()) -> ir.Value:
    """Return the copy atom of `operation` for values of `bits` bits.

    Args:
        operation: The instruction.
        bits: Width of one value.
        args: Run-time operands of the operation's own, all of one type.

    Raises:
        UserError: The operation does not move a whole number of such values.
    """
    return create("make_copy_atom", (ft.CopyAtomType(operation, bits).ir,), list(args)).result


def make_mma_atom(operation: MmaOp) -> ir.Value:
    """Return the MMA atom of `operation`."""
    return create("make_mma_atom", (ft.MmaAtomType(operation).ir,), ()).result


def atom_set_value(atom: ir.Value, field: str, value: ir.Value) -> ir.Value:
    """Return the atom with the state value `field` attached.

    Raises:
        UserError: The operation has no such state.
    """
    kind = ft.of(atom.type)
    if isinstance(kind, ft.TiledCopyType | ft.TiledMmaType):
        operation: Any = kind.atom.operation
    elif isinstance(kind, ft.CopyAtomType | ft.MmaAtomType):
        operation = kind.operation
    else:
        raise UserTypeError("not an atom", code="FLY-U325", value=str(atom.type))
    if field not in operation.state:
        raise UserValueError(
            f"{operation} has no state of that name",
            code="FLY-U325",
            value=field,
            allowed=", ".join(operation.state) or "none",
        )
    return create("atom_set_value", (atom.type,), (atom, value), {"field": attribute(field)}).result


def copy_atom_call(
    atom: ir.Value, src: ir.Value, dst: ir.Value, pred: ir.Value | None = None
) -> None:
    """Execute one copy instruction from tensor `src` to tensor `dst`.

    Args:
        atom: A copy atom.
        src: Tensor that holds exactly the values of one instruction.
        dst: Tensor that takes them.
        pred: Truth value, or register tensor whose first element says whether to copy. Without it
            a register destination keeps its value.

    Raises:
        UserError: The tensors do not fit the atom.
    """
    check_copy_call(ft.of(atom.type), ft.of(src.type), ft.of(dst.type))
    create("copy_atom_call", (), (atom, src, dst) if pred is None else (atom, src, dst, pred))


def copy_atom_call_ssa(
    atom: ir.Value,
    src: ir.Value,
    dst: ir.Value | None = None,
    *,
    result: ir.Type | None = None,
    pred: ir.Value | None = None,
) -> ir.Value | None:
    """Execute one copy instruction on pointers and vectors.

    Args:
        atom: A copy atom.
        src: Pointer, or vector when it comes from registers.
        dst: Pointer; None when the result is the destination.
        result: Vector type of the result when the destination is registers.
        pred: Truth value.

    Returns:
        The loaded vector, or None.
    """
    operands = [x for x in (atom, src, dst, pred) if x is not None]
    sizes = segments((1, 1, int(dst is not None), int(pred is not None)))
    op = create(
        "copy_atom_call_ssa",
        () if result is None else (result,),
        operands,
        {"operandSegmentSizes": sizes},
    )
    return None if result is None else op.result


def copy(atom: ir.Value, src: ir.Value, dst: ir.Value, pred: ir.Value | None = None) -> None:
    """Copy tensor `src` to `dst`, one instruction per coordinate of the modes after mode 0.

    Args:
        atom: Copy atom or tiled copy.
        src: Tensor whose mode 0 holds the values of one instruction.
        dst: Tensor of the same rank and sizes.
        pred: Truth value, or register tensor of the rank of `src` or one less (without mode 0).

    Raises:
        UserError: Ranks or sizes differ, are not static, or do not fit the atom.
    """
    kind = None if pred is None else ft.of(pred.type)
    check_copy(ft.of(atom.type), ft.of(src.type), ft.of(dst.type), kind)
    create("copy", (), (atom, src, dst) if pred is None else (atom, src, dst, pred))


def _scaled(
    operands: Sequence[ir.Value], scales: Sequence[ir.Value | None]
) -> tuple[list[ir.Value], ir.Attribute]:
    given = [s for s in scales if s is not None]
    sizes = [1] * len(operands) + [int(s is not None) for s in scales]
    return [*operands, *given], segments(sizes)


def mma_atom_call(
    atom: ir.Value,
    d: ir.Value,
    a: ir.Value,
    b: ir.Value,
    c: ir.Value,
    *,
    scale_a: ir.Value | None = None,
    scale_b: ir.Value | None = None,
) -> None:
    """Execute one MMA instruction d = a·b + c on register tensors.

    Raises:
        UserError: The tensors do not hold one thread's values of the atom.
    """
    check_mma_call(ft.of(atom.type), *(ft.of(x.type) for x in (d, a, b, c)))
    operands, sizes = _scaled((atom, d, a, b, c), (scale_a, scale_b))
    create("mma_atom_call", (), operands, {"operandSegmentSizes": sizes})


def mma_atom_call_ssa(
    atom: ir.Value,
    a: ir.Value,
    b: ir.Value,
    c: ir.Value,
    *,
    scale_a: ir.Value | None = None,
    scale_b: ir.Value | None = None,
) -> ir.Value:
    """Execute one MMA instruction on vectors and return the result vector (the type of `c`)."""
    operands, sizes = _scaled((atom, a, b, c), (scale_a, scale_b))
    return create("mma_atom_call_ssa", (c.type,), operands, {"operandSegmentSizes": sizes}).result


def gemm(
    atom: ir.Value,
    d: ir.Value,
    operands: tuple[Operand, Operand, Operand],
    *,
    scales: tuple[ir.Value | None, ir.Value | None] = (None, None),
    traversal_order: str = "",
    traversal_layout: fl.Layout | None = None,
) -> None:
    """Multiply fragments: d = a·b + c, unrolled over the modes after mode 0.

    Args:
        atom: MMA atom or tiled MMA.
        d: Register tensor (V, M, N), or (V).
        operands: a (V, M, K), b (V, N, K) and c like d; or all of rank 1.
        scales: Scale tensors of a and b for scaled atoms.
        traversal_order: Letters innermost to outermost, ``"NMK"`` by default; with ``_Serpentine``
            inner loops turn around on odd outer steps.
        traversal_layout: Step -> linear tile (colexicographic M, N, K) instead of an order.

    Raises:
        UserError: Ranks or sizes do not fit, or both an order and a layout are given.
    """
    a, b, c = operands
    _check_traversal(atom, (d, a, b, c), traversal_order, traversal_layout)
    values, sizes = _scaled((atom, d, a, b, c), scales)
    attributes = {"operandSegmentSizes": sizes}
    if traversal_order:
        attributes["traversal_order"] = attribute(traversal_order)
    if traversal_layout is not None:
        attributes["traversal_layout"] = attribute(str(traversal_layout))
    create("gemm", (), values, attributes)


def _check_traversal(
    atom: ir.Value, operands: Sequence[Operand], order: str, layout: fl.Layout | None
) -> None:
    check_gemm(ft.of(atom.type), *(ft.of(x.type) for x in operands))
    if order and layout is not None:
        raise UserValueError(
            "gemm takes a traversal order or a traversal layout, not both", code="FLY-U326"
        )
    if order and order not in TRAVERSAL_ORDERS:
        raise UserValueError(
            "no such traversal order",
            code="FLY-U326",
            value=order,
            allowed=", ".join(TRAVERSAL_ORDERS),
        )
    given: Any = layout
    if given is not None and not (isinstance(given, fl.Layout) and given.is_static):
        raise UserTypeError(
            "a traversal layout is a static layout", code="FLY-U326", value=str(given)
        )


def gemm_steps(
    atom: ir.Value,
    d: ir.Value,
    operands: tuple[Operand, Operand, Operand],
    *,
    traversal_order: str = "",
    traversal_layout: fl.Layout | None = None,
) -> list[tuple[int, int, int]]:
    """Return the (m, n, k) of each MMA call that `gemm` with these operands makes, in order.

    Raises:
        UserError: As `gemm`, or the layout does not visit every tile exactly once.
    """
    a, b, c = operands
    _check_traversal(atom, (d, a, b, c), traversal_order, traversal_layout)
    modes = []
    for value in (a, b):
        kind = ft.of(value.type)
        assert isinstance(kind, ft.MemRefType)
        layout = kind.layout
        modes.append([layout] if layout.is_leaf else list(layout.modes()))
    extents = [static_size(part[1]) if len(part) > 1 else 1 for part in modes]
    depth = static_size(modes[0][2]) if len(modes[0]) > 2 else 1
    return traversal(traversal_order, traversal_layout, (extents[0], extents[1], depth))


def tiled_mma_partition(
    operand: str, tiled_mma: ir.Value, x: ir.Value, thread: Operand
) -> ir.Value:
    """Return thread `thread`'s part of a tile of operand ``"A"``, ``"B"`` or ``"C"``."""
    return _PARTITION(tiled_mma, x, thread, operand_id=operand)


def tiled_mma_partition_shape(operand: str, tiled_mma: ir.Value, shape: Operand) -> ir.Value:
    """Return the shape of one thread's part of a tile of that shape."""
    return _PARTITION_SHAPE(tiled_mma, shape, operand_id=operand)


def mma_make_fragment(
    operand: str, tiled_mma: ir.Value, tile: ir.Value, stages: int | None = None
) -> ir.Value:
    """Allocate the register fragment of one thread's part of an unpartitioned tile.

    Args:
        operand: ``"A"``, ``"B"`` or ``"C"``.
        tiled_mma: The tiled MMA; its operand type is the element type.
        tile: Tensor (M, K), (N, K) or (M, N).
        stages: Adds a trailing mode of this extent.

    Raises:
        UserError: The tile does not fit, or is not static.
    """
    kind = ft.of(tiled_mma.type)
    if not isinstance(kind, ft.TiledMmaType):
        raise UserTypeError("not a tiled MMA", code="FLY-U325", value=str(tiled_mma.type))
    if operand not in ("A", "B", "C", "D"):
        raise UserValueError(
            "no such MMA operand", code="FLY-U331", value=operand, allowed="A, B, C, D"
        )
    part = ft.of(tiled_mma_partition(operand, tiled_mma, tile, 0).type)
    if isinstance(part, ft.MemRefType | ft.LayoutType):
        source: Any = part.layout
    elif isinstance(part, ft.CoordTensorType):
        source = part.tensor.layout
    else:
        raise UserTypeError(
            "a fragment is made for a tensor or a layout", code="FLY-U331", value=str(part)
        )
    layout = fl.make_fragment_layout_like(source)
    if stages is not None:
        layout = fl.append(layout, fl.Layout(stages, fl.cosize(layout)))
    element = kind.atom.operation.element(operand)
    element_type(element)
    return memref_alloca(ft.MemRefType(element, "register", layout, natural_alignment(element)))
