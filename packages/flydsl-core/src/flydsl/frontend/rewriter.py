"""Rewrites a function's syntax tree so that control flow on run-time values can be traced.

Bodies of ``if``, ``for range`` and ``while`` become nested functions that share the variables of
the enclosing function through ``nonlocal``, and the statement becomes a call of
`flydsl.frontend.runtime` with them. The runtime decides: a Python condition runs the functions as
Python would; a run-time condition traces them into regions and merges what they assigned. ``and``,
``or``, ``not``, chained comparisons, ``x in y`` and conditional expressions become calls with
lambdas for the operands that may not be evaluated, and every call goes through the runtime, which
rewrites helpers on first use.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence

from flydsl.errors import UserError
from flydsl.frontend.eligible import RUNTIME
from flydsl.frontend.jumps import is_dynamic_construct, lower_jumps
from flydsl.frontend.liveness import Liveness
from flydsl.frontend.matching import lower_matches
from flydsl.frontend.scopes import (
    assigned_names,
    contains_yield,
    declared_names,
    is_range_loop,
    names_truth,
    own_nodes,
)
from flydsl.frontend.source import node_location
from flydsl.frontend.syntax import define, load, make_lambda, runtime_call, texts

__all__ = ["rewrite_function"]

_UNWRAPPED = frozenset({"super", "locals", "globals", "vars", "eval", "exec", "dir"})
_OPERATORS = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_", ast.NotIn: "not_in",
}  # fmt: skip


def rewrite_function(function: ast.FunctionDef, filename: str, entry: bool) -> ast.FunctionDef:
    """Rewrite a function in place and return it, without its decorators.

    Args:
        function: The ``def``.
        filename: Its file, for error locations.
        entry: Whether it is decorated (``@flyc.kernel``, ``@flyc.jit``): there ``range`` always
            makes a run-time loop, in helpers only when a bound is a run-time value.

    Raises:
        UserError: A construct that cannot be traced, at its line.
    """
    function.decorator_list = []
    _Rewriter(filename, itertools.count(), entry).function(function)
    ast.fix_missing_locations(function)
    return function


class _Rewriter(ast.NodeTransformer):
    """Transforms the statements and expressions of one function; nested ones get their own."""

    def __init__(self, filename: str, numbers: itertools.count[int], entry: bool) -> None:
        self._filename = filename
        self._entry = entry
        self._numbers = numbers
        self._liveness: Liveness | None = None
        self._globals: set[str] = set()
        self._nonlocals: set[str] = set()
        self._shared: dict[str, None] = {}
        self._generator = False

    def function(self, node: ast.FunctionDef) -> None:
        """Rewrite the body of one ``def``."""
        self._refuse_foreign_jumps(node)
        self._globals = declared_names(node.body, ast.Global)
        self._nonlocals = declared_names(node.body, ast.Nonlocal)
        self._generator = self._is_generator(node)
        lower_matches(node)
        if not self._generator:
            lower_jumps(node)
        self._liveness = Liveness(node)
        docstring = ast.get_docstring(node, clean=False)
        parameters = {argument.arg for argument in _arguments(node.args)}
        body = self._block(node.body)
        names = [
            name
            for name in self._shared
            if name not in self._globals | self._nonlocals | parameters
        ]
        if names:
            # Binds the names in this scope for `nonlocal` below, without running.
            binding = ast.parse("if False: pass").body[0]
            assert isinstance(binding, ast.If)
            binding.body = [
                ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in names
            ]
            for inner in ast.walk(binding):
                ast.copy_location(inner, node.body[0])
            at = 1 if docstring is not None else 0
            while at < len(body) and isinstance(body[at], (ast.Global, ast.Nonlocal)):
                at += 1
            body.insert(at, binding)
        node.body = body

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            out.extend(result if isinstance(result, list) else [result])
        return out

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        node.args = self.visit(node.args)
        _Rewriter(self._filename, self._numbers, self._entry).function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        raise self._refused(node, "a coroutine cannot be defined in a traced function")

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node  # its methods are rewritten when they are called

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Drop the annotation of a local name: one that a region shares may not have any."""
        self.generic_visit(node)
        if node.value is None or not isinstance(node.target, ast.Name):
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if hasattr(node, "_fly_static") or not is_dynamic_construct(node) or self._plain(node):
            node.test = self.visit(node.test)
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        assert self._liveness is not None
        carried = self._liveness.carried(node)
        names = assigned_names([*node.body, *node.orelse])
        number = next(self._numbers)
        then = self._region(f"_fly_then_{number}", node.body, names, node)
        arms = [then]
        otherwise: ast.expr = ast.Constant(None)
        if node.orelse:
            arms.append(self._region(f"_fly_else_{number}", node.orelse, names, node.orelse[0]))
            otherwise = ast.Name(f"_fly_else_{number}", ast.Load())
        call = self._call(
            "if_",
            [self.visit(node.test), ast.Name(then.name, ast.Load()), otherwise],
            names,
            carried,
        )
        return [*arms, self._statement(call, node.test)]

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        if not is_range_loop(node) or (self._plain(node) and not self._init(node)):
            node.iter = self.visit(node.iter)
            node.target = self.visit(node.target)
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        if self._init(node):
            return self._for_init(node)
        assert self._liveness is not None
        carried = self._liveness.carried(node)
        names = assigned_names([node.target, *node.body])
        number = next(self._numbers)
        assign = ast.copy_location(
            ast.Assign([node.target], ast.Name("_fly_iv", ast.Load())), node.target
        )
        body = self._region(
            f"_fly_body_{number}", node.body, names, node, ["_fly_iv"], [self.visit(assign)]
        )
        assert isinstance(node.iter, ast.Call)
        arguments: list[ast.expr] = [
            self._range(node.iter),
            ast.Name(body.name, ast.Load()),
        ]
        stops = getattr(node, "_fly_stops", [])
        if stops:
            arguments.append(make_lambda(runtime_call("go", [load(name) for name in stops])))
        call = self._call("for_", arguments, names, carried)
        return [body, self._statement(call, node.iter), *self._block(node.orelse)]

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        if not is_dynamic_construct(node) or self._plain(node):
            node.test = self.visit(node.test)
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        assert self._liveness is not None
        carried = self._liveness.carried(node)
        names = assigned_names([node.test, *node.body])
        number = next(self._numbers)
        answer = ast.copy_location(ast.Return(node.test), node.test)
        condition = self._region(f"_fly_while_{number}", [answer], names, node.test)
        body = self._region(f"_fly_body_{number}", node.body, names, node)
        call = self._call("while_", [load(condition.name), load(body.name)], names, carried)
        return [condition, body, self._statement(call, node.test), *self._block(node.orelse)]

    def _for_init(self, node: ast.For) -> list[ast.stmt]:
        """Rewrite ``for i, state in range(..., init=[...])`` with ``results = yield [...]``."""
        last = node.body[-1]
        value = last.value if isinstance(last, (ast.Assign, ast.Expr)) else None
        if not isinstance(value, ast.Yield) or contains_yield(node.body[:-1]):
            raise self._refused(
                last,
                "a loop with init= must end with `yield [...]`, and yield nowhere else",
                "results = yield [next_state]",
            )
        if not isinstance(node.target, ast.Tuple) or len(node.target.elts) != 2:
            raise self._refused(node.target, "a loop with init= has two targets", "for i, state in")
        assert self._liveness is not None
        assert isinstance(node.iter, ast.Call)
        carried = self._liveness.carried(node)
        answer = ast.copy_location(ast.Return(value.value or ast.Constant(None)), last)
        statements = [*node.body[:-1], answer]
        names = assigned_names([node.target, *node.body[:-1]])
        pair = ast.Tuple([load("_fly_iv"), load("_fly_state")], ast.Load())
        assign = ast.copy_location(ast.Assign([node.target], pair), node.target)
        body = self._region(
            f"_fly_body_{next(self._numbers)}",
            statements,
            names,
            node,
            ["_fly_iv", "_fly_state"],
            [assign],
        )
        call = self._call("for_init", [self._range(node.iter), load(body.name)], names, carried)
        if isinstance(last, ast.Assign):
            result: ast.stmt = ast.copy_location(ast.Assign(last.targets, call), last)
        else:
            result = self._statement(call, node.iter)
        return [body, result, *self._block(node.orelse)]

    def _init(self, node: ast.For) -> bool:
        assert isinstance(node.iter, ast.Call)
        return any(keyword.arg == "init" for keyword in node.iter.keywords)

    def _range(self, call: ast.Call) -> ast.expr:
        """Return ``_fly_rt.range_(range, ...)`` for a call of ``range``."""
        made = self.generic_visit(ast.Call(call.func, call.args, call.keywords))
        assert isinstance(made, ast.Call)
        out = runtime_call("range_" if self._entry else "helper_range", [call.func, *made.args])
        out.keywords = made.keywords
        return ast.copy_location(out, call)

    def _region(
        self,
        name: str,
        statements: Sequence[ast.stmt],
        names: Sequence[str],
        at: ast.AST,
        parameters: Sequence[str] = (),
        prefix: Sequence[ast.stmt] = (),
    ) -> ast.FunctionDef:
        """Return ``def name(parameters)`` with the rewritten statements, sharing `names`."""
        body: list[ast.stmt] = []
        local = [item for item in names if item not in self._globals]
        if local:
            self._shared.update(dict.fromkeys(local))
            body.append(ast.Nonlocal(list(local)))
        declared = [item for item in names if item in self._globals]
        if declared:
            body.insert(0, ast.Global(declared))
            body.append(
                ast.Expr(runtime_call("global_write", [ast.Constant(item) for item in declared]))
            )
        body.extend(prefix)
        body.extend(self._block(statements) or [ast.Pass()])
        made = define(name, parameters, body)
        for inner in [*ast.walk(made.args), *body]:
            if not hasattr(inner, "lineno"):
                ast.copy_location(inner, at)
        return ast.copy_location(made, at)

    def _call(
        self, name: str, arguments: list[ast.expr], names: Sequence[str], carried: Sequence[str]
    ) -> ast.Call:
        names = [item for item in names if item not in self._globals]
        call = runtime_call(name, arguments)
        call.keywords = [
            ast.keyword("names", texts(names)),
            ast.keyword("carried", texts([item for item in carried if item in names])),
        ]
        return call

    def _statement(self, call: ast.Call, at: ast.AST) -> ast.stmt:
        ast.copy_location(call, at)
        return ast.copy_location(ast.Expr(call), at)

    # Expressions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        self.generic_visit(node)
        if isinstance(function, ast.Name) and function.id in _UNWRAPPED:
            if function.id == "super" and not node.args:
                raise self._refused(
                    node, "super() without arguments", "super(Class, self) in a traced method"
                )
            return node
        if _is_runtime(function):
            return node
        node.func = ast.copy_location(runtime_call("c", [node.func]), function)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if any(map(_binds, node.values[1:])):
            self.generic_visit(node)
            node.values[:-1] = [_decided(value) for value in node.values[:-1]]
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        values = [self.visit(value) for value in node.values]
        out: ast.expr = values[-1]
        for value in reversed(values[:-1]):
            out = ast.copy_location(runtime_call(name, [value, make_lambda(out)]), value)
        return out

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.copy_location(runtime_call("not_", [node.operand]), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        simple = len(node.ops) == 1
        if simple and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and names_truth(node):
            self.generic_visit(node)
            name = "same" if isinstance(node.ops[0], ast.Is) else "not_same"
            call = runtime_call(name, [node.left, node.comparators[0]])
            return ast.copy_location(call, node)
        if simple and not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.generic_visit(node)
        if not simple and any(map(_binds, node.comparators)):
            return self.generic_visit(node)
        self.generic_visit(node)
        names = [_OPERATORS[type(op)] for op in node.ops]
        if simple:
            arguments = [node.left, node.comparators[0]]
            return ast.copy_location(runtime_call(names[0], arguments), node)
        later = [make_lambda(operand) for operand in node.comparators]
        call = runtime_call("chain", [texts(names), node.left, *later])
        return ast.copy_location(call, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if _binds(node.body) or _binds(node.orelse):
            self.generic_visit(node)
            node.test = _decided(node.test)
            return node
        self.generic_visit(node)
        arguments = [node.test, make_lambda(node.body), make_lambda(node.orelse)]
        return ast.copy_location(runtime_call("choose", arguments), node)

    # Refusals

    def _plain(self, node: ast.If | ast.For | ast.While) -> bool:
        """Return whether a statement has to stay Python's: it yields from a generator function."""
        return self._generator and contains_yield([node])

    def _is_generator(self, function: ast.FunctionDef) -> bool:
        """Return whether the function yields outside loops with ``init=``."""
        inside: set[int] = set()
        for node in own_nodes(function.body):
            if is_range_loop(node) and isinstance(node, ast.For) and self._init(node):
                inside.update(map(id, own_nodes(node.body)))
        return any(
            isinstance(node, (ast.Yield, ast.YieldFrom)) and id(node) not in inside
            for node in own_nodes(function.body)
        )

    def _refuse_foreign_jumps(self, function: ast.FunctionDef) -> None:
        for node in own_nodes(function.body):
            if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
                raise self._refused(node, "asynchronous code cannot be traced")

    def _refused(self, node: ast.AST, what: str, instead: str = "") -> UserError:
        return UserError(
            what,
            code="FLY-U211",
            hint=f"write `{instead}`" if instead else "",
            location=node_location(self._filename, node),
        )


def _arguments(node: ast.arguments) -> list[ast.arg]:
    out = [*node.posonlyargs, *node.args, *node.kwonlyargs]
    return out + [item for item in (node.vararg, node.kwarg) if item is not None]


def _is_runtime(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == RUNTIME
    )


def _decided(value: ast.expr) -> ast.expr:
    return ast.copy_location(runtime_call("decided", [value]), value)


def _binds(node: ast.AST) -> bool:
    """Return whether an expression has `:=`, ``await`` or ``yield``, which no lambda can hold."""
    kinds = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return any(isinstance(inner, kinds) for inner in ast.walk(node))
