"""Generated code of the launch path: one closure per specialisation, one front per function.

A *closure* checks that its arguments are what it was compiled for (the guards of their `ArgSpec`),
packs the run-time scalars in ABI order and makes one foreign call. A *front* has the signature of
the user's function, finds the closures for the types at hand and falls back to the driver. Both are
straight-line Python made from text once, because a launch must take microseconds.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from flydsl.errors import CompilerBug, FlyDSLError, UserError

if TYPE_CHECKING:
    from flydsl.plugins.payloads import ArgSpec

__all__ = ["MISS", "MISSING", "Live", "argument_format", "front_code", "make_closure", "make_front"]


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


# String literals first, so that what looks like a name inside one is left alone; attributes and
# digits with letters (0x10, 1e5) are no names either.
_WORDS = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<![\w.])([A-Za-z_]\w*)""")
_BOUND = re.compile(r"([A-Za-z_]\w*)\s*:=")


class _Renamer:
    """Makes one argument's expressions independent of the other arguments'."""

    def __init__(self, index: int, spec: ArgSpec) -> None:
        self.index = index
        expressions = [spec.guard, *(leaf.expression for leaf in spec.leaves)]
        bound = {name for text in expressions for name in _BOUND.findall(text)}
        self.renamed = {name: f"t{index}_{name}" for name in bound}
        self.renamed |= {name: f"n{index}_{name}" for name in spec.names}
        self.renamed["v"] = f"a{index}"

    def rewrite(self, expression: str) -> str:
        def word(found: re.Match[str]) -> str:
            return found[1] or self.renamed.get(found[2], found[2])

        return _WORDS.sub(word, expression)


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
        names: ``stub``, ``context`` (its address), ``failure`` (takes a non-zero result, returns
            the exception behind it) and ``current_stream``; anything else here is only kept alive.
        implicit_stream: Append the current stream to the argument block.
        check_static: Compare compile-time values as the guards say; otherwise take what the
            specification's ``accepts`` does, which may be None in the value's place.
    """
    namespace: dict[str, object] = dict(names)
    guards: list[str] = []
    values: list[str] = []
    for index, spec in enumerate(specs):
        renamer = _Renamer(index, spec)
        lenient = not spec.ir_type and not check_static
        guards.append(renamer.rewrite("v is static or accepts(v)" if lenient else spec.guard))
        values += [renamer.rewrite(leaf.expression) for leaf in spec.leaves]
        namespace |= {f"n{index}_{name}": value for name, value in spec.names.items()}
    if implicit_stream:
        values.append("current_stream()")
    packer = struct.Struct(argument_format(specs, implicit_stream))
    parameters = ", ".join(f"a{index}" for index in range(len(specs)))
    condition = " and ".join(f"({guard})" for guard in guards) or "True"
    source = f"""\
def call({parameters}):
    try:
        if not ({condition}):
            return MISS
    except GUARD_ERRORS:
        return MISS
    try:
        data = pack({", ".join(values)})
    except FlyDSLError:
        raise
    except READ_ERRORS:
        return MISS
    if status := stub(context, data):
        raise failure(status)
    return None
"""
    # A value outside its format's range belongs to another specialisation, or is an error that the
    # slow path explains; so is what a library's object raises when it is read, and an argument that
    # cannot be passed at all.
    errors = (struct.error, OverflowError, TypeError, ValueError, RuntimeError)
    namespace |= {
        "MISS": MISS,
        "pack": packer.pack,
        "FlyDSLError": FlyDSLError,
        "GUARD_ERRORS": (UserError, *errors),
        "READ_ERRORS": errors,
    }
    try:
        return _define(_compiled(source, "call"), namespace, "call")
    except SyntaxError as error:
        raise CompilerBug(
            "an argument specification is no Python expression",
            code="FLY-B440",
            value=[(spec.guard, *(leaf.expression for leaf in spec.leaves)) for spec in specs],
        ) from error


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
    code: CodeType | None = None,
) -> Callable[..., object]:
    """Return the function that a call of a launcher runs.

    Args:
        parameters: The launcher's parameters: `name`, `kind`, `default`, `EMPTY`, `constexpr`.
        live: Where closures are found.
        watch: Cheap function whose result changes with the settings that a compile depends on.
        slow: Called when no closure fits, with surplus positional arguments, the parameters'
            values by name (`MISSING` where the caller gave none) and unknown keyword arguments.
        code: What `front_code` returns for the parameters, where it is at hand.
    """
    namespace: dict[str, object] = {
        "_fly_live": live,
        "_fly_watch": watch,
        "_fly_slow": slow,
        "_fly_type": type,
    }
    for index, parameter in enumerate(parameters):
        given = parameter.default is not parameter.EMPTY
        namespace[f"_fly_d{index}"] = parameter.default if given else MISSING
    return _define(front_code(parameters) if code is None else code, namespace, "front")


def front_code(parameters: Sequence[Any]) -> CodeType:
    """Return the code that defines a front; it depends on nothing else."""
    # The user's parameter names are the function's too, so its own names must differ from them.
    positional: list[str] = []
    keyword_only: list[str] = []
    keys: list[str] = []
    for index, parameter in enumerate(parameters):
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
    return _compiled(source, "front")


def _compiled(source: str, name: str) -> CodeType:
    return compile(source, f"<flydsl {name}>", "exec")


def _define(code: CodeType, namespace: dict[str, object], name: str) -> Callable[..., object]:
    # Generated code is framework code when a user's line is looked for on the stack.
    namespace["__name__"] = __name__
    exec(code, namespace)  # noqa: S102 - our own text
    function = namespace[name]
    assert callable(function)
    return function
