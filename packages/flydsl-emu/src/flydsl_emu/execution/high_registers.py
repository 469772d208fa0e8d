"""Vector registers above 255 (gfx1250): s_set_vgpr_msb gives the upper bits of those that follow.

Its immediate holds two bits for each place of a register in an instruction: bits 0 and 1 for the
first source or the address, 2 and 3 for the second source or the data, 4 and 5 for the third source
or second data, 6 and 7 for the destination (LLVM's encoding of these registers). Compilers keep to
one setting at each place of the code, so it is applied in address order.

``s_setreg_imm32_b32`` of the mode register sets them too, from bits 12 to 19 of its literal and
with the destination's first, whichever field it writes; LLVM makes use of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.layout import Layout

__all__ = ["with_high_registers"]

_SETTING = "s_set_vgpr_msb"
_SETREG = "s_setreg_imm32_b32"
_MODE = 1
_DESTINATION = 3
_BANK = 256


def with_high_registers(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return instructions whose vector registers have their whole numbers."""
    if all(i.name != _SETTING for i in instructions):
        return list(instructions)
    out = []
    setting = 0
    for i in instructions:
        if i.name == _SETTING:
            setting = i.mod("simm16") & 0xFF
        elif i.name == _SETREG and i.mod("hwreg") & 63 == _MODE:
            given = int(i.operands[-1].value) >> 12 & 0xFF
            setting = given >> 2 | (given & 3) << 6
        out.append(_moved(i, setting) if setting else i)
    return out


def _moved(i: Instruction, setting: int) -> Instruction:
    if i.parts:
        parts = tuple(_moved(part, setting) for part in i.parts)
        operands = tuple(o for part in parts for o in part.operands)
        return replace(i, parts=parts, operands=operands[: len(i.operands)])
    places = _places(i)
    operands = tuple(
        _raised(o, setting >> 2 * places[n] & 3) if n < len(places) else o
        for n, o in enumerate(i.operands)
    )
    return replace(i, operands=operands)


def _raised(operand: Operand, bank: int) -> Operand:
    if operand.kind != "v" or not bank:
        return operand
    return replace(operand, index=operand.index + _BANK * bank)


def _places(i: Instruction) -> list[int]:
    """Return the place in the setting of each operand."""
    semantics = find(i.name)
    if semantics is None:
        return []
    if i.format == "MUBUF":
        return [_DESTINATION, 0]
    layout = Layout(i, semantics)
    results = sum(layout.result(k) is not None for k in range(len(semantics.results)))
    results -= sum(token.startswith("both") for token in semantics.results)
    sources = len(i.operands) - results
    return [_DESTINATION] * results + list(range(min(sources, 3)))
