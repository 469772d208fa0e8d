"""Atomic operations, fences, and loads and stores with a memory ordering.

The orderings are those of LLVM's memory model (`AtomicOrdering`). Without a scope an operation is
seen by the whole device; a target's namespace lists narrower scopes (``fx.rocdl.SyncScope``).
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, current
from flydsl.expr.emit import located
from flydsl.expr.enums import AtomicOrdering
from flydsl.expr.numeric import Boolean, Int32, Int64, Numeric, as_numeric
from flydsl.expr.pointers import Pointer, element_class
from flydsl.expr.stored import loaded, stored
from flydsl.expr.vector import Vector, vector_alias

__all__ = [
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_fmax",
    "atomic_fmin",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xchg",
    "atomic_xor",
    "generic_load",
    "generic_store",
    "memory_fence",
]

_FLOAT = {"add": "fadd", "sub": "fsub", "max": "fmax", "min": "fmin", "xchg": "xchg"}
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_WIDTHS = frozenset({8, 16, 32, 64})


def _ordering(ordering: Any) -> str:
    if not isinstance(ordering, AtomicOrdering):
        raise UserTypeError(
            "a memory ordering is an AtomicOrdering",
            code="FLY-U271",
            value=ordering,
            allowed=", ".join(f"AtomicOrdering.{item.name}" for item in AtomicOrdering),
        )
    return ordering.value


def _scope(syncscope: Any) -> str | None:
    if syncscope is None:
        return None
    if not isinstance(syncscope, str):
        raise UserTypeError(
            "a synchronisation scope is text", code="FLY-U271", value=syncscope,
            hint="fx.SyncScope, or a target's own such as fx.rocdl.SyncScope",
        )  # fmt: skip
    return str(syncscope) or "system"


def _target(pointer: Any) -> tuple[IRValue, type[Numeric] | None]:
    """Return the pointer value and its element class; an LLVM pointer has none."""
    if isinstance(pointer, Pointer):
        return pointer.value, pointer.element
    session = current()
    if session is not None and isinstance(pointer, session.value_class):
        text = str(getattr(pointer, "type", ""))
        if text.startswith("!llvm.ptr"):
            return pointer, None
    raise UserTypeError(
        "an atomic operation needs a pointer",
        code="FLY-U271",
        value=pointer,
        hint="of a tensor's element: fx.get_iter(tensor[i, None]), or t.iter + offset",
    )


def _operand(value: Any, element: type[Numeric] | None) -> tuple[IRValue, type[Numeric], bool]:
    """Return the IR value, its numeric class, and whether it is a vector."""
    if isinstance(value, Vector):
        kind = value.dtype
        return stored(value, element or kind, "the pointer"), kind, True
    if element is not None:
        return stored(value, element, "the pointer"), element, False
    number = as_numeric(value)
    if number is None:
        raise UserTypeError("an atomic operand is a number", code="FLY-U271", value=value)
    return number.ir_value(), type(number), False


def _rmw(name: str, pointer: Any, value: Any, syncscope: Any, ordering: Any) -> Any:
    from flydsl.dialects import fly

    order, scope = _ordering(ordering), _scope(syncscope)
    target, element = _target(pointer)
    with located():
        operand, kind, is_vector = _operand(value, element)
        operation = _operation(name, kind, is_vector=is_vector)
        old = fly.atomic_rmw(operation, target, operand, order, scope)
    return Vector(old, value.shape, kind) if is_vector else kind.wrap(old)


def _operation(name: str, kind: type[Numeric], *, is_vector: bool) -> str:
    """Return the operation's name for a numeric class.

    Raises:
        UserTypeError: There is none.
    """
    if kind.ir_text in _FLOATS:
        found = _FLOAT.get(name, "")
        if is_vector and found == "xchg":
            found = ""
    elif kind.is_integer and kind.width in _WIDTHS and not is_vector:
        found = f"u{name}" if name in ("max", "min") and not kind.signed else name
    else:
        found = ""
    if not found:
        shape = "vectors of " if is_vector else ""
        raise UserTypeError(
            f"there is no atomic {name} of {shape}{kind.__name__}",
            code="FLY-U271",
            allowed="integers of 8 to 64 bits; add, sub, max, min, xchg of 16- to 64-bit floats; "
            "vectors of floats for add, sub, max, min",
        )
    return found


def atomic_add(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Add to memory atomically and return the old value.

    Args:
        ptr: `Pointer` to the element, or an ``!llvm.ptr`` value.
        value: Number of the element class, or a vector of 16-bit floats.
        syncscope: Who has to see it; None is the whole device.
        ordering: `AtomicOrdering`.

    Raises:
        UserTypeError: The value has another type than the element, or no such operation.
    """
    return _rmw("add", ptr, value, syncscope, ordering)


