"""Run-time loops: ranges, their trip counts, and the loop operations."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import Session
from flydsl.expr.emit import emit
from flydsl.expr.numeric import Boolean, Int32, Numeric, as_numeric, common_type
from flydsl.expr.numeric.attributes import predicate
from flydsl.frontend.regions import Carried, Scratch, region_loop

__all__ = [
    "RangeSpec",
    "SharedBody",
    "StateSlot",
    "make_range",
    "trace_for",
    "trace_for_until",
    "trace_while",
]

Body = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """Bounds of a run-time loop, all of one integer class.

    Attributes:
        start, stop, step: As for Python's `range`; any sign of step.
        init: Values of an explicit loop state, or None.
        unroll: Requested unroll count (0: no request); `unroll_full` unrolls completely.
    """

    start: Numeric
    stop: Numeric
    step: Numeric
    init: tuple[Any, ...] | None = None
    unroll: int = 0
    unroll_full: bool = False


def make_range(
    arguments: Sequence[Any], init: Any = None, unroll: Any = None, unroll_full: Any = False
) -> RangeSpec:
    """Check the arguments of ``range`` and bring the bounds to one class.

    Raises:
        UserTypeError: Wrong count, a bound that is not an integer, or a non-constant unroll.
        UserValueError: A step of zero, an unroll count below one, or both unroll keywords.
    """
    if not 1 <= len(arguments) <= 3:
        raise UserTypeError("range takes one to three bounds", code="FLY-U215", value=arguments)
    numbers = [_bound(value) for value in arguments]
    start, stop = (Int32.static(0), numbers[0]) if len(numbers) == 1 else numbers[:2]
    step = numbers[2] if len(numbers) == 3 else Int32.static(1)
    kind: type[Numeric] = type(start)
    if type(stop) is not kind or type(step) is not kind:
        kind = common_type(common_type(kind, type(stop)), type(step))
    if kind.width < 32:
        kind = Int32
    if step.is_static() and step.value == 0:
        raise UserValueError("range() step must not be zero", code="FLY-U215")
    if unroll is not None and (not isinstance(unroll, int) or isinstance(unroll, bool)):
        raise UserTypeError("unroll= needs a Python int", code="FLY-U215", value=unroll)
    if not isinstance(unroll_full, bool):
        raise UserTypeError("unroll_full= needs a Python bool", code="FLY-U215", value=unroll_full)
    if unroll is not None and (unroll < 1 or unroll_full):
        raise UserValueError(
            "unroll= must be at least 1 and excludes unroll_full=", code="FLY-U215", value=unroll
        )
    if step.is_static() and step.value < 0 and not kind.signed:
        raise UserTypeError(
            "a negative step needs signed bounds",
            code="FLY-U215",
            value=kind,
            hint="convert the bounds with .to(fx.Int32) or .to(fx.Int64)",
        )
    bounds = [number.to(kind) for number in (start, stop, step)]
    state = None if init is None else tuple(init)
    return RangeSpec(bounds[0], bounds[1], bounds[2], state, unroll or 0, unroll_full)


def _bound(value: Any) -> Numeric:
    number = as_numeric(value)
    if number is None and hasattr(value, "__fly_scalar__"):
        number = as_numeric(value.__fly_scalar__())
    if number is None or not number.is_integer or isinstance(number, Boolean):
        raise UserTypeError(
            "a bound of range must be an integer",
            code="FLY-U215",
            value=value,
            hint="convert it with .to(fx.Int32)",
        )
    return number


def trace_for(
    session: Session,
    spec: RangeSpec,
    body: Body,
    names: Sequence[str],
    carried: Sequence[str],
    state: StateSlot | None = None,
) -> None:
    """Emit a loop over `spec` whose iterations call ``body(i)``."""
    ascending = spec.step.is_static() and spec.step.value > 0
    kind = type(spec.start)
    if ascending:
        low, high, step = spec.start, spec.stop, spec.step
    else:
        low, high, step = kind.static(0), _trips(spec), kind.static(1)
    bounds = [low.ir_value(), high.ir_value(), step.ir_value()]
    attributes = _annotations(session, spec, unsigned=not (ascending and kind.signed))

    def attempt(values: Carried, scratch: Scratch) -> Callable[[], Any] | None:
        entry = values.operands(values.entry)
        types_ = [value.type for value in entry]
        block = scratch.block([kind.ir_type, *types_])
        here = scratch.here
        with scratch.tracing(block):
            arguments = list(block.arguments)
            values.assign(arguments[1:])
            index = kind.wrap(arguments[0])
            body(index if ascending else spec.start + index * spec.step)
            results = values.current()
            if values.widen(results):
                return None
            operands = values.operands(results)
            session.create("scf.yield", (), operands, None, None, 0, here)

        def create() -> Any:
            operation = session.create(
                "scf.for", types_, [*bounds, *entry], attributes, None, 1, here
            )
            block.append_to(operation.regions[0])
            return operation

        return create

    extra = [] if state is None else [(state, state.get())]
    region_loop(session, _functions(body), names, carried, attempt, extra)


@dataclass(frozen=True, slots=True)
class SharedBody:
    """A loop body that wraps a rewritten function, whose variables the loop shares."""

    run: Callable[..., object]
    function: Any

    def __call__(self, *arguments: Any) -> object:
        """Run the body."""
        return self.run(*arguments)


def _functions(*callables: Any) -> list[types.FunctionType]:
    """Return the rewritten functions whose variables a loop shares."""
    out: list[types.FunctionType] = []
    for item in callables:
        inner = item.function if isinstance(item, SharedBody) else item
        if isinstance(inner, types.FunctionType):
            out.append(inner)
    return out


def _trips(spec: RangeSpec) -> Numeric:
    """Emit the number of iterations of a range.

    Distances are taken as unsigned numbers, so that they cannot overflow.
    """
    kind = type(spec.start)
    if spec.step.is_static() and spec.start.is_static() and spec.stop.is_static():
        return kind.static(len(range(spec.start.value, spec.stop.value, spec.step.value)))
    start, stop = spec.start.ir_value(), spec.stop.ir_value()
    if not spec.step.is_static():
        return _unknown_step_trips(kind, start, stop, spec.step.ir_value())
    low, high = (start, stop) if spec.step.value > 0 else (stop, start)
    count = emit("arith.subi", kind.ir_type, (high, low))
    size = abs(spec.step.value)
    if size != 1:
        one = kind.static(1).ir_value()
        count = _rounded_up(kind, count, kind.static(size).ir_value(), one)
    less = {"predicate": predicate(2 if kind.signed else 6)}
    some = emit("arith.cmpi", Boolean.ir_type, (low, high), less)
    zero = kind.static(0).ir_value()
    return kind.wrap(emit("arith.select", kind.ir_type, (some, count, zero)))


def _rounded_up(kind: type[Numeric], distance: Any, size: Any, one: Any) -> Any:
    """Emit ``(distance - 1) // size + 1`` of unsigned numbers."""
    result = kind.ir_type
    below = emit("arith.subi", result, (distance, one))
    return emit("arith.addi", result, (emit("arith.divui", result, (below, size)), one))


