"""Finds the user's place in the source while framework code runs.

A frame is the framework's when its module is part of the core or of a plugin distribution (a
top-level name ``flydsl`` or ``flydsl_*``), or sets the global ``__flydsl_internal__``; kernel
families (``flydsl_kernels``) are user code. Frames of the standard library between the user and the
framework are skipped as well.
"""

from __future__ import annotations

import os.path
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from itertools import islice
from types import CodeType, FrameType
from typing import ParamSpec, TypeVar

from flydsl.errors import FlyDSLError, SourceLocation

__all__ = [
    "at_user_line",
    "error_location",
    "function_location",
    "is_framework_module",
    "is_user_frame",
    "user_location",
    "user_locations",
]

P = ParamSpec("P")
R = TypeVar("R")

_USER_PACKAGES = frozenset({"flydsl_kernels"})
# Python's library may also be in an archive, where ``os`` then is.
_STDLIB = tuple(
    os.path.normcase(folder) + os.sep
    for folder in (sysconfig.get_path("stdlib"), os.path.dirname(os.__file__))
)
_SITE_DIRECTORIES = ("site-packages", "dist-packages")


def is_framework_module(name: str) -> bool:
    """Return whether the module called `name` belongs to FlyDSL or one of its plugins."""
    top = name.partition(".")[0]
    return top == "flydsl" or (top.startswith("flydsl_") and top not in _USER_PACKAGES)


def user_location(skip: int = 0) -> SourceLocation | None:
    """Return the innermost place in user code on the current call stack.

    Args:
        skip: User frames to pass over first.

    Returns:
        File, line and, where Python recorded them, the columns of the running expression; None if
        no user frame is on the stack.
    """
    for location in islice(_walk(sys._getframe(1)), skip, None):
        return location
    return None


def user_locations(limit: int = 16) -> tuple[SourceLocation, ...]:
    """Return the chain of user places on the call stack, innermost first, at most `limit`."""
    return tuple(islice(_walk(sys._getframe(1)), limit))


def function_location(function: Callable[..., object]) -> SourceLocation | None:
    """Return where a Python function (decorated or not) begins; None if it has no Python code."""
    inner: object = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(inner, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return SourceLocation(code.co_filename, code.co_firstlineno)


class _AtUserLine:
    """What `at_user_line` returns: a context manager, and a decorator without a generator."""

    __slots__ = ("_location",)

    def __init__(self, location: SourceLocation | None) -> None:
        self._location = location

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FlyDSLError):
            self._locate(error)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        locate = self._locate

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except FlyDSLError as error:
                locate(error)
                raise

        return call

    def _locate(self, error: FlyDSLError) -> None:
        if error.location is None and not _traced():
            error.with_location(self._location or user_location())


def at_user_line(location: SourceLocation | None = None) -> _AtUserLine:
    """Give every `FlyDSLError` that leaves a ``with`` block, or a function, a location.

    Errors that have one keep it. Use it as ``with at_user_line():`` or ``@at_user_line()``.

    Args:
        location: The place to record; by default that of the caller's user frame.
    """
    return _AtUserLine(location)


def _traced() -> bool:
    """Return whether PyTorch traces this code: it has no stack then, and names the line itself."""
    torch = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and bool(compiler.is_compiling())


def error_location(error: BaseException) -> SourceLocation | None:
    """Return the innermost place in user code that an exception passed through; None if none."""
    found: SourceLocation | None = None
    entry = error.__traceback__
    while entry is not None:
        if is_user_frame(entry.tb_frame):
            found = _position(entry.tb_frame.f_code, entry.tb_lasti)
        entry = entry.tb_next
    return found


def is_user_frame(frame: FrameType) -> bool:
    """Return whether a frame runs user code.

    Not FlyDSL's, a plugin's, the standard library's, or PyTorch's, which calls what it compiles.
    """
    name = frame.f_globals.get("__name__") or ""
    return not (
        is_framework_module(name)
        or name.startswith("torch.")
        or "__flydsl_internal__" in frame.f_globals
        or _is_stdlib(frame.f_code.co_filename)
    )


def _walk(frame: FrameType | None) -> Iterator[SourceLocation]:
    while frame is not None:
        if is_user_frame(frame):
            yield _position(frame.f_code, frame.f_lasti)
        frame = frame.f_back


@lru_cache(maxsize=1024)
def _is_stdlib(filename: str) -> bool:
    if filename.startswith("<frozen "):
        return True
    normal = os.path.normcase(filename)
    return any(
        normal.startswith(folder) and not normal[len(folder) :].startswith(_SITE_DIRECTORIES)
        for folder in _STDLIB
    )


@lru_cache(maxsize=4096)
def _position(code: CodeType, offset: int) -> SourceLocation:
    index = max(0, offset) // 2
    line, end_line, column, end_column = next(
        islice(code.co_positions(), index, None), (None, None, None, None)
    )
    if line is None:
        return SourceLocation(code.co_filename, code.co_firstlineno)
    if column is None or end_column is None:
        return SourceLocation(code.co_filename, line)
    if end_line != line:
        end_column = column
    return SourceLocation(
        code.co_filename,
        line,
        _characters(code.co_filename, line, column),
        _characters(code.co_filename, line, end_column),
    )


def _characters(filename: str, line: int, column: int) -> int:
    """Convert a column in UTF-8 bytes, as code objects record it, to one in characters."""
    import linecache

    text = linecache.getline(filename, line)
    if not text or text.isascii():
        return column
    return len(text.encode()[:column].decode(errors="replace"))
