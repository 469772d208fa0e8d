"""The encodings of gfx11 and later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from decode_tables.probe import (
    WIDE_LITERAL,
    Choice,
    Printed,
    Probe,
    assignments,
    fill,
    match,
    parse,
)
from flydsl_emu.decode.rdna.layout import Layout, layouts
from flydsl_emu.decode.table import Entry, Slot

__all__ = ["entries"]

_LITERAL = 0x12345678
# How the constants 0.5 and 0x12345678 print in a source, and the style letter of that.
_STYLES = {
    ("0.5", "0x12345678"): "",
    ("0.5", "0x5678"): "f",
    ("0x3800", "0x5678"): "i",
    ("0x3f000000", "0x12345678"): "x",
}
# A pair of registers in whose place a constant is the bits of a 32-bit number.
_NARROW = "w"
# Numbers that the fields hold: distinct, and multiples of 16 for the widest register operands.
_NUMBERS = (16, 32, 48, 64, 80)
_SOURCES = ("src0", "src1", "src2", "ssrc0", "ssrc1")
_VECTOR_FORMATS = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3P")
# Control bits that some formats need for an opcode to be valid: VOP3P wants op_sel_hi.
_EXTRA_BITS = {"VOP3P": (1 << 14 | 3 << 59, 3 << 59, 1 << 14)}
# The same, tried last: v_cmpx wants EXEC as destination.
_LAST_BITS = {"VOP3": (126,)}
# gfx12's matrix products, which LLVM still disassembles for gfx1250 though it does not have them.
_LEFT_OVER = range(0x40, 0x5D)


def entries(arch: str, isa: str) -> Iterator[Entry]:
    """Yield the table of `arch` in order of format and opcode."""
    probe = Probe(arch)
    for name, layout in sorted(layouts(isa).items()):
        for opcode in range(1 << layout.opcode[1]):
            if name == "VOP2" and opcode >= 62:
                break
            entry = _entry(probe, isa, name, layout, opcode)
            if entry is not None and not entry.name.startswith("tbuffer"):
                yield entry
    for half in ("X", "Y"):
        yield from _dual(probe, half)
    if isa == "gfx1250":
        for half in ("X", "Y"):
            yield from _wide_dual(probe, half)


def _entry(probe: Probe, isa: str, form: str, layout: Layout, opcode: int) -> Entry | None:
    base = layout.base | opcode << layout.opcode[0]
    if form == "SOPK":
        return _sopk(probe, base, opcode)
    if form == "SOPP":
        return _sopp(probe, base, opcode)
    left_over = form == "VOP3P" and isa == "gfx1250" and opcode in _LEFT_OVER
    if left_over or (form == "SOP2" and opcode >= 96):
        return None
    if form == "SMEM":
        return _smem(probe, base, opcode)
    for extra in (*_EXTRA_BITS.get(form, ()), _preset(isa, form), 0, *_LAST_BITS.get(form, ())):
        for way in assignments(_choices(form, layout)):
            filled = fill(base | extra, layout.fields, way)
            printed = probe.printed(filled, layout.size, (_LITERAL,))
            if printed is None or printed.size != layout.size + _literal_size(printed):
                continue
            slots = match(_without_off(printed), way)
            if slots is None:
                continue
            if form == "VOP3":
                filled, printed, slots = _only_used(probe, base | extra, layout, way, slots)
            if form in _VECTOR_FORMATS or form.startswith("SOP"):
                crash = "barrier" in printed.name
                slots = [_styled(probe, filled, layout, i, s, crash) for i, s in enumerate(slots)]
            return Entry(form, opcode, printed.name, printed.encoding, tuple(slots))
    return None


def _only_used(
    probe: Probe,
    base: int,
    layout: Layout,
    way: Mapping[str, Choice | None],
    slots: list[Slot],
) -> tuple[int, Printed, list[Slot]]:
    """Probe again with unused fields zero: others make LLVM see whole registers as operands."""
    used = {s.field for s in slots}
    way = {name: choice if name in used else None for name, choice in way.items()}
    filled = fill(base, layout.fields, way)
    printed = probe.printed(filled, layout.size)
    found = match(_without_off(printed), way) if printed is not None else None
    if printed is None or found is None:
        raise RuntimeError(f"an opcode wants unused fields: {filled:#x}")
    return filled, printed, found


def _preset(isa: str, form: str) -> int:
    """Control bits that make every operand show: scratch addresses, buffer offsets."""
    if form == "FLAT1":
        return 1 << 55 if isa == "gfx11" else 1 << 49
    if form == "MUBUF":
        return 1 << 54 if isa == "gfx11" else 1 << 62
    return 0


def _literal_size(printed: Printed) -> int:
    """Return the bytes of the literal that the operands show."""
    if WIDE_LITERAL in printed.operands:
        return 8
    return 4 * any(o in ("0x12345678", "0x5678") for o in printed.operands)


def _without_off(printed: Printed) -> tuple[str, ...]:
    return tuple(o for o in printed.operands if o != "off")


def _choices(form: str, layout: Layout) -> dict[str, Sequence[Choice | None]]:
    out: dict[str, Sequence[Choice | None]] = {}
    for number, (name, (_, width)) in zip(_NUMBERS, layout.fields.items(), strict=False):
        vector, scalar = Choice("v", number, number), Choice("s", number, number)
        if name == "srsrc":
            out[name] = (Choice("s", number, number // 4 if width == 5 else number), None)
        elif name == "saddr":
            absent = Choice("off", 0, 124)
            out[name] = (absent, scalar) if form == "FLAT0" else (scalar, absent)
        elif width == 9:
            out[name] = (Choice("v", number, number + 256), scalar, None)
        elif name in ("sdst", "ssrc0", "ssrc1", "soff", "g0", "g1", "g2", "g3"):
            out[name] = (scalar, None)
        elif name == "vdst" and form in ("VOP1", "VOP3"):
            out[name] = (vector, scalar, None)
        else:
            out[name] = (vector, None)
    return out


def _styled(probe: Probe, filled: int, layout: Layout, at: int, slot: Slot, crashing: bool) -> Slot:
    """Add how constants print to the kind of a source slot; LLVM crashes on a barrier's literal."""
    if slot.field not in _SOURCES or slot.kind == "m" or crashing:
        return slot
    shift, width = layout.fields[slot.field]
    cleared = filled & ~(((1 << width) - 1) << shift)
    texts = []
    for code in (240, 255, 248):
        printed = probe.printed(cleared | code << shift, layout.size, (_LITERAL,))
        texts.append(printed.operands[at] if printed and len(printed.operands) > at else "")
    style = _STYLES.get((texts[0], texts[1]), "")
    if slot.count == 2 and texts[2] == "0.15915494" and slot.kind == "v":
        style = _NARROW
    return Slot(slot.field, slot.kind + style, slot.count)


