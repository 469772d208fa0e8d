"""Groups of loads into LDS: how far a wait may let the counter stay, from program order.

`fx.rocdl.asyncmark` ends a group of loads into LDS and ``wait_asyncmark(n)`` waits until at most
the newest n groups are on their way. LLVM 22 has neither. Vector memory operations complete in
order, so the wait is one for the counter of vector memory, for as many operations as loads into LDS
were issued after the mark n + 1 marks back; counted on every path to the wait, through branches and
around loops, the smallest number is right on all of them. Other memory operations on the way, which
are not counted, only make the wait stricter. Where asynchronous loads have a counter of their own,
that is the one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flydsl import mlir
from flydsl_rocdl.passes.lowering import Lowering, refuse

__all__ = ["LDS_SCOPE", "MARK", "WAIT", "lower"]

LDS_SCOPE = (
    '[#llvm.alias_scope<id = "fly_lds_loads", domain = #llvm.alias_scope_domain<id ='
    ' "fly_lds", description = "loads into LDS">>]'
)
"""Alias scope of loads into LDS whose arrival the kernel itself waits for."""

MARK, WAIT = "llvm.amdgcn.asyncmark", "llvm.amdgcn.wait.asyncmark"
"""Intrinsics that the trace creates and this module replaces."""
_DMA = ("buffer_copy_lds<", "global_copy_lds<")
_STEPS = 20000
_Rest = Callable[[int], float]


def _name(op: Any) -> str:
    """Return the intrinsic that an operation calls, else empty."""
    if op.name != "llvm.call_intrinsic":
        return ""
    return str(op.attributes["intrin"].value)


def lower(low: Lowering, function: Any) -> None:
    """Replace the marks and waits of a function.

    Raises:
        TargetError: The architecture has no loads into LDS that a counter of vector memory counts.
    """
    waits: list[Any] = []
    marks: list[Any] = []
    counted: list[Any] = []

    def note(op: Any) -> Any:
        name = _name(op)
        if name in (MARK, WAIT):
            (marks if name == MARK else waits).append(op)
        elif op.name == "rocdl.s.wait.asynccnt":
            counted.append(op)
        return mlir.ir.WalkResult.ADVANCE

    function.walk(note)
    low.explicit_waits = bool(waits or counted)
    if not waits and not marks:
        return
    if not low.facts.lds_dma_bytes and not low.facts.lds_async_bytes:
        raise refuse((waits or marks)[0], f"{low.facts.name} has no asynchronous loads into LDS",
                     code="FLY-T641")  # fmt: skip
    found = [(op, _Counter().at(op, int(op.attributes["fly_groups"].value))) for op in waits]
    for op, count in found:
        low.b.at(op)
        _wait(low, count)
        low.b.at(op)
        low.b.op("llvm.fence", (), (), {"ordering": "6 : i64", "syncscope": '"wavefront"'})
    for op in (*waits, *marks):
        op.erase()


def _wait(low: Lowering, count: float) -> None:
    """Wait until at most `count` loads into LDS are outstanding, if the counter goes so far."""
    if low.facts.waits is None:
        if count < low.facts.split_counters["asynccnt"]:
            low.b.op("rocdl.s.wait.asynccnt", (), (), {"count": f"{int(count)} : i16"})
    elif count < low.facts.waits.limit("vmcnt"):
        field = low.facts.waits.encode(vmcnt=int(count))
        low.b.op("rocdl.s.waitcnt", (), (), {"bitfield": f"{field} : i32"})


class _Counter:
    """Counts loads into LDS backwards from a wait, as the smallest number over all paths.

    A path that comes to a loop's start twice without a mark in between ends: going around again
    only adds. After too many steps a path ends where it is, which counts too few: a stricter wait.
    """

    def __init__(self) -> None:
        self._steps = _STEPS

    def at(self, op: Any, groups: int) -> float:
        """Return how many loads may be outstanding at the wait `op`; infinite for any number."""
        return self._before(op, groups + 1, frozenset())

    def _before(self, op: Any, marks: int, seen: frozenset[Any]) -> float:
        """Count what precedes `op` in its block and around it, until `marks` marks are passed."""
        block = op.operation.block
        operations = [o.operation for o in block.operations]
        index = next(i for i, o in enumerate(operations) if o == op.operation)
        return self._walk(operations[:index], marks, lambda left: self._outside(op, left, seen))

    def _outside(self, op: Any, marks: int, seen: frozenset[Any]) -> float:
        """Continue before the block that holds `op`."""
        parent = op.operation.parent
        if parent is None or parent.name == "gpu.func":
            return math.inf
        before = self._before(parent, marks, seen)
        if parent.name not in ("scf.for", "scf.while") or (parent, marks) in seen:
            return before
        after = seen | {(parent, marks)}
        body = [o.operation for o in op.operation.block.operations]
        last = body[-1]
        return min(before, self._walk(body, marks, lambda left: self._outside(last, left, after)))

    def _walk(self, operations: list[Any], marks: int, rest: _Rest) -> float:
        """Count backwards over operations of one block, then what `rest` says of the marks left."""
        count = 0
        for position in range(len(operations) - 1, -1, -1):
            self._steps -= 1
            if self._steps < 0:
                return count
            op = operations[position]
            if _name(op) == MARK:
                marks -= 1
                if not marks:
                    return count
            elif op.name == "fly.copy_atom_call_ssa":
                count += any(prefix in str(op.operands[0].type) for prefix in _DMA)
            elif len(op.regions) and _matters(op):
                earlier = operations[:position]
                return count + self._through(op, earlier, marks, rest)
        return count + rest(marks)

    def _through(self, op: Any, earlier: list[Any], marks: int, rest: _Rest) -> float:
        """Count through the regions of `op`, or past it, and on."""

        def past(left: int) -> float:
            return self._walk(earlier, left, rest)

        paths = [past(marks)] if op.name != "scf.if" or len(op.regions[1].blocks) == 0 else []
        for region in op.regions:
            for block in region.blocks:
                body = [o.operation for o in block.operations]
                paths.append(self._walk(body, marks, past))
        return min(paths)


def _matters(op: Any) -> bool:
    found: list[bool] = []

    def note(inner: Any) -> Any:
        dma = inner.name == "fly.copy_atom_call_ssa" and any(
            prefix in str(inner.operands[0].type) for prefix in _DMA
        )
        if dma or _name(inner) == MARK:
            found.append(True)
        return mlir.ir.WalkResult.ADVANCE

    op.walk(note)
    return bool(found)
