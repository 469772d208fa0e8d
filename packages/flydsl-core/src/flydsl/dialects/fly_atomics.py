"""Builders of atomic operations, fences, and loads and stores with a memory ordering.

`ordering` is ``"monotonic"``, ``"acquire"``, ``"release"``, ``"acq_rel"`` or ``"seq_cst"`` (loads
and stores also ``"unordered"``), with the meaning of LLVM's memory model. `scope` names who has to
see the effect: a target's word, ``"system"`` for everybody, or None for the whole device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import attribute, create
from flydsl.dialects.fly_memory import element_type
from flydsl.errors import UserTypeError, UserValueError

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = [
    "ATOMIC_ORDERINGS",
    "FENCE_ORDERINGS",
    "LOAD_ORDERINGS",
    "READ_MODIFY_WRITE",
    "STORE_ORDERINGS",
    "atomic_cas",
    "atomic_rmw",
    "fence",
    "ordered_load",
    "ordered_store",
]

FENCE_ORDERINGS: Final = ("acquire", "release", "acq_rel", "seq_cst")
ATOMIC_ORDERINGS: Final = ("monotonic", *FENCE_ORDERINGS)
LOAD_ORDERINGS: Final = ("not_atomic", "unordered", "monotonic", "acquire", "seq_cst")
STORE_ORDERINGS: Final = ("not_atomic", "unordered", "monotonic", "release", "seq_cst")
_FAILURE: Final = ("monotonic", "acquire", "seq_cst")
READ_MODIFY_WRITE: Final = (
    "xchg",
    "add",
    "sub",
    "and",
    "or",
    "xor",
    "max",
    "min",
    "umax",
    "umin",
    "fadd",
    "fsub",
    "fmax",
    "fmin",
)
"""Operations of `atomic_rmw`; those with f are for floats, those with u for unsigned integers."""


def _checked(ordering: str, allowed: tuple[str, ...], what: str) -> ir.Attribute:
    if ordering not in allowed:
        raise UserValueError(
            f"{what} has no such memory ordering",
            code="FLY-U334",
            value=ordering,
            allowed=", ".join(allowed),
        )
    return attribute(ordering)


def _scoped(attributes: dict[str, ir.Attribute], scope: str | None) -> dict[str, ir.Attribute]:
    return attributes if scope is None else {**attributes, "scope": attribute(scope)}


def _check_pointer(pointer: ir.Value, value: ir.Type, what: str) -> None:
    """Raise UserError unless the pointer is an LLVM one or points to elements of the type."""
    kind = ft.of(pointer.type)
    if kind is None and str(pointer.type).startswith("!llvm.ptr"):
        return
    if not isinstance(kind, ft.PtrType):
        raise UserTypeError(f"{what} needs a pointer", code="FLY-U334", value=str(pointer.type))
    if kind.space == "register":
        raise UserTypeError(
            f"{what} needs memory that other threads see", code="FLY-U334", value=str(kind)
        )
    text = str(value)
    if text != kind.element and not text.endswith(f"x{kind.element}>"):
        raise UserTypeError(
            f"{what} has a value of another type than the elements",
            code="FLY-U334",
            value=text,
            allowed=kind.element,
        )


def atomic_rmw(
    operation: str, pointer: ir.Value, value: ir.Value, ordering: str, scope: str | None = None
) -> ir.Value:
    """Combine a value with memory atomically and return the old one.

    Args:
        operation: One of `READ_MODIFY_WRITE`.
        pointer: Fly or LLVM pointer.
        value: Number, or vector for the float operations.
        ordering: Memory ordering.
        scope: Who has to see it.

    Raises:
        UserError: There is no such operation or ordering, or the value does not fit the pointer.
    """
    if operation not in READ_MODIFY_WRITE:
        raise UserValueError(
            "there is no such atomic operation",
            code="FLY-U334",
            value=operation,
            allowed=", ".join(READ_MODIFY_WRITE),
        )
    what = f"an atomic {operation}"
    _check_pointer(pointer, value.type, what)
    attributes = {
        "operation": attribute(operation),
        "ordering": _checked(ordering, ATOMIC_ORDERINGS, what),
    }
    return create("atomic_rmw", (value.type,), (pointer, value), _scoped(attributes, scope)).result


def atomic_cas(
    pointer: ir.Value,
    compare: ir.Value,
    value: ir.Value,
    orderings: tuple[str, str],
    *,
    weak: bool = False,
    scope: str | None = None,
) -> tuple[ir.Value, ir.Value]:
    """Store a value if memory holds another one; return the old value and whether it happened.

    Args:
        pointer: Fly or LLVM pointer to an integer.
        compare: What memory must hold.
        value: What to store.
        orderings: Memory ordering when it happens, and when it does not.
        weak: It may fail although memory holds `compare`.
        scope: Who has to see it.

    Raises:
        UserError: An ordering does not exist, or a value does not fit the pointer.
    """
    what = "a compare-and-swap"
    for operand in (compare, value):
        _check_pointer(pointer, operand.type, what)
    if compare.type != value.type:
        raise UserTypeError(
            f"{what} has values of two types",
            code="FLY-U334",
            value=f"{compare.type} and {value.type}",
        )
    attributes = {
        "success_ordering": _checked(orderings[0], ATOMIC_ORDERINGS, what),
        "failure_ordering": _checked(orderings[1], _FAILURE, what),
        "weak": attribute(weak),
    }
    results = (value.type, element_type("i1"))
    op = create("atomic_cas", results, (pointer, compare, value), _scoped(attributes, scope))
    return op.results[0], op.results[1]


def fence(ordering: str, scope: str | None = None) -> None:
    """Order the memory accesses before against those after.

    Raises:
        UserError: There is no such ordering.
    """
    attributes = {"ordering": _checked(ordering, FENCE_ORDERINGS, "a fence")}
    create("fence", (), (), _scoped(attributes, scope))


def _access(
    ordering: str, allowed: tuple[str, ...], flags: tuple[bool, bool], scope: str | None
) -> dict[str, ir.Attribute]:
    attributes = {"ordering": _checked(ordering, allowed, "this access")}
    for name, flag in zip(("nontemporal", "volatile"), flags, strict=True):
        if flag:
            attributes[name] = attribute(True)
    return _scoped(attributes, scope)


def ordered_load(
    pointer: ir.Value,
    result: ir.Type,
    ordering: str,
    *,
    flags: tuple[bool, bool] = (False, False),
    scope: str | None = None,
) -> ir.Value:
    """Load with a memory ordering.

    Args:
        pointer: Fly pointer.
        result: Scalar or vector type.
        ordering: One of `LOAD_ORDERINGS`.
        flags: Whether the access is non-temporal, and whether it is volatile.
        scope: Who has to see it.

    Raises:
        UserError: There is no such ordering for a load.
    """
    attributes = _access(ordering, LOAD_ORDERINGS, flags, scope)
    return create("ptr_load", (result,), (pointer,), attributes).result


def ordered_store(
    value: ir.Value,
    pointer: ir.Value,
    ordering: str,
    *,
    flags: tuple[bool, bool] = (False, False),
    scope: str | None = None,
) -> None:
    """Store with a memory ordering; see `ordered_load`.

    Raises:
        UserError: There is no such ordering for a store, or the value does not fit the pointer.
    """
    _check_pointer(pointer, value.type, "a store with an ordering")
    attributes = _access(ordering, STORE_ORDERINGS, flags, scope)
    create("ptr_store", (), (value, pointer), attributes)
