"""Descriptors of the tensor data mover while tracing: packing values into words, and issuing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flydsl.errors import TargetError, UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric import Boolean, Int32, Int64, as_numeric
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.arch.tensor import FIELDS, GROUPS, TENSOR_TYPE
from flydsl_rocdl.expr.access import amd_facts, effect, immediate
from flydsl_rocdl.expr.lanes import read_first_lane
from flydsl_rocdl.expr.waits import s_wait_dscnt

__all__ = ["Descriptor", "descriptor", "issue", "known", "lowest", "tensor_facts"]

Word = Any
"""A Python int, or an Int32 that the trace computes."""
_MASK = 0xFFFFFFFF


def tensor_facts(what: str) -> ArchFacts:
    """Return the facts of an architecture with a tensor data mover.

    Raises:
        TargetError: The architecture being compiled for has none.
    """
    facts = amd_facts(what)
    if "tdm" not in facts.has:
        raise TargetError(
            f"{facts.name} has no tensor data mover", code="FLY-T646", value=what,
            hint="fx.rocdl.BufferCopyLDS loads into LDS on CDNA3 and CDNA4",
        )  # fmt: skip
    return facts


def known(value: Any) -> int | None:
    """Return a number that is known while tracing, else None.

    Raises:
        UserTypeError: Not an integer.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = as_numeric(value)
    if number is None or not number.is_integer:
        raise UserTypeError("a tensor transfer is described by integers", code="FLY-U655",
                            value=value)  # fmt: skip
    return int(number) if number.is_static() else None


def lowest(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, each known or an Int32."""
    first, second = known(a), known(b)
    if first is not None and second is not None:
        return min(first, second)
    left, right = Int32(a), Int32(b)
    return (left < right).select(left, right)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The words of a descriptor.

    Attributes:
        words: Words of each group: Python ints, or Int32 that the trace computes.
        short: Whether groups 0 and 1 say everything.
    """

    words: tuple[tuple[Word, ...], ...]
    short: bool = False

    def with_words(self, group: int, changed: Mapping[int, Word]) -> Descriptor:
        """Return the descriptor with other words in one group."""
        row = tuple(changed.get(k, word) for k, word in enumerate(self.words[group]))
        words = (*self.words[:group], row, *self.words[group + 1 :])
        return replace(self, words=words)


def descriptor(fields: Mapping[str, Any], rows: Sequence[Word] = ()) -> Descriptor:
    """Return the descriptor that has these values.

    Args:
        fields: Values by the names of `flydsl_rocdl.arch.tensor.FIELDS`; known ones are checked.
            ``address`` and strides may be Int64.
        rows: Words of groups 2 and 3 of a gathering transfer.

    Raises:
        UserValueError: A value does not fit its field.
    """
    words: list[list[Word]] = [[0] * count for count in GROUPS]
    for name, value in {**fields, "type": TENSOR_TYPE}.items():
        _put(words, name, value)
    for k, word in enumerate(rows):
        words[2 + k // GROUPS[2]][k % GROUPS[2]] = word
    beyond = [FIELDS[name].group for name in fields if known_zero(fields[name]) is False]
    short = not rows and all(group < 2 for group in beyond)
    return Descriptor(tuple(tuple(row) for row in words), short)


def known_zero(value: Any) -> bool:
    """Return whether a value is known to be zero."""
    return known(value) == 0


def _put(words: list[list[Word]], name: str, value: Any) -> None:
    """Add a value to the words that its field lies in."""
    field = FIELDS[name]
    number = known(value)
    if number is not None:
        if not 0 <= number < 1 << field.width:
            raise UserValueError(
                f"{name.replace('_', ' ')} of a tensor transfer is out of range", code="FLY-U655",
                value=number, allowed=f"0 to {(1 << field.width) - 1}",
            )  # fmt: skip
        if number == 0:
            return
    at, end = field.bit, field.bit + field.width
    while at < end:
        word, first = divmod(at, 32)
        width = min(32 - first, end - at)
        part = _part(number, value, at - field.bit, width)
        _add(words[field.group], word, _shifted(part, first))
        at += width


def _part(number: int | None, value: Any, start: int, width: int) -> Word:
    """Return `width` bits of a value from bit `start` on."""
    if number is not None:
        return number >> start & ((1 << width) - 1)
    source = as_numeric(value)
    assert source is not None
    if source.width > 32:
        shifted = Int64(source) >> start if start else Int64(source)
        bits = Int32.wrap(emit("arith.trunci", Int32.ir_type, (shifted.ir_value(),)))
    else:
        if start >= 32:
            return 0
        bits = Int32(source) >> start if start else Int32(source)
    return bits if width == 32 else Int32(bits & ((1 << width) - 1))


def _shifted(part: Word, first: int) -> Word:
    if isinstance(part, int):
        return part << first
    return Int32(part << first) if first else part


def _add(row: list[Word], at: int, part: Word) -> None:
    old = row[at]
    if isinstance(old, int) and isinstance(part, int):
        row[at] = old | part
    elif isinstance(old, int) and old == 0:
        row[at] = part
    elif isinstance(part, int) and part == 0:
        return
    else:
        row[at] = _signed(old) | _signed(part)


def _signed(word: Word) -> Int32:
    """Return a word as an Int32 of the same bits."""
    if isinstance(word, int):
        return Int32((word & _MASK) - (1 << 32) if word & 0x80000000 else word)
    return Int32(word)


def _vector(row: Sequence[Word]) -> IRValue:
    session = require("a tensor transfer")
    items = []
    for word in row:
        if isinstance(word, int):
            items.append(constant(session, "i32", int(_signed(word))))
        else:
            items.append(read_first_lane(Int32(word)).ir_value())
    kind = session.ir.Type.parse(f"vector<{len(items)}xi32>")
    return emit("vector.from_elements", kind, tuple(items))


def issue(what: Descriptor, store: bool, cache_modifier: int = 0) -> None:
    """Start the transfer: from memory to LDS, or with `store` back.

    A store waits for this wave's own writes to LDS before it starts; those of other waves need a
    barrier.

    Args:
        what: The descriptor; its words must be the same for all lanes.
        store: Direction.
        cache_modifier: Cache policy bits.

    Raises:
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("a tensor transfer")
    session = require("a tensor transfer")
    policy = constant(session, "i32", immediate("the cache policy", cache_modifier, 0, 31))
    if store:
        s_wait_dscnt(0)
    rows = what.words[:2] if what.short else what.words
    name = "tensor.store.from.lds" if store else "tensor.load.to.lds"
    suffix = ".d2" if what.short else ""
    effect(f"amdgcn.{name}{suffix}", (*(_vector(row) for row in rows), policy))


def predicate_word(value: Any) -> Word:
    """Return the word ``valid`` of a predicate: an int, a Boolean, or a number."""
    if isinstance(value, (bool, int)):
        return int(bool(value))
    number = as_numeric(value)
    if number is None:
        raise UserTypeError("a predicate is a truth value", code="FLY-U655", value=value)
    return Int32(Boolean(number))
