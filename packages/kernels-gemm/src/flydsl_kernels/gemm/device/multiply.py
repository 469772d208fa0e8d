"""From fragments in registers to sums: one step along k of a wave's tile."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.staging import Operand, piece, turned
from flydsl_kernels.gemm.instruction import MatrixCore

__all__ = ["fragment", "multiply", "split_up"]


def fragment(core: MatrixCore, operand: Operand, row: Any, step: int, buffer: Any) -> list[Any]:
    """Read a lane's operands of one step from LDS, one for each instruction.

    Args:
        core: The instruction.
        operand: Whose tile.
        row: The lane's row of LDS.
        step: Which step of the tile.
        buffer: Where the tile begins in LDS, in pieces.
    """
    group = fx.thread_idx.x % core.wave // 16 if core.groups > 1 else fx.Int32(0)
    first = step * core.groups * core.reads
    if operand.plan.transposing:
        # The rows of the 16 lanes follow one another.
        inner = row - fx.thread_idx.x % 16
        words = [
            turned(operand, inner, (first + read * core.groups + group) * 8, buffer)
            for read in range(core.reads)
        ]
        return [_typed(core, _joined(words))]
    words = [
        piece(operand, row, first + read * core.groups + group, buffer)
        for read in range(core.reads)
    ]
    return split_up(core, words)


def split_up(core: MatrixCore, pieces: list[Any]) -> list[Any]:
    """Return a lane's operands of one step, one for each instruction.

    Args:
        core: The instruction.
        pieces: What the lane has of the step: vectors of four words.
    """
    if core.calls > 1:
        each = core.bytes // 4
        (vector,) = pieces
        return [
            _typed(core, vector.shuffle(vector, range(call * each, (call + 1) * each)))
            for call in range(core.calls)
        ]
    return [_typed(core, _joined(pieces))]


def _joined(vectors: list[Any]) -> Any:
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [a.shuffle(b, range(2 * a.numel)) for a, b in pairs]
    return vectors[0]


def _typed(core: MatrixCore, words: Any) -> Any:
    """Return words as the instruction takes them."""
    if core.operand == "Int32":
        return words
    found = words.bitcast(getattr(fx, core.operand))
    return found[0] if core.operand == "Int64" else found


def multiply(core: MatrixCore, rows: Any, columns: Any, total: Any) -> Any:
    """Add a product to a tile of sums.

    Args:
        core: The instruction.
        rows: A's operand.
        columns: B's operand.
        total: The sums.
    """
    call = getattr(fx.rocdl, core.builder)
    if core.scaled:
        cbsz, blgp = core.formats
        zero = fx.Int32(0)
        return call(None, [columns, rows, total, cbsz, blgp, 0, zero, 0, zero])
    if core.integer and core.builder.startswith("wmma"):
        return call(None, columns, rows, total, signA=1, signB=1)
    return call(None, columns, rows, total)
