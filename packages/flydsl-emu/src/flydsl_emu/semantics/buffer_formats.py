"""Typed buffer accesses of gfx9: the format of an element is in the descriptor or instruction.

A data format says where the components lie, a number format what their bits mean. Loads convert to
32 bits (or 16, packed, in the d16 forms), put 0, 0, 0, 1 where the format has no component, and
with a descriptor's format permute components by its selectors. Stores round to nearest even and
clamp normalised numbers; an integer that does not fit its field is refused, because nothing says
what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import extract, half_bits, half_to_f32, high16, low16, pack16
from flydsl_emu.semantics.buffers import BufferAccess
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.value_types import F32, I32, U32, U64

__all__: list[str] = []

_UNORM, _SNORM, _USCALED, _SSCALED, _UINT, _SINT, _, _FLOAT = range(8)
# Widths of the components from the lowest bits on, by data format.
_WIDTHS: tuple[tuple[int, ...], ...] = (
    (),
    (8,),
    (16,),
    (8, 8),
    (32,),
    (16, 16),
    (11, 11, 10),
    (10, 11, 11),
    (2, 10, 10, 10),
    (10, 10, 10, 2),
    (8, 8, 8, 8),
    (32, 32),
    (16, 16, 16, 16),
    (32, 32, 32),
    (32, 32, 32, 32),
    (),
)
_BYTES = tuple(sum(widths) // 8 for widths in _WIDTHS)


@dataclass(frozen=True, slots=True)
class _Element:
    """The format of an element, as uniform ``U32`` values.

    Attributes:
        data: Data format.
        number: Number format.
    """

    data: Value
    number: Value

    def width(self, v: VectorApi, component: int) -> Value:
        """Return the bits of a component; 0 if there is none."""
        widths = (w[component] if component < len(w) else 0 for w in _WIDTHS)
        return v.lookup(tuple(widths), self.data)

    def start(self, v: VectorApi, component: int) -> Value:
        """Return the first bit of a component."""
        return v.lookup(tuple(sum(w[:component]) for w in _WIDTHS), self.data)

    def size(self, v: VectorApi) -> Value:
        """Return the bytes of the element."""
        return v.lookup(_BYTES, self.data)

    def whole(self, v: VectorApi) -> Value:
        """Return whether components are integers."""
        return v.bit_or(v.eq(self.number, _UINT), v.eq(self.number, _SINT))


def _format(v: VectorApi, i: Instruction, descriptor: Sequence[Value]) -> _Element:
    if "dfmt" in i.mods:
        element = _Element(v.const(U32, i.mod("dfmt")), v.const(U32, i.mod("nfmt")))
    else:
        word = descriptor[3]
        element = _Element(extract(v, word, 15, 4), extract(v, word, 12, 3))
    known = v.bit_and(v.ne(element.size(v), 0), v.ne(element.number, 6))
    v.require(known, "reserved buffer formats")
    return element


def _largest(v: VectorApi, width: Value, signed: bool) -> Value:
    """Return the largest integer of a width (at least 1), as ``U32``."""
    spare = v.sub(v.const(U32, 33 if signed else 32), v.max(width, v.const(U32, 2)))
    return v.shr(v.const(U32, 0xFFFFFFFF), spare)


# Loads
def _extended(v: VectorApi, field: Value, width: Value) -> Value:
    """Return a field sign-extended from `width` bits, as ``I32``."""
    spare = v.bit_and(v.sub(v.const(U32, 32), width), 31)
    return v.shr(v.cast(v.shl(field, spare), I32), v.cast(spare, I32))


def _small_float(v: VectorApi, field: Value, mantissa: int) -> Value:
    """Return an unsigned float with five bits of exponent and a `mantissa` as ``F32`` bits."""
    placed = v.shl(field, 23 - mantissa)
    scaled = v.cast(v.mul(v.cast(placed, F32), 2.0**112), U32)
    special = v.le(v.const(U32, 31 << mantissa), field)
    return v.select(special, v.bit_or(placed, 0x7F800000), scaled)


def _loaded(v: VectorApi, element: _Element, field: Value, width: Value) -> Value:
    """Return the 32 bits that a component's field becomes."""
    signed = _extended(v, field, width)
    unsigned_float, signed_float = v.convert(field, F32), v.convert(signed, F32)
    top, signed_top = (v.convert(_largest(v, width, s), F32) for s in (False, True))
    normal = v.div(unsigned_float, top)
    signed_normal = v.max(v.div(signed_float, signed_top), v.const(F32, -1.0))
    real = v.select(v.eq(width, 32), field, v.cast(half_to_f32(v, low16(v, field)), U32))
    real = v.select(v.eq(width, 11), _small_float(v, field, 6), real)
    real = v.select(v.eq(width, 10), _small_float(v, field, 5), real)
    choices = {
        _SNORM: v.cast(signed_normal, U32),
        _USCALED: v.cast(unsigned_float, U32),
        _SSCALED: v.cast(signed_float, U32),
        _UINT: field,
        _SINT: v.cast(signed, U32),
        _FLOAT: real,
    }
    result = v.cast(normal, U32)
    for number, value in choices.items():
        result = v.select(v.eq(element.number, number), value, result)
    return result


