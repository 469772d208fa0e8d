"""Which registers an instruction reads and writes: its operands, and what its meaning implies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.decode.instruction import EXEC, M0, SCC, VCC
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.layout import Layout
from flydsl_emu.semantics.registry import IMPLICIT, Semantics

__all__ = ["Effects", "effects_of"]

_IMPLICIT = {
    "scc": Operand("s", SCC, 1),
    "vcc": Operand("s", VCC, 2),
    "exec": Operand("s", EXEC, 2),
    "m0": Operand("s", M0, 1),
    "execbits": Operand("s", EXEC, 2),
}


@dataclass(frozen=True, slots=True)
class Effects:
    """Registers of one instruction: operands of kind ``"v"``, ``"a"`` or ``"s"``."""

    reads: tuple[Operand, ...] = ()
    writes: tuple[Operand, ...] = ()


def effects_of(i: Instruction) -> Effects:
    """Return the registers that `i` reads and writes; none for an unknown instruction."""
    if i.parts:
        halves = [effects_of(part) for part in i.parts]
        return Effects(
            _registers(o for half in halves for o in half.reads),
            _registers(o for half in halves for o in half.writes),
        )
    semantics = find(i.name)
    if semantics is None:
        return Effects()
    if semantics.packed:
        return Effects(_registers(i.operands[1:]), _registers(i.operands[:1]))
    layout = Layout(i, semantics)
    reads = [_read(layout, semantics, k) for k in range(len(semantics.sources))]
    writes = []
    for k, token in enumerate(semantics.results):
        prefix, _, kind = token.rpartition(".")
        operand = _IMPLICIT.get(kind) if kind in _IMPLICIT else layout.result(k)
        writes.append(operand)
        if prefix == "both":
            reads.insert(0, operand)
    return Effects(_registers(reads), _registers(writes))


def _read(layout: Layout, semantics: Semantics, k: int) -> Operand | None:
    token = semantics.sources[k]
    if token in ("old", "oldregs", "oldwindow"):
        return layout.result(0)
    if token in IMPLICIT:
        return _IMPLICIT.get(token)
    return layout.source(k)


def _registers(operands: Iterable[Operand | None]) -> tuple[Operand, ...]:
    found: dict[tuple[str, int, int], Operand] = {}
    for o in operands:
        if o is not None and o.kind in ("v", "a", "s"):
            plain = Operand(o.kind, o.index, o.count)
            found.setdefault((plain.kind, plain.index, plain.count), plain)
    return tuple(found.values())
