"""Building syntax nodes that are the same over Python versions."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from flydsl.frontend.eligible import RUNTIME

__all__ = ["define", "load", "make_lambda", "runtime_call", "texts"]


def load(name: str) -> ast.expr:
    """Return an expression that reads a variable."""
    return ast.Name(name, ast.Load())


def make_lambda(body: ast.expr) -> ast.expr:
    """Return ``lambda: body``, placed at the body."""
    empty = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(empty, body), body)


def runtime_call(name: str, arguments: Sequence[ast.expr]) -> ast.Call:
    """Return a call of a function of the runtime."""
    return ast.Call(ast.Attribute(load(RUNTIME), name, ast.Load()), list(arguments), [])


def texts(items: Sequence[str]) -> ast.expr:
    """Return a tuple of string constants."""
    return ast.Tuple([ast.Constant(item) for item in items], ast.Load())


def define(name: str, parameters: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """Return ``def name(parameters)`` without positions."""
    made = ast.parse("def name(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.name = name
    made.args.args = [ast.arg(parameter) for parameter in parameters]
    made.body = body
    return made
