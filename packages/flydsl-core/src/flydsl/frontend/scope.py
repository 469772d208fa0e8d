"""The module being traced: its kernels, their symbols, and the launcher's stream."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flydsl.diagnostics import user_location
from flydsl.errors import CompilerBug, SourceLocation, UserRuntimeError
from flydsl.expr.ambient import Session
from flydsl.expr.annotations import Stream
from flydsl.frontend.traced import TracedKernel

if TYPE_CHECKING:
    from flydsl.frontend.functions import KernelFunction

__all__ = ["ModuleScope", "module_scope"]


class ModuleScope:
    """Where kernels of one trace go.

    Args:
        session: The trace.
        kernels_block: Block of the ``gpu.module``.
        default_stream: The launcher's stream parameter, or the implicit one.
    """

    def __init__(self, session: Session, kernels_block: Any, default_stream: Stream) -> None:
        self.session = session
        self.kernels: list[TracedKernel] = []
        self._block = kernels_block
        self._stream = default_stream
        self._symbols: set[str] = set()
        self._count = 0
        self._waiting: dict[int, tuple[object, str, SourceLocation | None]] = {}

    def expect_launch(self, launcher: object, name: str) -> None:
        """Remember that a kernel was given arguments, to be launched later."""
        self._waiting[id(launcher)] = launcher, name, user_location()

    def launched(self, launcher: object) -> None:
        """Note a launch."""
        self._waiting.pop(id(launcher), None)

    def require_launches(self) -> None:
        """Check that every kernel that was called was launched.

        Raises:
            UserRuntimeError: One was not; at its call.
        """
        for _, name, location in self._waiting.values():
            raise UserRuntimeError(
                f"kernel {name!r} is called, but not launched",
                code="FLY-U275",
                hint="a call only binds the arguments: add .launch(grid=..., block=...)",
                location=location,
            )

    def kernels_end(self) -> Any:
        """Return the insertion point for the next kernel."""
        return self.session.ir.InsertionPoint(self._block)

    def kernel_symbol(self, kernel: KernelFunction) -> str:
        """Return a symbol that this module does not have yet."""
        if kernel.symbol:
            base = kernel.symbol
            symbol, number = base, 0
        else:
            base = re.sub(r"[^A-Za-z0-9_]", "_", kernel.name)
            symbol, number = f"{base}_{self._count}", self._count
        while symbol in self._symbols:
            number += 1
            symbol = f"{base}_{number}"
        self._count += 1
        self._symbols.add(symbol)
        return symbol

    def add_kernel(
        self,
        symbol: str,
        kernel: KernelFunction,
        block: tuple[int, int, int] | None,
        types: list[Any],
    ) -> None:
        """Record an emitted kernel."""
        self.kernels.append(
            TracedKernel(symbol, kernel.name, kernel.location, block, tuple(map(str, types)))
        )

    def stream(self, given: object) -> Stream:
        """Return the stream of a launch that was given `given`."""
        if given is None:
            return self._stream
        stream = given if isinstance(given, Stream) else Stream(given)
        return self._stream if stream.value is None else stream


def module_scope(session: Session) -> ModuleScope:
    """Return the scope of a trace.

    Raises:
        CompilerBug: The session has none.
    """
    scope = session.module_scope
    if not isinstance(scope, ModuleScope):
        raise CompilerBug("this trace has no module", code="FLY-B204")
    return scope
