"""Operands of instructions as values of the vector API."""

from __future__ import annotations

import struct

from flydsl_emu.decode.instruction import EXEC, SCC, VCC, Operand
from flydsl_emu.jit_tier.memory import JitMachine
from flydsl_emu.jit_tier.registers import Registers
from flydsl_emu.jit_tier.values import IrValue, literal_of_bits
from flydsl_emu.semantics.bits import join64
from flydsl_emu.semantics.value_types import B1, F64, U16, U32, U64, Type

__all__ = ["Operands"]

_CONDITIONS = (251, 252, SCC)


class Operands:
    """Reads and writes operands of one wave.

    Args:
        v: Vector API.
        registers: Register file.
    """

    def __init__(self, v: JitMachine, registers: Registers) -> None:
        self.v = v
        self.registers = registers

    # Reading -------------------------------------------------------------------------------------
    def raw(self, operand: Operand, at: int = 0) -> IrValue:
        """Return one dword of an operand."""
        if operand.kind == "s" and operand.index in (251, 252):
            first = VCC if operand.index == 251 else EXEC
            empty = self.v.eq(self.registers.mask_bits(first), 0)
            return self.v.convert(empty, U32)
        if not is_constant(operand):
            return self.registers.word(operand, at)
        return self.v.const(U32, constant_word(operand, at))

    def typed(self, operand: Operand, type: Type, half: int = 0) -> IrValue:
        """Return an operand as an element type, without modifiers."""
        if is_constant(operand):
            bits = constant_bits(operand, type, half)
            return IrValue(literal_of_bits(type, bits), type, True, True)
        if type.bits == 64:
            return self.v.cast(self._wide(operand), type)
        word = self.raw(operand)
        if type.bits == 32:
            return self.v.cast(word, type)
        if half:
            word = self.v.shr(word, 16)
        return self.v.cast(self.v.convert(word, U16), type)

    def _wide(self, operand: Operand) -> IrValue:
        low = self.raw(operand)
        if operand.kind == "s" and operand.index in _CONDITIONS:
            return self.v.convert(low, U64)
        both: IrValue = join64(self.v, low, self.raw(operand, 1))
        return both

    def condition(self) -> IrValue:
        """Return SCC."""
        return self.v.ne(self.registers.read("s", SCC), 0)

    def mask(self, operand: Operand) -> IrValue:
        """Return scalar registers (or a constant) as a lane mask."""
        if is_constant(operand):
            return self.v.lanes(self.v.const(U64, int(operand.value)))
        return self.registers.mask(operand.index)

    def words(self, operand: Operand) -> list[IrValue] | None:
        """Return the dwords of an operand; None for an absent address."""
        if operand.kind == "off":
            return None
        if is_constant(operand) and operand.count > 2:
            # The accumulator of a matrix instruction: the constant counts for every register.
            return [self.typed(operand, U32)] * operand.count
        return [self.raw(operand, k) for k in range(operand.count)]

    # Writing -------------------------------------------------------------------------------------
    def write(self, operand: Operand, x: IrValue, masked: bool = True) -> None:
        """Write a value 32 or 64 bits wide."""
        v = self.v
        if x.type.bits == 32:
            self.registers.write(operand.kind, operand.index, v.cast(x, U32), masked)
            return
        wide = v.cast(x, U64)
        self.write_word(operand, 0, v.convert(wide, U32), masked)
        self.write_word(operand, 1, v.convert(v.shr(wide, 32), U32), masked)

    def write_word(self, operand: Operand, at: int, x: IrValue, masked: bool = True) -> None:
        """Write one dword of an operand."""
        index = operand.index
        if not (operand.kind == "s" and index == 125):
            index += at
        self.registers.write(operand.kind, index, self.v.cast(x, U32), masked)

    def write_mask(self, index: int, mask: IrValue) -> None:
        """Write a lane mask to scalar registers; idle lanes give 0."""
        busy = self.v.bit_and(self.v.spread(mask), self.registers.exec())
        bits = self.v.ballot(busy)
        self.registers.write_bits(index, bits)

    def write_condition(self, x: IrValue) -> None:
        """Write SCC."""
        self.registers.write("s", SCC, self.v.convert(self.v.cast(x, B1), U32))


# Constants ---------------------------------------------------------------------------------------
def is_constant(operand: Operand) -> bool:
    """Return whether an operand is a value, not a register."""
    return operand.constant or operand.kind == "q"


def constant_word(operand: Operand, at: int) -> int:
    """Return one dword of a constant operand."""
    if operand.kind == "f":
        if operand.count == 2:
            return _float_bits(float(operand.value), 64) >> 32 * at & 0xFFFFFFFF
        return _float_bits(float(operand.value), 32)
    value = int(operand.value)
    if at and operand.kind != "q":
        return 0xFFFFFFFF if value < 0 else 0
    return value >> 32 * at & 0xFFFFFFFF


def constant_bits(operand: Operand, type: Type, half: int) -> int:
    """Return the representation of a constant operand as an element type."""
    value = operand.value
    if operand.kind == "f":
        if type.bits == 16:
            return _float_bits(0.0 if half else float(value), 16)
        if half and type.kind == "f":
            return 0
        return _float_bits(float(value), type.bits)
    integer = int(value) >> (16 if half else 0)
    if operand.kind == "l" and type.bits == 64:
        if type is F64:
            return integer << 32 & (1 << 64) - 1
        if type.kind == "i":
            integer = (integer ^ 0x80000000) - 0x80000000
    return integer & (1 << type.bits) - 1


def _float_bits(value: float, bits: int) -> int:
    form, word = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[bits]
    return int(struct.unpack(word, struct.pack(form, value))[0])
