"""Disassembling probes and reading operands off their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from flydsl_emu.decode.oracle import Disassembler
from flydsl_emu.decode.table import Slot

__all__ = ["WIDE_LITERAL", "Choice", "Printed", "Probe", "assignments", "fill", "match", "parse"]

# Follows every probe, so that literals and DPP words have something to read: s_nop 0.
_PADDING = (0xBF800000).to_bytes(4, "little") * 4
# How the literal 0x12345678 and a padding word print as one number.
WIDE_LITERAL = "0xbf80000012345678"
_REGISTER = re.compile(r"(ttmp|[vas])(?:(\d+)|\[(\d+):(\d+)\])(\.[lh])?")
_ENCODINGS = ("e64_dpp", "e32", "e64", "dpp", "sdwa")
_COMMA = re.compile(r",\s*(?![^(\[]*[)\]])")
# First word of what follows the operands.
_MODIFIER = re.compile(
    r" (?=[a-z_0-9]+:|clamp|offen|idxen|gds|glc|slc|dlc|tfe|lds|sc0|sc1|nt\b|matrix_|r128)"
)


@dataclass(frozen=True, slots=True)
class Printed:
    """The text of one instruction, taken apart.

    Attributes:
        size: Bytes.
        name: Mnemonic without encoding suffix.
        encoding: The suffix, or empty.
        operands: Operand texts.
        modifiers: The rest of the line.
    """

    size: int
    name: str
    encoding: str
    operands: tuple[str, ...]
    modifiers: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What one field holds in a probe: register `index` of file `kind`, encoded as `bits`."""

    kind: str
    index: int
    bits: int


class Probe:
    """LLVM's disassembler for one architecture, with parsed results."""

    def __init__(self, arch: str) -> None:
        self._oracle = Disassembler(arch)

    def raw(self, value: int, size: int, tail: Sequence[int] = ()) -> tuple[int, str] | None:
        """Return size and text of an encoding, followed by the words of `tail`; None if invalid."""
        code = value.to_bytes(size, "little") + b"".join(w.to_bytes(4, "little") for w in tail)
        used, text = self._oracle.first(code + _PADDING)
        if text is None or "nvalid" in text or "Warning" in text:
            return None
        return used, text

    def printed(self, value: int, size: int, tail: Sequence[int] = ()) -> Printed | None:
        """Return the parsed text of an encoding; None if invalid."""
        found = self.raw(value, size, tail)
        return None if found is None else parse(*found)


def parse(size: int, text: str) -> Printed:
    """Take the text of one instruction apart."""
    name, _, rest = text.partition(" ")
    encoding = next((e for e in _ENCODINGS if name.endswith("_" + e)), "")
    if encoding:
        name = name[: -len(encoding) - 1]
    rest = " " + rest.strip() if rest.strip() else ""
    found = _MODIFIER.search(rest)
    modifiers = rest[found.start() :] if found else ""
    rest = rest[: found.start()] if found else rest
    operands = tuple(_COMMA.split(rest.strip())) if rest.strip() else ()
    return Printed(size, name, encoding, operands, modifiers.strip())


def assignments(
    fields: Mapping[str, Sequence[Choice | None]],
) -> Iterator[dict[str, Choice | None]]:
    """Yield every way to fill the fields, those that leave fewest at zero first."""
    names = list(fields)
    every = [dict(zip(names, values, strict=True)) for values in product(*fields.values())]
    every.sort(key=lambda way: sum(c is None for c in way.values()))
    yield from every


def fill(base: int, fields: Mapping[str, tuple[int, int]], way: Mapping[str, Choice | None]) -> int:
    """Return `base` with the choices put into those of its fields that exist."""
    for name, choice in way.items():
        if choice is not None and name in fields:
            base |= choice.bits << fields[name][0]
    return base


def match(operands: Sequence[str], way: Mapping[str, Choice | None]) -> list[Slot] | None:
    """Return the slots that the operand texts show, or None if one cannot be explained."""
    slots = []
    for text in operands:
        slot = _slot(text, way)
        if slot is None:
            return None
        slots.append(slot)
    return slots


def _slot(text: str, way: Mapping[str, Choice | None]) -> Slot | None:
    found = _REGISTER.fullmatch(text)
    if found is None:
        if text.startswith("sendmsg("):
            return Slot("ssrc0", "m", 1)
        return Slot("ssrc1", "k", 8) if text.startswith("gpr_idx(") else _fixed(text)
    kind, single, first, last, half = found.groups()
    index = int(single if single is not None else first)
    count = 1 if single is not None else int(last) - index + 1
    for field, choice in way.items():
        if choice is None or choice.index != index:
            continue
        # An opcode of accumulation registers prints a vector register as one.
        if choice.kind == kind or (choice.kind, kind) == ("v", "a"):
            return Slot(field, "h" if half else kind, count)
    return None


def _fixed(text: str) -> Slot | None:
    literals = {"0x12345678": ("k", 1), "0x5678": ("kf", 1), WIDE_LITERAL: ("q", 2)}
    if text in literals:
        return Slot("lit", *literals[text])
    names = {"vcc": ("vcc", 2), "exec": ("exec", 2), "m0": ("m0", 1), "scc": ("scc", 1)}
    names |= {"vcc_lo": ("vcc", 1), "exec_lo": ("exec", 1), "flat_scratch": ("flat_scratch", 2)}
    if text not in names:
        return None
    return Slot("=", *names[text])
