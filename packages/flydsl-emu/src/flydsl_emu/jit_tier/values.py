"""Values of the generated code: LLVM names with an element type."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from flydsl_emu.semantics.value_types import Type

__all__ = ["IrValue", "element_text", "literal", "literal_of_bits"]

_ELEMENTS = {
    "b1": "i1",
    "u8": "i8",
    "i8": "i8",
    "u16": "i16",
    "i16": "i16",
    "u32": "i32",
    "i32": "i32",
    "u64": "i64",
    "i64": "i64",
    "f16": "half",
    "f32": "float",
    "f64": "double",
}


def element_text(type: Type) -> str:
    """Return the LLVM type of one element."""
    return _ELEMENTS[type.name]


@dataclass(frozen=True, slots=True)
class IrValue:
    """A value of the vector API in generated code.

    Attributes:
        text: LLVM name, or a literal.
        type: Element type.
        uniform: One element a wave rather than one a lane.
        constant: `text` is a literal.
    """

    text: str
    type: Type
    uniform: bool
    constant: bool = False


def literal(type: Type, value: float) -> str:
    """Return the LLVM literal of a number; integers are taken modulo the type's width."""
    if type.kind == "b":
        return "true" if value else "false"
    if type.kind != "f":
        return str(int(value) & ((1 << type.bits) - 1))
    return literal_of_bits(type, _float_bits(type, float(value)))


def literal_of_bits(type: Type, bits: int) -> str:
    """Return the LLVM literal whose representation is `bits`."""
    if type.kind != "f":
        return str(bits)
    if type.bits == 16:
        return f"0xH{bits:04X}"
    if type.bits == 64:
        return f"0x{bits:016X}"
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF and mantissa and not mantissa >> 22:
        # A signalling NaN: LLVM would make it quiet on the way through its double notation.
        return f"bitcast (i32 {bits} to float)"
    if exponent == 0xFF:
        wide = (bits >> 31) << 63 | 0x7FF << 52 | mantissa << 29
    else:
        (number,) = struct.unpack("<f", struct.pack("<I", bits))
        (wide,) = struct.unpack("<Q", struct.pack("<d", number))
    return f"0x{wide:016X}"


def _float_bits(type: Type, value: float) -> int:
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8 << 48}[type.bits]
    form, word = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[type.bits]
    try:
        packed = struct.pack(form, value)
    except OverflowError:
        packed = struct.pack(form, float("inf") if value > 0 else float("-inf"))
    return int(struct.unpack(word, packed)[0])
