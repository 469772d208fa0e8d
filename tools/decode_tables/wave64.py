"""The encodings of gfx9: CDNA3 and CDNA4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from decode_tables.probe import Choice, Probe, assignments, fill, match
from flydsl_emu.decode.rdna.layout import Layout
from flydsl_emu.decode.table import Entry, Slot

__all__ = ["entries"]

_LITERAL = 0x12345678
_VOP3 = {"vdst": (0, 8), "sdst": (8, 7), "src0": (32, 9), "src1": (41, 9), "src2": (50, 9)}
_FLAT = {"vdst": (56, 8), "addr": (32, 8), "data": (40, 8), "saddr": (48, 7)}
_LAYOUTS = {
    "SOP1": Layout(0xBE800000, (8, 8), 4, {"sdst": (16, 7), "ssrc0": (0, 8)}),
    "SOP2": Layout(0x80000000, (23, 7), 4, {"sdst": (16, 7), "ssrc0": (0, 8), "ssrc1": (8, 8)}),
    "SOPC": Layout(0xBF000000, (16, 7), 4, {"ssrc0": (0, 8), "ssrc1": (8, 8)}),
    "SOPK": Layout(0xB0000000, (23, 5), 4, {"sdst": (16, 7)}),
    "SOPP": Layout(0xBF800000, (16, 7), 4, {}),
    "SMEM": Layout(0xC0020000, (18, 8), 8, {"sdata": (6, 7), "sbase": (0, 6)}),
    "VOP1": Layout(0x7E000000, (9, 8), 4, {"vdst": (17, 8), "src0": (0, 9)}),
    "VOP2": Layout(0x00000000, (25, 6), 4, {"vdst": (17, 8), "src0": (0, 9), "vsrc1": (9, 8)}),
    "VOPC": Layout(0x7C000000, (17, 8), 4, {"src0": (0, 9), "vsrc1": (9, 8)}),
    "VOP3": Layout(0xD0000000, (16, 10), 8, _VOP3),
    "VOP3P": Layout(0xD3800000, (16, 7), 8, {k: v for k, v in _VOP3.items() if k != "sdst"}),
    "DS": Layout(
        0xD8000000, (17, 8), 8, {"vdst": (56, 8), "addr": (32, 8), "d0": (40, 8), "d1": (48, 8)}
    ),
    "FLAT0": Layout(0xDC000000, (18, 7), 8, _FLAT),
    "FLAT1": Layout(0xDC006000, (18, 7), 8, _FLAT),
    "FLAT2": Layout(0xDC008000, (18, 7), 8, _FLAT),
    "MTBUF": Layout(
        0xE8080000,
        (15, 4),
        8,
        {"vdata": (40, 8), "vaddr": (32, 8), "srsrc": (48, 5), "soff": (56, 8)},
    ),
    "MUBUF": Layout(
        0xE0000000,
        (18, 7),
        8,
        {"vdata": (40, 8), "vaddr": (32, 8), "srsrc": (48, 5), "soff": (56, 8)},
    ),
}
# Control bits to try before none: a buffer's address shows with an offset in a register.
_EXTRA_BITS = {"MUBUF": (1 << 12,), "MTBUF": (1 << 12,)}
# Numbers that the fields hold: distinct, and multiples of 16 for the widest register operands.
_NUMBERS = (16, 32, 48, 64, 80)
# Not an instruction of its own: it gives a product its scales.
_PREFIXES = ("v_mfma_ld_scale_b32",)
# The opcodes that other encodings use.
_LIMITS = {"VOP2": 62, "SOP2": 96, "SOPK": 29, "VOP3": 896}


def entries(arch: str) -> Iterator[Entry]:
    """Yield the table of `arch` by format, in order of opcode."""
    probe = Probe(arch)
    for name, layout in _LAYOUTS.items():
        for opcode in range(_LIMITS.get(name, 1 << layout.opcode[1])):
            entry = _entry(probe, name, layout, opcode)
            if entry is not None and entry.name not in _PREFIXES:
                yield entry


def _entry(probe: Probe, form: str, layout: Layout, opcode: int) -> Entry | None:
    base = layout.base | opcode << layout.opcode[0]
    if form in ("SOPK", "SOPP"):
        return _immediate(probe, form, base, opcode)
    if form == "SMEM":
        base |= 0x44 << 32
    for extra in (*_EXTRA_BITS.get(form, ()), 0):
        for way in assignments(_choices(form, layout)):
            filled = fill(base | extra, layout.fields, way)
            printed = probe.printed(filled, layout.size, (_LITERAL,))
            literal = printed is not None and "0x12345678" in printed.operands
            if printed is None or printed.size != layout.size + 4 * literal:
                continue
            texts = tuple(o for o in printed.operands if o not in ("off", "0x0"))
            slots = _offsets(texts, form) or match(texts, way)
            if slots is not None:
                return Entry(form, opcode, printed.name, printed.encoding, tuple(slots))
    return None


def _offsets(texts: Sequence[str], form: str) -> list[Slot] | None:
    """Return the slots of a scalar memory instruction, whose offset is 0x44."""
    if form != "SMEM" or "0x44" not in texts:
        return None
    way = {"sdata": Choice("s", 16, 16), "sbase": Choice("s", 32, 16)}
    slots = []
    for text in texts:
        if text == "0x44":
            slots.append(Slot("off", "i", 1))
        elif text == "16":
            slots.append(Slot("sdata", "k", 1))
        else:
            slots += match([text], way) or []
    return slots


def _choices(form: str, layout: Layout) -> dict[str, Sequence[Choice | None]]:
    out: dict[str, Sequence[Choice | None]] = {}
    for number, (name, (_, width)) in zip(_NUMBERS, layout.fields.items(), strict=False):
        vector, scalar = Choice("v", number, number), Choice("s", number, number)
        if name == "srsrc":
            out[name] = (Choice("s", number, number // 4), None)
        elif name == "sbase":
            out[name] = (Choice("s", number, number // 2), None)
        elif name == "saddr":
            out[name] = (None,) if form == "FLAT0" else (scalar, Choice("off", 0, 127))
        elif width == 9:
            out[name] = (Choice("v", number, number + 256), scalar, None)
        elif name in ("sdst", "ssrc0", "ssrc1", "soff", "sdata"):
            out[name] = (scalar, None)
        elif name == "vdst" and form in ("VOP1", "VOP3"):
            out[name] = (vector, scalar, None)
        else:
            out[name] = (vector, None)
    return out


def _immediate(probe: Probe, form: str, base: int, opcode: int) -> Entry | None:
    """Probe an instruction with a 16-bit immediate."""
    way = {"sdst": Choice("s", 16, 16)}
    filled = base | (16 << 16 if form == "SOPK" else 0)
    printed = probe.printed(filled | 5, 4, (_LITERAL,)) or probe.printed(filled, 4)
    if printed is None:
        return None
    slots: list[Slot] = []
    if form == "SOPK" and len(printed.operands) == 2 and "hwreg" not in "".join(printed.operands):
        slots = [*(match(printed.operands[:1], way) or []), Slot("imm", "i", 1)]
    return Entry(form, opcode, printed.name, "", tuple(slots))