def _raw_bytes(
    v: VectorApi, element: _Element, where: BufferAccess
) -> tuple[list[Value], list[Value]]:
    """Return the four dwords of an element, and the mask of each of its 16 bytes."""
    size = element.size(v)
    inside = where.inside(v.convert(size, U64))
    masks = [v.bit_and(inside, v.lt(v.const(U32, k), size)) for k in range(16)]
    words = []
    for k in range(0, 16, 4):
        word = None
        for b in range(4):
            (byte,) = v.load("global", where.at(k + b), 1, 1, masks[k + b])
            part = v.shl(byte, 8 * b) if b else byte
            word = part if word is None else v.bit_or(word, part)
        words.append(word)
    return words, masks


def _field(v: VectorApi, words: Sequence[Value], start: Value, width: Value) -> Value:
    """Return `width` bits from bit `start` of an element; no field spans two dwords."""
    index = v.shr(start, 5)
    word = words[0]
    for k in (1, 2, 3):
        word = v.select(v.eq(index, k), words[k], word)
    spare = v.sub(v.const(U32, 32), v.max(width, v.const(U32, 1)))
    moved = v.shr(word, v.bit_and(start, 31))
    return v.bit_and(moved, v.shr(v.const(U32, 0xFFFFFFFF), spare))


def _components(
    v: VectorApi, i: Instruction, descriptor: Sequence[Value], where: BufferAccess
) -> tuple[list[Value], _Element]:
    """Return the four components of a load, selectors applied."""
    element = _format(v, i, descriptor)
    words, _ = _raw_bytes(v, element, where)
    one = v.select(element.whole(v), v.const(U32, 1), v.const(U32, 0x3F800000))
    parts = []
    for k in range(4):
        width = element.width(v, k)
        value = _loaded(v, element, _field(v, words, element.start(v, k), width), width)
        missing = one if k == 3 else v.const(U32, 0)
        parts.append(v.select(v.eq(width, 0), missing, value))
    if "dfmt" in i.mods:
        return parts, element
    chosen = []
    for k in range(4):
        selector = extract(v, descriptor[3], 3 * k, 3)
        value = v.select(v.eq(selector, 1), one, v.const(U32, 0))
        for n in range(4):
            value = v.select(v.eq(selector, 4 + n), parts[n], value)
        chosen.append(value)
    return chosen, element


def _load(count: int, d16: str) -> Callable[..., list[Value]]:
    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        old: list[Value],
        registers: list[Value] | None,
        descriptor: list[Value],
        scalar_offset: Value,
    ) -> list[Value]:
        where = BufferAccess(v, i, registers, descriptor, scalar_offset, arch)
        parts, element = _components(v, i, descriptor, where)
        if not d16:
            return parts[:count]
        whole = element.whole(v)
        codes = [v.select(whole, low16(v, x), half_bits(v, v.cast(x, F32))) for x in parts[:count]]
        if d16 == "hi":
            return [v.bit_or(low16(v, old[0]), v.shl(codes[0], 16))]
        if count % 2:
            codes.append(high16(v, old[-1]))
        return [pack16(v, codes[k], codes[k + 1]) for k in range(0, len(codes), 2)]

    return call


# Stores
def _fits(v: VectorApi, value: Value, width: Value, signed: bool) -> Value:
    """Return whether an integer keeps its value in `width` bits."""
    spare = v.bit_and(v.sub(v.const(U32, 32), width), 31)
    moved = v.shl(value, spare)
    if signed:
        return v.eq(v.shr(v.cast(moved, I32), v.cast(spare, I32)), v.cast(value, I32))
    return v.eq(v.shr(moved, spare), value)


