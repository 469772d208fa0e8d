"""Registers of the wave in generated code: loaded once a block, stored at its end."""

from __future__ import annotations

from flydsl_emu.decode.instruction import EXEC, NULL, Operand
from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.jit_tier.context import WaveLayout
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics.value_types import B1, U32, U64

__all__ = ["Registers"]

Key = tuple[str, int]


class Registers:
    """The register file behind ``%state``.

    Args:
        v: Vector API.
        layout: Where registers lie.

    Attributes:
        full: All lanes are known to execute.
    """

    def __init__(self, v: Arithmetic, layout: WaveLayout) -> None:
        self.v = v
        self.layout = layout
        self._values: dict[Key, IrValue] = {}
        self._dirty: set[Key] = set()
        self.full = False

    # Addresses -----------------------------------------------------------------------------------
    def offset(self, kind: str, index: int) -> int:
        """Return the byte offset of a register."""
        if kind == "s":
            return self.layout.scalars + 4 * index
        base = self.layout.vectors if kind == "a" else 0
        return (base + index) * self.layout.register

    def address(self, kind: str, index: int) -> str:
        """Return the address of a register."""
        return self.v.code.emit(f"getelementptr i8, ptr %state, i64 {self.offset(kind, index)}")

    # Access --------------------------------------------------------------------------------------
    def read(self, kind: str, index: int) -> IrValue:
        """Return one register as ``U32``."""
        if kind == "s" and index == NULL:
            return self.v.const(U32, 0)
        key = (kind, index)
        found = self._values.get(key)
        if found is None:
            uniform = kind == "s"
            shape = self.v.shape(U32, uniform)
            align = 4 if uniform else 64
            text = self.v.code.effect(f"load {shape}, ptr {self.address(*key)}, align {align}")
            found = self._values[key] = IrValue(text, U32, uniform)
        return found

    def write(self, kind: str, index: int, x: IrValue, masked: bool = True) -> None:
        """Write one register; vector registers by EXEC when `masked`."""
        if kind == "s":
            if index != NULL:
                self._set((kind, index), x)
            return
        x = self.v.spread(x)
        if masked and not self.full:
            x = self.v.select(self.exec(), x, self.read(kind, index))
        self._set((kind, index), x)

    def _set(self, key: Key, x: IrValue) -> None:
        if key[0] == "s" and key[1] in (EXEC, EXEC + 1):
            self.full = False
        self._values[key] = x
        self._dirty.add(key)

    def word(self, operand: Operand, at: int = 0) -> IrValue:
        """Return one dword of a register operand."""
        null = operand.kind == "s" and operand.index == NULL
        return self.read(operand.kind, operand.index + (0 if null else at))

    # Masks ---------------------------------------------------------------------------------------
    def mask_bits(self, index: int) -> IrValue:
        """Return the lane mask in scalar registers as uniform ``U64``."""
        low = self.v.convert(self.read("s", index), U64)
        if self.layout.lanes == 32:
            return low
        high = self.v.convert(self.read("s", index + 1), U64)
        return self.v.bit_or(low, self.v.shl(high, 32))

    def mask(self, index: int) -> IrValue:
        """Return the lane mask in scalar registers."""
        if self.layout.lanes == 32:
            text = self.v.code.emit(f"bitcast i32 {self.read('s', index).text} to <32 x i1>")
        else:
            text = self.v.code.emit(f"bitcast i64 {self.mask_bits(index).text} to <64 x i1>")
        return IrValue(text, B1, False)

    def exec(self) -> IrValue:
        """Return EXEC."""
        if self.full:
            return IrValue("splat (i1 true)", B1, False, True)
        return self.mask(EXEC)

    def write_bits(self, index: int, bits: IrValue) -> None:
        """Write a lane mask, uniform ``U64`` or ``U32``, to scalar registers."""
        self.write("s", index, self.v.convert(bits, U32))
        if self.layout.lanes == 64 and bits.type.bits == 64:
            self.write("s", index + 1, self.v.convert(self.v.shr(bits, 32), U32))

    # Memory --------------------------------------------------------------------------------------
    def _store(self, key: Key) -> None:
        uniform = key[0] == "s"
        shape = self.v.shape(U32, uniform)
        align = 4 if uniform else 64
        x = self._values[key]
        self.v.code.line(
            f"store {shape} {self.v.text(x, uniform)}, ptr {self.address(*key)}, align {align}"
        )

    def flush(self) -> None:
        """Store all registers that were written."""
        for key in sorted(self._dirty):
            self._store(key)
        self._dirty.clear()

    def stored(self, kind: str, index: int, count: int) -> str:
        """Store what was written to some registers; return the address of the first."""
        for k in range(index, index + count):
            if (kind, k) in self._dirty:
                self._store((kind, k))
                self._dirty.discard((kind, k))
        return self.address(kind, index)

    def changed(self, kind: str, index: int, count: int) -> None:
        """Forget registers that a routine wrote in memory."""
        for k in range(index, index + count):
            self._values.pop((kind, k), None)
            self._dirty.discard((kind, k))

    def forget(self) -> None:
        """Forget all values, at the begin of a block."""
        self.full = False
        self._values.clear()
        self._dirty.clear()
