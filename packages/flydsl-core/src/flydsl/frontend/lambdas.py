"""Finds the syntax of a lambda: the one of its file that compiles to the very code that runs."""

from __future__ import annotations

import ast
from types import CodeType

from flydsl.frontend.eligible import nested_codes
from flydsl.frontend.syntax import define

__all__ = ["LAMBDA", "lambda_definition"]

LAMBDA = "<lambda>"
"""Name of the code of every lambda."""


def lambda_definition(code: CodeType, lines: list[str]) -> ast.FunctionDef | None:
    """Return a lambda as a ``def`` with one ``return``, or None if it cannot be told for certain.

    Several lambdas can begin on one line, so the right one is the innermost whose body encloses
    the positions of all instructions. It must compile to `code`: a file that has changed since it
    was imported does not.

    Args:
        code: The lambda's code.
        lines: The lines of its file.
    """
    text = "".join(lines)
    try:
        module = ast.parse(text)
        compiled = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    if code not in nested_codes(compiled):
        return None
    spans = [
        ((line, column), (end, end_column))
        for line, end, column, end_column in code.co_positions()
        if line and end and column is not None and end_column is not None and end_column > 0
    ]
    if not spans:
        return None
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    found = None
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            begin = (node.body.lineno, node.body.col_offset)
            end = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
            inside = begin <= first and last <= end
            if inside and (found is None or begin >= (found.body.lineno, found.body.col_offset)):
                found = node
    return None if found is None or _yields(found) else _as_definition(found)


def _yields(node: ast.Lambda) -> bool:
    return any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node.body))


def _as_definition(node: ast.Lambda) -> ast.FunctionDef:
    answer = ast.copy_location(ast.Return(node.body), node.body)
    made = define("_fly_lambda", (), [answer])
    made.args = node.args
    return ast.copy_location(made, node)
