"""Which operand of an instruction each token of its signature takes; static, so for every tier."""

from __future__ import annotations

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.semantics.registry import IMPLICIT, Semantics
from flydsl_emu.semantics.value_types import TYPES

__all__ = ["Layout", "immediate", "lacks_clamp", "returns_old", "source_half"]


def returns_old(i: Instruction) -> bool:
    """Return whether an atomic gives back what was in memory (sc0, glc or bit 0 of th)."""
    return bool(i.mod("sc0") or i.mod("glc") or i.mod("th") & 1)


def immediate(i: Instruction, operand: Operand | None) -> int:
    """Return the value of an immediate: an operand, or the field of a control instruction."""
    return i.mod("simm16") if operand is None else int(operand.value)


def lacks_clamp(i: Instruction, s: Semantics) -> bool:
    """Return whether an instruction asks to clamp an integer result that cannot saturate."""
    if not i.mods.get("clamp") or s.saturating is not None:
        return False
    kinds = (TYPES.get(token.rpartition(".")[2]) for token in s.results)
    return any(kind is not None and kind.kind in "ui" for kind in kinds)


def source_half(i: Instruction, operand: Operand, at: int) -> int:
    """Return which half of its register a 16-bit source is."""
    if operand.constant:
        return 0
    if operand.half:
        return operand.half - 1
    return i.mods.get("op_sel", 0) >> at & 1


class Layout:
    """Which operand each signature token takes."""

    def __init__(self, i: Instruction, s: Semantics) -> None:
        self._results: list[Operand | None] = []
        operands = i.operands
        at = 0
        back = 0
        explicit = sum(token not in IMPLICIT for token in s.sources)
        for token in s.results:
            prefix, _, kind = token.rpartition(".")
            if prefix == "optional" and len(operands) <= explicit:
                self._results.append(None)
                continue
            if kind in ("scc", "exec", "execbits", "branch", "jump", "hwmode", "m0", "barrier"):
                self._results.append(None)
                continue
            if kind == "regs" and i.mods.get("lds"):
                self._results.append(None)
                continue
            if prefix in ("returned", "replaced") and not returns_old(i):
                self._results.append(None)
                continue
            self._results.append(operands[at])
            at += 1
            if prefix in ("both", "replaced"):
                back += 1
        start = at - back
        self._sources: list[Operand | None] = []
        self._indices: list[int] = []
        count = 0
        for token in s.sources:
            if token in IMPLICIT:
                self._sources.append(None)
                self._indices.append(-1)
                continue
            place = start + count
            self._sources.append(operands[place] if place < len(operands) else None)
            self._indices.append(count)
            count += 1

    def result(self, k: int) -> Operand | None:
        """Return the operand of result `k`, or None when it has none here."""
        return self._results[k] if k < len(self._results) else None

    def source(self, k: int) -> Operand | None:
        """Return the operand of source `k`."""
        return self._sources[k]

    def explicit_index(self, k: int) -> int:
        """Return the position of source `k` among the explicit sources."""
        return self._indices[k]
