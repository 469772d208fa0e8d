"""`printf` and `device_assert`: what a kernel tells the host (`flydsl.runtime.output`)."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flydsl.diagnostics import user_location
from flydsl.errors import UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import Session, require
from flydsl.expr.atomics import atomic_add, generic_store
from flydsl.expr.emit import located
from flydsl.expr.enums import AtomicOrdering
from flydsl.expr.gpu import block_idx, thread_idx
from flydsl.expr.numeric import Boolean, Float32, Int64, Numeric, Uint32, Uint64, as_numeric
from flydsl.expr.numeric.base import RUN_TIME
from flydsl.expr.pointers import Pointer, PointerType, ptrtoint

__all__ = ["device_assert", "printf"]

_SAMPLES: dict[str, Any] = {"i": -1, "u": 1, "b": True, "f32": 1.5, "f64": 1.5, "p": 4096}


def printf(fmt: str, *values: Any) -> None:
    """Print text from every thread that gets here.

    The text appears on standard output once the launch has ended and its stream is synchronised
    (see `flydsl.runtime.synchronize`); the order of threads is not defined. Nothing adds a newline.

    Args:
        fmt: Text with replacement fields as in `str.format`: ``{}``, ``{0}``, ``{:.3f}``.
        *values: Numbers, booleans and pointers of the kernel, or Python values and types, which
            are put into the text while tracing.

    Raises:
        UserValueError: The fields do not match the values, or a specification does not fit.
        UserTypeError: A value is no scalar (a vector, a tensor).
        UserRuntimeError: Used outside a kernel.
    """
    session = _in_kernel("printf")
    _emit(session, "printf", fmt, values)


def device_assert(cond: Any, message: str = "", *values: Any) -> None:
    """Check a condition in every thread that gets here.

    Where it does not hold, the launch (or the synchronisation of its stream) raises a
    `DeviceAssertionError` with the message, this line, and the block and thread. The thread goes
    on: a kernel that would do harm without the condition must also test it.

    Args:
        cond: Number or boolean.
        message: Text, with replacement fields as in `printf`.
        *values: For the fields.

    Raises:
        UserTypeError: The condition is no scalar.
        UserValueError: The fields do not match the values.
        UserRuntimeError: Used outside a kernel.
    """
    session = _in_kernel("device_assert")
    number = as_numeric(cond)
    if number is None:
        raise UserTypeError("a condition is a number or a boolean", code="FLY-U273", value=cond)
    if number.is_static():
        if not number.value:
            _emit(session, "assert", message, values)
        return
    with located():
        fails = Boolean(number) == Boolean(False)
        with _branch(session, Boolean(fails)) as (yes, no):
            with yes():
                _emit(session, "assert", message, values)
            with no():
                pass


def _in_kernel(what: str) -> Session:
    session = require(what)
    if session.kernel is None:
        raise UserRuntimeError(
            f"{what} is device code",
            code="FLY-U253",
            hint="use it in a @flyc.kernel function; a launcher is compiled and cannot print",
        )
    return session


# Formats ------------------------------------------------------------------------------------------
def _fields(fmt: str, count: int) -> list[str | tuple[int, str]]:
    """Return the literal texts and the fields of a format.

    Raises:
        UserTypeError: It is no text.
        UserValueError: It is malformed, or its fields are not those of `count` values.
    """
    if not isinstance(fmt, str):
        raise UserTypeError("a format is text", code="FLY-U272", value=fmt)
    if RUN_TIME in fmt:
        raise UserValueError(
            "a run-time value is put into the format while tracing, where it has no value",
            code="FLY-U272",
            value=fmt,
            hint="pass it as an argument: fx.printf('x = {}', x)",
        )
    parts: list[str | tuple[int, str]] = []
    automatic, used = 0, set()
    try:
        for literal, name, spec, conversion in string.Formatter().parse(fmt):
            if literal:
                parts.append(literal)
            if name is None:
                continue
            if name and not name.isdecimal():
                raise ValueError(f"field {name!r} has a name")
            if conversion or "{" in (spec or ""):
                raise ValueError("conversions and nested fields are not supported")
            if name and automatic:
                raise ValueError("numbered and automatic fields are mixed")
            number = int(name) if name else automatic
            automatic += not name
            used.add(number)
            parts.append((number, spec or ""))
    except ValueError as error:
        raise UserValueError(
            f"the format is malformed: {error}", code="FLY-U272", value=fmt
        ) from None
    if used != set(range(count)):
        percent = "fields are written {}, not %d" if "%" in fmt and not used else ""
        raise UserValueError(
            "the fields of the format are not those of the values",
            code="FLY-U272",
            value=fmt,
            allowed=f"fields for {count} values",
            hint=percent,
        )
    return parts


def _checked(value: Any, spec: str, fmt: str) -> str:
    """Return ``format(value, spec)``.

    Raises:
        UserValueError: The specification does not fit the value.
    """
    try:
        return format(value, spec)
    except (ValueError, TypeError) as error:
        raise UserValueError(
            f"the format specification {spec!r} does not fit: {error}", code="FLY-U272", value=fmt
        ) from None


def _dynamic(value: Any) -> tuple[str, Numeric] | None:
    """Return the kind and the word of a run-time value; None for a compile-time one.

    Raises:
        UserTypeError: The value is neither a scalar nor text.
    """
    if isinstance(value, Pointer):
        return "p", ptrtoint(value).to(Uint64)
    number = as_numeric(value)
    if number is None:
        if isinstance(value, str | type) or value is None:
            return None
        raise UserTypeError(
            "printf takes numbers, booleans, pointers, text and types",
            code="FLY-U273",
            value=type(value).__name__,
            hint="pass the elements one by one",
        )
    if number.is_static():
        return None
    if number.is_float:
        if number.width == 64:
            return "f64", number.bitcast(Uint64)
        return "f32", number.to(Float32).bitcast(Uint32).to(Uint64)
    if number.width > 64:
        raise UserTypeError(
            "printf takes integers of up to 64 bits", code="FLY-U273", value=type(number).__name__
        )
    if number.width == 1:
        return "b", number.to(Uint64)
    return ("i", number.to(Int64).bitcast(Uint64)) if number.signed else ("u", number.to(Uint64))


def _static_value(value: Any) -> Any:
    if isinstance(value, type):
        return value.__name__
    number = as_numeric(value)
    return number.value if number is not None else value


# Records ------------------------------------------------------------------------------------------
def _emit(session: Session, kind: str, fmt: str, values: tuple[Any, ...]) -> None:
    """Emit the code that writes one record, and note its site."""
    from flydsl.runtime.output import OutputSite

    fields = _fields(fmt, len(values))
    with located():
        found = [_dynamic(value) for value in values]
        numbers: dict[int, int] = {}
        for index, item in enumerate(found):
            if item is not None:
                numbers[index] = len(numbers)
        parts: list[str | tuple[int, str]] = []
        for part in fields:
            if isinstance(part, str):
                parts.append(part)
                continue
            index, spec = part
            item = found[index]
            if item is None:
                parts.append(_checked(_static_value(values[index]), spec, fmt))
            else:
                spec = spec or ("#x" if item[0] == "p" else "")
                _checked(_SAMPLES[item[0]], spec, fmt)
                parts.append((numbers[index], spec))
        dynamic = [item for item in found if item is not None]
        site = OutputSite(kind, tuple(parts), tuple(item[0] for item in dynamic), user_location())
        session.sites[site.key] = site
        _write_record(session, site.key, [item[1] for item in dynamic])


def _write_record(session: Session, key: int, values: list[Numeric]) -> None:
    # Not at import: the runtime package brings the plugin manager.
    from flydsl.runtime import output as ring

    buffer = Pointer(output_buffer(session), None, Uint64)
    count = ring.RECORD_WORDS + len(values)
    at = atomic_add(buffer + ring.HEAD, Uint64(count))
    capacity = buffer[ring.CAPACITY]
    fits = at + count - buffer[ring.TAIL] <= capacity
    with _branch(session, Boolean(fits)) as (yes, no):
        with yes():
            block, thread = block_idx, thread_idx
            head = _wide(thread.x) | _wide(thread.y) << 10 | _wide(thread.z) << 20
            words = [
                Uint64(key),
                _wide(block.x) | _wide(block.y) << 32,
                _wide(block.z),
                *values,
            ]
            mask = capacity - 1
            for number, word in enumerate(words, start=1):
                buffer[((at + number) & mask) + ring.HEADER_WORDS] = word
            generic_store(
                buffer + ((at & mask) + ring.HEADER_WORDS),
                head << 16 | (ring.COMPLETE | count),
                memory_order=AtomicOrdering.Release,
            )
        with no():
            atomic_add(buffer + ring.DROPPED, Uint64(1))


def _wide(index: Numeric) -> Any:
    return index.to(Uint32).to(Uint64)


def output_buffer(session: Session) -> Any:
    """Return the ring buffer in the kernel being traced: its hidden trailing argument."""
    kernel = session.kernel
    assert kernel is not None
    if kernel.output is None:
        location = session.locations.here()
        kernel.output = kernel.entry.add_argument(BUFFER.fly.ir, location)
    return kernel.output


BUFFER = PointerType.get(Int64, "global", 8)
"""Type of the hidden argument."""

Region = Callable[[], Any]


@contextmanager
def _branch(session: Session, condition: Boolean) -> Iterator[tuple[Region, Region]]:
    """Create an ``scf.if`` and yield a context manager for each of its branches."""
    here = session.locations.here
    guard = session.create("scf.if", (), (condition.ir_value(),), None, None, 2, here())
    blocks = [region.blocks.append() for region in guard.regions]

    @contextmanager
    def inside(number: int) -> Iterator[None]:
        with session.ir.InsertionPoint(blocks[number]):
            yield
            session.create("scf.yield", (), (), None, None, 0, here())

    yield (lambda: inside(0)), (lambda: inside(1))
