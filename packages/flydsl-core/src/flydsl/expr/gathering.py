"""Gather and scatter: copies whose memory side is a base pointer plus an offset per instruction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.copying import CopyAtom, copy_atom_call
from flydsl.expr.layouts import apply
from flydsl.expr.pointers import Pointer, add_offset, make_view
from flydsl.expr.tensors import CoordTensor, Tensor

__all__ = ["gather", "scatter"]


def _sizes(layout: Any) -> list[int]:
    from flydsl.dialects.checks import static_size

    modes = [layout] if layout.is_leaf else list(layout.modes())
    return [static_size(mode, "a gathered or scattered tensor") for mode in modes]


def _per_instruction(tensor: Any, sizes: list[int], what: str) -> Callable[[Any], Any]:
    """Return the function from an instruction's coordinate to the element of a tensor.

    Raises:
        UserError: It is no tensor, or its extents are not those of the instructions.
    """
    if not isinstance(tensor, (Tensor, CoordTensor)):
        raise UserTypeError(f"the {what} is no tensor", code="FLY-U252", value=tensor)
    layout = tensor.kind.layout if isinstance(tensor, Tensor) else tensor.kind.tensor.layout
    found = _sizes(layout)
    # A single instruction in mode 0 needs no mode of its own.
    skipped = 1 if sizes[0] == 1 and found == sizes[1:] else 0
    if found != sizes[skipped:]:
        raise UserValueError(
            f"the {what} does not have one element per instruction",
            code="FLY-U328",
            value=str(layout),
            allowed=f"extents {tuple(sizes)}",
        )

    def element(step: tuple[int, ...]) -> Any:
        place = step[skipped:]
        return tensor[place[0] if layout.is_leaf else place]

    return element


def _each(
    atom: Any,
    registers: Any,
    offsets: Any,
    pred: Any,
    act: Callable[[Any, Any, Any], None],
) -> None:
    """Call ``act(part of the registers, offset, predicate)`` per instruction."""
    from flydsl.dialects.checks import split_instructions

    if not isinstance(atom, CopyAtom):
        raise UserTypeError("this is not a copy atom", code="FLY-U252", value=atom)
    if not isinstance(registers, Tensor) or registers.kind.space != "register":
        raise UserTypeError("the register side is no register tensor", code="FLY-U252",
                            value=registers)  # fmt: skip
    values = atom.operation.values(atom.val_bits)
    split = split_instructions(registers.kind.layout, values, "the register side")
    view = make_view(registers.iter, split)
    sizes = _sizes(split)[1:]
    offset = _per_instruction(offsets, sizes, "offset tensor")
    guard = None if pred is None else _per_instruction(pred, sizes, "predicate")
    for reversed_step in product(*(range(size) for size in reversed(sizes))):
        step = reversed_step[::-1]
        part = apply("slice", view, (None, *step))
        act(part, offset(step), None if guard is None else guard(step))


def _memory(atom: Any, base: Any) -> Callable[[Any], Any]:
    """Return the function from an offset to the memory side of one instruction."""
    from flydsl import layout as algebra

    if not isinstance(base, Pointer):
        raise UserTypeError("the base is no pointer", code="FLY-U252", value=base)
    values = atom.operation.values(atom.val_bits) if isinstance(atom, CopyAtom) else 1
    return lambda offset: make_view(add_offset(base, offset), algebra.Layout(values, 1))


def gather(
    atom: Any, base_iter: Any, offset_tensor: Any, dst: Any, pred: Any = None, **state: Any
) -> None:
    """Copy from scattered places in memory to registers.

    Args:
        atom: A copy atom.
        base_iter: Pointer that the offsets count from, in elements.
        offset_tensor: One offset per instruction: (instructions in mode 0, rest…), or (rest…) where
            mode 0 of `dst` is one instruction.
        dst: Register tensor ((values of an instruction, instructions), rest…).
        pred: Truth values, shaped like the offsets; where false, `dst` keeps its values.
        **state: State fields of the atom.

    Raises:
        UserError: Extents differ or are not static, or an operand is of another kind.
    """
    source = _memory(atom, base_iter)

    def act(part: Any, offset: Any, guard: Any) -> None:
        copy_atom_call(atom, source(offset), part, pred=guard, **state)

    _each(atom, dst, offset_tensor, pred, act)


def scatter(
    atom: Any, src: Any, base_iter: Any, offset_tensor: Any, pred: Any = None, **state: Any
) -> None:
    """Copy from registers to scattered places in memory; see `gather`.

    Args:
        atom: A copy atom.
        src: Register tensor ((values of an instruction, instructions), rest…).
        base_iter: Pointer that the offsets count from, in elements.
        offset_tensor: One offset per instruction, as in `gather`.
        pred: Truth values, shaped like the offsets; where false, nothing is stored.
        **state: State fields of the atom.

    Raises:
        UserError: Extents differ or are not static, or an operand is of another kind.
    """
    target = _memory(atom, base_iter)

    def act(part: Any, offset: Any, guard: Any) -> None:
        copy_atom_call(atom, part, target(offset), pred=guard, **state)

    _each(atom, src, offset_tensor, pred, act)
