"""The trace in progress: what every traced expression needs to know, kept per thread.

`flydsl.frontend` opens a `Session` for the duration of one trace; `current()` returns it. Outside a
trace expressions on plain Python values work, and whatever needs an operation raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from flydsl.errors import SourceLocation, UserRuntimeError
from flydsl.expr.expiry import expire, guarded
from flydsl.expr.locations import LocationTable

if TYPE_CHECKING:
    from flydsl.targets import Target

__all__ = [
    "IRType",
    "IRValue",
    "KernelScope",
    "Session",
    "SharedUse",
    "current",
    "in_trace",
    "note",
    "opened",
    "require",
]

IRValue: TypeAlias = Any
"""An ``mlir.ir.Value``; without a static type, because only `flydsl.mlir` imports the bindings."""
IRType: TypeAlias = Any
"""An ``mlir.ir.Type``."""


@dataclass(frozen=True, slots=True)
class SharedUse:
    """An allocation of shared memory.

    Attributes:
        what: The type allocated, in words.
        bytes: Its size.
        alignment: Its alignment in bytes.
        place: The user's line, if known.
        dynamic: Whether it is part of the dynamic shared memory of the launch.
    """

    what: str
    bytes: int
    alignment: int
    place: SourceLocation | None
    dynamic: bool

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place is not None else ""
        return f"{self.bytes} bytes for {self.what}{where}"


class KernelScope:
    """What is known of the kernel whose body is being traced.

    Attributes:
        name: Symbol of the kernel.
        block: Threads along x, y, z where they are compile-time constants, else None.
        shared_bytes: Bytes of dynamic shared memory counted by allocators so far.
        statics: Names of static shared allocations made so far.
        entry: The kernel's entry block.
        output: The hidden argument that holds the output buffer, once something prints.
        shared_allocator: The kernel's shared allocator, once there is one.
        shared_uses: What its allocations are for, in order.
        scratch: Static allocations of extensions, by key; they outlive retries.
        scratch_uses: What those are for.
        scratch_turns: How often straight-line code has used which kind of scratch memory.
    """

    __slots__ = (
        "block",
        "entry",
        "name",
        "output",
        "scratch",
        "scratch_turns",
        "scratch_uses",
        "shared_allocator",
        "shared_bytes",
        "shared_uses",
        "statics",
    )

    def __init__(self, name: str, block: tuple[int, int, int] | None, entry: Any) -> None:
        self.name = name
        self.block = block
        self.entry = entry
        self.output: IRValue | None = None
        self.shared_bytes = 0
        self.shared_allocator: Any = None
        self.statics: list[str] = []
        self.shared_uses: list[SharedUse] = []
        self.scratch: dict[object, Any] = {}
        self.scratch_uses: list[SharedUse] = []
        self.scratch_turns: dict[object, int] = {}

    def mark(self) -> tuple[Any, ...]:
        """Return the state of the shared allocations, for `rewind`."""
        allocator = self.shared_allocator
        counted = 0 if allocator is None else allocator.allocated_bytes
        sizes = (self.shared_bytes, len(self.statics), len(self.shared_uses))
        return (allocator, counted, *sizes)

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Forget the shared allocations made since `mark`, whose trace was thrown away."""
        self.shared_allocator, counted, self.shared_bytes, statics, uses = mark
        if self.shared_allocator is not None:
            self.shared_allocator.allocated_bytes = counted
        del self.statics[statics:]
        del self.shared_uses[uses:]

    def static_shared_bytes(self) -> int:
        """Return the bytes of the static allocations, each at its alignment."""
        total = 0
        uses = [*self.shared_uses, *self.scratch_uses]
        for use in sorted(uses, key=lambda use: -use.alignment):
            if not use.dynamic:
                total = -(-total // use.alignment) * use.alignment + use.bytes
        return total


class Session:
    """State of one trace.

    Attributes:
        ir: The ``mlir.ir`` module.
        context: The MLIR context in use.
        target: The target compiled for, or None.
        types: Cache of IR types by key.
        attributes: Cache of IR attributes by key.
        locations: Source locations of user frames.
        kernel: The kernel being traced; None in the launcher.
        module_scope: What the frontend knows of the module (`flydsl.frontend.scope`).
        sites: What the program prints and asserts (`flydsl.runtime.output.OutputSite`), by key.
        reached: User functions that the trace has called, by identity.
        depth: How many dynamic regions (`if`, loops on run-time values) enclose the current point.
        made: DSL values of the kernel, or of the launcher outside kernels (see `expiry`).
        create: ``ir.Operation.create``.
    """

    __slots__ = (
        "attributes",
        "context",
        "create",
        "depth",
        "fastmath",
        "ir",
        "kernel",
        "locations",
        "made",
        "module_scope",
        "reached",
        "sites",
        "target",
        "types",
        "value_class",
    )

    def __init__(self, ir: Any, context: Any, target: Target | None) -> None:
        self.ir = ir
        self.context = context
        self.target = target
        self.types: dict[object, IRType] = {}
        self.attributes: dict[object, Any] = {}
        self.locations = LocationTable(ir)
        self.kernel: KernelScope | None = None
        self.module_scope: object = None
        self.sites: dict[int, Any] = {}
        self.reached: dict[int, Any] = {}
        self.depth = 0
        self.fastmath: Any = None
        self.made: list[Any] = []
        self.create: Callable[..., Any] = guarded(ir.Operation.create)
        self.value_class: type = ir.Value

    def type(self, text: str) -> IRType:
        """Return the IR type with this MLIR text, parsed once per session."""
        found = self.types.get(text)
        if found is None:
            found = self.types[text] = self.ir.Type.parse(text)
        return found


class _State(threading.local):
    session: Session | None = None


_STATE = _State()


def current() -> Session | None:
    """Return this thread's trace, or None."""
    return _STATE.session


def note(value: Any) -> None:
    """Remember a DSL value, whose IR value ends with the kernel or trace."""
    session = _STATE.session
    if session is not None:
        session.made.append(value)


def in_trace() -> bool:
    """Return whether this thread is tracing."""
    return _STATE.session is not None


def require(what: str) -> Session:
    """Return this thread's trace.

    Args:
        what: The operation that needs it, for the message.

    Raises:
        UserRuntimeError: Nothing is being traced.
    """
    session = _STATE.session
    if session is None:
        raise UserRuntimeError(
            f"{what} needs a trace",
            code="FLY-U201",
            hint="call it inside a @flyc.kernel or @flyc.jit function",
        )
    return session


@contextmanager
def opened(session: Session) -> Iterator[Session]:
    """Make `session` this thread's trace within the block."""
    before = _STATE.session
    _STATE.session = session
    try:
        yield session
    finally:
        _STATE.session = before
        expire(session.made)
