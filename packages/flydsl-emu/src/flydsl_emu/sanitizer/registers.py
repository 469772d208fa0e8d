"""Which registers an instruction reads and writes, from the signatures of the opcode table.

Registers are plain ints: VGPR n is n, AGPR n is ``AGPR + n``, scalar encoding c is ``SCALAR + c``
(so VCC, M0, EXEC and SCC have numbers too).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from flydsl_emu.decode import EXEC, M0, SCC, VCC, Instruction, Operand
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.layout import Layout, returns_old
from flydsl_emu.semantics.registry import IMPLICIT, Semantics

__all__ = ["AGPR", "SCALAR", "Effects", "effects", "register_name", "registers_of"]

AGPR = 1024
SCALAR = 2048

_VCC = (SCALAR + VCC, SCALAR + VCC + 1)
_EXEC = (SCALAR + EXEC, SCALAR + EXEC + 1)
_SCC = (SCALAR + SCC,)
_M0 = (SCALAR + M0,)
_NAMES = {VCC: "vcc_lo", VCC + 1: "vcc_hi", EXEC: "exec_lo", EXEC + 1: "exec_hi", SCC: "scc"}
_CONDITIONS = {251: _VCC, 252: _EXEC}
# Encodings that are no registers: constants such as the apertures, and the null register.
_LAST_REGISTER = 127


class Effects(NamedTuple):
    """Registers of one instruction.

    Attributes:
        uses, defs: Registers read and written.
        partial: Some bits or lanes of the results may keep their value although all lanes execute.
    """

    uses: tuple[int, ...]
    defs: tuple[int, ...]
    partial: bool = False


@lru_cache(maxsize=4096)
def _range(kind: str, index: int, count: int) -> tuple[int, ...]:
    if kind == "v":
        return tuple(range(index, index + count))
    if kind == "a":
        return tuple(range(AGPR + index, AGPR + index + count))
    if kind != "s":
        return ()
    if index in _CONDITIONS:
        return _CONDITIONS[index]
    if index == SCC:
        return _SCC
    if index > _LAST_REGISTER:
        return ()
    return tuple(range(SCALAR + index, SCALAR + index + count))


def registers_of(operand: Operand) -> tuple[int, ...]:
    """Return the registers of an operand; none for a constant."""
    return _range(operand.kind, operand.index, operand.count)


def register_name(register: int) -> str:
    """Return the assembler's name of a register number."""
    if register >= SCALAR:
        code = register - SCALAR
        if code == M0:
            return "m0"
        return _NAMES.get(code, f"s{code}")
    return f"a{register - AGPR}" if register >= AGPR else f"v{register}"


@dataclass(frozen=True, slots=True)
class _Plan:
    """Positions in the operand list, and implicit registers."""

    uses: tuple[int, ...]
    defs: tuple[int, ...]
    implicit_uses: tuple[int, ...]
    implicit_defs: tuple[int, ...]
    partial: bool


def effects(i: Instruction, lanes: int = 64) -> Effects:
    """Return the registers that `i` reads and writes.

    Args:
        i: The instruction.
        lanes: Lanes of a wave: with 32, VCC and EXEC as implied operands are one register.
    """
    if i.parts:
        halves = [effects(part, lanes) for part in i.parts]
        return Effects(
            tuple(r for half in halves for r in half.uses),
            tuple(r for half in halves for r in half.defs),
        )
    plan = _plan(
        i.name, len(i.operands), bool(i.mods.get("lds")), returns_old(i), 2 if lanes > 32 else 1
    )
    operands = i.operands
    uses, defs = plan.implicit_uses, plan.implicit_defs
    for at in plan.uses:
        o = operands[at]
        uses += _range(o.kind, o.index, o.count)
    for at in plan.defs:
        o = operands[at]
        defs += _range(o.kind, o.index, o.count)
    partial = plan.partial or _keeps_some(i)
    if partial and not plan.partial:
        uses += defs
    return Effects(uses, defs, partial)


def _keeps_some(i: Instruction) -> bool:
    """Whether modifiers make the result leave bits or lanes of its register alone."""
    if i.operands and i.operands[0].half:
        return True
    if i.encoding == "dpp":
        return not (
            i.mods.get("bound_ctrl")
            and i.mods.get("row_mask", 15) == 15
            and i.mods.get("bank_mask", 15) == 15
        )
    if i.encoding == "sdwa":
        return i.mods.get("dst_sel", 6) != 6
    return bool(i.mods.get("op_sel", 0) & 8)


@lru_cache(maxsize=4096)
def _plan(name: str, operands: int, to_lds: bool, returns: bool, words: int) -> _Plan:
    semantics = find(name)
    if semantics is None:
        return _guess(name, operands)
    # A stand-in with one register for each operand tells which tokens take which.
    registers = tuple(Operand("v", k) for k in range(operands))
    mods = {"lds": int(to_lds), "sc0": int(returns)}
    layout = Layout(Instruction(0, 4, "", name, "", registers, mods), semantics)
    return _from_signature(semantics, layout, operands, to_lds, words)


def _from_signature(s: Semantics, layout: Layout, operands: int, to_lds: bool, words: int) -> _Plan:
    defs: list[int] = []
    shared: list[int] = []
    implicit_defs: tuple[int, ...] = ()
    for k, token in enumerate(s.results):
        prefix, _, kind = token.rpartition(".")
        if kind == "scc":
            implicit_defs += _SCC
        elif kind in ("exec", "execbits"):
            implicit_defs += _EXEC[:words]
        elif kind == "m0":
            implicit_defs += _M0
        operand = layout.result(k)
        if operand is not None:
            defs.append(operand.index)
            if prefix in ("both", "replaced"):
                shared.append(operand.index)
    uses = [*shared, *(n for n in range(operands) if n not in defs)]
    implicit_uses, partial = _implicit(s, defs, to_lds, words)
    if partial:
        uses += defs[:1]
    return _Plan(tuple(uses), tuple(defs), implicit_uses, implicit_defs, partial)


def _implicit(
    s: Semantics, defs: list[int], to_lds: bool, words: int
) -> tuple[tuple[int, ...], bool]:
    """Return implicit source registers and whether the first result is a source too."""
    registers: tuple[int, ...] = ()
    partial = s.keeps_high
    for token in s.sources:
        if token not in IMPLICIT:
            continue
        if token == "scc":
            registers += _SCC
        elif token == "vcc":
            registers += _VCC[:words]
        elif (
            token == "exec" and s.results and (s.results[0] == "branch" or "execbits" in s.results)
        ):
            registers += _EXEC[:words]
        elif token == "m0" and (to_lds or "_lds_" in s.name):
            registers += _M0
        elif token == "old" or (token == "oldregs" and _reads_old(s)):
            partial = partial or bool(defs)
    return registers, partial


def _reads_old(s: Semantics) -> bool:
    memory = s.name.startswith(("buffer_", "global_", "flat_", "scratch_", "ds_"))
    return "_d16" in s.name if memory else True


def _guess(name: str, operands: int) -> _Plan:
    """Plan of an opcode without a meaning: the first operand is the result unless it stores."""
    stores = "store" in name or "write" in name or name.startswith(("s_cmp", "s_setreg", "s_wait"))
    first = 0 if stores or not operands else 1
    return _Plan(tuple(range(first, operands)), tuple(range(first)), (), (), False)
