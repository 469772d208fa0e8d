"""What of a plan for the native call path is the same in every process.

A `Template` holds the records of a plan (see `flydsl.compiler.direct_plan`) as plain values, and
where addresses of Python objects go: types and compile-time values of arguments, names of
attributes, functions of array libraries. `flydsl.compiler.direct` puts them in.
"""

from __future__ import annotations

import array
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flydsl.compiler.direct_plan import BLOCK_BYTES, Kind
from flydsl.compiler.dispatch import argument_format
from flydsl.compiler.exchange import exchange_function

if TYPE_CHECKING:
    from flydsl.plugins.payloads import ArgLeaf, ArgSpec

__all__ = ["Template", "make_template"]

_MASK = (1 << 64) - 1
_Path = tuple[Any, ...]


class Template(NamedTuple):
    """Records without addresses.

    Attributes:
        words: The records' words, as bytes.
        references: For each word that holds an address its number, and what is there: ``"name"``
            and a text; or a kind and the argument: its number, and the names of fields inside it.
            ``"type"`` is its type, ``"value"`` itself, ``"function"`` that of the library that the
            type belongs to, ``"same"`` a function that tells whether another object is the same
            value, ``"content"`` whether one is what the value was when it was bound.
        parameters: Launcher parameters.
        records: Records.
        stream_offset: Where in the argument block the implicit stream goes; -1 for none.
    """

    words: bytes
    references: tuple[tuple[int, str, Any], ...]
    parameters: int
    records: int
    stream_offset: int

    def objects(self, values: Sequence[object]) -> list[object]:
        """Return what the references mean for these arguments."""
        known: dict[_Path, Any] = {}
        found: list[object] = []
        for _, kind, what in self.references:
            if kind == "name":
                found.append(sys.intern(what))
                continue
            value = known.get(what)
            if value is None:
                value = values[what[0]]
                for name in what[1:]:
                    value = getattr(value, name)
                known[what] = value
            if kind == "type":
                found.append(type(value))
            elif kind == "same":
                found.append(_Same(value))
            elif kind == "content":
                from flydsl.compiler.arguments.compile_time import same_as

                found.append(same_as(value))
            else:
                found.append(value if kind == "value" else exchange_function(type(value)))
        return found


class _Reference(NamedTuple):
    kind: str
    what: Any
    value: object


class _Same:
    """Tells whether another object is the same compile-time value as one that does not change.

    The first launch of a process needs it rarely, and so does not load what compares them.
    """

    __slots__ = ("_tells", "_value")

    def __init__(self, value: object) -> None:
        self._value = value
        self._tells: Callable[[object], bool] | None = None

    def __call__(self, other: object) -> bool:
        if self._tells is None:
            from flydsl.compiler.arguments.compile_time import same_as

            self._tells = same_as(self._value)
        return self._tells(other)


class _Writer:
    """Collects records."""

    def __init__(self) -> None:
        self.words = array.array("Q")
        self.references: list[tuple[int, str, Any]] = []
        self.objects: list[object] = []
        self.records = 0

    def record(self, kind: Kind, *words: int | _Reference) -> None:
        """Append a record: its kind, and its words from the second on."""
        self.records += 1
        self.words.extend((kind, 2 + len(words)))
        for word in words:
            if isinstance(word, _Reference):
                self.references.append((len(self.words), word.kind, word.what))
                self.objects.append(word.value)
                self.words.append(0)
            else:
                self.words.append(word & _MASK)


def make_template(
    specs: Sequence[ArgSpec], *, implicit_stream: bool, check_static: bool = True
) -> tuple[Template, list[object]] | None:
    """Return the template of a plan and what its references mean; None if there is no such plan.

    Args:
        specs: One per launcher parameter, in order.
        implicit_stream: Append the current stream to the argument block.
        check_static: Compare compile-time values too. Where equal values of one type are the same
            only the type is compared: whoever found the closure has looked it up by equal values.
            Otherwise the value is compared, and None may stand for the one that was compiled in.
    """
    layout = argument_format(specs, implicit_stream)
    if struct.calcsize(layout) > BLOCK_BYTES:
        return None
    offsets = _offsets(layout)
    writer = _Writer()
    at = 0
    for number, spec in enumerate(specs):
        places = offsets[at : at + len(spec.leaves)]
        at += len(spec.leaves)
        if spec.parts:
            done = _struct(writer, spec, places, number)
        elif not spec.ir_type:
            done = _compile_time(writer, spec, number, check_static=check_static)
        else:
            done = _read(writer, spec, places, (number,), 0)
        if not done:
            return None
    template = Template(
        writer.words.tobytes(),
        tuple(writer.references),
        len(specs),
        writer.records,
        offsets[-1] if implicit_stream else -1,
    )
    return template, writer.objects


