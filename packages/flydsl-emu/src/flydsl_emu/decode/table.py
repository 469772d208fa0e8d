"""Decode tables: (format, opcode) to mnemonic and operands.

A table is a text file in ``decode/data``, one line an opcode::

    VOP2 1 v_add_f32 e32 vdst:v1 src0:v1 vsrc1:v1
    VOP2 25 v_add_co_u32 e32 vdst:v1 =vcc2 src0:v1 vsrc1:v1

The columns are format, opcode, mnemonic, encoding suffix (``-`` for none) and the operands in
assembler order. An operand is ``field:`` and kind with count, or ``=`` and a fixed register with
count. ``tools/decode_tables`` writes these files by probing LLVM.

Kinds are ``v`` vector, ``a`` accumulation and ``s`` scalar registers, ``h`` halves of vector
registers, and immediate fields: ``k`` decimal, ``x`` hexadecimal, ``q`` 64-bit literal, ``m``
message, ``r`` hardware register. A letter after the kind of a source says how its constants print:
``f`` numbers of 16 bits, ``i`` patterns of 16 bits, ``x`` patterns of 32 bits, ``w`` numbers of 32
bits in a pair of registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from flydsl.errors import TargetError

__all__ = ["ARCHITECTURES", "SAME_TABLE", "Entry", "Slot", "load_table", "parse_table"]

# Architectures by instruction set; those of one line that share a table name it.
ARCHITECTURES = {
    "gfx942": "gfx9",
    "gfx950": "gfx9",
    "gfx1100": "gfx11",
    "gfx1101": "gfx11",
    "gfx1102": "gfx11",
    "gfx1103": "gfx11",
    "gfx1151": "gfx11",
    "gfx1200": "gfx12",
    "gfx1201": "gfx12",
    "gfx1250": "gfx1250",
}
SAME_TABLE = {
    "gfx1101": "gfx1100",
    "gfx1102": "gfx1100",
    "gfx1103": "gfx1100",
    "gfx1200": "gfx1201",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one operand comes from: an encoding field, or a fixed register (field ``"="``)."""

    field: str
    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One opcode of one format."""

    format: str
    opcode: int
    name: str
    encoding: str
    slots: tuple[Slot, ...]

    def line(self) -> str:
        """Return the table line of this entry."""
        slots = (
            f"={s.kind}{s.count}" if s.field == "=" else f"{s.field}:{s.kind}{s.count}"
            for s in self.slots
        )
        head = f"{self.format} {self.opcode} {self.name} {self.encoding or '-'}"
        return " ".join((head, *slots))


def parse_table(text: str) -> dict[str, dict[int, Entry]]:
    """Return the entries of a table by format and opcode; ``#`` starts a comment line."""
    table: dict[str, dict[int, Entry]] = {}
    slots: dict[str, Slot] = {}
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        form, opcode, name, encoding, *words = line.split(" ")
        for word in words:
            if word not in slots:
                slots[word] = _slot(word)
        entry = Entry(
            form,
            int(opcode),
            name,
            "" if encoding == "-" else encoding,
            tuple([slots[w] for w in words]),
        )
        table.setdefault(form, {})[entry.opcode] = entry
    return table


def _slot(word: str) -> Slot:
    if word[0] == "=":
        name = word[1:].rstrip("0123456789")
        return Slot("=", name, int(word[1 + len(name) :]))
    field, rest = word.split(":")
    kind = rest.rstrip("0123456789")
    return Slot(field, kind, int(rest[len(kind) :]))


@cache
def load_table(arch: str) -> Mapping[str, Mapping[int, Entry]]:
    """Return the table of `arch`.

    Raises:
        TargetError: There is none.
    """
    if arch not in ARCHITECTURES:
        raise TargetError(
            "the emulator has no decode table for this architecture",
            code="FLY-T702",
            value=arch,
            allowed=", ".join(ARCHITECTURES),
        )
    data = files("flydsl_emu.decode").joinpath("data", f"{SAME_TABLE.get(arch, arch)}.txt")
    return parse_table(data.read_text(encoding="ascii"))
