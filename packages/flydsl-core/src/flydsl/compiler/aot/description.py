"""The parameters of a compiled launcher as plain values."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from flydsl.compiler.driver import Call
from flydsl.errors import UserTypeError
from flydsl.plugins.payloads import ArgSpec

__all__ = ["Description", "Parameter", "Scalar", "describe_call"]

_MEMREF = re.compile(r'!fly\.memref<([^,]+), "[^"]*", "([^"]*)", (\d+) : i64>')
_POINTER = re.compile(r'!fly\.ptr<([^,]+), "[^"]*", (\d+) : i64')


@dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar of the argument block: its name within the parameter and its `struct` format."""

    name: str
    format: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled launcher.

    Attributes:
        name: Its name.
        kind: ``"static"`` values are compiled in.
        annotation: Name of the class in `flydsl.expr` that annotates it; empty without one.
        key: `ArgSpec.key`, which an argument's must equal.
        ir_type: IR type text; for messages.
        scalars: What is passed, in order.
        element: Element type of a tensor or pointer.
        alignment: Bytes by which its address must be divisible.
        static: The value of a static parameter, as its `repr`.
    """

    name: str
    kind: Literal["static", "tensor", "pointer", "stream", "number"]
    annotation: str
    key: Hashable
    ir_type: str
    scalars: tuple[Scalar, ...] = ()
    element: str = ""
    alignment: int = 1
    static: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """The parameters of a launcher in order, and its target."""

    launcher: str
    target: str
    parameters: tuple[Parameter, ...]
    implicit_stream: bool


def describe_call(
    launcher: str, call: Call, annotations: Sequence[object], implicit_stream: bool
) -> Description:
    """Describe what a call was compiled for.

    Args:
        launcher: Name of the launcher.
        call: The resolved call.
        annotations: Annotation of each parameter; None without one.
        implicit_stream: The argument block ends with the stream.

    Raises:
        UserTypeError: A parameter is of a kind that plain values cannot describe.
    """
    parameters = tuple(
        _parameter(name, spec, annotation)
        for (name, spec), annotation in zip(call.specs.items(), annotations, strict=True)
    )
    return Description(launcher, call.target.name, parameters, implicit_stream)


def _parameter(name: str, spec: ArgSpec, annotation: object) -> Parameter:
    named = _annotation_name(annotation)
    formats = [leaf.format for leaf in spec.leaves]
    if not spec.ir_type:
        return Parameter(name, "static", named, ("static", name), "", static=repr(spec.static))
    if spec.ir_type == "stream":
        scalars = (Scalar("stream", formats[0]),)
        return Parameter(name, "stream", named, spec.key, spec.ir_type, scalars)
    tensor, pointer = _MEMREF.match(spec.ir_type), _POINTER.match(spec.ir_type)
    if tensor:
        element, layout, alignment = tensor.groups()
        names = ["data", *_leaf_names(layout)]
        return Parameter(
            name,
            "tensor",
            named,
            spec.key,
            spec.ir_type,
            tuple(Scalar(*pair) for pair in zip(names, formats, strict=True)),
            element,
            int(alignment),
        )
    if pointer and len(formats) == 1:
        element, alignment = pointer.groups()
        scalars = (Scalar("data", formats[0]),)
        return Parameter(
            name, "pointer", named, spec.key, spec.ir_type, scalars, element, int(alignment)
        )
    if len(formats) != 1 or spec.parts:
        raise UserTypeError(
            f"parameter {name!r} cannot be described outside its program",
            code="FLY-U480",
            value=spec.ir_type,
            allowed="tensors, pointers, numbers, streams and compile-time values",
        )
    scalars = (Scalar("value", formats[0]),)
    return Parameter(name, "number", named, spec.key, spec.ir_type, scalars)


def _annotation_name(annotation: object) -> str:
    import flydsl.expr as fx

    name = getattr(annotation, "__name__", "")
    return name if name and getattr(fx, name, None) is annotation else ""


def _leaf_names(layout: str) -> list[str]:
    """Return names for the dynamic leaves of a layout: 32-bit ones first, each in order."""
    shape, stride = _split(layout)
    narrow: list[str] = []
    wide: list[str] = []
    for part, text in (("shape", shape), ("stride", stride)):
        leaves = re.findall(r"\?(?:\{[^}]*\})?|[^(),]+", text)
        for axis, leaf in enumerate(leaves):
            if leaf.startswith("?"):
                (wide if "i64" in leaf else narrow).append(f"{part}_{axis}")
    return narrow + wide


def _split(layout: str) -> tuple[str, str]:
    depth = 0
    for at, character in enumerate(layout):
        depth += (character in "({") - (character in ")}")
        if character == ":" and not depth:
            return layout[:at], layout[at + 1 :]
    return layout, ""