def _sopk(probe: Probe, base: int, opcode: int) -> Entry | None:
    if opcode >= 29:
        return None
    printed = probe.printed(base | 16 << 16 | 0xFFF5, 4, (_LITERAL,))
    if printed is None:
        return None
    slots = []
    for text in printed.operands:
        if text in ("s16", "s[16:17]"):
            slots.append(Slot("sdst", "s", 1 if text == "s16" else 2))
        elif text == "0x12345678":
            slots.append(Slot("lit", "k", 1))
        elif text == "0xfff5":
            slots.append(Slot("imm", "x", 1))
        elif text == "65525":
            slots.append(Slot("imm", "k", 1))
        elif text.startswith("hwreg("):
            slots.append(Slot("imm", "r", 1))
    return Entry("SOPK", opcode, printed.name, "", tuple(slots))


def _sopp(probe: Probe, base: int, opcode: int) -> Entry | None:
    printed = probe.printed(base | 5, 4) or probe.printed(base, 4)
    if printed is None:
        return None
    kind = {"5": "k", "0x5": "x"}.get(" ".join(printed.operands))
    slots = (Slot("imm", kind, 1),) if kind else ()
    return Entry("SOPP", opcode, printed.name, "", slots)


def _smem(probe: Probe, base: int, opcode: int) -> Entry | None:
    way = {"sdata": Choice("s", 16, 16), "sbase": Choice("s", 48, 24), "soff": Choice("s", 32, 32)}
    filled = base | 16 << 6 | 24 | 32 << 57 | 0x44 << 32
    printed = probe.printed(filled, 8)
    if printed is None:
        return None
    slots = []
    for text in printed.operands:
        if text == "16":
            slots.append(Slot("sdata", "k", 1))
        elif text == "0x44":
            slots.append(Slot("imm", "k", 1))
        else:
            slots += match([text], way) or []
    return Entry("SMEM", opcode, printed.name, "", tuple(slots))


