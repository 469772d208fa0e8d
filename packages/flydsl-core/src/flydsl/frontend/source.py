"""From a function object to the syntax tree of its source, with the line numbers of its file."""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import operator
import os
import time
from pathlib import Path
from types import CodeType, FunctionType

from flydsl.errors import SourceLocation, UserRuntimeError
from flydsl.frontend.contents import code_digest
from flydsl.frontend.eligible import nested_codes
from flydsl.frontend.lambdas import LAMBDA, lambda_definition

__all__ = ["NO_SOURCE", "function_tree", "location_of", "node_location"]

_IMPORTED = time.time()
_FEATURES = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
NO_SOURCE = "FLY-U210"
"""Code of the error for a function without usable source."""


def location_of(code: CodeType) -> SourceLocation:
    """Return where a function's code begins."""
    return SourceLocation(code.co_filename, code.co_firstlineno)


def node_location(filename: str, node: ast.AST) -> SourceLocation:
    """Return the place of a syntax node (statement or expression)."""
    line = getattr(node, "lineno", 1)
    end = getattr(node, "end_col_offset", -1) if getattr(node, "end_lineno", 0) == line else -1
    return SourceLocation(filename, line, getattr(node, "col_offset", -1), end)


def function_tree(function: FunctionType) -> ast.FunctionDef:
    """Return the ``def`` of a function, parsed from its file; of a lambda, one that does the same.

    Raises:
        UserRuntimeError: The source is not available (interactive input, a frozen module), is not a
            ``def`` or lambda, or no longer matches the running code.
    """
    code = function.__code__
    lines = _lines(function)
    if not lines or code.co_firstlineno > len(lines):
        raise _unavailable(code, "its source file cannot be read")
    if code.co_name == LAMBDA:
        found = lambda_definition(code, lines)
        if found is None:
            raise _unavailable(code, "its file changed after import, or does not show which one")
        return found
    tree = _parse(lines, code.co_firstlineno, _last_line(code))
    if tree is None:
        tree = _parse(lines, code.co_firstlineno, _block_end(lines, code.co_firstlineno))
    if tree is None:
        raise _unavailable(code, "its source does not parse as a function")
    if isinstance(tree, ast.AsyncFunctionDef):
        raise _unavailable(code, "it is a coroutine")
    if not isinstance(tree, ast.FunctionDef) or tree.name != code.co_name:
        raise _unavailable(code, "it is not a `def` function, or its file changed after import")
    return tree


def _lines(function: FunctionType) -> list[str]:
    """Return the lines of a function's file.

    Raises:
        UserRuntimeError: The file was written after this process began, and no longer has the
            function: what was imported is the program, and what would be traced is another one.
    """
    code = function.__code__
    for _ in range(2):
        lines = linecache.getlines(code.co_filename, function.__globals__)
        if not _imported(function) or not _written_later(code.co_filename):
            return lines
        # Who compiles text himself hands his own features on.
        features = code.co_flags & _FEATURES
        try:
            text = "".join(lines)
            now = compile(text, code.co_filename, "exec", flags=features, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return lines  # no module, but parts of a document or a notebook
        if _holds_like(now, code):
            return lines
        # Imported anew, perhaps, since its lines were read.
        linecache.checkcache(code.co_filename)
    raise _unavailable(
        code,
        "its file changed after import",
        "start the program again, or import the module again: what runs is what was imported",
    )


def _imported(function: FunctionType) -> bool:
    """Return whether a function is of a module or the program, and of no text run in pieces."""
    space, file = function.__globals__, function.__code__.co_filename
    spec = space.get("__spec__")
    program = space.get("__name__") == "__main__" and space.get("__file__") == file
    return program or getattr(spec, "origin", None) == file


def _holds_like(outer: CodeType, code: CodeType) -> bool:
    """Return whether code has one inside that begins on the same line and does the same."""
    return any(
        (part.co_name, part.co_firstlineno) == (code.co_name, code.co_firstlineno)
        and code_digest(part) == code_digest(code)
        for part in nested_codes(outer)
    )


def _written_later(file: str) -> bool:
    """Return whether a file was written after this process began."""
    try:
        return os.stat(file).st_mtime >= _began()
    except (OSError, ValueError):
        return False


@functools.cache
def _began() -> float:
    """Return when this process began, in seconds; where that is unknown, when this was imported."""
    try:
        state = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        running = float(Path("/proc/uptime").read_text().split()[0])
        began = time.time() - running + int(state[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return _IMPORTED
    return min(began, _IMPORTED)


def _unavailable(
    code: CodeType, why: str, hint: str = "define it with `def` in a source file"
) -> UserRuntimeError:
    return UserRuntimeError(
        f"function {code.co_name!r} cannot be traced: {why}",
        code=NO_SOURCE,
        hint=hint,
        location=location_of(code),
    )


def _last_line(code: CodeType) -> int:
    """Return the last source line that any instruction of `code` or a nested code came from."""
    positions = (place for part in nested_codes(code) for place in part.co_positions())
    return max([code.co_firstlineno, *(end for _, end, _, _ in positions if end is not None)])


def _block_end(lines: list[str], first: int) -> int:
    """Return the last line of the indented block that starts at line `first`, by tokenising it."""
    import inspect

    return first + len(inspect.getblock(lines[first - 1 :])) - 1


def _parse(lines: list[str], first: int, last: int) -> ast.AST | None:
    """Parse lines `first` to `last` (one-based, inclusive) as one statement; None on failure."""
    text = "".join(lines[first - 1 : last])
    shift = first - 1
    if text[:1] in " \t":
        text = "if 1:\n" + text
        shift -= 1
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    statement = tree.body[0]
    if isinstance(statement, ast.If):
        if len(statement.body) != 1:
            return None
        statement = statement.body[0]
    elif len(tree.body) != 1:
        return None
    ast.increment_lineno(statement, shift)
    return statement