def _unknown_step_trips(kind: type[Numeric], start: Any, stop: Any, step: Any) -> Numeric:
    result, flag = kind.ir_type, Boolean.ir_type
    zero, one = kind.static(0).ir_value(), kind.static(1).ir_value()
    less = {"predicate": predicate(2 if kind.signed else 6)}
    up = emit("arith.subi", result, (stop, start))
    # An unsigned step never falls.
    none = Boolean.static(False).ir_value()
    falling = emit("arith.cmpi", flag, (step, zero), less) if kind.signed else none
    down = emit("arith.subi", result, (start, stop))
    distance = emit("arith.select", result, (falling, down, up))
    size = emit("arith.select", result, (falling, emit("arith.subi", result, (zero, step)), step))
    # A run-time step of zero is not an error that a device could report: it makes no iterations.
    stuck = emit("arith.cmpi", flag, (step, zero), {"predicate": predicate(0)})
    divisor = emit("arith.select", result, (stuck, one, size))
    count = _rounded_up(kind, distance, divisor, one)
    forward = emit("arith.cmpi", flag, (start, stop), less)
    backward = emit("arith.cmpi", flag, (stop, start), less)
    some = emit("arith.select", flag, (falling, backward, forward))
    runs = emit("arith.select", result, (some, count, zero))
    return kind.wrap(emit("arith.select", result, (stuck, zero, runs)))


