"""Wait states between matrix instructions and what follows a branch or a loop.

Vector and memory instructions may use what a matrix instruction writes only so many wait states
after it. LLVM 22.1 counts them backwards from the use, with two faults. Where a block ends in a
conditional branch and then an unconditional one, it counts the second on the path that takes the
first, too. And it looks at every block once: where a longer path to a block comes first, the
shorter one is not seen (llvm/llvm-project#108347), so the result of an ``if`` whose branch ends in
a matrix instruction may be read at once.

Whatever LLVM counts, no use is too early behind as many wait states as the slowest of the matrix
instructions asks for. They are put before and behind loops and at the start and end of branches,
wherever a matrix instruction comes last: both paths to what follows a branch are then either short
and seen, or long enough. None are put at the end of a loop's body, nor before an ``if`` that is
mostly not taken, so hot loops do not pay for them.
"""

from __future__ import annotations

import re
from typing import Any

from flydsl_rocdl.passes.lowering import Lowering

__all__ = ["settle", "without_memory"]

_MATRIX = ("rocdl.mfma.", "rocdl.smfmac.")
_LOOPS = frozenset({"scf.for", "scf.while"})
_MOST = 20
"""Wait states that any matrix instruction is content with."""
_LONGEST = 16
"""Wait states of the longest ``s_nop``."""
_NOP = re.compile(r"(\bcall void @llvm\.amdgcn\.s\.nop\(i16 \d+\))")


def settle(low: Lowering, function: Any) -> None:
    """Put wait states after the matrix instructions of `function` that control flow follows."""
    if "mfma" in low.target.facts.has:
        _Settling(low).region(function.regions[0])


class _Settling:
    def __init__(self, low: Lowering) -> None:
        self._low = low
        self._turn = 0
        # At most passes + 4, but for products of f64: see the tables of required wait states in the
        # ISA reference guides of CDNA3 and CDNA4.
        self._states: dict[str, int] = {}
        for shape in low.target.facts.matrix:
            states = shape.passes + 4 if shape.passes and shape.acc != "f64" else _MOST
            known = self._states.get(shape.intrinsic, 0)
            self._states[shape.intrinsic] = max(known, states)

    def region(self, region: Any, entering: int = 0) -> tuple[int, int]:
        """Settle a region.

        Args:
            region: The region.
            entering: Wait states that are missing before it; they are put at its start.

        Returns:
            Wait states of its matrix instructions outside of loops, and those missing at its end.
        """
        most = 0
        branch = region.owner.name not in _LOOPS and region.owner.name != "gpu.func"
        for n, block in enumerate(region.blocks):
            if n == 0 and entering and len(block.operations) > 1:
                self._before(block.operations[0].operation, entering)
                entering = 0
            states, last, pending = self._block(block)
            most = max(most, states)
            if pending and (branch or len(last.successors)):
                self._before(last, pending)
        return most, entering

    def _block(self, block: Any) -> tuple[int, Any, int]:
        """Settle a block.

        Returns:
            Wait states of its matrix instructions outside of loops, its last operation, and the
            wait states that are missing before that.
        """
        most = pending = 0
        op = None
        for op in [o.operation for o in block.operations]:
            name = op.name
            states = self._needs(op, name)
            if name in _LOOPS:
                if pending:
                    self._before(op, pending)
                pending = 0
                inside = max(self.region(region)[0] for region in op.regions)
                if inside:
                    self._after(op, inside)
            elif name.startswith("scf.") and len(op.regions):
                found = [self.region(region, pending) for region in op.regions]
                states = max(most for most, _ in found)
                pending = max(left for _, left in found)
            else:
                pending = max(pending, states)
            most = max(most, states)
        return most, op, pending

    def _needs(self, op: Any, name: str) -> int:
        """Return the wait states that an operation asks for, 0 if it is no matrix instruction."""
        if name == "llvm.call_intrinsic":
            name = str(op.attributes["intrin"].value).replace("llvm.amdgcn", "rocdl", 1)
        if not name.startswith(_MATRIX):
            return 0
        return self._states.get(name.removeprefix("rocdl."), _MOST)

    def _before(self, op: Any, states: int) -> None:
        self._low.b.at(op)
        self._wait(states)

    def _after(self, op: Any, states: int) -> None:
        self._low.b.at(op)
        for new in self._wait(states):
            new.move_after(op)
            op = new

    def _wait(self, states: int) -> list[Any]:
        """Create operations that wait and that the scheduler moves nothing across; return them.

        LLVM joins what two branches both end in, and would then move what precedes it across: so
        neighbours divide their wait states in different ways.
        """
        fewest = max(states - _LONGEST, 1)
        first = fewest + self._turn % (states - 2 * fewest + 1)
        self._turn += 1
        still = ("rocdl.sched.barrier", {"mask": "0 : i32"})
        nops = [
            ("rocdl.s.nop", {"count": f"{count - 1} : i16"}) for count in (states - first, first)
        ]
        return [self._low.b.op(name, (), (), given) for name, given in (still, *nops, still)]


def without_memory(text: str) -> str:
    """Return LLVM IR in which ``s_nop`` leaves memory alone.

    Otherwise nothing behind one would be loaded to scalar registers, however far away.
    """
    return _NOP.sub(r"\1 memory(inaccessiblemem: readwrite)", text)
