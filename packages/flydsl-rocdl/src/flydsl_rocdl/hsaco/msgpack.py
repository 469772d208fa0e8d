"""A small MessagePack reader: what AMD code-object metadata needs, which is all but extensions.

Source: the MessagePack specification.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from flydsl.errors import UserValueError

__all__ = ["Value", "unpack"]

Value: TypeAlias = bool | int | float | str | bytes | list["Value"] | dict["Value", "Value"] | None

_SCALARS = {
    0xCA: struct.Struct(">f"), 0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"), 0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"), 0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"), 0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"), 0xD3: struct.Struct(">q"),
}  # fmt: skip
_CONSTANTS: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTH_BYTES = {
    0xC4: 1, 0xC5: 2, 0xC6: 4,  # binary
    0xD9: 1, 0xDA: 2, 0xDB: 4,  # string
    0xDC: 2, 0xDD: 4,  # array
    0xDE: 2, 0xDF: 4,  # map
}  # fmt: skip


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        out = self.data[self.at : self.at + size]
        if len(out) != size:
            raise UserValueError("MessagePack data ends too early", code="FLY-U622", value=self.at)
        self.at += size
        return out

    def text(self, size: int) -> Value:
        return self.take(size).decode()

    def array(self, size: int) -> Value:
        return [self.value() for _ in range(size)]

    def map(self, size: int) -> Value:
        out: dict[Value, Value] = {}
        for _ in range(size):
            key = self.value()
            if isinstance(key, (list, dict)):
                raise UserValueError("MessagePack map key is a collection", code="FLY-U623")
            out[key] = self.value()
        return out

    def value(self) -> Value:
        tag = self.take(1)[0]
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag < 0x90:
            return self.map(tag & 15)
        if tag < 0xA0:
            return self.array(tag & 15)
        if tag < 0xC0:
            return self.text(tag & 31)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        scalar = _SCALARS.get(tag)
        if scalar is not None:
            number: int | float = scalar.unpack(self.take(scalar.size))[0]
            return number
        width = _LENGTH_BYTES.get(tag)
        if width is None:
            raise UserValueError(
                "MessagePack extension types are not supported", code="FLY-U624", value=tag
            )
        size = int.from_bytes(self.take(width), "big")
        read: Callable[[int], Value]
        if tag <= 0xC6:
            read = self.take
        elif tag <= 0xDB:
            read = self.text
        else:
            read = self.array if tag <= 0xDD else self.map
        return read(size)


def unpack(data: bytes) -> Value:
    """Return the value that `data` starts with.

    Raises:
        UserValueError: `data` is truncated or uses an extension type.
    """
    return _Reader(data).value()
