"""Which traced operations may run whether or not their guard holds, and moving them."""

from __future__ import annotations

from typing import Any

from flydsl.expr.ambient import Session

__all__ = ["is_speculatable", "move_here"]

_TRAPPING = frozenset({"arith.divsi", "arith.divui", "arith.remsi", "arith.remui"})
_PURE_DIALECTS = ("arith.", "math.", "ub.")
_PURE_GPU = frozenset(
    {"gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.lane_id"}
)
_PURE_VECTOR = frozenset(
    {
        "vector.broadcast",
        "vector.extract",
        "vector.from_elements",
        "vector.shuffle",
        "vector.bitcast",
    }
)
_LIMIT = 8


def is_speculatable(block: Any) -> bool:
    """Return whether a block holds only a few operations without effects or traps."""
    for count, operation in enumerate(block.operations):
        name = operation.operation.name
        pure = (
            (name.startswith(_PURE_DIALECTS) and name not in _TRAPPING)
            or name in _PURE_GPU
            or name in _PURE_VECTOR
        )
        if not pure or count >= _LIMIT:
            return False
    return True


def move_here(session: Session, block: Any) -> None:
    """Move all operations of a detached block to the insertion point."""
    point = session.ir.InsertionPoint.current
    for operation in list(block.operations):
        inner = operation.operation
        inner.detach_from_parent()
        point.insert(inner)