def _scaled(v: VectorApi, x: Value, width: Value, signed: bool) -> Value:
    """Return a normalised float as an integer of `width` bits, as ``U32``."""
    number = v.select(v.is_nan(x), v.const(F32, 0.0), x)
    low = v.const(F32, -1.0 if signed else 0.0)
    bounded = v.max(v.min(number, v.const(F32, 1.0)), low)
    top = v.convert(_largest(v, width, signed), F32)
    return v.cast(v.truncate(v.rint(v.mul(bounded, top)), I32), U32)


def _stored(v: VectorApi, element: _Element, x: Value, width: Value) -> Value:
    """Return the bits that a component becomes in its field, from 32 bits of the register."""
    real = v.cast(x, F32)
    present = v.ne(width, 0)
    for signed, number in ((False, _UINT), (True, _SINT)):
        kind = v.bit_and(v.eq(element.number, number), present)
        lost = v.bit_and(kind, v.bit_not(_fits(v, x, width, signed)))
        bad = v.any(v.bit_and(v.exec(), lost))
        v.require(v.bit_not(bad), "typed stores of integers that do not fit")
    for number in (_USCALED, _SSCALED):
        v.require(v.ne(element.number, number), "typed stores of scaled integers")
    small = v.bit_or(v.eq(width, 10), v.eq(width, 11))
    v.require(
        v.bit_not(v.bit_and(small, v.eq(element.number, _FLOAT))), "typed stores of small floats"
    )
    as_float = v.select(v.eq(width, 16), half_bits(v, real), x)
    result = v.select(v.eq(element.number, _FLOAT), as_float, x)
    result = v.select(v.eq(element.number, _UNORM), _scaled(v, real, width, False), result)
    result = v.select(v.eq(element.number, _SNORM), _scaled(v, real, width, True), result)
    spare = v.sub(v.const(U32, 32), v.max(width, v.const(U32, 1)))
    return v.bit_and(result, v.shr(v.const(U32, 0xFFFFFFFF), spare))


def _store(count: int, d16: str) -> Callable[..., object]:
    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        data: list[Value],
        registers: list[Value] | None,
        descriptor: list[Value],
        scalar_offset: Value,
    ) -> object:
        where = BufferAccess(v, i, registers, descriptor, scalar_offset, arch)
        element = _format(v, i, descriptor)
        values = _sources(v, element, data, count, d16)
        words: list[Value] = [v.const(U32, 0)] * 4
        for k, x in enumerate(values):
            width, start = element.width(v, k), element.start(v, k)
            part = v.shl(_stored(v, element, x, width), v.bit_and(start, 31))
            part = v.select(v.eq(width, 0), v.const(U32, 0), part)
            for n in range(4):
                here = v.eq(v.shr(start, 5), n)
                words[n] = v.select(here, v.bit_or(words[n], part), words[n])
        inside = where.inside(v.convert(element.size(v), U64))
        for k in range(16):
            mask = v.bit_and(inside, v.lt(v.const(U32, k), element.size(v)))
            byte = v.shr(words[k // 4], 8 * (k % 4)) if k % 4 else words[k // 4]
            v.store("global", where.at(k), 1, [byte], mask)
        return ()

    return call


def _sources(
    v: VectorApi, element: _Element, data: Sequence[Value], count: int, d16: str
) -> list[Value]:
    """Return the components to store as 32 bits each; absent ones are 0."""
    if not d16:
        values = list(data[:count])
    else:
        halves = [half(v, x) for x in data for half in (low16, high16)]
        halves = halves[1:2] if d16 == "hi" else halves[:count]
        values = []
        for x in halves:
            real = v.cast(half_to_f32(v, x), U32)
            signed = v.cast(_extended(v, x, v.const(U32, 16)), U32)
            whole = v.select(v.eq(element.number, _SINT), signed, x)
            values.append(v.select(element.whole(v), whole, real))
    return values + [v.const(U32, 0)] * (4 - len(values))


for _count, _letters in enumerate(("x", "xy", "xyz", "xyzw"), start=1):
    for _unit in ("buffer", "tbuffer"):
        for _d16 in ("", "lo"):
            _tail = f"format_{'d16_' if _d16 else ''}{_letters}"
            define(
                f"{_unit}_load_{_tail}",
                "regs = inst arch oldregs regs regs u32",
                _load(_count, _d16),
            )
            define(f"{_unit}_store_{_tail}", "= inst arch regs regs regs u32", _store(_count, _d16))
define("buffer_load_format_d16_hi_x", "regs = inst arch oldregs regs regs u32", _load(1, "hi"))
define("buffer_store_format_d16_hi_x", "= inst arch regs regs regs u32", _store(1, "hi"))