def _annotations(session: Session, spec: RangeSpec, unsigned: bool) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if unsigned:
        attributes["unsignedCmp"] = session.ir.UnitAttr.get()
    if spec.unroll or spec.unroll_full:
        wish = "full = true" if spec.unroll_full else f"count = {spec.unroll} : i32"
        if spec.unroll == 1:
            wish = "disable = true"
        attributes["loop_annotation"] = session.ir.Attribute.parse(
            f"#llvm.loop_annotation<unroll = <{wish}>>"
        )
    return attributes


class StateSlot:
    """A carried value that is no variable: an iteration counter or an explicit loop state."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value

    def get(self) -> Any:
        """Return the value."""
        return self.value

    def set(self, value: Any) -> None:
        """Replace the value."""
        self.value = value

    def key(self) -> tuple[int, object]:
        """Return the identity of this slot."""
        return id(self), None


def trace_for_until(
    session: Session,
    spec: RangeSpec,
    body: Body,
    go: Callable[[], Any],
    names: Sequence[str],
    carried: Sequence[str],
) -> None:
    """Emit a loop over `spec` that also ends when ``go()`` is false before an iteration."""
    kind = type(spec.start)
    total = _trips(spec)
    counter = StateSlot("the loop counter", kind.static(0))

    def condition() -> Any:
        # Not equal, which is exact for a count, rather than unsigned less: LLVM 22 takes a
        # condition beside that for invariant and ends the loop early (llvm/llvm-project#180870).
        flag = emit(
            "arith.cmpi",
            Boolean.ir_type,
            (counter.value.ir_value(), total.ir_value()),
            {"predicate": predicate(1)},
        )
        more = Boolean.wrap(flag)
        wish = go()
        return more & wish if isinstance(wish, Numeric) else more if wish else Boolean.static(False)

    def iteration() -> None:
        body(spec.start + counter.value * spec.step)
        counter.value = counter.value + kind.static(1)

    trace_while(
        session,
        condition,
        SharedBody(iteration, body),
        names,
        carried,
        [go],
        [(counter, counter.value)],
    )


def trace_while(
    session: Session,
    condition: Callable[[], Any],
    body: Callable[[], object],
    names: Sequence[str],
    carried: Sequence[str],
    more: Sequence[Callable[..., Any]] = (),
    extra: Sequence[tuple[StateSlot, Any]] = (),
) -> None:
    """Emit a loop that runs ``body()`` while ``condition()`` holds.

    Args:
        session: The trace.
        condition: Evaluated before each iteration, in a region of its own.
        body: One iteration.
        names: Variables that either assigns.
        carried: Those of them that are read later.
        more: Further functions that read the variables.
        extra: More places to carry, with their entry values.
    """

    def attempt(values: Carried, scratch: Scratch) -> Callable[[], Any] | None:
        entry = values.operands(values.entry)
        types_ = [value.type for value in entry]
        blocks = [scratch.block(types_), scratch.block(types_)]
        here = scratch.here
        with scratch.tracing(blocks[0]):
            values.assign(list(blocks[0].arguments))
            flag = _truth(condition()).ir_value()
            operands = values.operands(values.current())
            session.create("scf.condition", (), [flag, *operands], None, None, 0, here)
        with scratch.tracing(blocks[1]):
            values.assign(list(blocks[1].arguments))
            body()
            results = values.current()
            if values.widen(results):
                return None
            operands = values.operands(results)
            session.create("scf.yield", (), operands, None, None, 0, here)

        def create() -> Any:
            operation = session.create("scf.while", types_, entry, None, None, 2, here)
            for block, region in zip(blocks, operation.regions, strict=True):
                block.append_to(region)
            return operation

        return create

    functions = _functions(condition, body, *more)
    region_loop(session, functions, names, carried, attempt, extra)


def _truth(value: Any) -> Boolean:
    number = as_numeric(value)
    return Boolean.static(bool(value)) if number is None else number.to(Boolean)
