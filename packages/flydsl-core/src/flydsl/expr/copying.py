"""Copies: copy atoms and the operations that run them. Tiled copies are in `tiling`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import IRValue
from flydsl.expr.emit import located
from flydsl.expr.enums import AtomicOp, SyncScope
from flydsl.expr.numeric import Boolean, Numeric, as_numeric
from flydsl.expr.pointers import element_class
from flydsl.expr.tensors import Tensor
from flydsl.expr.wrapping import FlyValue, as_operand, register_wrapper

__all__ = [
    "CopyAtom",
    "UniversalAtomic",
    "UniversalAtomicAdd",
    "UniversalAtomicAnd",
    "UniversalAtomicDec",
    "UniversalAtomicInc",
    "UniversalAtomicMax",
    "UniversalAtomicMin",
    "UniversalAtomicOr",
    "UniversalCopy",
    "UniversalCopy8b",
    "UniversalCopy16b",
    "UniversalCopy32b",
    "UniversalCopy64b",
    "UniversalCopy128b",
    "atom_set_value",
    "copy",
    "copy_atom_call",
    "make_copy_atom",
]


def UniversalCopy(bits: int) -> Any:  # noqa: N802  (the name of the public API)
    """Return the copy operation that moves `bits` bits with plain loads and stores.

    Raises:
        UserError: `bits` is no positive multiple of 8.
    """
    from flydsl.dialects import atoms

    return atoms.UniversalCopy(bits)


def UniversalCopy8b() -> Any:  # noqa: N802
    """Return ``UniversalCopy(8)``."""
    return UniversalCopy(8)


def UniversalCopy16b() -> Any:  # noqa: N802
    """Return ``UniversalCopy(16)``."""
    return UniversalCopy(16)


def UniversalCopy32b() -> Any:  # noqa: N802
    """Return ``UniversalCopy(32)``."""
    return UniversalCopy(32)


def UniversalCopy64b() -> Any:  # noqa: N802
    """Return ``UniversalCopy(64)``."""
    return UniversalCopy(64)


def UniversalCopy128b() -> Any:  # noqa: N802
    """Return ``UniversalCopy(128)``."""
    return UniversalCopy(128)


def UniversalAtomic(operation: Any, dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that combines registers with memory atomically, relaxed.

    Args:
        operation: `AtomicOp`, or its name. Max and Min compare unsigned for unsigned classes.
        dtype: Numeric class of the elements.
        syncscope: Who has to see it (see `SyncScope`); empty: the agent (the whole device).

    Raises:
        UserError: The operation does not exist, or not for the class.
    """
    from flydsl.dialects import atoms

    name = operation.name if isinstance(operation, AtomicOp) else str(operation)
    kind = element_class(dtype)
    text = kind.ir_text
    if kind.is_integer and not kind.signed and kind.width > 1:
        text = "u" + text
    scope = "system" if syncscope is SyncScope.System else str(syncscope or "")
    return atoms.UniversalAtomic(name.lower(), text, scope)