def _offsets(layout: str) -> list[int]:
    """Return where each scalar of a `struct` format with natural alignment goes."""
    found: list[int] = []
    end = 0
    for code in layout.removeprefix("@"):
        size = struct.calcsize("@" + code)
        found.append(-(-end // size) * size)
        end = found[-1] + size
    return found


def _name(text: str) -> _Reference:
    text = sys.intern(text)
    return _Reference("name", text, text)


def _compile_time(writer: _Writer, spec: ArgSpec, number: int, *, check_static: bool) -> bool:
    from flydsl.compiler.arguments.compile_time import found_by_type

    value, path = spec.static, (number,)
    kind = _Reference("type", path, type(value))
    if check_static and found_by_type(value):
        writer.record(Kind.IGNORE, kind, 0, 0)
    elif check_static:
        _same(writer, spec, path, 0)
    else:
        is_int = type(value) is int and -(1 << 63) <= value < 1 << 63
        known = _Reference("value", path, value)
        accepts: Any = spec.names["accepts"]
        number_of: Any = value if is_int else 0
        writer.record(Kind.KNOWN, 0, 0, 0, known, kind, is_int, number_of, accepts(None))
    return True


def _same(writer: _Writer, spec: ArgSpec, path: _Path, name: int | _Reference) -> None:
    from flydsl.compiler.arguments.compile_time import same_as, settled

    value: object = spec.static
    # Of another object that is equal, 1.0 may be 1 and 0.0 be -0.0.
    if settled(value):
        known: int | _Reference = _Reference("value", path, value)
        other = _Reference("same", path, _Same(value))
    else:
        known, other = 0, _Reference("content", path, same_as(value, spec.names["key"]))
    writer.record(Kind.SAME, 0, name, 0, known, other)


def _struct(writer: _Writer, spec: ArgSpec, places: Sequence[int], number: int) -> bool:
    """Write the record of a struct and those of its fields."""
    native = spec.native
    if native is None:
        return False
    kind = _Reference("type", (number,), native.type)
    writer.record(Kind.STRUCT, kind, 0, 0, _name(native.value))
    at = 0
    for field, part in spec.parts:
        held = places[at : at + len(part.leaves)]
        at += len(part.leaves)
        path = (number, field)
        if not part.ir_type:
            _same(writer, part, path, _name(field))
        elif part.parts or not _read(writer, part, held, path, _name(field)):
            return False
    return True


def _read(
    writer: _Writer, spec: ArgSpec, places: Sequence[int], path: _Path, name: int | _Reference
) -> bool:
    """Write the record of a run-time value; False if it cannot be read natively."""
    native = spec.native
    if native is None:
        return False
    kind = _Reference("type", path, native.type)
    if native.kind == "tensor":
        _tensor(writer, spec, places, path, name)
        return True
    boxed = native.kind in ("integer", "float") and native.value
    head = kind, name, _name(native.value) if boxed else 0
    (leaf,), (place,) = spec.leaves, places
    size = struct.calcsize("@" + leaf.format)
    if native.kind == "attribute":
        where = _name(native.where) if native.where else 0
        writer.record(Kind.ATTRIBUTE, *head, _name(native.value), 0, place, where, native.device)
    elif native.kind == "current-stream":
        writer.record(Kind.CURRENT, *head, 0, 0, place)
    elif native.kind == "float":
        writer.record(Kind.FLOAT, *head, 0, 0, place, size)
    elif leaf.format == "Q":
        writer.record(Kind.UNSIGNED, *head, 0, 0, place)
    else:
        writer.record(Kind.INTEGER, *head, *_range(leaf, size), place, size)
    return True


def _range(leaf: ArgLeaf, size: int) -> tuple[int, int]:
    bits = 8 * size
    signed = leaf.format.islower()
    low = -(1 << bits - 1) if signed else 0
    high = (1 << bits - signed) - 1
    return (
        low if leaf.low is None else max(low, leaf.low),
        high if leaf.high is None else min(high, leaf.high),
    )


def _tensor(
    writer: _Writer, spec: ArgSpec, places: Sequence[int], path: _Path, name: int | _Reference
) -> None:
    native: Any = spec.native
    leaves = [
        axis | stride << 8 | struct.calcsize("@" + leaf.format) << 16 | place << 32
        for (axis, stride), leaf, place in zip(
            native.sources, spec.leaves[1:], places[1:], strict=True
        )
    ]
    writer.record(
        Kind.TENSOR,
        _Reference("type", path, native.type),
        name,
        0,
        _Reference("function", path, native.function),
        native.dtype,
        native.device,
        native.rank,
        native.alignment,
        native.unit,
        sum(1 << axis for axis in native.wide),
        places[0],
        len(leaves),
        _name(native.value) if native.value else 0,
        *native.flag,
        *leaves,
    )
