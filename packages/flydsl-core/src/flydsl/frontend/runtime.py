"""What rewritten functions call (as ``_fly_rt``): control flow that decides while tracing.

Every function here does what Python does when the values that decide are Python values or static
numbers, and traces regions when they are run-time values.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from flydsl.errors import UserError, UserRuntimeError, UserTypeError
from flydsl.expr.ambient import current
from flydsl.expr.emit import emit
from flydsl.expr.numeric import Boolean, Numeric, as_numeric, common_type
from flydsl.expr.numeric.operators import select
from flydsl.frontend.build import RewriteCache
from flydsl.frontend.carry import flatten, join, rebuild
from flydsl.frontend.loops import (
    RangeSpec,
    SharedBody,
    StateSlot,
    make_range,
    trace_for,
    trace_for_until,
    trace_while,
)
from flydsl.frontend.missing import UNSET, Unset
from flydsl.frontend.mutation import Snapshot
from flydsl.frontend.regions import Scratch, region_if
from flydsl.frontend.speculate import is_speculatable, move_here

__all__ = [
    "CACHE",
    "UNSET",
    "and_",
    "c",
    "chain",
    "choose",
    "decided",
    "for_",
    "for_init",
    "global_write",
    "go",
    "helper_range",
    "if_",
    "in_",
    "not_",
    "not_in",
    "not_same",
    "or_",
    "range_",
    "result",
    "same",
    "stopped",
    "while_",
]

CACHE = RewriteCache(sys.modules[__name__])
"""Rewritten functions of this process."""

c = CACHE.callable_for
"""Return what to call instead of a function: its rewritten form if it is user code."""

_MAX_ITERATIONS = 65_536
"""Iterations of a ``while`` that is unrolled; more would not compile in any useful time."""

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "is_": operator.is_, "is_not": operator.is_not,
}  # fmt: skip


def _dynamic(value: object) -> Numeric | None:
    """Return the `Boolean` of a run-time condition, None for values that Python can decide on."""
    if isinstance(value, Numeric):
        if value.is_static():
            return None
        return value if isinstance(value, Boolean) else value.to(Boolean)
    if isinstance(value, (bool, int, str, type(None))):
        return None
    number = as_numeric(value)  # a bare IR value
    return None if number is None or number.is_static() else number.to(Boolean)


def if_(
    condition: Any,
    then: types.FunctionType,
    otherwise: types.FunctionType | None,
    names: Sequence[str],
    carried: Sequence[str],
) -> None:
    """Run or trace an ``if`` statement."""
    flag = _dynamic(condition)
    if flag is None:
        if condition:
            then()
        elif otherwise is not None:
            otherwise()
        return
    session = current()
    assert session is not None
    arms = [then] if otherwise is None else [then, otherwise]
    region_if(session, flag.ir_value(), arms, arms, names, carried)


def range_(function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Return the iterable of a ``for`` in a decorated function: a run-time loop while tracing."""
    if function is not builtins.range or current() is None:
        return function(*arguments, **keywords)
    return make_range(arguments, **keywords)


