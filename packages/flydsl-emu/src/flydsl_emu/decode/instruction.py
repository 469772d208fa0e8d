"""What decoding yields: operands and instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flydsl_emu.decode.registers import EXEC, M0, NULL, SCC, VCC

__all__ = ["EXEC", "M0", "NULL", "SCC", "VCC", "Instruction", "Operand"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction.

    Scalar registers have one numbering on every architecture: M0 = 124 and NULL = 125 (reads zero,
    drops writes), although gfx11 and later encode these two the other way round.

    Attributes:
        kind: ``"v"`` vector register, ``"a"`` accumulation register, ``"s"`` scalar source (its
            encoding: registers, VCC = 106, M0 = 124, EXEC = 126, …), ``"i"`` inline integer,
            ``"f"`` inline float, ``"l"`` 32-bit literal, ``"q"`` 64-bit literal, ``"k"`` immediate
            field, ``"off"`` an absent address.
        index: Register number or scalar encoding; of a constant only how it prints: bits of an
            immediate field that prints unsigned, 16 for a literal of which the low half prints
            (the value is whole), or 1 for one that prints as ``lit(…)``.
        count: Registers covered.
        value: Value of a constant: signed integer, float, or unsigned literal.
        negate, absolute: Float input modifiers; absolute applies first.
        extend: Sign-extending SDWA selection.
        half: The half of a vector register that a 16-bit operand names (gfx11 and later): 1 the
            low (``v3.l``), 2 the high (``v3.h``), 0 the whole register.
    """

    kind: str
    index: int = 0
    count: int = 1
    value: int | float = 0
    negate: bool = False
    absolute: bool = False
    extend: bool = False
    half: int = 0

    def modified(self, negate: bool, absolute: bool) -> Operand:
        """Return the operand with these input modifiers."""
        return replace(self, negate=negate, absolute=absolute)

    @property
    def constant(self) -> bool:
        """Whether the operand is a value, not a register."""
        return self.kind in ("i", "f", "l", "q", "k")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction.

    A dual instruction (format ``VOPD``, gfx11 and later) is two operations that issue together:
    both read their sources before either writes. Its `parts` are these two, X then Y, each an
    ordinary VOP2, VOP1 or VOP3 instruction (``v_dual_mul_f32`` is ``v_mul_f32``) at the same pc
    and of size 0, with VCC as last operand of ``v_cndmask_b32``; `name` is X's dual mnemonic and
    `operands` are those of both parts.

    Attributes:
        pc: Address of its first byte.
        size: Bytes.
        format: Encoding family: ``VOP1`` … ``SMEM``.
        name: Mnemonic without encoding suffix.
        encoding: ``"e32"``, ``"e64"``, ``"dpp"``, ``"sdwa"``, ``"e64_dpp"`` or empty. ``"dpp"`` and
            ``"e64_dpp"`` have either the modifier ``dpp_ctrl`` or ``dpp8`` (eight 3-bit lanes).
        operands: Destinations first, as the assembler writes them.
        mods: Modifiers by name; an absent one has its default. ``op_sel`` and its kin are bit
            masks over the operands, ``dpp_ctrl`` is the 9-bit field, selections are encodings.
        target: Branch target address, or None.
        parts: The two operations of a dual instruction; empty for all others.
        isa: Instruction set: ``"gfx9"``, ``"gfx11"``, ``"gfx12"`` or ``"gfx1250"``.
    """

    pc: int
    size: int
    format: str
    name: str
    encoding: str
    operands: tuple[Operand, ...]
    mods: Mapping[str, int] = field(default_factory=dict)
    target: int | None = None
    parts: tuple[Instruction, ...] = ()
    isa: str = "gfx9"

    def mod(self, name: str, default: int = 0) -> int:
        """Return the modifier called `name`."""
        return self.mods.get(name, default)

    def __str__(self) -> str:
        from flydsl_emu.decode.text import format_instruction

        return format_instruction(self)
