"""The MessagePack reader against hand-made encodings of every format."""

from __future__ import annotations

import struct

import pytest

from flydsl.errors import UserValueError
from flydsl_rocdl.hsaco.msgpack import Value, unpack


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0), (b"\x7f", 127), (b"\xff", -1), (b"\xe0", -32),
        (b"\xc0", None), (b"\xc2", False), (b"\xc3", True),
        (b"\xcc\xff", 255), (b"\xcd\x01\x00", 256), (b"\xce\xff\xff\xff\xff", 2**32 - 1),
        (b"\xcf" + b"\xff" * 8, 2**64 - 1),
        (b"\xd0\x80", -128), (b"\xd1\x80\x00", -(2**15)), (b"\xd2\x80\0\0\0", -(2**31)),
        (b"\xd3\x80" + bytes(7), -(2**63)),
        (b"\xca" + struct.pack(">f", 1.5), 1.5), (b"\xcb" + struct.pack(">d", -2.25), -2.25),
        (b"\xa3abc", "abc"), (b"\xd9\x02hi", "hi"), (b"\xda\x00\x01x", "x"),
        (b"\xdb\0\0\0\x01y", "y"),
        (b"\xc4\x02\x00\x01", b"\x00\x01"), (b"\xc5\x00\x01\x07", b"\x07"),
        (b"\x93\x01\x02\x03", [1, 2, 3]), (b"\xdc\x00\x01\x05", [5]), (b"\xdd\0\0\0\x01\x06", [6]),
        (b"\x82\xa1a\x01\xa1b\x90", {"a": 1, "b": []}), (b"\xde\x00\x01\x01\x02", {1: 2}),
        (b"\xdf\0\0\0\x01\xa1k\xc0", {"k": None}),
    ],
)  # fmt: skip
def test_formats(data: bytes, value: Value) -> None:
    assert unpack(data) == value


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xa5ab", "FLY-U622"),
        (b"", "FLY-U622"),
        (b"\xcd\x01", "FLY-U622"),
        (b"\x92\x01", "FLY-U622"),
        (b"\x81\x90\x01", "FLY-U623"),
        (b"\xd4\x01\x02", "FLY-U624"),
    ],
)
def test_malformed_data_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(UserValueError) as caught:
        unpack(data)
    assert caught.value.code == code
