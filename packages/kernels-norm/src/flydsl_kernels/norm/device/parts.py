"""What workgroups that share a row leave for each other in memory.

One launch stores f32 numbers of every part of every row, the next reads those of its row. Line `i`
of the matrix has number `i` of all parts, those of a row together.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.norm.device.rows import Share

__all__ = ["keep_part", "read_parts"]


@flyc.jit
def keep_part(partial: Any, share: Share, values: list[Any], first: int = 0) -> None:
    """Store the numbers of the workgroup's part from line `first` on."""
    if share.lane == 0:
        place = share.row * share.plan.splits + fx.block_idx.y
        for line, value in enumerate(values):
            (partial.iter + partial.stride[0] * (line + first) + place).store(value)


def read_parts(partial: Any, share: Share, count: int, first: int = 0) -> list[Any]:
    """Return `count` vectors of the numbers of all parts of the row."""
    kind = vector_alias(fx.Float32, (share.plan.splits,))
    place = partial.iter + share.row * share.plan.splits
    return [(place + partial.stride[0] * (line + first)).load(kind) for line in range(count)]