def _dual(probe: Probe, half: str) -> Iterator[Entry]:
    """Probe one half of dual instructions; the other half is a move."""
    own, other, bits = (22, 17, 4) if half == "X" else (17, 22, 5)
    move = 8
    fields = {"vdst": 18, "src0": 32 + 256, "vsrc1": 48}
    places = {"X": {"vdst": 56, "src0": 0, "vsrc1": 9}, "Y": {"vdst": 49, "src0": 32, "vsrc1": 41}}
    way = {k: Choice("v", v & 255, v) for k, v in fields.items()}
    rest = places["Y" if half == "X" else "X"]
    for opcode, second in product(range(1 << bits), (48, 0)):
        value = 0xC8000000 | opcode << own | move << other | (65 >> (half == "X")) << rest["vdst"]
        value |= (256 + 67) << rest["src0"] | fields["src0"] << places[half]["src0"]
        value |= second << places[half]["vsrc1"]
        value |= fields["vdst"] >> (half == "Y") << places[half]["vdst"]
        found = probe.raw(value, 8, (_LITERAL,))
        if found is None:
            continue
        size, text = found
        printed = parse(size, text.split(" :: ")[0 if half == "X" else 1])
        slots = match(printed.operands, way)
        if slots is not None and (second or len(slots) == 2):
            yield Entry(f"VOPD{half}", opcode, printed.name, printed.encoding, tuple(slots))


def _wide_dual(probe: Probe, half: str) -> Iterator[Entry]:
    """Probe one half of the 12-byte dual instructions of gfx1250; the other half is a move."""
    own, other = (18, 12) if half == "X" else (12, 18)
    places = {
        "X": {"src0": 0, "vsrc1": 48, "vsrc2": 56, "vdst": 64},
        "Y": {"src0": 32, "vsrc1": 72, "vsrc2": 80, "vdst": 88},
    }
    numbers = {"vdst": 16, "src0": 32, "vsrc1": 48, "vsrc2": 64}
    rest = places["Y" if half == "X" else "X"]
    for opcode, last in product(range(64), ("v", "s", "")):
        for second in (48, 0):
            way = {name: Choice("v", n, n) for name, n in numbers.items()}
            way["vsrc2"] = Choice(last, 64, 64)
            value = 0xCF000000 | opcode << own | 8 << other
            value |= (256 + 97) << rest["src0"] | 65 << rest["vdst"]
            value |= (256 + 32) << places[half]["src0"] | 16 << places[half]["vdst"]
            value |= second << places[half]["vsrc1"]
            value |= (64 if last else 0) << places[half]["vsrc2"]
            found = probe.raw(value, 12, (_LITERAL,))
            if found is None:
                continue
            printed = parse(found[0], found[1].split(" :: ")[0 if half == "X" else 1])
            slots = match(printed.operands, way)
            if slots is None or any(s.field == "vsrc2" and not last for s in slots):
                continue
            if last and "bitop" in printed.name:
                continue
            expected = 2 + bool(second) + bool(last)
            if len(slots) == expected:
                yield Entry(f"VOPD3{half}", opcode, printed.name, "", tuple(slots))
