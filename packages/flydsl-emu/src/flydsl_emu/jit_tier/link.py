"""From the object file of a module to one image that runs at any address.

The sections that a program needs are laid out one after another and the references between them,
all relative, are filled in. The image refers to nothing outside itself: support routines are called
through the context's table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl.errors import CompilerBug

__all__ = ["Image", "link"]

Array = Any

_SECTION = struct.Struct("<IIQQQQIIQQ")
_ALLOCATED, _RELOCATIONS, _SYMBOLS, _EMPTY = 2, 4, 2, 8
_UNWIND = 0x70000001
_PC32, _PLT32, _PC64 = 2, 4, 24
_SYMBOL = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


@dataclass(frozen=True, slots=True)
class Image:
    """Position-independent code and its constants.

    Attributes:
        data: Bytes.
        symbols: Offsets of the exported functions.
    """

    data: bytes
    symbols: dict[str, int]


def link(data: bytes) -> Image:
    """Lay out an ELF64 relocatable object and apply its relocations.

    Raises:
        CompilerBug: It refers to something outside itself, or by absolute address.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise CompilerBug("the host object is no little-endian ELF64 file", code="FLY-B430")
    table, size, count, _ = struct.unpack_from("<Q10xHHH", data, 40)
    sections = [_SECTION.unpack_from(data, table + n * size) for n in range(count)]
    places: dict[int, int] = {}
    end = 0
    for n, s in enumerate(sections):
        flags, kind, extent, align = s[2], s[1], s[5], max(1, s[8])
        # Unwind tables (x86-64 has a section type for them) serve nobody here.
        if flags & _ALLOCATED and extent and kind not in (_UNWIND, _RELOCATIONS):
            end = -(-end // align) * align
            places[n] = end
            end += extent
    image = bytearray(end)
    for n, at in places.items():
        s = sections[n]
        if s[1] != _EMPTY:
            image[at : at + s[5]] = data[s[4] : s[4] + s[5]]
    symbols_at = next(n for n, s in enumerate(sections) if s[1] == _SYMBOLS)
    symbols, names = _symbols(data, sections, symbols_at)
    for s in sections:
        if s[1] == _RELOCATIONS and s[7] in places:
            _relocate(image, data, s, places, symbols)
    exported = {
        names[n]: places[int(symbols["section"][n])] + int(symbols["value"][n])
        for n in range(len(symbols))
        if symbols["info"][n] == 0x12 and int(symbols["section"][n]) in places
    }
    return Image(bytes(image), exported)


def _symbols(data: bytes, sections: list[tuple[int, ...]], at: int) -> tuple[Array, list[str]]:
    s = sections[at]
    symbols = np.frombuffer(data, _SYMBOL, s[5] // _SYMBOL.itemsize, s[4])
    strings = sections[s[6]][4]
    names = []
    for info, name in zip(symbols["info"], symbols["name"], strict=True):
        start = strings + int(name)
        # Only functions that are exported need a name.
        names.append(data[start : data.index(b"\0", start)].decode() if info == 0x12 else "")
    return symbols, names


def _relocate(
    image: bytearray,
    data: bytes,
    section: tuple[int, ...],
    places: dict[int, int],
    symbols: Array,
) -> None:
    rows = np.frombuffer(data, _RELOCATION, section[5] // _RELOCATION.itemsize, section[4])
    if not np.isin(rows["type"], (_PC32, _PLT32, _PC64)).all():
        raise CompilerBug(
            "the host code has a relocation of an unexpected kind",
            code="FLY-B430",
            value=sorted({int(t) for t in rows["type"]}),
        )
    owners = symbols["section"][rows["symbol"]]
    bases = np.full(int(owners.max(initial=0)) + 1, -1, np.int64)
    for n, at in places.items():
        if n < len(bases):
            bases[n] = at
    targets = bases[owners]
    if (targets < 0).any():
        missing = rows["symbol"][int(np.argmax(targets < 0))]
        raise CompilerBug(
            "the host code refers to something outside itself", code="FLY-B430", value=int(missing)
        )
    where = rows["offset"].astype(np.int64) + places[section[7]]
    values = targets + symbols["value"][rows["symbol"]].astype(np.int64) + rows["addend"] - where
    view = np.frombuffer(image, np.uint8)
    for width, kinds in ((4, (_PC32, _PLT32)), (8, (_PC64,))):
        chosen = np.isin(rows["type"], kinds)
        raw = values[chosen].astype(f"<i{width}").view(np.uint8).reshape(-1, width)
        for k in range(width):
            view[where[chosen] + k] = raw[:, k]
