"""Infinities and NaN that some rows of a block see and others do not.

A product takes whole tiles: a weight of zero times an infinity is NaN, in a row that must not see
the key. So tiles that some rows see in part lose what is not finite before the product, which costs
three integer instructions a word, and a flag says that there was any. Where it is set, after the
results are written, `mend` adds to each what its row sees: a number that is not finite outweighs
all that the sum of finite ones may be.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

__all__ = ["any_wave", "cleaned", "mend", "odd_part", "without_odd"]

# Of a word: magnitudes, and what brings the least one that is not finite to the sign's place.
_WORDS = {
    "float16": (0x7FFF7FFF, 0x04000400),
    "bfloat16": (0x7FFF7FFF, 0x00800080),
    "float8_e4m3fn": (0x7F7F7F7F, 0x01010101),
    "float8_e4m3fnuz": (0x7F7F7F7F, 0x7F7F7F7F),
    "float8_e5m2": (0x7F7F7F7F, 0x04040404),
}
_SIGNS = {
    "float16": 0x80008000,
    "bfloat16": 0x80008000,
    "float8_e4m3fn": 0x80808080,
    "float8_e4m3fnuz": 0x80808080,
    "float8_e5m2": 0x80808080,
}
_EXPONENT = 0x7F800000


def _marks(words: Any, name: str) -> Any:
    """Return words whose elements have the sign's bit where they are not finite."""
    magnitudes, step = _WORDS[name]
    moved = (words & fx.Uint32(magnitudes)) + fx.Uint32(step)
    # Without negative zero, its place is NaN: there only the sign is set.
    return words & ~moved if name == "float8_e4m3fnuz" else moved


@flyc.jit
def cleaned(vectors: list[Any], name: str, flag: Any, lanes: int) -> tuple[list[Any], Any]:
    """Return (vectors with zero for what is not finite, flag, 1 if a lane of the wave had any).

    Args:
        vectors: Vectors of the same length: of whole words, or an even number of halves of words.
        name: Element type.
        flag: Number that is kept if there is nothing.
        lanes: Lanes of a wave.
    """
    count = vectors[0].numel
    split = count * vectors[0].dtype.width < 32
    if split:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [one.shuffle(other, range(2 * count)) for one, other in pairs]
    if fx.rocdl.ballot(fx.Int64 if lanes == 64 else fx.Int32, _any_odd(vectors, name)) != 0:
        vectors, flag = without_odd(vectors, name), fx.Int32(1)
    if split:
        halves = (range(count), range(count, 2 * count))
        vectors = [vector.shuffle(vector, half) for vector in vectors for half in halves]
    return vectors, flag


def without_odd(vectors: list[Any], name: str) -> list[Any]:
    """Return vectors of whole words with zero for what is not finite.

    Args:
        vectors: The vectors.
        name: Element type.
    """
    out, bits = [], 8 if name.startswith("float8") else 16
    for vector in vectors:
        word = vector.bitcast(fx.Uint32)
        there = _marks(word, name) & fx.Uint32(_SIGNS[name])
        word = word & ~(there | (there - fx.shrui(there, bits - 1)))
        out.append(word.bitcast(vector.dtype))
    return out


def _any_odd(vectors: list[Any], name: str) -> Any:
    """Return whether any element of vectors of whole words is not finite."""
    some = fx.Uint32(0)
    for item in [item for vector in vectors for item in _marks(vector.bitcast(fx.Uint32), name)]:
        some = some | item
    return (some & fx.Uint32(_SIGNS[name])) != fx.Uint32(0)


@flyc.jit
def any_wave(shared: Any, flag: Any, wave: Any, waves: int) -> Any:
    """Return the largest of the waves' flags; uniform.

    Args:
        shared: Pointer to LDS that is no longer used, a word for each wave.
        flag: The wave's flag, not negative.
        wave: Number of the wave.
        waves: Waves of the workgroup.
    """
    words = fx.recast_iter(fx.Int32, shared)
    fx.rocdl.lds_barrier()
    if fx.rocdl.lane_id() == 0:
        (words + wave).store(flag)
    fx.rocdl.lds_barrier()
    most = (words + 0).load()
    for number in range(1, waves):
        most = fx.max(most, (words + number).load())
    return fx.rocdl.read_first_lane(most)


def odd_part(value: Any, name: str, lost: bool = False) -> Any:
    """Return an element as f32 if it is not finite, else zero.

    Args:
        value: The element; bytes are 8-bit floats without infinities.
        name: Element type.
        lost: Return NaN for infinities too.
    """
    zero, nan = fx.Float32(0.0), fx.Float32(float("nan"))
    if isinstance(value, fx.Uint8):
        word = value.to(fx.Uint32)
        mark = _marks(word, name) & fx.Uint32(0x80)
        return fx.arith.select(mark != fx.Uint32(0), nan, zero)
    wide = value.to(fx.Float32)
    odd = (wide.bitcast(fx.Int32) & _EXPONENT) == _EXPONENT
    return fx.arith.select(odd, nan if lost else wide, zero)


@flyc.jit
def mend(
    spans: list[tuple[Any, Any]], elements: tuple[Any, Any, int, int], odd: Any, start: Any
) -> None:
    """Add to the lane's part of a row what the row sees of numbers that are not finite.

    Keys may be in two spans, or be such as were not cleaned: what is not finite stays what it is.

    Args:
        spans: First keys, and ones past the last: those that the row sees of what was cleaned.
        elements: First element that the lane has, elements of the row, and from one to the next of
            so many neighbouring ones.
        odd: Returns `odd_part` of an element of a key.
        start: Pointer to the row, which the lane has written.
    """
    first, width, step, count = elements
    for element in range(first, width, step):
        totals = [fx.Float32(0.0)] * count
        for begin, end in spans:
            for key in range(begin, end):
                totals = [total + odd(key, element + index) for index, total in enumerate(totals)]
        for index, total in enumerate(totals):
            if total.bitcast(fx.Int32) != 0:
                target = start + (element + index)
                target.store((target.load().to(fx.Float32) + total).to(target.element))
