"""Output of kernels: `fx.printf` and `fx.device_assert`, through a buffer in device memory.

Each device has one ring buffer of 64-bit words, little-endian. Kernels that print get its address
as one hidden trailing argument; others know nothing of it. Header words:

====  ==========================================================================================
0     magic number
1     words of the ring, a power of two
2     head: words that kernels have reserved so far (they add to it atomically)
3     tail: words that the host has read so far
4     records for which there was no room
====  ==========================================================================================

The ring begins at word 8; position ``p`` of the stream is word ``8 + p % words``. A record:

====  ==========================================================================================
0     bits 0-15 its words, 16-45 the thread's index (x, y, z, ten bits each), bit 62 set: complete
1     key of the site (`OutputSite.key`)
2     block index x, and y in the upper half
3     block index z
4…    one word per value: integers extended by their sign, floats as bits of f32 or f64
====  ==========================================================================================

A kernel reserves a record's words, writes them, and stores word 0 last with release ordering. If
the ring has no room behind the tail the record is only counted. The host reads complete records
after synchronising with the device, zeroes what it read and moves the tail; after an overflow it
skips the rest of what was reserved. The words of the buffer are zero before a kernel writes them.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import struct
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flydsl.config import core as settings
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import DeviceAssertionError, FlyDSLError, SourceLocation
from flydsl.plugins.manager import plugin_manager
from flydsl.runtime.protocol import DeviceRuntime

__all__ = [
    "CAPACITY",
    "COMPLETE",
    "DROPPED",
    "HEAD",
    "HEADER_WORDS",
    "RECORD_WORDS",
    "TAIL",
    "OutputChannel",
    "OutputRecord",
    "OutputSite",
    "channel_of",
    "synchronize",
]

HEADER_WORDS = 8
RECORD_WORDS = 4
CAPACITY, HEAD, TAIL, DROPPED = 1, 2, 3, 4
COMPLETE = 1 << 62
_MAGIC = 0x31_5455_4F_594C46  # "FLYOUT1"


@dataclass(frozen=True, slots=True)
class OutputSite:
    """One call of `fx.printf` or `fx.device_assert` in a program.

    Attributes:
        kind: ``"printf"`` or ``"assert"``.
        parts: Literal text, and for each value its number and format specification.
        types: Of the values: ``"i"`` signed, ``"u"`` unsigned, ``"b"`` boolean, ``"f32"``,
            ``"f64"``, ``"p"`` address.
        location: The user's line, or None.
    """

    kind: str
    parts: tuple[str | tuple[int, str], ...]
    types: tuple[str, ...]
    location: SourceLocation | None

    @property
    def key(self) -> int:
        """Number by which records name the site; equal in every process, 63 bits."""
        digest = hashlib.sha256(repr(self).encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 1

    def text(self, words: Iterable[int]) -> str:
        """Return the text with the values of a record."""
        values = [decoded(kind, word) for kind, word in zip(self.types, words, strict=True)]
        return "".join(
            part if isinstance(part, str) else format(values[part[0]], part[1])
            for part in self.parts
        )


def decoded(kind: str, word: int) -> int | float | bool:
    """Return the Python value of a record's word; see `OutputSite.types`."""
    if kind == "i":
        return word - (1 << 64) if word >> 63 else word
    if kind == "b":
        return bool(word & 1)
    if kind == "f32":
        return float(struct.unpack("<f", (word & 0xFFFFFFFF).to_bytes(4, "little"))[0])
    if kind == "f64":
        return float(struct.unpack("<d", word.to_bytes(8, "little"))[0])
    return word


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """What one thread wrote at one site.

    Attributes:
        site: The site.
        block, thread: Indices (x, y, z).
        words: One per value.
    """

    site: OutputSite
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    words: tuple[int, ...]

    @property
    def text(self) -> str:
        """The formatted text."""
        return self.site.text(self.words)


