"""A wave's step of keys and values: from pages to operands of matrix instructions.

A lane is at row ``lane % 16`` of an operand, part ``lane // 16`` of its k. Of block `j` of 16 keys,
the row that a lane of part ``p`` gets in register ``r`` of R is key ``p * span + R j + r`` of the
step. The scores that a lane gets of all blocks then are those of `span` neighbouring keys,
``p * span`` and on, which are the k that it has of the operands of the second product. Where both
halves of a wave take whole operands, each loads its part and they exchange them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.decoding import ROWS, DecodePlan
from flydsl_kernels.attention.device.caches import known_page
from flydsl_kernels.attention.device.exact import exact16
from flydsl_kernels.attention.device.matrix import UNITS, Unit, joined

__all__ = [
    "Pages",
    "grouped",
    "hidden_values",
    "kept_words",
    "key_operands",
    "load_keys",
    "load_values",
    "operands_of",
    "own_values",
    "value_operands",
]

_CHUNK = 8
_ROTATE = 0x120
"""DPP control: rotate rows of 16 lanes to the right by the number added to it."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Where the keys of a head of a sequence are.

    Attributes:
        a: The kernel's arguments.
        plan: The compile-time part.
        table: Pointer to the sequence's pages.
        last: The last page that the sequence uses.
        head: The head of the cache.
        row: The lane's row of an operand.
        quarter: Which part of the k of an operand the lane has: a quarter, or half.
    """

    a: Any
    plan: DecodePlan
    table: Any
    last: Any
    head: Any
    row: Any
    quarter: Any

    def place(self, cache: Any, first: Any, inside: Any, axes: tuple[int, int]) -> tuple[Any, Any]:
        """Return (pointer to the head in the page of a key, the key's number in the page).

        Args:
            cache: The cache.
            first: First key of the step.
            inside: The key's number in the step; may differ between lanes.
            axes: Axes of the cache: heads, tokens.
        """
        page, step = self.plan.problem.page, self.plan.step
        start = cache.iter + self.head.to(fx.Int64) * cache.stride[axes[0]]
        if page % step == 0:
            number = self._number(first // page)
            return start + number.to(fx.Int64) * cache.stride[0], first % page + inside
        if step % page == 0:
            pages = [self._number(first // page + turn) for turn in range(step // page)]
            number = pages[0]
            for turn, other in enumerate(pages[1:], 1):
                number = fx.arith.select(inside >= turn * page, other, number)
        else:
            key = first + inside
            number = known_page((self.table + fx.min(key // page, self.last)).load(), cache)
            return start + number.to(fx.Int64) * cache.stride[0], key % page
        return start + number.to(fx.Int64) * cache.stride[0], inside % page

    def _number(self, index: Any) -> Any:
        """Return the number of a page of the sequence; uniform. Past the last one, the last."""
        number = fx.rocdl.read_first_lane((self.table + fx.min(index, self.last)).load())
        return known_page(number, self.a.keys)


def grouped(chunks: list[Any], unit: Unit) -> list[Any]:
    """Return chunks of 8 elements as vectors of what a lane adds to an operand."""
    if unit.own == _CHUNK:
        return chunks
    pairs = zip(chunks[::2], chunks[1::2], strict=True)
    return [low.shuffle(high, range(2 * _CHUNK)) for low, high in pairs]


def operands_of(values: Any, pages: Pages) -> list[Any]:
    """Return the operands of which a vector has the lane's part, one after the other."""
    unit = UNITS[pages.plan.unit]
    parts = [
        values.shuffle(values, range(first, first + unit.own))
        for first in range(0, values.numel, unit.own)
    ]
    return [joined(part, unit, pages.quarter) for part in parts]


def load_keys(pages: Pages, first: Any, share: int = 0) -> list[Any]:
    """Load what the lane has of a share of a step's keys, in the cache's type.

    Returns:
        Per block of keys, its pieces.
    """
    plan, problem, unit = pages.plan, pages.plan.problem, UNITS[pages.plan.unit]
    cache, piece = pages.a.keys, plan.piece
    vector = vector_alias(cache.dtype, (piece,))
    part, register = unit.holder(pages.row)
    out = []
    for block in range(plan.span // unit.registers):
        inside = part * plan.span + unit.registers * block + register
        if problem.layout == "linear":
            start, token = pages.place(cache, first, inside, (2, 1))
            start = start + token.to(fx.Int64) * cache.stride[1]
        else:
            start, token = pages.place(cache, first, inside, (1, 3))
        count = problem.d_qk // (plan.parts * piece) // plan.key_shares
        for step in range(share * count, (share + 1) * count):
            column = (step * plan.parts + pages.quarter) * piece
            if problem.layout == "linear":
                out.append((start + column).load(vector))
            else:
                out.append(_blocked(cache, start, token, column).load(vector))
    return out


def _blocked(cache: Any, start: Any, token: Any, column: Any) -> Any:
    """Return the pointer to some elements of a key in blocks of 16 bytes."""
    block = 128 // cache.dtype.width
    offset = (column // block).to(fx.Int64) * cache.stride[2]
    return start + offset + token.to(fx.Int64) * cache.stride[3] + column % block


def key_operands(pages: Pages, loaded: list[Any], kind: Any) -> Iterator[Sequence[Any]]:
    """Yield the operands of K, piece after piece of k: those of all blocks of keys."""
    plan, unit = pages.plan, UNITS[pages.plan.unit]
    blocks = plan.span // unit.registers
    per_block, merged = len(loaded) // blocks, max(1, unit.own // plan.piece)
    for first in range(0, per_block, merged):
        found = []
        for start in range(first, len(loaded), per_block):
            parts = [exact16(v, kind) for v in loaded[start : start + merged]]
            whole = parts[0] if merged == 1 else grouped(parts, unit)[0]
            found.append(operands_of(whole, pages))
        yield from zip(*found, strict=True)


def load_values(pages: Pages, first: Any, share: int = 0) -> list[Any]:
    """Load what the lane has of a share of a step's values, in the cache's type.

    Of a linear cache: per group of elements, a vector of neighbouring elements for each of its
    keys, or of every `turns` keys; else: per block of 16 elements, a vector of its keys.
    """
    plan, problem = pages.plan, pages.plan.problem
    cache = pages.a.values
    out = []
    if problem.layout == "linear":
        vector = vector_alias(cache.dtype, (plan.turns * plan.width,))
        lanes = ROWS // plan.turns
        rows = []
        for key in range(0, plan.span, plan.turns):
            inside = pages.quarter * plan.span + key + pages.row // lanes
            start, token = pages.place(cache, first, inside, (2, 1))
            rows.append(start + token.to(fx.Int64) * cache.stride[1])
        for group in plan.share(share):
            column = (pages.row % lanes * plan.turns + 16 * group) * plan.width
            out += [(row + column).load(vector) for row in rows]
        return out
    inside = pages.quarter * plan.span
    block = 128 // cache.dtype.width
    width = plan.span
    if problem.layout == "transposed":
        start, token = pages.place(cache, first, inside, (1, 3))
        starts, step = [start + token], cache.stride[2]
    else:
        start, token = pages.place(cache, first, inside, (1, 4))
        start = start + (token // block).to(fx.Int64) * cache.stride[2] + token % block
        width = min(width, block)
        starts = [start + turn * fx.Int64(cache.stride[2]) for turn in range(plan.span // width)]
        step = cache.stride[3]
    vector = vector_alias(cache.dtype, (width,))
    for tile in plan.share(share):
        element = (16 * tile + pages.row).to(fx.Int64)
        found = [(start + element * step).load(vector) for start in starts]
        out.append(found[0] if len(found) == 1 else found[0].shuffle(found[1], range(plan.span)))
    return out


def own_values(pages: Pages, loaded: list[Any]) -> list[Any]:
    """Return what `load_values` returned with a vector for each of the lane's keys.

    Where lanes share loads, those that loaded the same elements of `turns` keys exchange them: each
    gets a part of the elements of every key. They are as many lanes apart, in banks of their own.
    """
    turns = pages.plan.turns
    if turns == 1 or pages.plan.problem.layout != "linear":
        return loaded
    banks, words = 4 // turns, 4 // turns
    out = []
    for chunk in loaded:
        given = chunk.bitcast(fx.Int32)
        for key in range(turns):
            mine = [given[key * words + at] for at in range(words)]
            for part in (part for part in range(turns) if part != key):
                control = _ROTATE + 4 * banks * (part - key) % ROWS
                mask = ((1 << banks) - 1) << part * banks
                mine = [
                    fx.rocdl.update_dpp_word(own, given[part * words + at], control, 0xF, mask)
                    for at, own in enumerate(mine)
                ]
            out.append(fx.Vector.from_elements(mine).bitcast(chunk.dtype))
    return out


def hidden_values(pages: Pages, loaded: list[Any], seen: list[Any]) -> list[Any]:
    """Return what `own_values` returned, zero for keys that do not count.

    Args:
        pages: Where keys and values are.
        loaded: What was loaded; whatever it is where keys do not count.
        seen: Whether each of the lane's keys counts.
    """
    plan, width = pages.plan, pages.a.values.dtype.width
    if plan.problem.layout == "linear":
        return [kept_words(v, seen[at % plan.span]) for at, v in enumerate(loaded)]
    per_word = 32 // width
    masks = []
    for first in range(0, plan.span, per_word):
        mask = fx.Int32(0)
        for key in range(per_word):
            bits = ((1 << width) - 1) << key * width
            bits -= (bits >> 31) << 32
            mask = mask | fx.arith.select(seen[first + key], fx.Int32(bits), fx.Int32(0))
        masks.append(mask)
    out = []
    for vector in loaded:
        words = [word & mask for word, mask in zip(vector.bitcast(fx.Int32), masks, strict=True)]
        out.append(fx.Vector.from_elements(words).bitcast(vector.dtype))
    return out


def kept_words(vector: Any, seen: Any) -> Any:
    """Return a vector, or zeros where a condition does not hold."""
    word = fx.Int32 if vector.numel * vector.dtype.width % 32 == 0 else fx.Int16
    words = [fx.arith.select(seen, x, word(0)) for x in vector.bitcast(word)]
    return fx.Vector.from_elements(words).bitcast(vector.dtype)


def value_operands(pages: Pages, loaded: list[Any], kind: Any) -> Iterator[Sequence[Any]]:
    """Yield the operands of Vᵀ, block after block of elements: those of all pieces of the keys."""
    for tile in _value_tiles(pages.plan, loaded, kind):
        yield operands_of(tile, pages)


def _value_tiles(plan: DecodePlan, loaded: list[Any], kind: Any) -> Iterator[Any]:
    """Yield the lane's keys of its element of each block of elements."""
    if plan.problem.layout != "linear":
        yield from (exact16(v, kind) for v in loaded)
        return
    for first in range(0, len(loaded), plan.span):
        rows = [exact16(v, kind) for v in loaded[first : first + plan.span]]
        for element in range(plan.width):
            yield fx.Vector.from_elements([row[element] for row in rows])
