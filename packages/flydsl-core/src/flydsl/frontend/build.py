"""Compiles rewritten functions and finds the rewritten form of whatever traced code calls."""

from __future__ import annotations

import ast
import functools
import sys
import threading
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from flydsl.diagnostics import is_framework_module
from flydsl.errors import CompilerBug
from flydsl.frontend.rewriter import rewrite_function
from flydsl.frontend.source import function_tree
from flydsl.frontend.syntax import RUNTIME, define

__all__ = ["RewriteCache", "rewritable"]

_FUNCTION_FLAGS = 0x3  # CO_OPTIMIZED | CO_NEWLOCALS: functions have them, class bodies do not
_FOREIGN = frozenset({"numpy", "torch", "ml_dtypes", "pytest", "_pytest", "hypothesis"})


def rewritable(function: FunctionType) -> bool:
    """Return whether a function is the user's own Python code."""
    module = function.__globals__.get("__name__", "")
    if is_framework_module(module) or "__flydsl_internal__" in function.__globals__:
        return False
    top = module.partition(".")[0]
    return module == "__main__" or (top not in sys.stdlib_module_names and top not in _FOREIGN)


class RewriteCache:
    """Rewritten code by original code object; one per process.

    Args:
        runtime: What rewritten code sees as ``_fly_rt``.
    """

    def __init__(self, runtime: object) -> None:
        self._cell = CellType(runtime)
        self._codes: dict[tuple[int, bool], tuple[CodeType, CodeType]] = {}
        self._done: dict[int, CodeType] = {}
        self._lock = threading.Lock()

    def rewritten(self, function: FunctionType, entry: bool = False) -> FunctionType:
        """Return a function with the rewritten code and everything else of `function`.

        Args:
            function: The user's function.
            entry: Whether it is decorated rather than a helper (see `rewriter`).

        Raises:
            UserError: The source is unavailable or holds a construct that cannot be traced.
        """
        code = function.__code__
        if id(code) in self._done:
            return function
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
        if kind is MethodType:
            inner = self.callable_for(target.__func__)
            return target if inner is target.__func__ else MethodType(inner, target.__self__)
        if kind is functools.partial:
            inner = self.callable_for(target.func)
            if inner is not target.func:
                return functools.partial(inner, *target.args, **target.keywords)
        return target

    def _rewrite(self, function: FunctionType, entry: bool) -> CodeType:
        tree = rewrite_function(function_tree(function), function.__code__.co_filename, entry)
        free = function.__code__.co_freevars
        factory = define("_fly_factory", (RUNTIME, *free), [tree])
        # Defaults and annotations were evaluated when the original was defined.
        _strip_signature(tree)
        module = ast.Module([ast.copy_location(factory, tree)], [])
        ast.fix_missing_locations(module)
        outer = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
        made = _nested(_nested(outer, "_fly_factory"), tree.name)
        if made is None:
            raise CompilerBug(f"the rewritten code of {tree.name!r} was lost", code="FLY-B201")
        made = made.replace(co_qualname=function.__code__.co_qualname)
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


def _strip_signature(tree: ast.FunctionDef) -> None:
    """Replace defaults by placeholders and drop annotations; the originals are reused."""
    arguments = tree.args
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [
        None if d is None else ast.Constant(None) for d in arguments.kw_defaults
    ]
    tree.returns = None
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None


def _nested(code: CodeType | None, name: str) -> CodeType | None:
    if code is not None:
        for constant in code.co_consts:
            if isinstance(constant, CodeType) and constant.co_name == name:
                return constant
    return None
