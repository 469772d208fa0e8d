"""Whether operands fit an atom: used by the builders at the user's line and by `verify`."""

from __future__ import annotations

from typing import Any

from flydsl import layout as fl
from flydsl.dialects import fly_types as ft
from flydsl.dialects.elements import storage_bits
from flydsl.errors import UserTypeError, UserValueError

__all__ = [
    "check_copy",
    "check_copy_call",
    "check_gemm",
    "check_mma_call",
    "copy_atom_of",
    "split_instructions",
    "split_predicate",
    "static_size",
]


def copy_atom_of(kind: Any) -> ft.CopyAtomType:
    """Return the copy atom of an atom or tiled copy.

    Raises:
        UserError: It is neither.
    """
    if isinstance(kind, ft.TiledCopyType):
        return kind.atom
    if not isinstance(kind, ft.CopyAtomType):
        raise UserTypeError("not a copy atom", code="FLY-U325", value=str(kind))
    return kind


def _mma_atom_of(kind: Any) -> ft.MmaAtomType:
    if isinstance(kind, ft.TiledMmaType):
        return kind.atom
    if not isinstance(kind, ft.MmaAtomType):
        raise UserTypeError("not an MMA atom", code="FLY-U325", value=str(kind))
    return kind


def _tensor(kind: Any, what: str) -> ft.MemRefType:
    if not isinstance(kind, ft.MemRefType):
        raise UserTypeError(f"{what} is no tensor in memory", code="FLY-U321", value=str(kind))
    return kind


def static_size(layout: Any, what: str = "the layout") -> int:
    """Return the size of a layout, shape or tile.

    Raises:
        UserError: It is known only at run time.
    """
    size = fl.size(layout)
    if not isinstance(size, int):
        raise UserValueError(
            f"{what} has an extent known only at run time", code="FLY-U322", value=str(layout)
        )
    return size


def _check_width(atom: ft.CopyAtomType, tensor: ft.MemRefType, what: str) -> None:
    if storage_bits(tensor.element) != atom.bits:
        raise UserTypeError(
            f"the elements of {what} are not as wide as the values of the copy atom",
            code="FLY-U327",
            value=tensor.element,
            allowed=f"{atom.bits}-bit elements",
        )


def _check_values(atom: ft.CopyAtomType, tensor: ft.MemRefType, layout: Any, what: str) -> None:
    _check_width(atom, tensor, what)
    if atom.operation.whole_tile:
        return
    moved = static_size(layout, what)
    wanted = atom.operation.values(atom.bits)
    if moved != wanted:
        raise UserValueError(
            f"{what} does not hold the values of one {atom.operation} instruction",
            code="FLY-U327",
            value=f"{moved} values of {atom.bits} bits",
            allowed=f"{wanted} values",
        )


def check_copy_call(atom_kind: Any, src_kind: Any, dst_kind: Any) -> None:
    """Raise UserError unless both tensors hold exactly one instruction's values."""
    atom = copy_atom_of(atom_kind)
    for kind, what in ((src_kind, "the source"), (dst_kind, "the destination")):
        tensor = _tensor(kind, what)
        _check_values(atom, tensor, tensor.layout, what)


def _mode_layouts(layout: Any) -> list[Any]:
    return [layout] if layout.is_leaf else list(layout.modes())


def split_instructions(layout: Any, values: int, what: str = "the tensor") -> Any:
    """Return the layout (values of one instruction, instructions in mode 0, rest…).

    Args:
        layout: Mode 0 holds the values of one instruction, then those of the next, and so on, as
            partitions of tiled copies have it.
        values: Values of one instruction.
        what: What the layout belongs to, for messages.

    Raises:
        UserError: Mode 0 is no whole number of instructions.
    """
    if isinstance(layout, fl.ComposedLayout):
        return layout.with_outer(split_instructions(layout.outer, values, what))
    modes = _mode_layouts(layout)
    size = static_size(modes[0], what)
    if size % values:
        raise UserValueError(
            f"mode 0 of {what} does not hold a whole number of copy instructions",
            code="FLY-U327",
            value=f"{size} values in {modes[0]}",
            allowed=f"a multiple of {values} values",
        )
    if size == values:
        return _joined([modes[0], fl.Layout(1, 0), *modes[1:]])
    pair = fl.logical_divide(modes[0], fl.Layout(values, 1))
    return _joined([*pair.modes(), *modes[1:]])


def _joined(modes: list[Any]) -> fl.Layout:
    return fl.Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def split_predicate(layout: Any, rank: int, values: int, repeats: int) -> Any:
    """Return a predicate's layout (1, instructions in mode 0, rest…).

    Args:
        layout: Modes as in the source, or those after the first. Mode 0, where it is there, holds
            one truth value, one per instruction, or one per value of which the first counts.
        rank: Rank of the source.
        values: Values of one instruction.
        repeats: Instructions in mode 0 of the source.

    Raises:
        UserError: It fits neither.
    """
    modes = _mode_layouts(layout)
    first: list[Any] = []
    if len(modes) == rank and not (rank == 1 and repeats == 1):
        first, modes = modes[:1], modes[1:]
    elif len(modes) not in (rank, max(1, rank - 1)):
        raise UserValueError(
            "the predicate of a copy has the wrong rank",
            code="FLY-U328",
            value=str(layout),
            allowed=f"rank {rank} or {rank - 1}",
        )
    elif rank == 1:
        first, modes = modes, []
    each: Any = fl.Layout(repeats, 0)
    size = static_size(first[0], "the predicate") if first else 1
    if size == values * repeats and values > 1:
        each = split_instructions(first[0], values, "the predicate").modes()[1]
    elif size == repeats and repeats > 1:
        each = first[0]
    elif size != 1 and not (rank == 1 and repeats == 1):
        raise UserValueError(
            "mode 0 of the predicate of a copy has the wrong size",
            code="FLY-U328",
            value=str(layout),
            allowed=f"1, {repeats} or {values * repeats}",
        )
    return _joined([fl.Layout(1, 0), each, *modes])


