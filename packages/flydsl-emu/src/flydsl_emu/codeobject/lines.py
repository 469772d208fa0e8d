"""Source lines of code addresses: a reader for DWARF line tables (``.debug_line``).

Format: the DWARF debugging information format, versions 4 and 5, section 6.2. 32-bit DWARF only,
which is what LLVM writes for AMDGPU; addresses are those of the linked code object.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flydsl.errors import TargetError

__all__ = ["DEBUG_SECTIONS", "LineTable", "SourceLine", "read_lines"]

DEBUG_SECTIONS = (".debug_line", ".debug_line_str", ".debug_str")

_PATH = 1
_DIRECTORY = 2
_FORM_BLOCK = 0x09
_FORM_DATA1 = 0x0B
_FORM_DATA2 = 0x05
_FORM_DATA4 = 0x06
_FORM_DATA8 = 0x07
_FORM_DATA16 = 0x1E
_FORM_STRING = 0x08
_FORM_STRP = 0x0E
_FORM_UDATA = 0x0F
_FORM_LINE_STRP = 0x1F
_FIXED = {_FORM_DATA1: 1, _FORM_DATA2: 2, _FORM_DATA4: 4, _FORM_DATA8: 8, _FORM_DATA16: 16}


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A place in a source file.

    Attributes:
        file: Path as the compiler recorded it.
        line: Line, from 1.
        column: Column, from 1; 0 when the table does not tell.
        exact: Whether the table names this line. False for instructions that the compiler merged
            from several lines (line 0 in the table): they get the line before them.
    """

    file: str
    line: int
    column: int
    exact: bool = True

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.file}:{self.line}{column}"


class LineTable:
    """The rows of all line programs of a code object, by address.

    Args:
        rows: ``(address, line)`` pairs; None as the line ends a sequence.
    """

    def __init__(self, rows: Iterable[tuple[int, SourceLine | None]] = ()) -> None:
        # An end and a beginning at one address: the beginning counts, so it sorts last.
        ordered = sorted(rows, key=lambda row: (row[0], row[1] is not None))
        self._addresses = [address for address, _ in ordered]
        self._lines = [line for _, line in ordered]

    def __len__(self) -> int:
        return len(self._addresses)

    def find(self, address: int) -> SourceLine | None:
        """Return the line of the instruction at `address` of the code object, or None."""
        at = bisect_right(self._addresses, address) - 1
        return None if at < 0 else self._lines[at]

    def addresses(self, line: int, file: str = "") -> tuple[int, ...]:
        """Return where code of a source line begins, in ascending order.

        Neighbouring rows of the line (for its columns) are one piece of code.

        Args:
            line: Line number.
            file: Path, or its last components; empty for any file.
        """
        ending = "/" + file.lstrip("/")
        found = []
        before = ("", 0)
        for address, source in zip(self._addresses, self._lines, strict=True):
            place = ("", 0) if source is None else (source.file, source.line)
            wanted = source is not None and source.exact and source.line == line
            if wanted and place != before and (not file or f"/{place[0]}".endswith(ending)):
                found.append(address)
            before = place
        return tuple(found)


def read_lines(sections: Mapping[str, bytes]) -> LineTable:
    """Read a line table.

    Args:
        sections: Contents of those of `DEBUG_SECTIONS` that the code object has.

    Returns:
        The table; empty when there is no debug information.

    Raises:
        TargetError: The section is damaged or of another DWARF version than 4 or 5.
    """
    data = sections.get(".debug_line", b"")
    rows: list[tuple[int, SourceLine | None]] = []
    at = 0
    try:
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at)
            end = at + 4 + length
            if length >= 0xFFFFFFF0 or end > len(data):
                raise _damaged(f"a unit of {length:#x} bytes")
            rows += _LineProgram(data[at + 4 : end], sections).rows()
            at = end
    except (struct.error, IndexError, ValueError) as error:
        raise _damaged(str(error)) from error
    return LineTable(rows)


def _damaged(what: str) -> TargetError:
    return TargetError(f"the code object's line table cannot be read: {what}", code="FLY-T701")


