"""Turns ``return``, ``break`` and ``continue`` that leave a dynamic construct into flags.

A traced ``if`` or ``for range`` becomes a function of its own (`flydsl.frontend.rewriter`), which a
Python jump cannot leave. Such a jump is replaced by assignments to flags, and what follows it is
guarded by ``if _fly_rt.go(flags...)``. The flags are ordinary variables: known while tracing they
cost nothing, and in a dynamic region they are carried like any other name. Jumps that only leave
compile-time constructs (``if const_expr``, loops over Python iterables) stay as they are, and a
function without jumps to replace is left untouched.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from flydsl.frontend.eligible import RUNTIME
from flydsl.frontend.scopes import is_range_loop, is_static_test, own_nodes

__all__ = ["is_dynamic_construct", "lower_jumps"]

_DONE, _VALUE = "_fly_return_done", "_fly_return_value"
_JUMPS = (ast.Return, ast.Break, ast.Continue)
_LOOPS = (ast.For, ast.While)


@dataclass(slots=True)
class _Loop:
    """Flags of one loop; empty when its jumps stay Python's."""

    stop: str = ""
    skip: str = ""


def is_dynamic_construct(node: ast.AST) -> bool:
    """Return whether `node` may become a region: its body moves into a function of its own."""
    if isinstance(node, (ast.If, ast.While)):
        return not is_static_test(node.test)
    return is_range_loop(node)


def lower_jumps(function: ast.FunctionDef) -> None:
    """Replace the jumps of `function` that leave dynamic constructs, in place."""
    if not any(isinstance(node, _JUMPS) for node in own_nodes(function.body)):
        return
    lowering = _Lowering()
    lowering.find(function.body, [], None)
    if lowering.returns:
        total = _always_returns(function.body)
        body = lowering.block(function.body)
        start = ast.parse(f"{_DONE} = False\n{_VALUE} = {RUNTIME}.UNSET").body
        end = ast.parse(f"return {RUNTIME}.result({_DONE}, {_VALUE}, {total})").body
        _place(start, function.body[0])
        _place(end, function.body[-1])
        function.body = [*start, *body, *end]
    elif lowering.loops:
        function.body = lowering.block(function.body)


def _place(nodes: Sequence[ast.AST], at: ast.AST) -> None:
    for node in nodes:
        for inner in ast.walk(node):
            ast.copy_location(inner, at)


def _always_returns(body: Sequence[ast.stmt]) -> bool:
    """Return whether every path through `body` ends in a ``return`` or ``raise``."""
    for node in body:
        if isinstance(node, (ast.Return, ast.Raise)):
            return True
        if isinstance(node, ast.If) and node.orelse:
            both = _always_returns(node.body) and _always_returns(node.orelse)
            if both:
                return True
        if isinstance(node, (ast.With, ast.AsyncWith)) and _always_returns(node.body):
            return True
        if isinstance(node, ast.Try) and _try_returns(node):
            return True
        if isinstance(node, ast.While) and _never_falls_through(node):
            return True
    return False


def _try_returns(node: ast.Try) -> bool:
    if _always_returns(node.finalbody):
        return True
    finished = _always_returns(node.body) or _always_returns(node.orelse)
    return finished and all(_always_returns(handler.body) for handler in node.handlers)


def _never_falls_through(node: ast.While) -> bool:
    """Return whether a loop has no condition and no ``break``: only a ``return`` leaves it."""
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    return endless and not _breaks(node.body)