def atomic_sub(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Subtract from memory atomically and return the old value; see `atomic_add`."""
    return _rmw("sub", ptr, value, syncscope, ordering)


def atomic_min(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Keep the smaller value in memory atomically and return the old one; see `atomic_add`.

    Unsigned classes compare unsigned. Of a float and a NaN the float stays.
    """
    return _rmw("min", ptr, value, syncscope, ordering)


def atomic_max(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Keep the larger value in memory atomically and return the old one; see `atomic_min`."""
    return _rmw("max", ptr, value, syncscope, ordering)


def atomic_and(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """And into memory atomically and return the old value (integers); see `atomic_add`."""
    return _rmw("and", ptr, value, syncscope, ordering)


def atomic_or(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Or into memory atomically and return the old value (integers); see `atomic_add`."""
    return _rmw("or", ptr, value, syncscope, ordering)


def atomic_xor(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Exclusive-or into memory atomically and return the old value (integers)."""
    return _rmw("xor", ptr, value, syncscope, ordering)


def atomic_xchg(
    ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic
) -> Any:
    """Store atomically and return the old value; see `atomic_add`."""
    return _rmw("xchg", ptr, value, syncscope, ordering)


def _by_bits(
    larger: bool, ptr: Any, value: Any, is_positive: Any, syncscope: Any, ordering: Any
) -> Any:
    """Compare floats through their bits: signed for a clear sign bit, else unsigned and reversed.

    Bit patterns of floats order like sign-magnitude numbers. Against a value without sign bit the
    signed order of the patterns is right (any negative float is below it); against one with it,
    patterns compare unsigned and the other way round (any float without is above it).
    """
    from flydsl.dialects import fly

    name = "atomic_fmax" if larger else "atomic_fmin"
    element = ptr.element if isinstance(ptr, Pointer) else None
    if element is None or element.ir_text not in ("f32", "f64"):
        raise UserTypeError(
            f"{name} needs a pointer to Float32 or Float64", code="FLY-U271", value=ptr
        )
    order, scope = _ordering(ordering), _scope(syncscope)
    kind: type[Numeric] = Int32 if element.width == 32 else Int64
    forms = ("max", "umin") if larger else ("min", "umax")
    with located() as session:
        bits = element.wrap(stored(value, element, "the pointer")).bitcast(kind)
        target = fly.recast_iter(kind.ir_text, ptr.value)
        if is_positive is not None:
            operation = forms[0] if is_positive else forms[1]
            old = fly.atomic_rmw(operation, target, bits.ir_value(), order, scope)
            return kind.wrap(old).bitcast(element)
        number: Any = bits
        nonnegative = number >= 0
        condition = nonnegative.ir_value()
        guard = session.create(
            "scf.if", (session.type(kind.ir_text),), (condition,), None, None, 2,
            session.locations.here(),
        )  # fmt: skip
        for region, operation in zip(guard.regions, forms, strict=True):
            block = region.blocks.append()
            with session.ir.InsertionPoint(block):
                old = fly.atomic_rmw(operation, target, bits.ir_value(), order, scope)
                session.create("scf.yield", (), (old,), None, None, 0, session.locations.here())
        return kind.wrap(guard.result).bitcast(element)


def atomic_fmin(
    ptr: Any,
    value: Any,
    *,
    is_positive: bool | None = None,
    syncscope: Any = None,
    ordering: Any = AtomicOrdering.Monotonic,
) -> Any:
    """Keep the smaller float in memory with one integer atomic, and return the old value.

    Args:
        ptr: `Pointer` to Float32 or Float64.
        value: Number of that class. NaNs order by their bits, beyond the infinities.
        is_positive: Whether the sign bit of `value` is known to be clear (True) or set (False);
            None finds out at run time.
        syncscope: Who has to see it; None is the whole device.
        ordering: `AtomicOrdering`.

    Raises:
        UserTypeError: The pointer is to another type.
    """
    return _by_bits(False, ptr, value, is_positive, syncscope, ordering)


def atomic_fmax(
    ptr: Any,
    value: Any,
    *,
    is_positive: bool | None = None,
    syncscope: Any = None,
    ordering: Any = AtomicOrdering.Monotonic,
) -> Any:
    """Keep the larger float in memory with one integer atomic; see `atomic_fmin`."""
    return _by_bits(True, ptr, value, is_positive, syncscope, ordering)


def atomic_cas(
    ptr: Any,
    cmp: Any,
    val: Any,
    *,
    success_ordering: Any = AtomicOrdering.Monotonic,
    failure_ordering: Any = AtomicOrdering.Monotonic,
    weak: bool = False,
    syncscope: Any = None,
) -> tuple[Any, Boolean]:
    """Store `val` if memory holds `cmp`; return the old value and whether it was stored.

    Args:
        ptr: `Pointer` to an integer, or an ``!llvm.ptr`` value.
        cmp: What memory must hold.
        val: What to store.
        success_ordering: `AtomicOrdering` when it is stored.
        failure_ordering: `AtomicOrdering` when it is not: Monotonic, Acquire or SeqCst.
        weak: It may fail although memory holds `cmp`.
        syncscope: Who has to see it; None is the whole device.

    Raises:
        UserError: The values are no integers of the element class, or an ordering does not exist.
    """
    from flydsl.dialects import fly

    orders = _ordering(success_ordering), _ordering(failure_ordering)
    scope = _scope(syncscope)
    target, element = _target(ptr)
    with located():
        compare, kind, is_vector = _operand(cmp, element)
        value, _, _ = _operand(val, element or kind)
        if is_vector or not kind.is_integer or kind.width not in _WIDTHS:
            raise UserTypeError(
                "a compare-and-swap needs integers of 8 to 64 bits",
                code="FLY-U271",
                value=kind.__name__,
                hint="recast the pointer and bitcast the values",
            )
        old, success = fly.atomic_cas(target, compare, value, orders, weak=weak, scope=scope)
    return kind.wrap(old), Boolean.wrap(success)


def memory_fence(*, syncscope: Any = None, ordering: Any = AtomicOrdering.SeqCst) -> None:
    """Order this thread's memory accesses before the fence against those after it.

    Args:
        syncscope: Who has to see the order; None is the whole device.
        ordering: Acquire, Release, AcqRel or SeqCst.

    Raises:
        UserError: Another ordering.
    """
    from flydsl.dialects import fly

    order, scope = _ordering(ordering), _scope(syncscope)
    with located():
        fly.fence(order, scope)


def _check_access(ordering: str, syncscope: Any) -> None:
    if syncscope is not None and ordering == "not_atomic":
        raise UserValueError(
            "a synchronisation scope needs an atomic ordering",
            code="FLY-U271",
            value=str(syncscope),
            hint="pass memory_order=fx.AtomicOrdering.Monotonic or stronger",
        )


def _checked_pointer(ptr: Any) -> Pointer:
    if not isinstance(ptr, Pointer):
        raise UserTypeError("this access needs a Pointer", code="FLY-U271", value=ptr)
    return ptr


def _positive(count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UserValueError("the count of a load is a positive int", code="FLY-U271", value=count)
    return count


def generic_load(
    ptr: Any,
    *,
    dtype: Any = None,
    count: int | None = None,
    memory_order: Any = AtomicOrdering.NotAtomic,
    syncscope: Any = None,
    nontemporal: bool = False,
    volatile: bool = False,
    ordering: Any = None,
) -> Any:
    """Load from a pointer with a memory ordering and hints.

    Args:
        ptr: A `Pointer`.
        dtype: Numeric class or vector type to load; default: one element.
        count: Loads a vector of that many numbers of `dtype`.
        memory_order: `AtomicOrdering`; not Release or AcqRel.
        syncscope: Who has to see it, for atomic orders; None is the whole device.
        nontemporal: The data is not used again soon.
        volatile: The access must happen as written.
        ordering: Another name of `memory_order`, that of the atomic operations.

    Returns:
        A number or a vector.

    Raises:
        UserError: The ordering does not exist for loads, `count` is no positive int, or a scope is
            given without an atomic ordering.
    """
    from flydsl.dialects import fly

    source, order = _checked_pointer(ptr), _ordering(memory_order if ordering is None else ordering)
    _check_access(order, syncscope)
    kind = source.element if dtype is None else dtype
    if count is not None:
        kind = vector_alias(element_class(kind), (_positive(count),))
    with located():
        result = kind.ir_type
        flags = (bool(nontemporal), bool(volatile))
        value = fly.ordered_load(source.value, result, order, flags=flags, scope=_scope(syncscope))
    return loaded(value, kind)


def generic_store(
    ptr: Any,
    value: Any,
    *,
    memory_order: Any = AtomicOrdering.NotAtomic,
    syncscope: Any = None,
    nontemporal: bool = False,
    volatile: bool = False,
    ordering: Any = None,
) -> None:
    """Store through a pointer with a memory ordering and hints; see `generic_load`.

    Args:
        ptr: A `Pointer`.
        value: Number of the element class, or a vector of it.
        memory_order: `AtomicOrdering`; not Acquire or AcqRel.
        syncscope: Who has to see it, for atomic orders; None is the whole device.
        nontemporal: The data is not used again soon.
        volatile: The access must happen as written.
        ordering: Another name of `memory_order`, that of the atomic operations.

    Raises:
        UserError: The ordering does not exist for stores, the value has another type, or a scope is
            given without an atomic ordering.
    """
    from flydsl.dialects import fly

    target, order = _checked_pointer(ptr), _ordering(memory_order if ordering is None else ordering)
    _check_access(order, syncscope)
    with located():
        item = stored(value, target.element, "the pointer")
        flags = (bool(nontemporal), bool(volatile))
        fly.ordered_store(item, target.value, order, flags=flags, scope=_scope(syncscope))
