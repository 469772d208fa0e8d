"""Queries as operands of matrix instructions: in registers, or in LDS for all waves.

A wave of 64 lanes keeps the operands of its rows. One of 32 lanes has twice the results in each
lane; there the workgroup, whose waves have the same rows, puts the operands into LDS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.decoding import WAVES, DecodePlan
from flydsl_kernels.attention.device.decode_keys import Pages, grouped
from flydsl_kernels.attention.device.matrix import UNITS, load_pieces

__all__ = ["Part", "Queries", "load_queries", "share_queries"]

_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Part:
    """What a wave works on; everything but the rows is uniform.

    Attributes:
        pages: Where keys and values are.
        kind: Type of the operands.
        length: Keys of the sequence.
        rows: Per block of rows, the number of the lane's row among those that share the head.
        scale: Factor of the scores, times log2(e).
    """

    pages: Pages
    kind: Any
    length: Any
    rows: list[Any]
    scale: Any


@dataclass(frozen=True, slots=True)
class Queries:
    """Operands of the rows of a workgroup.

    Attributes:
        plan: The plan.
        kept: Per block of rows the lane's operands, or None where they are in LDS.
        shared: Pointer to the operands in LDS, the lane's first one, or None.
    """

    plan: DecodePlan
    kept: list[list[Any]] | None
    shared: Any

    def within(self, first: Any) -> Queries:
        """Return the same for one step.

        Args:
            first: First key of the step, which is not negative. Compilers do not know that, and
                load what is in LDS in every step instead of keeping it in registers.
        """
        if self.kept is not None:
            return self
        return Queries(self.plan, None, self.shared + (first >> 31))

    def operand(self, column: int, number: int) -> Any:
        """Return an operand of a block of rows."""
        if self.kept is not None:
            return self.kept[column][number]
        plan, unit = self.plan, UNITS[self.plan.unit]
        parts = range(unit.parts) if unit.copies else range(1)
        chunks, merged = [], unit.own // _CHUNK
        for chunk in range(merged * number, merged * (number + 1)):
            first = (column * plan.chunks + chunk) * unit.parts
            places = [self.shared + (first + part) * (16 * _CHUNK) for part in parts]
            chunks.append(load_pieces(places, self.shared.element))
        return grouped(chunks, unit)[0]


def _start(a: Any, pages: Pages, sequence: Any, row: Any) -> Any:
    """Return the pointer to a row of the queries that share the head."""
    plan = pages.plan
    known = fx.min(row, plan.rows - 1)
    query = known // plan.problem.group
    head = pages.head * plan.problem.group + known % plan.problem.group
    return (
        a.q.iter
        + sequence.to(fx.Int64) * a.q.stride[0]
        + query.to(fx.Int64) * a.q.stride[1]
        + head.to(fx.Int64) * a.q.stride[2]
    )


def _column(pages: Pages, chunk: Any) -> Any:
    """Return the first element of one of the lane's chunks."""
    turns = pages.plan.piece // _CHUNK
    turn, half = chunk // turns, chunk % turns * _CHUNK
    return (turn * pages.plan.parts + pages.quarter) * pages.plan.piece + half


def load_queries(a: Any, part: Part, sequence: Any) -> Queries:
    """Load the operands of the lane's rows."""
    plan = part.pages.plan
    vector = vector_alias(a.q.dtype, (_CHUNK,))
    out = []
    for row in part.rows:
        start = _start(a, part.pages, sequence, row)
        chunks = [_column(part.pages, chunk) for chunk in range(plan.chunks)]
        loaded = [(start + column).load(vector) for column in chunks]
        out.append(grouped(loaded, UNITS[plan.unit]))
    return Queries(plan, out, None)


@flyc.jit
def share_queries(a: Any, part: Part, sequence: Any, wave: Any, shared: Any) -> Queries:
    """Put the operands of all rows of the workgroup into LDS, in the order in which lanes read.

    Args:
        a: The kernel's arguments.
        part: The wave's part.
        sequence: Number of the sequence.
        wave: Number of the wave.
        shared: Allocator of LDS.
    """
    pages, plan = part.pages, part.pages.plan
    unit = UNITS[plan.unit]
    vector = vector_alias(a.q.dtype, (_CHUNK,))
    count = plan.columns * plan.chunks
    memory = shared.allocate(ArrayType(a.q.dtype, count * unit.lanes * _CHUNK)).ptr
    lane = pages.quarter * 16 + pages.row
    for index in range(wave, count, WAVES):
        start = _start(a, pages, sequence, part.rows[0] + index // plan.chunks * 16)
        value = (start + _column(pages, index % plan.chunks)).load(vector)
        (memory + (index * unit.lanes + lane) * _CHUNK).store(value)
    fx.gpu.barrier()
    # With copies every lane reads all parts, else its own.
    own = pages.row if unit.copies else lane
    return Queries(plan, None, memory + own * _CHUNK)
