"""The decoder: bytes to instructions, by the tables of `flydsl_emu.decode.table`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from flydsl.errors import TargetError
from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.decode.memory import decode_ds, decode_flat, decode_mtbuf, decode_mubuf, decode_smem
from flydsl_emu.decode.rdna.decoder import decoder_of
from flydsl_emu.decode.scalar import decode_sop, decode_sopk, decode_sopp
from flydsl_emu.decode.sources import DecodeError
from flydsl_emu.decode.table import ARCHITECTURES, Entry, load_table
from flydsl_emu.decode.vector import decode_vop3, decode_vop3p, decode_vop_short

__all__ = ["decode", "decode_one"]

# VOP3P opcode of the prefix that gives an f8f6f4 MFMA its scales.
_SCALE_PREFIX = 0x2C

_Decode = Callable[[Sequence[int], int, int], Instruction]
_Wide = Callable[[Entry, int, int, int], Instruction]
_WIDE: Mapping[int, tuple[str, int, int, _Wide]] = {
    0x36: ("DS", 17, 255, decode_ds),
    0x38: ("MUBUF", 18, 127, decode_mubuf),
    0x3A: ("MTBUF", 15, 15, decode_mtbuf),
    0x30: ("SMEM", 18, 255, decode_smem),
}


def decode(arch: str, code: bytes, base: int = 0) -> list[Instruction]:
    """Decode all instructions of `code`, whose first byte has address `base`.

    Raises:
        TargetError: No table for `arch`, or bytes that are no instruction.
    """
    step = _decoder(arch)
    count = len(code) // 4
    words = (*struct.unpack(f"<{count}I", code[: count * 4]), 0, 0, 0)
    out: list[Instruction] = []
    append = out.append
    at = 0
    while at < count:
        instruction = _checked(step, words, at, base + 4 * at)
        append(instruction)
        at += instruction.size >> 2
    return out


def decode_one(arch: str, code: bytes, pc: int = 0) -> Instruction:
    """Decode the first instruction of `code`.

    Raises:
        TargetError: No table for `arch`, or bytes that are no instruction.
    """
    padded = code[:16] + bytes(28)
    return _checked(_decoder(arch), struct.unpack("<7I", padded[:28]), 0, pc)


def _decoder(arch: str) -> _Decode:
    isa = ARCHITECTURES.get(arch)
    if isa is not None and isa != "gfx9":
        return decoder_of(arch, isa)
    return partial(_dispatch, load_table(arch))


def _checked(step: _Decode, words: Sequence[int], at: int, pc: int) -> Instruction:
    word = words[at]
    try:
        return step(words, at, pc)
    except (KeyError, DecodeError) as error:
        raise TargetError(
            f"no instruction at {pc:#x}: {error}",
            code="FLY-T703",
            value=f"{word:#010x} {words[at + 1]:#010x}",
        ) from error


def _dispatch(
    table: Mapping[str, Mapping[int, Entry]], words: Sequence[int], at: int, pc: int
) -> Instruction:
    word, second = words[at], words[at + 1]
    if not word >> 31:
        high = word >> 25
        if high == 0x3F:
            return decode_vop_short(table["VOP1"][word >> 9 & 255], word, second, pc)
        if high == 0x3E:
            return decode_vop_short(table["VOPC"][word >> 17 & 255], word, second, pc)
        return decode_vop_short(table["VOP2"][high], word, second, pc)
    top = word >> 26
    if top == 0x34:
        if word >> 23 & 7 != 7:
            return decode_vop3(table["VOP3"][word >> 16 & 1023], word, second, pc)
        opcode = word >> 16 & 127
        if opcode == _SCALE_PREFIX and opcode not in table["VOP3P"]:
            inner, last = words[at + 2], words[at + 3]
            entry = table["VOP3P"][inner >> 16 & 127]
            return decode_vop3p(entry, inner, last, pc, (word, second))
        return decode_vop3p(table["VOP3P"][opcode], word, second, pc)
    if top == 0x37:
        entry = table[f"FLAT{word >> 14 & 3}"][word >> 18 & 127]
        return decode_flat(entry, word, second, pc)
    if top in _WIDE:
        form, shift, mask, function = _WIDE[top]
        return function(table[form][word >> shift & mask], word, second, pc)
    family = word >> 23
    if family == 0x17D:
        return decode_sop(table["SOP1"][word >> 8 & 255], word, second, pc)
    if family == 0x17E:
        return decode_sop(table["SOPC"][word >> 16 & 127], word, second, pc)
    if family == 0x17F:
        return decode_sopp(table["SOPP"][word >> 16 & 127], word, pc)
    if word >> 28 == 0xB:
        return decode_sopk(table["SOPK"][word >> 23 & 31], word, second, pc)
    return decode_sop(table["SOP2"][word >> 23 & 127], word, second, pc)
