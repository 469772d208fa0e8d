"""Turns ``match`` statements whose patterns only compare and bind into ``if`` statements.

Those are values, ``None``, ``True``, ``False``, names, ``_`` and alternatives, and tuples of them
where the subject is written as a tuple of as many items. As ``if`` statements they are traced like
any other (`flydsl.frontend.rewriter`); statements with other patterns stay Python's, which decides
them while tracing.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["lower_matches"]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_HIDING = (ast.Lambda, ast.NamedExpr, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class _Case:
    """What a pattern asks, and what it binds."""

    tests: list[ast.expr] = field(default_factory=list)
    bindings: dict[str, ast.expr] = field(default_factory=dict)


def lower_matches(function: ast.FunctionDef) -> None:
    """Replace the ``match`` statements of a function that can be, in place."""
    numbers = itertools.count()
    function.body = _block(function.body, numbers)


def _block(statements: Sequence[ast.stmt], numbers: itertools.count[int]) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for node in statements:
        if not isinstance(node, _SCOPES):
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(node, name, None)
                if isinstance(inner, list) and inner:
                    setattr(node, name, _block(inner, numbers))
            for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                part.body = _block(part.body, numbers)
        out.extend(_lowered(node, numbers) if isinstance(node, ast.Match) else [node])
    return out


def _lowered(node: ast.Match, numbers: itertools.count[int]) -> list[ast.stmt]:
    """Return the ``if`` statements for a ``match``, or the statement itself."""
    items = node.subject.elts if isinstance(node.subject, ast.Tuple) else [node.subject]
    if any(isinstance(item, ast.Starred) for item in items):
        return [node]
    number = next(numbers)
    names = [f"_fly_match_{number}_{index}" for index in range(len(items))]
    whole = len(names) if isinstance(node.subject, ast.Tuple) else None
    cases = [_case(case, names, whole) for case in node.cases]
    if any(case is None for case in cases):
        return [node]
    out: list[ast.stmt] = [
        ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], item), item)
        for name, item in zip(names, items, strict=True)
    ]
    rest: list[ast.stmt] = []
    for case, found in reversed(list(zip(node.cases, cases, strict=True))):
        assert found is not None
        rest = _branch(case, found, rest)
    for statement in [*out, *rest]:
        for inner in ast.walk(statement):
            if isinstance(inner, (ast.expr, ast.stmt)) and not hasattr(inner, "lineno"):
                ast.copy_location(inner, node)
        ast.fix_missing_locations(statement)
    return [*out, *rest]


def _branch(case: ast.match_case, found: _Case, rest: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements for a case, given those for the cases after it."""
    tests = list(found.tests)
    if case.guard is not None:
        tests.append(_Substitution(found.bindings).visit(copy.deepcopy(case.guard)))
    binds: list[ast.stmt] = [
        ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), case.pattern)
        for name, value in found.bindings.items()
    ]
    body = [*binds, *case.body]
    if not tests:
        return body
    chosen = ast.copy_location(ast.If(_all(tests, case.pattern), body, rest), case.pattern)
    if case.guard is None or not binds:
        return [chosen]
    # A pattern that fits binds its names, also where its guard does not hold.
    bound = copy.deepcopy(binds)
    if found.tests:
        test = _all(copy.deepcopy(found.tests), case.pattern)
        bound = [ast.copy_location(ast.If(test, bound, []), case.pattern)]
    return [*bound, chosen]


def _all(tests: list[ast.expr], at: ast.AST) -> ast.expr:
    test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
    return ast.copy_location(test, at)


def _case(case: ast.match_case, names: Sequence[str], whole: int | None) -> _Case | None:
    """Return what a case asks and binds; None if it cannot be replaced."""
    if case.guard is not None and any(isinstance(x, _HIDING) for x in ast.walk(case.guard)):
        return None
    found = _Case()
    pattern = case.pattern
    if whole is None:
        return found if _pattern(pattern, names[0], found) else None
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
        return found
    if not isinstance(pattern, ast.MatchSequence) or len(pattern.patterns) != whole:
        return None
    fits = all(
        _pattern(part, name, found) for part, name in zip(pattern.patterns, names, strict=True)
    )
    return found if fits else None


def _pattern(pattern: ast.pattern, name: str, found: _Case) -> bool:
    """Add what a pattern for one value asks and binds; return whether it can be replaced."""
    subject = ast.Name(name, ast.Load())
    if isinstance(pattern, ast.MatchValue):
        test = ast.Compare(subject, [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        test = ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    elif isinstance(pattern, ast.MatchOr):
        parts = [_Case() for _ in pattern.patterns]
        fits = all(_pattern(p, name, c) for p, c in zip(pattern.patterns, parts, strict=True))
        if not fits or any(part.bindings or len(part.tests) != 1 for part in parts):
            return False
        found.tests.append(
            ast.copy_location(ast.BoolOp(ast.Or(), [part.tests[0] for part in parts]), pattern)
        )
        return True
    elif isinstance(pattern, ast.MatchAs):
        if pattern.name is not None:
            found.bindings[pattern.name] = subject
        return pattern.pattern is None or _pattern(pattern.pattern, name, found)
    else:
        return False
    found.tests.append(ast.copy_location(test, pattern))
    return True


class _Substitution(ast.NodeTransformer):
    """Replaces the names that a pattern binds by what they are bound to."""

    def __init__(self, bindings: dict[str, ast.expr]) -> None:
        self._bindings = bindings

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self._bindings.get(node.id)
        if value is None or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(copy.deepcopy(value), node)
