"""Compiles rewritten functions and finds the rewritten form of whatever traced code calls."""

from __future__ import annotations

import functools
import inspect
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType
from typing import Any

from flydsl.errors import UserError, UserTypeError
from flydsl.expr.ambient import current
from flydsl.expr.numeric import Numeric
from flydsl.frontend.builtin_calls import built_in
from flydsl.frontend.eligible import RUNTIME, rewritable
from flydsl.locking import ProcessLock

__all__ = ["RewriteCache"]

_FUNCTION_FLAGS = 0x3  # CO_OPTIMIZED | CO_NEWLOCALS: functions have them, class bodies do not


def _universal(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a NumPy function, which cannot compute with run-time values."""
    for value in args:
        if isinstance(value, Numeric) and not value.is_static():
            name = function.__name__
            raise UserTypeError(
                f"np.{name} computes with NumPy's numbers, not with run-time values",
                code="FLY-U256",
                value=value,
                hint=f"use Python's operators, or fx.math.{name} if it exists (see fx.math)",
            )
    return function(*args, **kwargs)


class RewriteCache:
    """Rewritten code by original code object; one per process.

    Args:
        runtime: What rewritten code sees as ``_fly_rt``.
    """

    def __init__(self, runtime: object) -> None:
        self._cell = CellType(runtime)
        self._codes: dict[tuple[int, bool], tuple[CodeType, CodeType]] = {}
        self._done: dict[int, CodeType] = {}
        self._lock = ProcessLock()

    def rewritten(self, function: FunctionType, entry: bool = False) -> FunctionType:
        """Return a function with the rewritten code and everything else of `function`.

        Args:
            function: The user's function.
            entry: Whether it is decorated rather than a helper (see `rewriter`). A helper whose
                source is not available runs as it is.

        Raises:
            UserError: The source of a decorated function is unavailable, or a construct in it
                cannot be traced.
        """
        code = function.__code__
        if id(code) in self._done:
            return function
        session = current()
        if session is not None:
            session.reached[id(function)] = function
        key = (id(code), entry)
        found = self._codes.get(key)
        if found is None:
            with self._lock:
                found = self._codes.get(key)
                if found is None:
                    found = self._codes[key] = (code, self._rewrite(function, entry))
        return self._instance(function, found[1])

    def callable_for(self, target: Any) -> Any:
        """Return what to call instead of `target`; `target` itself unless it is user code."""
        kind = type(target)
        if kind is FunctionType:
            if id(target.__code__) in self._done or not rewritable(target):
                return target
            return self.rewritten(target)
        if kind is BuiltinFunctionType:
            return built_in(target)
        if kind is MethodType:
            inner = self.callable_for(target.__func__)
            return target if inner is target.__func__ else MethodType(inner, target.__self__)
        if kind is functools.partial:
            inner = self.callable_for(target.func)
            if inner is not target.func:
                return functools.partial(inner, *target.args, **target.keywords)
        if kind.__name__ == "ufunc":
            return functools.partial(_universal, target)
        return target

    def _rewrite(self, function: FunctionType, entry: bool) -> CodeType:
        # Deferred: rewriting needs the syntax modules, and a cache hit needs no rewriting.
        from flydsl.frontend.compiling import rewritten_code
        from flydsl.frontend.source import NO_SOURCE

        try:
            made = rewritten_code(function, entry)
        except UserError as error:
            # A helper without source runs as it is: whatever it asks Python to decide about a
            # run-time value raises.
            code = function.__code__
            if entry or error.code != NO_SOURCE or code.co_flags & inspect.CO_COROUTINE:
                raise
            return code
        self._mark(made)
        return made

    def _mark(self, code: CodeType) -> None:
        """Remember `code` and the functions in it (not methods of classes) as rewritten."""
        self._done[id(code)] = code
        for constant in code.co_consts:
            if isinstance(constant, CodeType) and constant.co_flags & _FUNCTION_FLAGS == 0x3:
                self._mark(constant)

    def _instance(self, function: FunctionType, code: CodeType) -> FunctionType:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cells[RUNTIME] = self._cell
        closure = tuple(cells[name] for name in code.co_freevars)
        made = FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, closure
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__annotations__ = function.__annotations__
        made.__qualname__ = function.__qualname__
        return made
