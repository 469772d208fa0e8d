"""Generated code of the launch path: one closure per specialisation, one front per function.

A *closure* checks that its arguments are what it was compiled for (the guards of their `ArgSpec`),
packs the run-time scalars in ABI order and makes one foreign call. A *front* has the signature of
the user's function, finds the closures for the types at hand and falls back to the driver. Both are
straight-line Python made from text once, because a launch must take microseconds.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flydsl.errors import CompilerBug
from flydsl.plugins.payloads import ArgSpec

__all__ = ["MISS", "MISSING", "Live", "argument_format", "make_closure", "make_front"]


class _Marker:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}>"


MISS: Final = _Marker("miss")
"""What a closure returns when its arguments need another specialisation."""

MISSING: Final = _Marker("missing")
"""Stands for an argument that the caller did not give, in a front's signature."""


class _Renamer(ast.NodeTransformer):
    """Makes one argument's expressions independent of the other arguments'."""

    def __init__(self, index: int, names: Mapping[str, object]) -> None:
        self.index = index
        self.names = names
        self.bound: set[str] = set()

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.bound.add(node.target.id)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "v":
            name = f"a{self.index}"
        elif node.id in self.names:
            name = f"n{self.index}_{node.id}"
        elif node.id in self.bound:
            name = f"t{self.index}_{node.id}"
        else:
            return node
        return ast.Name(name, node.ctx)

    def rewrite(self, expression: str) -> str:
        try:
            tree = ast.parse(expression, mode="eval")
        except SyntaxError as error:
            raise CompilerBug(
                "an argument specification is no Python expression",
                code="FLY-B440",
                value=expression,
            ) from error
        for node in ast.walk(tree):
            if isinstance(node, ast.NamedExpr):
                self.bound.add(node.target.id)
        return ast.unparse(self.visit(tree))


def argument_format(specs: Sequence[ArgSpec], implicit_stream: bool) -> str:
    """Return the `struct` format of the stub's argument block: natural alignment, ABI order."""
    return (
        "@"
        + "".join(leaf.format for spec in specs for leaf in spec.leaves)
        + ("Q" if implicit_stream else "")
    )


def make_closure(
    specs: Sequence[ArgSpec],
    names: Mapping[str, object],
    *,
    implicit_stream: bool,
    check_static: bool = True,
) -> Callable[..., object]:
    """Return ``call(*arguments)``, which launches or returns `MISS`.

    Args:
        specs: One per launcher parameter, in order.
        names: ``stub``, ``context`` (its address), ``failure`` (returns the exception behind a
            non-zero result) and ``current_stream``; anything else here is only kept alive.
        implicit_stream: Append the current stream to the argument block.
        check_static: Compare compile-time values too; otherwise those arguments are ignored.
    """
    namespace: dict[str, object] = dict(names)
    guards: list[str] = []
    values: list[str] = []
    for index, spec in enumerate(specs):
        if not spec.ir_type and not check_static:
            continue
        renamer = _Renamer(index, spec.names)
        guards.append(renamer.rewrite(spec.guard))
        values += [renamer.rewrite(leaf.expression) for leaf in spec.leaves]
        namespace |= {f"n{index}_{name}": value for name, value in spec.names.items()}
    if implicit_stream:
        values.append("current_stream()")
    packer = struct.Struct(argument_format(specs, implicit_stream))
    parameters = ", ".join(f"a{index}" for index in range(len(specs)))
    condition = " and ".join(f"({guard})" for guard in guards) or "True"
    source = f"""\
def call({parameters}):
    if not ({condition}):
        return MISS
    try:
        data = pack({", ".join(values)})
    except PACK_ERRORS:
        return MISS
    if stub(context, data):
        raise failure()
    return None
"""
    # A value outside its format's range belongs to another specialisation, or is an error that the
    # slow path explains.
    namespace |= {"MISS": MISS, "pack": packer.pack, "PACK_ERRORS": (struct.error, OverflowError)}
    return _define(source, namespace, "call")


class Live:
    """What a front reads on every call; the driver replaces its fields.

    Attributes:
        table: Argument types and compile-time values to the closures to try.
        settings: Result of the settings' watcher when `table` was filled.
        unchanged: Whether everything the program was traced from is still the same.
    """

    __slots__ = ("settings", "table", "unchanged")

    def __init__(self) -> None:
        self.table: dict[tuple[object, ...], list[Callable[..., object]]] = {}
        self.settings: object = None
        self.unchanged: Callable[[], bool] = bool


def make_front(
    parameters: Sequence[Any],
    live: Live,
    watch: Callable[[], object],
    slow: Callable[[tuple[object, ...], dict[str, object], dict[str, object]], object],
) -> Callable[..., object]:
    """Return the function that a call of a launcher runs.

    Args:
        parameters: The launcher's parameters: `name`, `kind`, `default`, `EMPTY`, `constexpr`.
        live: Where closures are found.
        watch: Cheap function whose result changes with the settings that a compile depends on.
        slow: Called when no closure fits, with surplus positional arguments, the parameters'
            values by name (`MISSING` where the caller gave none) and unknown keyword arguments.
    """
    # The user's parameter names are this function's too, so its own names must differ from them.
    namespace: dict[str, object] = {
        "_fly_live": live,
        "_fly_watch": watch,
        "_fly_slow": slow,
        "_fly_type": type,
    }
    positional: list[str] = []
    keyword_only: list[str] = []
    keys: list[str] = []
    for index, parameter in enumerate(parameters):
        given = parameter.default is not parameter.EMPTY
        namespace[f"_fly_d{index}"] = parameter.default if given else MISSING
        declared = keyword_only if parameter.kind == "keyword" else positional
        declared.append(f"{parameter.name}=_fly_d{index}")
        keys.append(parameter.name if parameter.constexpr else f"_fly_type({parameter.name})")
    names = [parameter.name for parameter in parameters]
    given_values = ", ".join(f"{name!r}: {name}" for name in names)
    source = f"""\
def front({", ".join([*positional, "*_fly_extra", *keyword_only, "**_fly_unknown"])}):
    if (
        not _fly_extra
        and not _fly_unknown
        and _fly_watch() == _fly_live.settings
        and _fly_live.unchanged()
    ):
        try:
            _fly_found = _fly_live.table[({"".join(f"{key}, " for key in keys)})]
        except (KeyError, TypeError):
            _fly_found = ()
        for _fly_closure in _fly_found:
            if _fly_closure({", ".join(names)}) is None:
                return None
    return _fly_slow(_fly_extra, {{{given_values}}}, _fly_unknown)
"""
    return _define(source, namespace, "front")


def _define(source: str, namespace: dict[str, object], name: str) -> Callable[..., object]:
    # Generated code is framework code when a user's line is looked for on the stack.
    namespace["__name__"] = __name__
    exec(compile(source, f"<flydsl {name}>", "exec"), namespace)  # noqa: S102 - our own text
    function = namespace[name]
    assert callable(function)
    return function
