"""Random well-formed encodings of gfx11 and later, with LLVM's text of each.

Bits that an opcode does not have must be zero; which it has is found by asking LLVM which bits
change the text of a plain encoding, so that the decoder under test has no say in it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flydsl_emu.decode.oracle import Disassembler
from flydsl_emu.decode.rdna.layout import Layout, layouts
from flydsl_emu.decode.table import ARCHITECTURES, Entry, Slot, load_table

__all__ = ["EncodingSource", "Sample"]

SCALARS = (*range(0, 104, 4), 1, 105, 106, 124, 125, 126, *range(108, 122, 4))
CONSTANTS = (*range(128, 209), *range(240, 249), 235, 236, 237, 238, 253)
WIDE_LITERAL = 254
LITERAL, DPP8, DPP8_FI, DPP16 = 255, 233, 234, 250
CONTROLS = (
    *range(0x100),
    *range(0x101, 0x110),
    *range(0x111, 0x120),
    *range(0x121, 0x130),
    0x140,
    0x141,
    *range(0x150, 0x170),
)
PADDING = 0xBF800000
_PATIENCE = 40
SHORT = ("VOP1", "VOP2", "VOPC")
VECTOR = (*SHORT, "VOP3", "VOP3P")
FLAT_BITS = {"gfx11": (*range(16), 55), "later": (7, *range(48, 55), *range(72, 96))}
BUFFER_BITS = {
    "gfx11": (*range(15), 53, 54, 55),
    "later": (7, 22, *range(50, 55), 62, 63, *range(72, 96)),
}
SCALAR_MEMORY_BITS = {
    "gfx11": (13, 14, *range(32, 53)),
    "later": (20, 21, 22, 23, 24, *range(32, 56)),
}
# Literals that inline constants could give.
NOTABLE = (0, 1, 64, 65, 0x3C00, 0xFFFFFFFF, 0xFFFFFFF0, 0xFFFFFFEF, 0x3F800000, 0x3E22F983)
# Opcodes with a literal of their own, which LLVM prints as the source's value too, and types whose
# literals LLVM prints by value.
UNUSUAL = ("fmamk", "fmaak", "bf16", "f64")
# LLVM 22 prints these wrong through DPP: it takes dpp_ctrl for the halves of the destination.
MIXED_UP = ("v_fma_mixlo", "v_fma_mixhi", "v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")


@dataclass(frozen=True, slots=True)
class Sample:
    """One instruction: its bytes with padding, and what LLVM says of it."""

    code: bytes
    size: int
    text: str


class EncodingSource:
    """Encodings of one architecture."""

    def __init__(self, arch: str, seed: str) -> None:
        self.isa = ARCHITECTURES[arch]
        self.table = load_table(arch)
        self._layouts = layouts(self.isa)
        self._oracle = Disassembler(arch)
        self._random = random.Random(f"{arch} {seed}")
        self._bits: dict[Entry, list[int]] = {}

    def samples(self, entry: Entry, count: int) -> Iterator[Sample]:
        """Yield `count` samples of an opcode; draws that LLVM calls invalid are dropped."""
        found = 0
        for _ in range(_PATIENCE * count):
            for sample in self._drawn(entry):
                found += 1
                yield sample
            if found == count:
                return

    def _drawn(self, entry: Entry) -> Iterator[Sample]:
        if entry.format.startswith("VOPD"):
            return self._checked(self._dual(entry), 12 if "D3" in entry.format else 8, entry)
        layout = self._layouts[entry.format]
        if entry not in self._bits:
            self._bits[entry] = self._modifier_bits(entry, layout)
        value = self._encoding(entry, layout, self._bits[entry])
        if "barrier" in entry.name and value & 255 == LITERAL:
            return iter(())  # LLVM crashes on it
        return self._checked(value, layout.size, entry)

    def _checked(self, value: int, size: int, entry: Entry) -> Iterator[Sample]:
        tail = (self._extra(value, entry), PADDING, PADDING, PADDING)
        code = value.to_bytes(size, "little") + struct.pack("<4I", *tail)
        used, text = self._oracle.first(code)
        if text is None or any(word in text for word in ("nvalid", "Warning", "INVALID")):
            return
        if "dpp" in text.split(" ")[0] and self._misprinted(entry, text):
            return
        yield Sample(code, used, " ".join(text.split()))

    @staticmethod
    def _misprinted(entry: Entry, text: str) -> bool:
        if "lit(" in text:
            return True  # a literal beside DPP, which no instruction has
        constant_fmac = entry.name.startswith("v_fmac") and "0x" in text.split("row", maxsplit=1)[0]
        return entry.name.startswith(MIXED_UP) or constant_fmac

    def _extra(self, value: int, entry: Entry) -> int:
        """The word after the encoding: a literal or DPP controls."""
        rng = self._random
        word = rng.getrandbits(32)
        if rng.random() < 0.2 and not any(part in entry.name for part in UNUSUAL):
            small = any(part in entry.name for part in ("16", "barrier"))
            word = rng.choice(NOTABLE[:4] if small else NOTABLE)
        place = 0 if entry.format in SHORT else 32
        if entry.format not in VECTOR or value >> place & 511 != DPP16:
            return word
        word = word & ~(511 << 8 | 15 << 20 | 3 << 16) | rng.choice(CONTROLS) << 8
        word |= rng.getrandbits(1) << 18
        plain = "class" in entry.name or "ldexp" in entry.name
        if entry.format in SHORT and entry.name.endswith(("f16", "f32")) and not plain:
            sources = {s.field for s in entry.slots}
            integer = (
                entry.name.startswith("v_cvt") and "_f" not in entry.name[5:].split("_", 1)[-1]
            )
            if (
                not integer
                and "_i" not in entry.name
                and "_u" not in entry.name
                and "ubyte" not in entry.name
            ):
                word |= rng.getrandbits(2) << 20
                word |= rng.getrandbits(2) << 22 if "vsrc1" in sources else 0
        return word

    def _encoding(self, entry: Entry, layout: Layout, bits: Sequence[int]) -> int:
        rng = self._random
        value = layout.base | entry.opcode << layout.opcode[0]
        for slot in entry.slots:
            if slot.field in layout.fields:
                shift, width = layout.fields[slot.field]
                value |= self._field(entry, slot, width) << shift
        if entry.format.startswith("FLAT") and "saddr" not in {s.field for s in entry.slots}:
            scalar = rng.choice(SCALARS) if self.isa == "gfx1250" and entry.slots else 124
            value |= scalar << layout.fields["saddr"][0]
        if entry.name.startswith("v_cmpx") and entry.format == "VOP3":
            value |= 126
        if entry.format == "VOP3P" and "_mix" not in entry.name and not self._has_formats(entry):
            value |= 1 << 14 | 3 << 59
            if self.isa == "gfx1250" and "mma" in entry.name and rng.random() < 0.5:
                value &= ~(1 << 14)
        draw = rng.random()
        if bits and 0.3 < draw < 0.7:
            value ^= 1 << rng.choice(bits)
        elif draw > 0.95:
            value ^= sum(1 << b for b in bits)
        elif draw > 0.7:
            value ^= sum(1 << b for b in bits if rng.random() < 0.5)
        fields = {s.field for s in entry.slots}
        if (
            entry.format in VECTOR
            and "src0" in fields
            and "mma" not in entry.name
            and rng.random() < 0.25
        ):
            shift = layout.fields["src0"][0]
            value = value & ~(511 << shift) | rng.choice((DPP8, DPP8_FI, DPP16)) << shift
        return self._formats(value) if self._has_formats(entry) else value

    @staticmethod
    def _has_formats(entry: Entry) -> bool:
        return entry.name.endswith("f8f6f4")

    def _formats(self, value: int) -> int:
        """Give an f8f6f4 product two of its five element formats; LLVM crashes on others."""
        first, second = self._random.randrange(5), self._random.randrange(5)
        value &= ~(15 << 11 | 3 << 59)
        return value | first << 11 | second >> 2 << 14 | (second & 3) << 59

    def _field(self, entry: Entry, slot: Slot, width: int) -> int:
        rng = self._random
        field, kind = slot.field, slot.kind
        wide = slot.count == 2 and entry.format not in ("VOP3P", "SOPC") and "fma" not in entry.name
        if field.startswith("g") and entry.format == "TENSOR":
            return rng.choice(range(0, 96, 4) if field < "g2" else (*range(0, 96, 4), 124))
        even = 0xFE if self.isa == "gfx1250" else 0xFF
        if "mma" in entry.name:
            return 256 * (width == 9) + (rng.randrange(230) & even)
        edge = rng.random() < 0.2
        if width >= 8 and edge and field[:2] not in ("sr", "ss", "so") and kind != "s":
            return rng.choice((0, 1, 127, 128, 254, 255))
        if width == 9 and edge and field.startswith("src"):
            return 256 + rng.choice((0, 1, 127, 128, 254, 255))
        if width == 9 and rng.random() < 0.5:
            return 256 + (rng.randrange(256) & even)
        if width == 9 or field.startswith("ssrc"):
            draw = rng.random()
            if draw < 0.1 and (field.endswith("0") or self.isa != "gfx1250"):
                return LITERAL
            if draw < 0.15 and self.isa == "gfx1250" and wide and field.endswith("0"):
                return WIDE_LITERAL
            return rng.choice(SCALARS) if draw < 0.6 else rng.choice(CONSTANTS)
        if width == 7 or kind == "s":
            return rng.choice(SCALARS)
        return rng.randrange(1 << width) & (even | ~0xFF)

    def _modifier_bits(self, entry: Entry, layout: Layout) -> list[int]:
        generation = "gfx11" if self.isa == "gfx11" else "later"
        form = entry.format
        if form.startswith("FLAT"):
            return list(FLAT_BITS[generation])
        fixed = {
            "MUBUF": BUFFER_BITS[generation],
            "SMEM": SCALAR_MEMORY_BITS[generation],
            "DS": range(16),
            "SOPK": range(16),
            "SOPP": range(16),
            "TENSOR": (4, 7, *range(50, 55)),
        }
        if form in fixed:
            return list(fixed[form])
        if form not in ("VOP3", "VOP3P"):
            return []
        return self._changing(entry, layout)

    def _changing(self, entry: Entry, layout: Layout) -> list[int]:
        """Bits that change the text of a plain instruction, other than in register names."""
        base = layout.base | entry.opcode << layout.opcode[0]
        if entry.format == "VOP3P" and "_mix" not in entry.name and not self._has_formats(entry):
            base |= 1 << 14 | 3 << 59
        if entry.name.startswith("v_cmpx"):
            base |= 126
        for slot in entry.slots:
            if slot.field in layout.fields:
                shift, width = layout.fields[slot.field]
                base |= (40 + 256 * (width == 9 and slot.kind[0] != "s")) << shift
        plain = self._text(base)
        if plain is None:
            return []
        found = []
        for bit in (*range(8, 16), *range(59, 64)):
            if entry.name.startswith("v_cmp") and bit in (13, 14):
                continue  # a third source and a vector destination, which comparisons do not have
            text = self._text(base ^ 1 << bit)
            same = text is not None and _halves(text) == _halves(plain)
            if text != plain and same:
                found.append(bit)
        return found

    def _text(self, value: int) -> str | None:
        text = self._oracle.first(value.to_bytes(8, "little") + bytes(16))[1]
        return None if text is None or "nvalid" in text else text

    def _dual(self, entry: Entry) -> int:
        """A dual instruction with `entry` as one half and a random other half."""
        rng = self._random
        wide = "D3" in entry.format
        x = entry if entry.format.endswith("X") else self._half(entry.format[:-1] + "X")
        y = entry if entry.format.endswith("Y") else self._half(entry.format[:-1] + "Y")
        pick = [rng.randrange(256) for _ in range(8)]
        sources = [self._field(entry, Slot("src0", "v", 1), 9) for _ in range(2)]
        second = [p if len(h.slots) > 2 else 0 for p, h in zip(pick, (x, y), strict=False)]
        if not wide:
            value = 0xC8000000 | x.opcode << 22 | y.opcode << 17 | sources[0] | second[0] << 9
            return value | sources[1] << 32 | second[1] << 41 | pick[2] >> 1 << 49 | pick[3] << 56
        third = [self._third(h) for h in (x, y)]
        value = 0xCF000000 | x.opcode << 18 | y.opcode << 12 | sources[0]
        value |= (sources[1] | second[0] << 16 | third[0] << 24) << 32
        return value | (pick[4] | second[1] << 8 | third[1] << 16 | pick[5] << 24) << 64

    def _half(self, form: str) -> Entry:
        return self._random.choice(list(self.table[form].values()))

    def _third(self, entry: Entry) -> int:
        if len(entry.slots) > 3 or "bitop2" in entry.name:
            scalar = len(entry.slots) > 3 and entry.slots[3].kind == "s"
            return self._random.randrange(106 if scalar else 256)
        return 0


def _halves(text: str) -> int:
    return text.count(".l") + text.count(".h")
