"""The output buffer, written by a plain-Python model of what kernels do."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from flydsl.config import scope
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import DeviceAssertionError, SourceLocation
from flydsl.plugins import isolated
from flydsl.runtime import output
from flydsl.runtime.output import OutputChannel, OutputSite, channel_of, decoded, synchronize

HERE = SourceLocation("kernel.py", 12)
PRINT = OutputSite("printf", ("a ", (0, ""), " b ", (1, ".1f"), "\n"), ("i", "f32"), HERE)
PLAIN = OutputSite("printf", ("plain\n",), (), HERE)
CHECK = OutputSite("assert", ("too large: ", (0, "")), ("u",), HERE)


class Memory:
    """A runtime of which only the memory exists."""

    name = "memory"

    def __init__(self) -> None:
        self.data = bytearray(1 << 16)
        self.waited: list[tuple[int, int]] = []

    def allocate(self, size: int, device: int) -> int:
        return 4096 * (device + 1)

    def copy_to_device(self, address: int, data: bytes, device: int) -> None:
        self.data[address : address + len(data)] = data

    def copy_from_device(self, address: int, size: int, device: int) -> bytes:
        return bytes(self.data[address : address + size])

    def synchronize(self, stream: int, device: int) -> None:
        self.waited.append((stream, device))

    # What a kernel does -----------------------------------------------------------------------
    def word(self, base: int, index: int, value: int | None = None) -> int:
        at = base + 8 * index
        if value is not None:
            self.data[at : at + 8] = struct.pack("<Q", value & (1 << 64) - 1)
        return int(struct.unpack_from("<Q", self.data, at)[0])

    def write(self, base: int, site: OutputSite, *words: int, complete: bool = True) -> None:
        count = output.RECORD_WORDS + len(words)
        at = self.word(base, output.HEAD)
        self.word(base, output.HEAD, at + count)
        capacity = self.word(base, output.CAPACITY)
        if at + count - self.word(base, output.TAIL) > capacity:
            self.word(base, output.DROPPED, self.word(base, output.DROPPED) + 1)
            return
        thread = 5 | 6 << 10 | 7 << 20
        head = count | thread << 16 | (output.COMPLETE if complete else 0)
        for k, x in enumerate((head, site.key, 1 | 2 << 32, 3, *words)):
            self.word(base, output.HEADER_WORDS + (at + k) % capacity, x)


@pytest.fixture
def channel() -> tuple[Memory, OutputChannel]:
    memory = Memory()
    made = OutputChannel(memory, 0, 1024)  # type: ignore[arg-type]
    made.register([PRINT, PLAIN, CHECK])
    return memory, made


def bits(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def test_records_are_read_once_and_in_order(channel: Any) -> None:
    memory, made = channel
    assert made.read() == ((), 0)
    memory.write(made.address, PRINT, -3, bits(2.25))
    memory.write(made.address, PLAIN)
    records, dropped = made.read()
    assert [r.text for r in records] == ["a -3 b 2.2\n", "plain\n"]
    assert (records[0].block, records[0].thread) == ((1, 2, 3), (5, 6, 7))
    assert dropped == 0
    assert made.read() == ((), 0)


def test_many_rounds_wrap_around_without_loss(channel: Any) -> None:
    memory, made = channel
    chance = random.Random(1)
    for _ in range(300):
        values = [chance.randrange(-(1 << 63), 1 << 63) for _ in range(chance.randrange(20))]
        for value in values:
            memory.write(made.address, PRINT, value, bits(0.5))
        records, dropped = made.read()
        assert [decoded("i", r.words[0]) for r in records] == values
        assert dropped == 0


def test_what_does_not_fit_is_counted_and_the_rest_is_kept(channel: Any) -> None:
    memory, made = channel
    for _ in range(3):
        for number in range(40):
            memory.write(made.address, PRINT, number, 0)
        records, dropped = made.read()
        # 128 words hold 21 records of 6.
        assert [r.words[0] for r in records] == list(range(21))
        assert dropped == 19
    memory.write(made.address, PRINT, 7, 0)
    assert [r.words[0] for r in made.read()[0]] == [7]


def test_an_incomplete_record_waits(channel: Any) -> None:
    memory, made = channel
    memory.write(made.address, PLAIN)
    memory.write(made.address, PRINT, 1, 0, complete=False)
    memory.write(made.address, PLAIN)
    assert [r.text for r in made.read()[0]] == ["plain\n"]
    at = made.address + 8 * (output.HEADER_WORDS + 4)
    memory.word(at, 0, memory.word(at, 0) | output.COMPLETE)
    assert [r.text for r in made.read()[0]] == ["a 1 b 0.0\n", "plain\n"]


def test_delivery(channel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    memory, made = channel
    memory.write(made.address, PLAIN)
    memory.write(made.address, CHECK, (1 << 64) - 1)
    memory.write(made.address, CHECK, 3)
    with pytest.raises(DeviceAssertionError, match=f"too large: {(1 << 64) - 1}") as error:
        made.deliver()
    assert isinstance(error.value, AssertionError)
    assert error.value.code == "FLY-U460"
    assert error.value.location == HERE
    assert "block (1, 2, 3), thread (5, 6, 7) and 1 more threads" in str(error.value)
    assert capsys.readouterr().out == "plain\n"
    for _ in range(60):
        memory.write(made.address, PLAIN)
    with pytest.warns(FlyDSLWarning, match="28 records .* FLYDSL_OUTPUT_BYTES"):
        made.deliver()
    assert capsys.readouterr().out == 32 * "plain\n"


def test_synchronize_waits_and_delivers(capsys: pytest.CaptureFixture[str]) -> None:
    with isolated(), scope(FLYDSL_OUTPUT_BYTES=1024):
        memory = Memory()
        runtime: Any = memory
        made = channel_of(runtime, 0)
        assert channel_of(runtime, 0) is made
        made.register([PLAIN])
        memory.write(made.address, PLAIN)
        synchronize(17)
        assert memory.waited == [(17, 0)]
        assert capsys.readouterr().out == "plain\n"


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [
        ("i", (1 << 64) - 1, -1),
        ("i", 1 << 63, -(1 << 63)),
        ("u", (1 << 64) - 1, (1 << 64) - 1),
        ("b", 1, True),
        ("f32", 0xBFC00000, -1.5),
        ("f64", 0x3FF8000000000000, 1.5),
        ("p", 1 << 47, 1 << 47),
    ],
)
def test_values(kind: str, word: int, value: Any) -> None:
    got = decoded(kind, word)
    assert got == value
    assert type(got) is type(value)


def test_keys_differ_by_everything() -> None:
    variants = [
        PRINT,
        PLAIN,
        CHECK,
        OutputSite("assert", PLAIN.parts, (), HERE),
        OutputSite("printf", PLAIN.parts, (), SourceLocation("kernel.py", 13)),
        OutputSite("printf", ("plain\n",), (), None),
    ]
    assert len({x.key for x in variants}) == len(variants)
    assert all(0 <= x.key < 1 << 63 for x in variants)
    assert OutputSite("printf", ("plain\n",), (), SourceLocation("kernel.py", 12)).key == PLAIN.key
