"""A MessagePack decoder for code-object metadata (no extension types)."""

from __future__ import annotations

import struct
from typing import Any

from flydsl.errors import TargetError

__all__ = ["unpack"]

_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# First byte of a sized item -> (kind, format of the length).
_SIZED = {
    0xC4: ("bin", ">B"),
    0xC5: ("bin", ">H"),
    0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"),
    0xDA: ("str", ">H"),
    0xDB: ("str", ">I"),
    0xDC: ("list", ">H"),
    0xDD: ("list", ">I"),
    0xDE: ("map", ">H"),
    0xDF: ("map", ">I"),
}


def unpack(data: bytes) -> Any:
    """Return the first item in `data` as plain Python objects.

    Raises:
        TargetError: The bytes are cut short or use an extension type.
    """
    try:
        value, _ = _item(data, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise TargetError(f"damaged metadata note: {error}", code="FLY-T701") from error
    return value


def _item(data: bytes, at: int) -> tuple[Any, int]:
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 0x100, at
    if head < 0x90:
        return _container("map", head & 15, data, at)
    if head < 0xA0:
        return _container("list", head & 15, data, at)
    if head < 0xC0:
        return _container("str", head & 31, data, at)
    if head in _CONSTANTS:
        return _CONSTANTS[head], at
    if head in _NUMBERS:
        layout = _NUMBERS[head]
        return struct.unpack_from(layout, data, at)[0], at + struct.calcsize(layout)
    if head in _SIZED:
        kind, layout = _SIZED[head]
        count = struct.unpack_from(layout, data, at)[0]
        return _container(kind, count, data, at + struct.calcsize(layout))
    raise TargetError("metadata uses a MessagePack extension", code="FLY-T701", value=head)


def _container(kind: str, count: int, data: bytes, at: int) -> tuple[Any, int]:
    if kind in ("str", "bin"):
        body = data[at : at + count]
        if len(body) != count:
            raise IndexError("a string is cut short")
        return (body.decode() if kind == "str" else body), at + count
    if kind == "list":
        items = []
        for _ in range(count):
            value, at = _item(data, at)
            items.append(value)
        return items, at
    mapping = {}
    for _ in range(count):
        key, at = _item(data, at)
        mapping[key], at = _item(data, at)
    return mapping, at