class OutputChannel:
    """The ring buffer of one device.

    Args:
        runtime: The device's runtime.
        device: Index of the device.
        size: Bytes of the ring, a power of two of at least 64.
    """

    def __init__(self, runtime: DeviceRuntime, device: int, size: int) -> None:
        self.runtime, self.device = runtime, device
        self._words = size // 8
        self._sites: dict[int, OutputSite] = {}
        self._tail = 0
        self.address = runtime.allocate(8 * HEADER_WORDS + size, device)
        header = struct.pack(f"<{HEADER_WORDS}Q", _MAGIC, self._words, *[0] * (HEADER_WORDS - 2))
        try:
            runtime.copy_to_device(self.address, header + bytes(size), device)
        except BaseException:
            with contextlib.suppress(FlyDSLError):
                runtime.free(self.address, device)
            raise

    def register(self, sites: Iterable[OutputSite]) -> None:
        """Make the sites of a program known, whose kernels are about to be launched."""
        self._sites |= {site.key: site for site in sites}

    def read(self) -> tuple[tuple[OutputRecord, ...], int]:
        """Take what kernels that have ended wrote.

        Returns:
            The records in the order in which they were reserved, and how many found no room.
        """
        head, dropped = self._header()
        if head == self._tail:
            return (), 0
        used = min(head - self._tail, self._words)
        words = self._ring(self._tail, used)
        records: list[OutputRecord] = []
        at = 0
        while at < used and words[at] & COMPLETE:
            count = words[at] & 0xFFFF
            site = self._sites.get(words[at + 1])
            if site is not None:
                records.append(_record(site, words[at : at + count]))
            at += count
        self._clear(self._tail, at)
        # What does not fit is reserved all the same, and nobody will write it.
        self._tail = head if dropped else self._tail + at
        tail = struct.pack("<QQ", self._tail, 0)
        self.runtime.copy_to_device(self.address + 8 * TAIL, tail, self.device)
        return tuple(records), dropped

    def _header(self) -> tuple[int, int]:
        data = self.runtime.copy_from_device(self.address, 8 * HEADER_WORDS, self.device)
        header = struct.unpack(f"<{HEADER_WORDS}Q", data)
        return header[HEAD], header[DROPPED]

    def _pieces(self, start: int, count: int) -> list[tuple[int, int]]:
        """Return address and words of the one or two runs that a stretch of the ring covers."""
        first = start % self._words
        here = min(count, self._words - first)
        base = self.address + 8 * HEADER_WORDS
        return [(a, n) for a, n in ((base + 8 * first, here), (base, count - here)) if n]

    def _ring(self, start: int, count: int) -> tuple[int, ...]:
        copy = self.runtime.copy_from_device
        data = b"".join(copy(a, 8 * n, self.device) for a, n in self._pieces(start, count))
        return struct.unpack(f"<{count}Q", data)

    def _clear(self, start: int, count: int) -> None:
        for address, words in self._pieces(start, count):
            self.runtime.copy_to_device(address, bytes(8 * words), self.device)

    def deliver(self, cause: BaseException | None = None) -> None:
        """Print what kernels printed, and raise what they asserted.

        Args:
            cause: What the launch failed with, if it did.

        Raises:
            DeviceAssertionError: A `fx.device_assert` failed; all failed threads are counted, the
                first is named.
        """
        records, dropped = self.read()
        printed = [r.text for r in records if r.site.kind == "printf"]
        if printed:
            sys.stdout.write("".join(printed))
            sys.stdout.flush()
        if dropped:
            warnings.warn(
                f"{dropped} records of kernel output found no room; raise FLYDSL_OUTPUT_BYTES",
                FlyDSLWarning,
                stacklevel=2,
            )
        failed = [r for r in records if r.site.kind == "assert"]
        if failed:
            raise _assertion(failed) from cause


def _record(site: OutputSite, words: tuple[int, ...]) -> OutputRecord:
    thread = words[0] >> 16
    return OutputRecord(
        site,
        (words[2] & 0xFFFFFFFF, words[2] >> 32, words[3] & 0xFFFFFFFF),
        (thread & 1023, thread >> 10 & 1023, thread >> 20 & 1023),
        words[RECORD_WORDS:],
    )


def _assertion(failed: list[OutputRecord]) -> FlyDSLError:
    first = failed[0]
    same = sum(r.site == first.site for r in failed)
    others = len({r.site for r in failed}) - 1
    value = f"block {first.block}, thread {first.thread}"
    if same > 1:
        value += f" and {same - 1} more threads"
    return DeviceAssertionError(
        first.text or "a device assertion failed",
        code="FLY-U460",
        value=value,
        location=first.site.location,
        hint=f"{others} other assertions failed too" if others else "",
    )


def _channels() -> dict[tuple[str, int], OutputChannel]:
    found: dict[tuple[str, int], OutputChannel] = plugin_manager().cache("output channels")
    return found


def channel_of(runtime: DeviceRuntime, device: int) -> OutputChannel:
    """Return the channel of a device, made on first use with ``FLYDSL_OUTPUT_BYTES``."""
    channels = _channels()
    key = (runtime.name, device)
    found = channels.get(key)
    if found is None or found.runtime is not runtime:
        found = channels[key] = OutputChannel(runtime, device, settings.OUTPUT_BYTES.get())
        if len(channels) == 1:
            atexit.register(_at_exit, channels)
    return found


def _at_exit(channels: Mapping[tuple[str, int], OutputChannel]) -> None:
    for channel in channels.values():
        with contextlib.suppress(FlyDSLError):
            channel.runtime.synchronize(0, channel.device)
        try:
            channel.deliver()
        except FlyDSLError as error:
            sys.stderr.write(f"{error}\n")


def synchronize(stream: int = 0) -> None:
    """Wait for a stream on every device that has output, and deliver the output.

    Launches on an emulator deliver by themselves when they end; on a GPU, output appears here and
    at the end of the process.

    Args:
        stream: Handle of the stream to wait for.

    Raises:
        DeviceAssertionError: A `fx.device_assert` failed.
        TargetError: Work on the stream failed.
    """
    for channel in tuple(_channels().values()):
        channel.runtime.synchronize(stream, channel.device)
        channel.deliver()