def helper_range(function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Return the iterable of a ``for`` in a helper: a run-time loop if a bound or keyword asks."""
    if not keywords and all(_is_python_int(value) for value in arguments):
        return function(*arguments)
    return range_(function, *arguments, **keywords)


def _is_python_int(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, Numeric) and value.is_static())


def for_(
    iterable: Any,
    body: types.FunctionType,
    goes: Callable[[], Any] | None = None,
    *,
    names: Sequence[str],
    carried: Sequence[str],
) -> None:
    """Run or trace a ``for`` over a range; `goes` is false once the loop was left by a jump."""
    session = current()
    if isinstance(iterable, RangeSpec):
        assert session is not None
        if goes is None:
            trace_for(session, iterable, body, names, carried)
        else:
            trace_for_until(session, iterable, body, goes, names, carried)
        return
    for item in iterable:
        wish = True if goes is None else goes()
        flag = _dynamic(wish)
        if flag is not None:
            assert session is not None
            arm = _bound_call(body, item)
            region_if(session, flag.ir_value(), [arm], [body], names, carried)
        elif wish:
            body(item)
        else:
            return


def _bound_call(body: Callable[[Any], object], item: Any) -> Callable[[], object]:
    return lambda: body(item)


def for_init(
    spec: Any,
    body: Callable[[Any, Any], Any],
    *,
    names: Sequence[str],
    carried: Sequence[str],
) -> Any:
    """Trace ``for i, state in range(..., init=[...])`` and return the final state.

    With one initial value the state after the loop is that value, not a list of one.
    """
    session = current()
    if session is None or not isinstance(spec, RangeSpec) or spec.init is None:
        raise UserRuntimeError("range(..., init=...) needs a trace", code="FLY-U215")
    slot = StateSlot("the loop state", list(spec.init))

    def iteration(index: Any) -> None:
        produced = body(index, slot.value)
        slot.value = list(produced) if isinstance(produced, (list, tuple)) else [produced]

    trace_for(session, spec, SharedBody(iteration, body), names, carried, slot)
    return slot.value[0] if len(spec.init) == 1 else slot.value


def while_(
    condition: types.FunctionType,
    body: types.FunctionType,
    *,
    names: Sequence[str],
    carried: Sequence[str],
) -> None:
    """Run or trace a ``while`` statement."""
    session = current()
    if session is None:
        while condition():
            body()
        return
    for _ in range(_MAX_ITERATIONS):
        # Whether the condition is known while tracing shows only when it is evaluated; if it is
        # not, the loop evaluates it again in its own region and this evaluation is dropped.
        scratch = Scratch(session)
        block = scratch.block()
        snapshot = Snapshot([condition])
        with scratch.tracing(block):
            value = condition()
        if _dynamic_kind(value):
            snapshot.restore()
            trace_while(session, condition, body, names, carried)
            return
        move_here(session, block)
        if not value:
            return
        body()
    raise UserRuntimeError(
        f"a while loop has run {_MAX_ITERATIONS} times while tracing and its condition still holds",
        code="FLY-U274",
        hint="the condition holds only values known while tracing, so the loop is unrolled; change "
        "them in the body, or compare with a run-time value to loop on the device",
    )


def _dynamic_kind(value: object) -> bool:
    number = as_numeric(value)
    return number is not None and not number.is_static()


def and_(left: Any, right: Callable[[], Any]) -> Any:
    """Evaluate ``left and right()``; `right` only where `left` is true."""
    flag = _dynamic(left)
    if flag is None:
        return left and right()
    return _short_circuit(left, flag, right, True)


def or_(left: Any, right: Callable[[], Any]) -> Any:
    """Evaluate ``left or right()``; `right` only where `left` is false."""
    flag = _dynamic(left)
    if flag is None:
        return left or right()
    return _short_circuit(left, flag, right, False)


def _short_circuit(left: Any, flag: Numeric, right: Any, conjunction: bool) -> Any:
    """Evaluate `right` where the left side does not decide; the result is one of both, as Python's.

    Two Booleans give a `Boolean`, other numbers their common class.
    """
    session = current()
    assert session is not None
    scratch = Scratch(session)
    block = scratch.block()
    snapshot = Snapshot([right])
    with scratch.tracing(block):
        value = as_numeric(right())
        if value is None:
            raise UserTypeError(
                "`and` and `or` on run-time values need numbers on both sides", code="FLY-U216"
            )
        kept = as_numeric(left)
        assert kept is not None
        both = isinstance(kept, Boolean) and isinstance(value, Boolean)
        kind = Boolean if both else common_type(type(kept), type(value))
        other = value.to(kind)
        other_value = other.ir_value()
    if snapshot.changes():
        snapshot.restore()
        raise UserError(
            "the right side of a run-time `and` or `or` changes Python objects",
            code="FLY-U216",
            hint="use an `if` statement",
        )
    if is_speculatable(block):
        move_here(session, block)
        if both:
            return flag & other if conjunction else flag | other
        return select(flag, other, kept) if conjunction else select(flag, kept, other)
    here = session.locations.here()
    skipped = scratch.block()
    with scratch.tracing(block):
        session.create("scf.yield", (), (other_value,), None, None, 0, here)
    with scratch.tracing(skipped):
        constant = (Boolean.static(not conjunction) if both else kept.to(kind)).ir_value()
        session.create("scf.yield", (), (constant,), None, None, 0, here)
    blocks = (block, skipped) if conjunction else (skipped, block)
    operation = session.create("scf.if", (kind.ir_type,), (flag.ir_value(),), None, None, 2, here)
    for source, region in zip(blocks, operation.regions, strict=True):
        source.append_to(region)
    return kind.wrap(operation.result)


def decided(value: Any) -> Any:
    """Return the left side of an ``and``, ``or``, comparison or conditional that Python evaluates.

    Raises:
        UserError: It is a run-time value: then a name bound on the right with ``:=`` would be
            bound for some threads only.
    """
    if _dynamic(value) is not None:
        raise UserError(
            "`:=` where a run-time condition decides whether it is evaluated",
            code="FLY-U216",
            hint="assign the name before, or write nested `if` statements",
        )
    return value


def not_(value: Any) -> Any:
    """Evaluate ``not value``."""
    flag = _dynamic(value)
    if flag is None:
        return not value
    true = Boolean.static(True).ir_value()
    return Boolean.wrap(emit("arith.xori", Boolean.ir_type, (flag.ir_value(), true)))


def chain(operators: Sequence[str], first: Any, *later: Callable[[], Any]) -> Any:
    """Evaluate a chained comparison; each operand once, and only if the comparisons before hold."""

    def compare_from(index: int, left: Any) -> Any:
        right = later[index]()
        name = operators[index]
        if name in ("in_", "not_in"):
            outcome = in_(left, right) if name == "in_" else not_in(left, right)
        else:
            outcome = _COMPARISONS[name](left, right)
        if index + 1 == len(operators):
            return outcome
        return and_(outcome, lambda: compare_from(index + 1, right))

    return compare_from(0, first)


def in_(value: Any, container: Any) -> Any:
    """Evaluate ``value in container``; a run-time value is compared with every item."""
    items = container if isinstance(container, (list, tuple, set, frozenset, range)) else None
    if items is None or not (_dynamic_kind(value) or any(_dynamic_kind(x) for x in items)):
        return value in container
    found: Any = False
    for item in items:
        equal = value == item
        found = equal if found is False else found | equal
    return found


def not_in(value: Any, container: Any) -> Any:
    """Evaluate ``value not in container``."""
    return not_(in_(value, container))


def same(a: Any, b: Any) -> Any:
    """Evaluate ``a is b`` where one side is ``True`` or ``False``, also of a run-time Boolean."""
    for value, other in ((a, b), (b, a)):
        if isinstance(value, Boolean) and not value.is_static() and isinstance(other, bool):
            return value if other else not_(value)
    return a is b


def not_same(a: Any, b: Any) -> Any:
    """Evaluate ``a is not b`` where one side is ``True`` or ``False``."""
    return not_(same(a, b))


def choose(condition: Any, yes: types.FunctionType, no: types.FunctionType) -> Any:
    """Evaluate ``yes() if condition else no()``; only the chosen side runs."""
    flag = _dynamic(condition)
    if flag is None:
        return yes() if condition else no()
    session = current()
    assert session is not None
    scratch = Scratch(session)
    blocks, values = [scratch.block(), scratch.block()], []
    snapshot = Snapshot([yes, no])
    for block, arm in zip(blocks, (yes, no), strict=True):
        with scratch.tracing(block):
            values.append(arm())
    if snapshot.changes():
        snapshot.restore()
        raise UserError(
            "an arm of a run-time conditional expression changes Python objects",
            code="FLY-U216",
            hint="use an `if` statement",
        )
    spec = join("the conditional expression", *values)
    if spec.kind == "keep":
        if all(is_speculatable(block) for block in blocks):
            return spec.detail
    elif spec.kind == "number" and all(is_speculatable(block) for block in blocks):
        for block in blocks:
            move_here(session, block)
        a, b = (flatten("", spec, value)[0] for value in values)
        return select(flag, spec.detail.wrap(a), spec.detail.wrap(b))
    here = session.locations.here()
    operands: list[Any] = []
    for block, value in zip(blocks, values, strict=True):
        with scratch.tracing(block):
            operands = flatten("the conditional expression", spec, value)
            session.create("scf.yield", (), operands, None, None, 0, here)
    kinds = [value.type for value in operands]
    operation = session.create("scf.if", kinds, (flag.ir_value(),), None, None, 2, here)
    for block, region in zip(blocks, operation.regions, strict=True):
        block.append_to(region)
    return rebuild(spec, iter(list(operation.results)))


def go(*flags: Any) -> Any:
    """Return whether none of the jump flags is set."""
    pending: Any = None
    for flag in flags:
        if _dynamic_kind(flag):
            pending = flag if pending is None else pending | flag
        elif flag:
            return False
    return True if pending is None else not_(pending)


def stopped(*flags: Any) -> bool:
    """Return whether a jump flag is set for certain."""
    return any(not _dynamic_kind(flag) and bool(flag) for flag in flags)


def result(done: Any, value: Any, total: bool) -> Any:
    """Return what a function with run-time returns returns.

    Args:
        done: Whether a ``return`` has run.
        value: The value of that return.
        total: Whether every path through the function ends in a return.

    Raises:
        UserError: Some paths return a value and others end without one.
    """
    if isinstance(value, Unset) or value is None:
        return None
    if total or (not _dynamic_kind(done) and bool(done)):
        return value
    if not _dynamic_kind(done):
        return None
    raise UserError(
        "this function returns a value on some paths and nothing on others, decided at run time",
        code="FLY-U217",
        hint="return a value of the same type on every path",
    )


def global_write(*names: str) -> None:
    """Refuse to assign global variables in a dynamic region."""
    session = current()
    if session is not None and session.depth:
        raise UserError(
            f"global {', '.join(names)} cannot be assigned in a dynamic region",
            code="FLY-U218",
            hint="use a local variable or a tensor",
        )