def UniversalAtomicAdd(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that adds to memory atomically; see `UniversalAtomic`."""
    return UniversalAtomic(AtomicOp.Add, dtype, syncscope)


def UniversalAtomicMax(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that keeps the larger value in memory atomically."""
    return UniversalAtomic(AtomicOp.Max, dtype, syncscope)


def UniversalAtomicMin(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that keeps the smaller value in memory atomically."""
    return UniversalAtomic(AtomicOp.Min, dtype, syncscope)


def UniversalAtomicAnd(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that ands into memory atomically (integers)."""
    return UniversalAtomic(AtomicOp.And, dtype, syncscope)


def UniversalAtomicOr(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that ors into memory atomically (integers)."""
    return UniversalAtomic(AtomicOp.Or, dtype, syncscope)


def UniversalAtomicInc(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that increments memory, back to 0 at the register's value."""
    return UniversalAtomic(AtomicOp.Inc, dtype, syncscope)


def UniversalAtomicDec(dtype: Any, syncscope: Any = "") -> Any:  # noqa: N802
    """Return the copy operation that decrements memory, from 0 to the register's value."""
    return UniversalAtomic(AtomicOp.Dec, dtype, syncscope)


class CopyAtom(FlyValue):
    """One copy instruction for values of a certain width."""

    __slots__ = ()

    @property
    def operation(self) -> Any:
        """The copy operation."""
        return self.kind.operation

    @property
    def val_bits(self) -> int:
        """Bits of one value."""
        return int(self.kind.bits)

    @property
    def thr_layout(self) -> Any:
        """Layout of the threads that take part."""
        return self.operation.thr_layout()

    thr_id = thr_layout

    @property
    def layout_src_tv(self) -> Any:
        """(thread, value) to element of the source."""
        return self.operation.src_tv(self.val_bits)

    @property
    def layout_dst_tv(self) -> Any:
        """(thread, value) to element of the destination."""
        return self.operation.dst_tv(self.val_bits)

    @property
    def layout_ref_tv(self) -> Any:
        """(thread, value) to element that tilings refer to."""
        return self.operation.ref_tv(self.val_bits)

    def set_value(self, field: str | Mapping[str, Any], value: Any = None) -> CopyAtom:
        """Return the atom with a state field set, or with all fields of a mapping set.

        Raises:
            UserError: The operation has no such state.
        """
        atom = self
        fields = field if isinstance(field, Mapping) else {field: value}
        for name, item in fields.items():
            atom = atom_set_value(atom, name, item)
        return atom


register_wrapper("copy_atom", lambda value, kind, _: CopyAtom(value, kind))


def make_copy_atom(copy_op: Any, elem_type_or_bits: Any) -> CopyAtom:
    """Return the copy atom of an operation for values of one type.

    Args:
        copy_op: A copy operation such as ``UniversalCopy128b()``.
        elem_type_or_bits: Numeric class, or width of a value in bits.

    Raises:
        UserError: The operation does not move a whole number of such values.
    """
    from flydsl.dialects import atoms, fly

    if not isinstance(copy_op, atoms.CopyOp):
        raise UserTypeError("this is not a copy operation", code="FLY-U252", value=copy_op)
    bits = elem_type_or_bits
    if isinstance(bits, type) and issubclass(bits, Numeric):
        bits = bits.width
    elif not isinstance(bits, int) or isinstance(bits, bool):
        bits = getattr(bits, "width", None)
    if not isinstance(bits, int):
        raise UserTypeError(
            "a copy atom needs a numeric class or a number of bits",
            code="FLY-U252",
            value=elem_type_or_bits,
        )
    with located():
        return CopyAtom(fly.make_copy_atom(copy_op, bits))


def atom_set_value(atom: Any, field: str, value: Any) -> Any:
    """Return an atom with the state value `field` attached.

    Raises:
        UserError: The operation has no such state.
    """
    from flydsl.dialects import fly

    number = as_numeric(value)
    operand = value.value if isinstance(value, FlyValue) else value
    with located():
        if number is not None:
            operand = number.ir_value()
        return type(atom)(fly.atom_set_value(atom.value, field, operand))


def _predicate(pred: Any) -> IRValue | None:
    if pred is None:
        return None
    if isinstance(pred, Tensor):
        return pred.value
    number = as_numeric(pred)
    if number is None:
        raise UserTypeError(
            "a predicate is a truth value or a register tensor", code="FLY-U252", value=pred
        )
    return number.to(Boolean).ir_value()


def _atom(atom: Any, state: Mapping[str, Any]) -> Any:
    if not isinstance(atom, CopyAtom):
        raise UserTypeError("this is not a copy atom", code="FLY-U252", value=atom)
    return atom.set_value(state) if state else atom


def _sides(src: Any, dst: Any) -> tuple[Any, Any]:
    for value, side in ((src, "source"), (dst, "destination")):
        if not isinstance(value, FlyValue):
            raise UserTypeError(f"the {side} of a copy is a tensor", code="FLY-U252", value=value)
    source, target = getattr(src, "element", None), getattr(dst, "element", None)
    if source is not None and target is not None and source is not target:
        raise UserTypeError(
            f"a copy moves bits, but the tensors hold {source.__name__} and {target.__name__}",
            code="FLY-U243",
            hint="load the fragment, convert it with .to(...), and store it",
        )
    return as_operand(src), as_operand(dst)


def _issued(atom: CopyAtom, src: Any, dst: Any, pred: Any) -> bool:
    """Issue a copy that its operation issues while tracing; return whether it is one."""
    name = getattr(atom.operation, "issued_by", "")
    if not name:
        return False
    module, _, function = name.partition(":")
    getattr(importlib.import_module(module), function)(atom, src, dst, pred)
    return True


def copy_atom_call(atom: Any, src: Any, dst: Any, *, pred: Any = None, **state: Any) -> None:
    """Run one copy instruction.

    Args:
        atom: A copy atom.
        src: Tensor that holds exactly the values of one instruction.
        dst: Likewise.
        pred: Truth value, or register tensor whose first element says whether to copy. Where it
            does not, a register destination keeps its value.
        **state: State fields of the atom.

    Raises:
        UserError: The tensors do not fit the atom or hold different types.
    """
    from flydsl.dialects import fly

    chosen = _atom(atom, state)
    if _issued(chosen, src, dst, pred):
        return
    with located():
        source, target = _sides(src, dst)
        fly.copy_atom_call(chosen.value, source, target, _predicate(pred))


def copy(atom: Any, src: Any, dst: Any, *, pred: Any = None, **state: Any) -> None:
    """Copy a tensor, one instruction per coordinate of the modes after the first.

    Args:
        atom: A copy atom or tiled copy.
        src: Source tensor; its first mode holds the values of one instruction.
        dst: Destination of equal rank.
        pred: Truth value, or register tensor of the rank of `src` or one less.
        **state: State fields of the atom.

    Raises:
        UserError: Ranks or sizes differ, are not static, or do not fit the atom.
    """
    from flydsl.dialects import fly

    chosen = _atom(atom, state)
    if _issued(chosen, src, dst, pred):
        return
    with located():
        source, target = _sides(src, dst)
        fly.copy(chosen.value, source, target, _predicate(pred))