def _breaks(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements break the loop that they are the body of."""
    for node in body:
        if isinstance(node, ast.Break):
            return True
        blocks = [node.orelse] if isinstance(node, _LOOPS) else _blocks(node)
        if any(_breaks(block) for block in blocks):
            return True
    return False


class _Lowering:
    """Two walks over one function: `find` decides which jumps to replace, `block` replaces them."""

    def __init__(self) -> None:
        self.returns = False
        self.loops: dict[ast.AST, _Loop] = {}
        self._number = itertools.count()
        self._current: list[_Loop] = []

    def find(
        self, body: Sequence[ast.stmt], path: list[ast.AST], loop: ast.For | ast.While | None
    ) -> None:
        """Record which loops need flags and whether returns do.

        Args:
            body: Statements to search.
            path: Dynamic constructs between the function (or, for jumps of a loop, that loop) and
                here; the loop itself is included when it becomes a region.
            loop: The innermost loop.
        """
        for node in body:
            if isinstance(node, ast.Return):
                self.returns = self.returns or bool(path)
            elif isinstance(node, (ast.Break, ast.Continue)) and loop is not None:
                crossed = path[path.index(loop) :] if loop in path else self._since(path, loop)
                if crossed:
                    self.loops.setdefault(loop, _Loop())
            else:
                self._descend(node, path, loop)

    def _since(self, path: list[ast.AST], loop: ast.AST) -> list[ast.AST]:
        """Return the dynamic constructs of `path` inside a loop that is not one itself."""
        inside = set(map(id, ast.walk(loop)))
        return [node for node in path if id(node) in inside]

    def _descend(
        self, node: ast.stmt, path: list[ast.AST], loop: ast.For | ast.While | None
    ) -> None:
        inner = [*path, node] if is_dynamic_construct(node) else path
        if isinstance(node, _LOOPS):
            self.find(node.body, inner, node)
            # With jumps in the loop, a guard on its flags will stand around the else clause.
            guarded = any(isinstance(jump, _JUMPS) for jump in own_nodes(node.body))
            self.find(node.orelse, inner if guarded else path, loop)
            return
        for block in _blocks(node):
            self.find(block, inner, loop)

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return `body` with jumps replaced and what follows them guarded."""
        out: list[ast.stmt] = []
        for index, node in enumerate(body):
            replaced, flags = self._statement(node)
            out.extend(replaced)
            rest = body[index + 1 :]
            if flags and rest:
                guard = self._go(flags, rest[0])
                guard.body = self.block(rest)
                out.append(guard)
                return out
            if isinstance(node, _JUMPS):
                return out  # what follows is unreachable
        return out or [ast.copy_location(ast.Pass(), body[0])]

    def _go(self, flags: set[str], at: ast.AST) -> ast.If:
        test = f"{RUNTIME}.go({', '.join(sorted(flags))})"
        guard = ast.parse(f"if {test}: pass").body[0]
        assert isinstance(guard, ast.If)
        _place([guard], at)
        return guard

    def _statement(self, node: ast.stmt) -> tuple[list[ast.stmt], set[str]]:
        """Return the replacement of one statement and the flags that it may set."""
        if isinstance(node, ast.Return) and self.returns:
            value = node.value or ast.Constant(None)
            assign = ast.Assign([ast.Name(_VALUE, ast.Store())], value)
            done = ast.parse(f"{_DONE} = True").body[0]
            _place([done], node)
            ast.copy_location(assign.targets[0], node)
            ast.copy_location(value, node) if node.value is None else None
            return [ast.copy_location(assign, node), done], {_DONE}
        if isinstance(node, (ast.Break, ast.Continue)) and self._current and self._current[-1].stop:
            loop = self._current[-1]
            name = loop.stop if isinstance(node, ast.Break) else loop.skip
            assign_flag = ast.parse(f"{name} = True").body
            _place(assign_flag, node)
            return list(assign_flag), {name}
        if isinstance(node, _LOOPS):
            return self._loop(node)
        flags = self._jump_names([node])
        if isinstance(node, (ast.Try, ast.TryStar)) and node.orelse:
            # A jump in the body skips the else clause, for which its flags are no exception.
            left = self._jump_names(node.body)
            if left:
                guard = self._go(left, node.orelse[0])
                guard.body = node.orelse
                node.orelse = [guard]
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(node, name, None)
                if isinstance(inner, list) and inner:
                    setattr(node, name, self.block(inner))
        for handler in getattr(node, "handlers", []):
            handler.body = self.block(handler.body)
        for case in getattr(node, "cases", []):
            case.body = self.block(case.body)
        return [node], flags

    def _jump_names(self, nodes: Sequence[ast.AST]) -> set[str]:
        """Return the flags that jumps in statements not yet replaced will set.

        Those that end or continue a loop among them do not count; the else clause of such a loop
        belongs to the loop around it.
        """
        names: set[str] = set()
        stack: list[tuple[ast.AST, bool]] = [(node, True) for node in nodes]
        while stack:
            here, same_loop = stack.pop()
            if isinstance(here, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.AsyncFunctionDef)):
                continue
            if isinstance(here, ast.Return) and self.returns:
                names.add(_DONE)
            if isinstance(here, (ast.Break, ast.Continue)) and same_loop and self._current:
                loop = self._current[-1]
                names.add(loop.stop if isinstance(here, ast.Break) else loop.skip)
            if isinstance(here, _LOOPS):
                stack.extend((child, False) for child in here.body)
                stack.extend((child, same_loop) for child in here.orelse)
            else:
                stack.extend((child, same_loop) for child in ast.iter_child_nodes(here))
        return names - {""}

    def _loop(self, node: ast.For | ast.While) -> tuple[list[ast.stmt], set[str]]:
        returns_inside = self.returns and any(
            isinstance(inner, ast.Return) for inner in own_nodes(node.body)
        )
        flagged = node in self.loops
        if not flagged and not returns_inside:
            self._current.append(_Loop())
            node.body = self.block(node.body)
            self._current.pop()
            flags = self._jump_names(node.orelse)
            node.orelse = self.block(node.orelse) if node.orelse else []
            return [node], flags
        number = next(self._number)
        loop = _Loop(f"_fly_break_{number}", f"_fly_continue_{number}") if flagged else _Loop()
        jumps = {
            type(inner)
            for inner in own_nodes(node.body)
            if isinstance(inner, (ast.Break, ast.Continue))
        }
        self._current.append(loop)
        body = self.block(node.body)
        self._current.pop()
        if flagged and ast.Continue in jumps:
            skip = ast.parse(f"{loop.skip} = False").body
            _place(skip, node.body[0])
            body = [*skip, *body]
        stops = [loop.stop] if flagged and ast.Break in jumps else []
        if returns_inside:
            stops.append(_DONE)
        return self._stopping(node, body, stops, {_DONE} if returns_inside else set())

    def _stopping(
        self, node: ast.For | ast.While, body: list[ast.stmt], stops: list[str], flags: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        """Make the loop end when one of the `stops` flags is set."""
        out: list[ast.stmt] = []
        own = [name for name in stops if name != _DONE]
        if own:
            start = ast.parse(f"{own[0]} = False").body
            _place(start, node)
            out.extend(start)
        orelse = node.orelse
        flags = flags | self._jump_names(orelse)
        node.body = body
        if stops:
            arguments = ", ".join(stops)
            if isinstance(node, ast.While):
                test = ast.parse(f"{RUNTIME}.go({arguments})", mode="eval").body
                _place([test], node.test)
                node.test = ast.copy_location(ast.BoolOp(ast.And(), [test, node.test]), node.test)
            elif is_range_loop(node):
                vars(node)["_fly_stops"] = stops
            else:
                guard = self._go(set(stops), node)
                guard.body = body
                leave = ast.parse(f"if {RUNTIME}.stopped({arguments}): break").body[0]
                _place([leave], node)
                vars(leave)["_fly_static"] = True
                node.body = [guard, leave]
        node.orelse = []
        out.append(node)
        if orelse and stops:
            guard = self._go(set(stops), orelse[0])
            guard.body = self.block(orelse)
            out.append(guard)
        elif orelse:
            node.orelse = self.block(orelse)
        return out, flags


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """Return the statement lists directly inside a statement other than a function or class."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return []
    blocks = [getattr(node, field, []) for field in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(node, "handlers", [])]
    blocks += [case.body for case in getattr(node, "cases", [])]
    return [block for block in blocks if isinstance(block, list) and block]
