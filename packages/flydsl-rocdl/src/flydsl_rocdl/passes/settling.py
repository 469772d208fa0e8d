"""Wait states between the matrix instructions of a loop and what follows the loop.

Vector instructions may read what a matrix instruction writes only so many wait states after it.
LLVM 22.1 counts them, but where a block ends in a conditional branch and then an unconditional one,
it counts the second on the path that takes the first, too, and may put a copy of a sum one wait
state too early behind a loop. Whatever LLVM counts, no copy is too early behind as many wait states
as the slowest matrix instruction asks for. They cost some cycles where a loop is left, none in it.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.lowering import Lowering

__all__ = ["settle"]

_MATRIX = ("rocdl.mfma.", "rocdl.smfmac.")
_INTRINSICS = ("llvm.amdgcn.mfma.", "llvm.amdgcn.smfmac.")
_LOOPS = ("scf.for", "scf.while")
_NOPS = (15, 3)
"""Immediates of ``s_nop``, each for one wait state more: 20 after one of 16 passes, the most that
any architecture asks for."""


def settle(low: Lowering, function: Any) -> None:
    """Put wait states after the loops of `function` that have matrix instructions."""
    if "mfma" not in low.target.facts.has:
        return
    loops: list[Any] = []
    advance = low.b.ir.WalkResult.ADVANCE

    def collect(op: Any) -> Any:
        if _is_matrix(op):
            loop = _loop_of(op)
            if loop is not None and loop not in loops:
                loops.append(loop)
        return advance

    function.walk(collect)
    for loop in loops:
        low.b.at(loop)
        after = loop
        texts = [("rocdl.s.nop", {"count": f"{count} : i16"}) for count in _NOPS]
        for name, attributes in [*texts, ("rocdl.sched.barrier", {"mask": "0 : i32"})]:
            op = low.b.op(name, (), (), attributes)
            op.move_after(after)
            after = op


def _is_matrix(op: Any) -> bool:
    name = op.name
    if name == "llvm.call_intrinsic":
        return str(op.attributes["intrin"].value).startswith(_INTRINSICS)
    return bool(name.startswith(_MATRIX))


def _loop_of(op: Any) -> Any:
    """Return the innermost loop around an operation, or None."""
    while (op := op.parent) is not None:
        op = op.operation
        if op.name in _LOOPS:
            return op
    return None
