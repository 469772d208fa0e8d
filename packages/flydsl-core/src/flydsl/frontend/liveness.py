"""Which names a dynamic `if` or loop has to carry, by a backward liveness analysis.

For an ``if``: names assigned in it that may be read afterwards. For a loop: names assigned in it
that may be read afterwards or by a later iteration before being assigned again. Names captured by
nested functions or lambdas count as read everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from flydsl.frontend.scopes import assigned_names, captured_names, loaded_names

__all__ = ["Liveness"]


class Liveness:
    """Liveness of one function body; `carried` answers per ``if``, ``for`` and ``while`` node."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._always = captured_names(function.body)
        for node in ast.walk(function):
            if isinstance(node, (ast.Nonlocal, ast.Global)):
                self._always.update(node.names)  # visible to others after the function
        self._live: dict[ast.AST, set[str]] = {}
        self._loops: list[tuple[set[str], set[str]]] = []  # (after break, after continue)
        self._block(function.body, set())

    def carried(self, node: ast.If | ast.For | ast.While) -> list[str]:
        """Return the names to carry, in order of first assignment."""
        live = self._live.get(node, set()) | self._always
        bodies: list[ast.AST] = [*node.body, *node.orelse]
        if isinstance(node, ast.For):
            bodies.insert(0, node.target)
        if isinstance(node, ast.While):
            bodies.insert(0, node.test)
        return [name for name in assigned_names(bodies) if name in live]

    def _block(self, statements: Sequence[ast.stmt], out: set[str]) -> set[str]:
        live = set(out)
        for statement in reversed(statements):
            live = self._statement(statement, live)
        return live

    def _statement(self, node: ast.stmt, out: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            self._note(node, out)
            inside = self._block(node.body, out) | self._block(node.orelse, out)
            return inside | loaded_names(node.test)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, out)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            live = self._block(node.body, out)
            for item in node.items:
                live |= loaded_names(item)
            return live
        if isinstance(node, (ast.Try, ast.Match)):
            return self._branching(node, out)
        if isinstance(node, (ast.Return, ast.Raise)):
            return loaded_names(node)
        if isinstance(node, ast.Break):
            return set(self._loops[-1][0]) if self._loops else out
        if isinstance(node, ast.Continue):
            return set(self._loops[-1][1]) if self._loops else out
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return (out - {node.name}) | loaded_names(node)
        return self._simple(node, out)

    def _simple(self, node: ast.stmt, out: set[str]) -> set[str]:
        live = set(out)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not (isinstance(node, ast.AnnAssign) and node.value is None):
                for target in targets:
                    live -= _plain_targets(target)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            live.add(node.target.id)
        return live | loaded_names(node)

    def _branching(self, node: ast.stmt, out: set[str]) -> set[str]:
        """Handle ``try`` and ``match`` without assuming that anything in them is assigned."""
        live = out | loaded_names(node)
        blocks: list[list[ast.stmt]]
        if isinstance(node, ast.Match):
            blocks = [case.body for case in node.cases]
        else:
            assert isinstance(node, ast.Try)
            handlers = [handler.body for handler in node.handlers]
            blocks = [node.body, *handlers, node.orelse, node.finalbody]
        for block in blocks:
            live |= self._block(block, live)
        return live

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, out: set[str]) -> set[str]:
        after = self._block(node.orelse, out)
        is_for = not isinstance(node, ast.While)
        own = _plain_targets(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else set()
        head = set(after)
        if isinstance(node, ast.While):
            head |= loaded_names(node.test)
        head.update(getattr(node, "_fly_stops", ()))  # read before each iteration
        while True:
            self._loops.append((out, head))
            body = self._block(node.body, head)
            self._loops.pop()
            grown = head | (body - own)
            if grown == head:
                break
            head = grown
        self._note(node, head | out)
        iterated = loaded_names(node.iter) if is_for else set()  # type: ignore[union-attr]
        return head | iterated

    def _note(self, node: ast.AST, live: set[str]) -> None:
        self._live[node] = self._live.get(node, set()) | live


def _plain_targets(target: ast.AST) -> set[str]:
    """Return the names that an assignment to `target` always rebinds."""
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, (ast.Tuple, ast.List)):
        return set().union(*(_plain_targets(item) for item in target.elts))
    if isinstance(target, ast.Starred):
        return _plain_targets(target.value)
    return set()
