"""Compiles a rewritten syntax tree to a code object that can take the original's place."""

from __future__ import annotations

import ast
from types import CodeType, FunctionType

from flydsl.errors import CompilerBug
from flydsl.frontend.eligible import RUNTIME
from flydsl.frontend.mangling import mangle
from flydsl.frontend.rewriter import rewrite_function
from flydsl.frontend.source import function_tree
from flydsl.frontend.syntax import define

__all__ = ["rewritten_code"]


def rewritten_code(function: FunctionType, entry: bool) -> CodeType:
    """Return the code of a function rewritten; its free variables include `RUNTIME`.

    Args:
        function: The user's function.
        entry: Whether it is decorated rather than a helper (see `rewriter`).

    Raises:
        UserError: The source is unavailable or holds a construct that cannot be traced.
    """
    original = function.__code__
    tree = function_tree(function)
    mangle(tree, original.co_qualname)
    tree = rewrite_function(tree, original.co_filename, entry)
    # Under its own name it would hide what that name means to the function: itself, decorated.
    tree.name = "_fly_function"
    factory = define("_fly_factory", (RUNTIME, *original.co_freevars), [tree])
    _strip_signature(tree)
    module = ast.Module([ast.copy_location(factory, tree)], [])
    ast.fix_missing_locations(module)
    outer = compile(module, original.co_filename, "exec", dont_inherit=True)
    made = _nested(_nested(outer, "_fly_factory"), tree.name)
    if made is None:
        raise CompilerBug(f"the rewritten code of {original.co_name!r} was lost", code="FLY-B201")
    return made.replace(co_name=original.co_name, co_qualname=original.co_qualname)


def _strip_signature(tree: ast.FunctionDef) -> None:
    """Replace defaults by placeholders and drop annotations: the originals are used."""
    arguments = tree.args
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [
        None if default is None else ast.Constant(None) for default in arguments.kw_defaults
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