class _Cursor:
    """A position in bytes."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def unsigned(self, size: int) -> int:
        if self.at + size > len(self.data):
            raise ValueError("it ends too early")
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def sleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value

    def string(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text


class _LineProgram:
    """One unit of ``.debug_line``, without its length field."""

    def __init__(self, data: bytes, sections: Mapping[str, bytes]) -> None:
        self.cursor = c = _Cursor(data)
        self.sections = sections
        self.version = c.unsigned(2)
        if self.version not in (4, 5):
            raise _damaged(f"DWARF version {self.version}")
        if self.version == 5:
            c.unsigned(1)  # bytes of an address
            c.unsigned(1)  # bytes of a segment selector
        header_length = c.unsigned(4)
        self.start = c.at + header_length
        self.min_length = c.unsigned(1)
        c.unsigned(1)  # operations per instruction
        c.unsigned(1)  # whether rows begin statements by default
        self.line_base = int.from_bytes(bytes([c.unsigned(1)]), "little", signed=True)
        self.line_range = c.unsigned(1)
        self.opcode_base = c.unsigned(1)
        self.lengths = [c.unsigned(1) for _ in range(self.opcode_base - 1)]
        self.files = self._files_5() if self.version == 5 else self._files_4()

    # Headers -------------------------------------------------------------------------------------
    def _files_4(self) -> list[str]:
        c = self.cursor
        directories = [""]
        while text := c.string():
            directories.append(text)
        files = [""]
        while text := c.string():
            files.append(_joined(directories, c.uleb(), text))
            c.uleb()  # time of the last change
            c.uleb()  # bytes of the file
        return files

    def _files_5(self) -> list[str]:
        directories = [str(entry.get(_PATH, "")) for entry in self._entries()]
        return [
            _joined(directories, int(entry.get(_DIRECTORY, 0)), str(entry.get(_PATH, "")))
            for entry in self._entries()
        ]

    def _entries(self) -> list[dict[int, int | str]]:
        c = self.cursor
        formats = [(c.uleb(), c.uleb()) for _ in range(c.unsigned(1))]
        return [{kind: self._form(form) for kind, form in formats} for _ in range(c.uleb())]

    def _form(self, form: int) -> int | str:
        c = self.cursor
        if form == _FORM_STRING:
            return c.string()
        if form == _FORM_LINE_STRP:
            return _Cursor(self.sections.get(".debug_line_str", b""), c.unsigned(4)).string()
        if form == _FORM_STRP:
            return _Cursor(self.sections.get(".debug_str", b""), c.unsigned(4)).string()
        if form == _FORM_UDATA:
            return c.uleb()
        if form == _FORM_BLOCK:
            return c.unsigned(c.uleb())
        if form in _FIXED:
            return c.unsigned(_FIXED[form])
        raise _damaged(f"form {form:#x} in a file table")

    # The program ---------------------------------------------------------------------------------
    def rows(self) -> list[tuple[int, SourceLine | None]]:
        """Run the line program."""
        c = self.cursor
        c.at = self.start
        rows: list[tuple[int, SourceLine | None]] = []
        sequence = _Sequence(self.files)
        while c.at < len(c.data):
            opcode = c.unsigned(1)
            if opcode >= self.opcode_base:
                special = opcode - self.opcode_base
                sequence.address += special // self.line_range * self.min_length
                sequence.line += self.line_base + special % self.line_range
                sequence.emit()
            elif opcode:
                self._standard(opcode, sequence)
            elif self._extended(sequence):
                rows += sequence.finished()
                sequence = _Sequence(self.files)
        return rows

    def _standard(self, opcode: int, sequence: _Sequence) -> None:
        c = self.cursor
        if opcode == 1:
            sequence.emit()
        elif opcode == 2:
            sequence.address += c.uleb() * self.min_length
        elif opcode == 3:
            sequence.line += c.sleb()
        elif opcode == 4:
            sequence.file = c.uleb()
        elif opcode == 5:
            sequence.column = c.uleb()
        elif opcode == 8:
            step = (255 - self.opcode_base) // self.line_range
            sequence.address += step * self.min_length
        elif opcode == 9:
            sequence.address += c.unsigned(2)
        else:  # flags and what later versions add: skip the operands
            for _ in range(self.lengths[opcode - 1]):
                c.uleb()

    def _extended(self, sequence: _Sequence) -> bool:
        """Run an extended opcode; return whether it ends the sequence."""
        c = self.cursor
        size = c.uleb()
        following = c.at + size
        opcode = c.unsigned(1)
        if opcode == 2:
            sequence.address = c.unsigned(size - 1)
        c.at = following
        return opcode == 1


class _Sequence:
    """Registers of the line state machine, and the rows of one sequence."""

    __slots__ = ("_files", "_rows", "address", "column", "file", "line")

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._rows: list[tuple[int, SourceLine | None]] = []
        self.address = 0
        self.file = 1
        self.line = 1
        self.column = 0

    def emit(self) -> None:
        if self.line:
            source: SourceLine | None = SourceLine(self._files[self.file], self.line, self.column)
        else:
            last = self._rows[-1][1] if self._rows else None
            source = last and SourceLine(last.file, last.line, last.column, exact=False)
        self._rows.append((self.address, source))

    def finished(self) -> list[tuple[int, SourceLine | None]]:
        """Return the rows; none for a function that the linker dropped (it begins at 0)."""
        if not self._rows or not self._rows[0][0]:
            return []
        return [*self._rows, (self.address, None)]


def _joined(directories: list[str], directory: int, name: str) -> str:
    folder = directories[directory]
    if name.startswith("/") or not folder:
        return name
    return f"{folder}/{name}"
