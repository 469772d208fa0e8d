"""Structs as launcher arguments: every field is passed as an argument of its own would be."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

from flydsl.compiler.arguments.compile_time import absent, describe_static
from flydsl.errors import CompilerBug, FlyDSLError, UserTypeError
from flydsl.expr.storage import AlignedType
from flydsl.expr.structs import Struct
from flydsl.frontend.dependencies import code_digest
from flydsl.plugins.payloads import ArgLeaf, ArgSpec, NativeRead

__all__ = ["describe_struct"]

_WORDS = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<![\w.])([A-Za-z_]\w*)""")
_BOUND = re.compile(r"([A-Za-z_]\w*)\s*:=")


def describe_struct(value: object, annotation: Any) -> ArgSpec | None:
    """Return the specification of a struct value, or None if `value` is none.

    Args:
        value: The argument.
        annotation: The struct type that the parameter asks for, or None.

    Raises:
        UserTypeError: The value is of another struct type, or a field cannot be passed.
    """
    if not isinstance(value, Struct):
        return None
    kind: Any = type(value)
    if annotation is not None and not isinstance(value, annotation.base):
        raise UserTypeError(
            f"a parameter annotated with {annotation.__name__} was given a {kind.__name__}",
            code="FLY-U404",
            value=value,
        )
    parts: list[tuple[str, ArgSpec]] = []
    guards = ["type(v) is kind"]
    leaves: list[ArgLeaf] = []
    names: dict[str, object] = {"kind": kind}
    for index, field in enumerate(kind.fields):
        spec = _described(field, getattr(value, field.name), kind)
        renamed = _renamed(spec, field.name, f"f{index}_")
        parts.append((field.name, spec))
        guards.append(renamed.guard)
        leaves.extend(renamed.leaves)
        names.update(renamed.names)
    return ArgSpec(
        key=("struct", _identity(kind), tuple((name, spec.key) for name, spec in parts)),
        ir_type="struct",
        leaves=tuple(leaves),
        guard=" and ".join(f"({guard})" for guard in guards),
        names=names,
        static=kind,
        native=NativeRead("struct", kind, "_values") if _plain(parts) else None,
        parts=tuple(parts),
    )


def _plain(parts: list[tuple[str, ArgSpec]]) -> bool:
    """Return whether machine code can read all fields."""
    return all(not part.ir_type or (part.native and not part.parts) for _, part in parts)


def _identity(kind: Any) -> tuple[str, ...]:
    """Return what distinguishes a struct type from others with the same fields: its methods."""
    found = [kind.__module__, kind.__qualname__]
    for name, member in sorted(vars(kind.base).items()):
        inner = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(inner, FunctionType):
            found.append(f"{name}:{code_digest(inner.__code__)}")
    return tuple(found)


def _described(field: Any, value: object, kind: Any) -> ArgSpec:
    from flydsl.plugins.manager import plugin_manager

    where = f"{kind.__name__}.{field.name}"
    if field.constexpr:
        return describe_static(where, value, field.kind)
    if value is None and field.optional:
        return absent()
    wanted = field.kind
    while isinstance(wanted, AlignedType):
        wanted = wanted.inner
    annotation = wanted if isinstance(wanted, type) else None
    try:
        spec = plugin_manager().hook.flydsl_argument(value=value, annotation=annotation)
    except FlyDSLError as error:
        error.message = f"field {field.name!r}: {error.message}"
        raise
    if not isinstance(spec, ArgSpec):
        raise CompilerBug(
            "a plugin answered flydsl_argument with something else", value=spec, code="FLY-B442"
        )
    return spec


def _renamed(spec: ArgSpec, field: str, prefix: str) -> ArgSpec:
    """Return a specification of ``v.<field>`` as one of ``v``, its names made distinct."""
    expressions = [spec.guard, *(leaf.expression for leaf in spec.leaves)]
    bound = {name for text in expressions for name in _BOUND.findall(text)}
    words = {name: prefix + name for name in [*bound, *spec.names]}
    words["v"] = f"v.{field}"

    def rewrite(text: str) -> str:
        return _WORDS.sub(lambda found: str(found[1] or words.get(found[2], found[2])), text)

    return ArgSpec(
        key=spec.key,
        ir_type=spec.ir_type,
        leaves=tuple(
            ArgLeaf(leaf.format, rewrite(leaf.expression), leaf.low, leaf.high)
            for leaf in spec.leaves
        ),
        guard=rewrite(spec.guard),
        names={words[name]: value for name, value in spec.names.items()},
    )
