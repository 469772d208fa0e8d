"""Which instructions need wait states between them on gfx942 and gfx950.

`SpacingRules` gives, for one instruction, the uses it makes of registers (``needs``) and after how
many wait states its own registers may be used in which way (``leaves``). Kinds of use:

========================== ======================================================================
``matrix source``          source A or B of a matrix instruction
``same sum``               source C of a matrix instruction, exactly the producer's D
``sum xdl``, ``single``…   source C otherwise, by the consumer's unit
``vector to matrix``       any register of a matrix instruction that a VALU instruction wrote
``dot``, ``dot sum``       any use of the result of a dot product; as the sum of another one
``shifted read``           read of a register whose high part was written
``vector read``            read by a VALU instruction
``memory read``            read by a memory or export instruction
``vector write``           written by a VALU instruction
``plain read``             read by a VALU instruction that is not transcendental
``dpp``, ``exchange``      read by a DPP instruction, by a permlane swap
``lane read``              the register that v_readlane, v_readfirstlane read
``lane select``            the SGPR that selects the lane
``scalar in vector``       an SGPR read by a VALU instruction
``scalar in memory``       an SGPR read by a vector memory instruction
``quotient``               VCC of v_div_fmas
``mask dpp``, ``lane``…     EXEC, by what executes under it
``transfer``               M0 of a load into LDS or of a message
========================== ======================================================================

Source: the tables of required software wait states in the CDNA3 and CDNA4 ISA guides, and the
operand rules of the AMDGPU back end's documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flydsl_emu.decode import EXEC, M0, VCC, Instruction, Operand
from flydsl_emu.sanitizer.matrix_spacing import (
    MATRIX_PREFIXES,
    is_double,
    is_matrix,
    is_xdl,
    matrix_spacing,
)
from flydsl_emu.sanitizer.registers import SCALAR, Effects, registers_of

__all__ = ["IMPLIED", "SpacingRules", "applies", "rules_for"]

Needs = Iterator[tuple[str, int]]
Leaves = Iterator[tuple[int, str, int]]

_EXEC = SCALAR + EXEC
_VCC = SCALAR + VCC
_M0 = SCALAR + M0
IMPLIED = (_EXEC, _VCC, _VCC + 1, _M0)
"""Registers that instructions may need without naming them."""

_ARCHS = ("gfx942", "gfx950")
# Wait states after a VALU result, by kind of use: a VGPR, a scalar, EXEC in addition.
_VECTOR_RESULT = (("dpp", 2), ("exchange", 2), ("lane read", 1), ("vector to matrix", 2))
_SCALAR_RESULT = (("scalar in vector", 2), ("scalar in memory", 5), ("lane select", 4))
_MASK_RESULT = (("mask dpp", 5), ("mask lane", 4), ("mask matrix", 4), ("mask exchange", 4))
_TRANSCENDENTAL = (
    "v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_",
)  # fmt: skip
_LANES = ("v_readlane_b32", "v_readfirstlane_b32", "v_writelane_b32")
_SWAPS = ("v_permlane16_swap_b32", "v_permlane32_swap_b32")
_MEMORY = ("MUBUF", "DS", "EXP", "MTBUF", "MIMG")


def rules_for(arch: str, instructions: Iterable[Instruction]) -> SpacingRules | None:
    """Return the rules for a kernel; None where the hardware keeps order itself."""
    return SpacingRules(arch, instructions) if arch in _ARCHS else None


class SpacingRules:
    """The rules that can matter in one kernel.

    Args:
        arch: Architecture.
        instructions: The kernel.
    """

    def __init__(self, arch: str, instructions: Iterable[Instruction]) -> None:
        self._arch = arch
        seen = {(i.name, i.encoding) for i in instructions if i.name.startswith("v_")}
        names = {name for name, _ in seen}
        kinds = {"plain read", "shifted read", "dot", "dot sum", "scalar in vector"}
        kinds.add("scalar in memory")
        if any(name.startswith(MATRIX_PREFIXES) for name in names):
            kinds |= {"vector to matrix", "mask matrix"}
        if any(encoding == "dpp" for _, encoding in seen):
            kinds |= {"dpp", "mask dpp"}
        if not names.isdisjoint(_LANES):
            kinds |= {"lane read", "lane select", "mask lane"}
        if not names.isdisjoint(_SWAPS):
            kinds |= {"exchange", "mask exchange"}
        if any(name.startswith("v_div_fmas") for name in names):
            kinds.add("quotient")
        self._scalar = _kept(_SCALAR_RESULT, kinds)
        self._mask = _kept(_MASK_RESULT, kinds)
        self._quotient = _kept((("quotient", 4),), kinds)
        self._vector = _kept(_VECTOR_RESULT, kinds)

    def needs(self, i: Instruction, effects: Effects) -> Iterator[tuple[str, int]]:
        """Yield the uses that an instruction makes of registers: ``(kind, register)``."""
        if is_matrix(i):
            return _matrix_needs(i, effects)
        if i.name.startswith("v_") and i.name != "v_nop":
            return _vector_needs(i, effects)
        if i.format in _MEMORY or i.format.startswith("FLAT"):
            return _memory_needs(i, effects)
        return iter(())

    def leaves(self, i: Instruction, effects: Effects) -> Iterable[tuple[int, str, int]]:
        """Return after how many wait states its registers may be used in which way."""
        if is_matrix(i):
            return _matrix_leaves(i, self._arch)
        if i.name.startswith("v_") and i.name != "v_nop":
            return self._vector_leaves(i, effects)
        if i.format in _MEMORY or i.format.startswith("FLAT"):
            return _memory_leaves(i)
        return ((_M0, "transfer", 1),) if _M0 in effects.defs else ()

    def _vector_leaves(self, i: Instruction, effects: Effects) -> list[tuple[int, str, int]]:
        kinds = self._vector
        if i.name.startswith("v_dot"):
            kinds = (*(k for k in kinds if k[0] != "vector to matrix"), ("dot", 3), ("dot sum", 3))
        if i.name.startswith(_TRANSCENDENTAL):
            kinds = (*kinds, ("plain read", 1))
        if _shifts_result(i):
            kinds = (*kinds, ("shifted read", 1))
        out = []
        for r in effects.defs:
            chosen = kinds
            if r >= SCALAR:
                chosen = self._scalar
                if r == _EXEC:
                    chosen = (*chosen, *self._mask)
                elif r in (_VCC, _VCC + 1):
                    chosen = (*chosen, *self._quotient)
            for kind, wait in chosen:
                out.append((r, kind, wait))
        return out


def _kept(kinds: Iterable[tuple[str, int]], wanted: set[str]) -> tuple[tuple[str, int], ...]:
    return tuple(k for k in kinds if k[0] in wanted)


def _is_dot(i: Instruction) -> bool:
    return i.name.startswith("v_dot")


def _is_transcendental(i: Instruction) -> bool:
    return i.name.startswith(_TRANSCENDENTAL)


def _total(i: Instruction) -> Operand:
    """Return the operand that a matrix instruction or dot product adds to."""
    return i.operands[3] if len(i.operands) > 3 and "smfmac" not in i.name else i.operands[0]


def applies(kind: str, first: Instruction, second: Instruction) -> bool:
    """Whether two instructions that share a register in this way need their distance."""
    if kind == "dot sum":
        return first.name != second.name
    if kind == "same sum" or kind.startswith("sum "):
        same = registers_of(first.operands[0]) == registers_of(_total(second))
        return same == (kind == "same sum")
    return True


# Matrix instructions -----------------------------------------------------------------------------
def _matrix_needs(i: Instruction, effects: Effects) -> Needs:
    yield "mask matrix", _EXEC
    sparse = i.name.startswith("v_smfmac")
    inputs = i.operands[1:3] if not sparse else i.operands[1:4]
    for operand in (*inputs, *i.operands[4:]):
        for r in registers_of(operand):
            yield "matrix source", r
    total = _total(i)
    unit = "sum double" if is_double(i) else "sum xdl" if is_xdl(i) else "sum single"
    for r in registers_of(total):
        yield unit, r
        yield "same sum", r
    for r in effects.uses:
        yield "vector to matrix", r


def _matrix_leaves(i: Instruction, arch: str) -> Leaves:
    spacing = matrix_spacing(i, arch)
    result = registers_of(i.operands[0])
    for r in result:
        yield r, "matrix source", spacing.sources
        yield r, "vector read", spacing.vector_read
        yield r, "memory read", spacing.memory_read
        yield r, "vector write", spacing.vector_write
    for kind, wait in (
        ("sum xdl", spacing.sum_xdl),
        ("sum single", spacing.sum_single),
        ("sum double", spacing.sum_double),
        ("same sum", spacing.same_sum),
    ):
        if wait > 0:
            yield from ((r, kind, wait) for r in result)
    if not i.name.startswith("v_smfmac") and not is_double(i):
        for r in registers_of(i.operands[3]):
            if r not in result:
                yield r, "vector write", spacing.replace_sum


# Vector instructions -----------------------------------------------------------------------------
def _vector_needs(i: Instruction, effects: Effects) -> Needs:
    for r in effects.uses:
        if r >= SCALAR:
            yield "scalar in vector", r
            continue
        yield "vector read", r
        yield "shifted read", r
        if not _is_transcendental(i):
            yield "plain read", r
    for r in effects.defs:
        if r < SCALAR:
            yield "vector write", r
    yield from _dot_needs(i, effects)
    if i.encoding == "dpp":
        yield "mask dpp", _EXEC
        for r in registers_of(i.operands[1]):
            yield "dpp", r
    if i.name in _SWAPS:
        yield "mask exchange", _EXEC
        for r in effects.uses:
            yield "exchange", r
    if i.name in _LANES:
        yield "mask lane", _EXEC
        if i.name != "v_writelane_b32":
            for r in registers_of(i.operands[1]):
                yield "lane read", r
        for operand in i.operands[2:3]:
            for r in registers_of(operand):
                yield "lane select", r
    if i.name.startswith("v_div_fmas"):
        yield "quotient", _VCC


def _dot_needs(i: Instruction, effects: Effects) -> Needs:
    """Dot products forward their sum to the sum of the same opcode only."""
    forwarded: set[int] = set()
    if _is_dot(i):
        inputs = {r for o in i.operands[1:3] for r in registers_of(o)}
        forwarded = set(registers_of(_total(i))) - inputs
    for r in (*effects.uses, *effects.defs):
        if r < SCALAR:
            yield ("dot sum" if r in forwarded else "dot"), r


def _shifts_result(i: Instruction) -> bool:
    """Whether the result goes to a part of its register that is not the low one."""
    if i.encoding == "sdwa":
        return i.mods.get("dst_sel", 6) != 6
    if i.name.startswith("v_cvt_") and "fp8" in i.name.partition("_f32")[0]:
        return bool(i.mods.get("op_sel", 0) & 12)
    return bool(i.mods.get("op_sel", 0) & 8)


# Memory and scalar instructions ------------------------------------------------------------------
def _memory_needs(i: Instruction, effects: Effects) -> Needs:
    for r in effects.uses:
        if r < SCALAR:
            yield "memory read", r
        elif i.format != "DS":
            yield "scalar in memory", r
    if i.mods.get("lds") or "_lds_" in i.name:
        yield "transfer", _M0


def _memory_leaves(i: Instruction) -> Leaves:
    """Data of a store of more than 64 bits is read late."""
    if "_store_" not in i.name or not i.name.endswith(("x3", "x4")):
        return
    if i.format == "MUBUF":
        data, offset = i.operands[0], i.operands[-1]
        if offset.kind == "s":
            return
    else:
        data = i.operands[1]
    for r in registers_of(data):
        yield r, "vector write", 2