def check_copy(atom_kind: Any, src_kind: Any, dst_kind: Any, pred_kind: Any) -> None:
    """Raise UserError unless the tensors have equal, static modes that fit the atom."""
    atom = copy_atom_of(atom_kind)
    src, dst = _tensor(src_kind, "the source"), _tensor(dst_kind, "the destination")
    ranks = [len(_mode_layouts(x.layout)) for x in (src, dst)]
    if ranks[0] != ranks[1]:
        raise UserValueError(
            "source and destination of a copy have different ranks",
            code="FLY-U328",
            value=f"{src.layout} and {dst.layout}",
        )
    _check_width(atom, src, "the source")
    _check_width(atom, dst, "the destination")
    if atom.operation.whole_tile:
        return
    values = atom.operation.values(atom.bits)
    sizes = []
    for tensor, what in ((src, "the source"), (dst, "the destination")):
        split = split_instructions(tensor.layout, values, what)
        sizes.append([static_size(m, what) for m in split.modes()[1:]])
    if sizes[0] != sizes[1]:
        raise UserValueError(
            "source and destination of a copy have different sizes",
            code="FLY-U328",
            value=f"{src.layout} and {dst.layout}",
        )
    if isinstance(pred_kind, ft.MemRefType):
        made = split_predicate(pred_kind.layout, ranks[0], values, sizes[0][0])
        found = [static_size(m, "the predicate") for m in made.modes()[2:]]
        if found != sizes[0][1:]:
            raise UserValueError(
                "predicate and source of a copy have different sizes",
                code="FLY-U328",
                value=f"{pred_kind.layout} and {src.layout}",
            )


def _check_fragment(atom: ft.MmaAtomType, operand: str, tensor: ft.MemRefType, values: Any) -> None:
    wanted = fl.size(fl.get(atom.operation.layout_tv(operand), 1))
    found = static_size(values, f"operand {operand}")
    if found != wanted:
        raise UserValueError(
            f"operand {operand} does not hold one thread's values of {atom.operation}",
            code="FLY-U329",
            value=f"{found} values",
            allowed=f"{wanted} values",
        )
    bits = storage_bits(atom.operation.element(operand))
    if storage_bits(tensor.element) != bits:
        raise UserTypeError(
            f"operand {operand} of {atom.operation} has elements of another width",
            code="FLY-U329",
            value=tensor.element,
            allowed=atom.operation.element(operand),
        )


def check_mma_call(atom_kind: Any, d: Any, a: Any, b: Any, c: Any) -> None:
    """Raise UserError unless each register tensor holds one thread's values of the atom."""
    atom = _mma_atom_of(atom_kind)
    for operand, kind in (("D", d), ("A", a), ("B", b), ("C", c)):
        tensor = _tensor(kind, f"operand {operand}")
        _check_fragment(atom, operand, tensor, tensor.layout)


def check_gemm(atom_kind: Any, d: Any, a: Any, b: Any, c: Any) -> None:
    """Raise UserError unless the ranks and sizes of the four fragments fit together."""
    atom = _mma_atom_of(atom_kind)
    tensors = {
        name: _tensor(kind, f"operand {name}")
        for name, kind in (("D", d), ("A", a), ("B", b), ("C", c))
    }
    modes = {name: _mode_layouts(tensor.layout) for name, tensor in tensors.items()}
    ranks: tuple[int, ...] = tuple(len(modes[name]) for name in "DABC")
    if ranks not in ((1, 1, 1, 1), (3, 2, 2, 3), (3, 3, 3, 3)):
        raise UserValueError(
            "the ranks of the operands of gemm do not fit",
            code="FLY-U329",
            value=f"D {ranks[0]}, A {ranks[1]}, B {ranks[2]}, C {ranks[3]}",
            allowed="all 1; D and C 3 with A and B 2; all 3",
        )
    for name, tensor in tensors.items():
        _check_fragment(atom, name, tensor, modes[name][0])
    if len(modes["D"]) == 1:
        return
    sizes = {
        name: [static_size(m, f"operand {name}") for m in part[1:]] for name, part in modes.items()
    }
    extents = (("M", "D", 0, "A", 0), ("N", "D", 1, "B", 0), ("M", "C", 0, "A", 0))
    pairs = [*extents, ("N", "C", 1, "B", 0)]
    if len(modes["A"]) == 3:
        pairs.append(("K", "A", 1, "B", 1))
    for letter, left, i, right, j in pairs:
        if sizes[left][i] != sizes[right][j]:
            raise UserValueError(
                f"{left} and {right} have different extents along {letter}",
                code="FLY-U329",
                value=f"{sizes[left][i]} and {sizes[right][j]}",
            )
