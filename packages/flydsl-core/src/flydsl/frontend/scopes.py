"""Which names statements bind, which they read, and which tests are compile-time by their form."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

__all__ = [
    "assigned_names",
    "called_name",
    "captured_names",
    "contains_yield",
    "declared_names",
    "is_range_loop",
    "is_static_test",
    "loaded_names",
    "names_truth",
    "own_nodes",
]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_STATIC_CALLS = frozenset({"const_expr", "isinstance", "issubclass", "hasattr", "callable"})


def own_nodes(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """Yield `nodes` and their descendants without entering nested functions, lambdas or classes."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))


def assigned_names(statements: Sequence[ast.AST]) -> list[str]:
    """Return the names that the statements bind in their function's scope, in order of position."""
    found: dict[str, None] = {}
    for statement in statements:
        _bind(statement, found)
    return list(found)


def _bind(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            found.setdefault(node.id)
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        found.setdefault(node.name)
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            found.setdefault(alias.asname or alias.name.partition(".")[0])
        return
    if isinstance(node, _COMPREHENSIONS):
        for inner in ast.walk(node):  # `:=` inside binds outside
            if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name):
                found.setdefault(inner.target.id)
        return
    if isinstance(node, ast.ExceptHandler) and node.name:
        found.setdefault(node.name)
    if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
        found.setdefault(node.name)
    if isinstance(node, ast.MatchMapping) and node.rest:
        found.setdefault(node.rest)
    for child in ast.iter_child_nodes(node):
        _bind(child, found)


def declared_names(statements: Sequence[ast.AST], kind: type[ast.AST]) -> set[str]:
    """Return the names in ``global`` or ``nonlocal`` statements (`kind`) of this scope."""
    names: set[str] = set()
    for node in own_nodes(statements):
        if isinstance(node, kind):
            names.update(node.names)  # type: ignore[attr-defined]
    return names


def loaded_names(node: ast.AST) -> set[str]:
    """Return every name read in `node`, nested functions and comprehensions included."""
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Load, ast.Del))
    }


def captured_names(statements: Sequence[ast.AST]) -> set[str]:
    """Return the names that functions and lambdas nested in the statements read or rebind."""
    names: set[str] = set()
    for node in own_nodes(statements):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            names |= loaded_names(node)
            for inner in ast.walk(node):
                if isinstance(inner, ast.Nonlocal):
                    names.update(inner.names)
    return names


def called_name(node: ast.AST) -> str:
    """Return the last part of the called function's name for a call, else an empty string."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def names_truth(node: ast.Compare) -> bool:
    """Return whether one side of a comparison is written as ``True`` or ``False``."""
    sides = (node.left, *node.comparators)
    return any(isinstance(x, ast.Constant) and isinstance(x.value, bool) for x in sides)


def is_static_test(test: ast.expr) -> bool:
    """Return whether a condition is a Python bool whatever its operands are."""
    if isinstance(test, ast.Constant):
        return True
    if isinstance(test, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops) and not names_truth(test)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_static_test(test.operand)
    if isinstance(test, ast.BoolOp):
        return all(is_static_test(value) for value in test.values)
    return called_name(test) in _STATIC_CALLS


def is_range_loop(node: ast.AST) -> bool:
    """Return whether a ``for`` iterates directly over a call of ``range``."""
    return (
        isinstance(node, ast.For)
        and isinstance(node.iter, ast.Call)
        and isinstance(node.iter.func, ast.Name)
        and node.iter.func.id == "range"
    )


def contains_yield(nodes: Iterable[ast.AST]) -> bool:
    """Return whether a ``yield`` of this scope is below `nodes`."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(nodes))
