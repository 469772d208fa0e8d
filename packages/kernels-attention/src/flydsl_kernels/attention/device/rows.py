"""Where rows of q, k and v are: plain arrays, packed sequences, and pages.

Buffers bound every access: rows past the last one give zero, and nothing is read there. Offsets
from a buffer have 32 bits, its start 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.attention.device.block import Block
from flydsl_kernels.attention.device.caches import known_page
from flydsl_kernels.attention.selection import FlashPlan

__all__ = ["NOWHERE", "Source", "buffer_rows", "head_rows", "key_source", "within"]

NOWHERE = 0x3FFFFFFF
"""An offset in elements that no buffer reaches."""


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of one head.

    Attributes:
        start: Pointer to row 0, or to row 0 of page 0.
        stride: Elements from row to row, 64-bit.
        width: Elements of a row.
        page: Elements from page to page, or None without pages.
        step: Of a vectorised layout: elements from chunk to chunk.
    """

    start: Any
    stride: Any
    width: int
    page: Any = None
    step: Any = None


def head_rows(tensor: Any, batch: Any, row: Any, head: Any, width: int) -> Source:
    """Return the rows of a head from `row` on of an array [batch, length, heads, width]."""
    offset = (
        batch.to(fx.Int64) * tensor.stride[0]
        + row.to(fx.Int64) * tensor.stride[1]
        + head.to(fx.Int64) * tensor.stride[2]
    )
    return Source(tensor.iter + offset, fx.Int64(tensor.stride[1]), width)


def key_source(tensor: Any, plan: FlashPlan, block: Block, width: int) -> Source:
    """Return the rows of k or v that a workgroup needs."""
    if not plan.page:
        return head_rows(tensor, block.batch, block.base_k, block.kv_head, width)
    stride = [fx.Int64(step) for step in tensor.stride]
    head = 1 if plan.vectorised else 2
    start = tensor.iter + block.kv_head.to(fx.Int64) * stride[head]
    if plan.vectorised:
        return Source(start, stride[3], width, stride[0], stride[2])
    return Source(start, stride[1], width, stride[0])


def buffer_rows(source: Source, first: Any, count: Any, moved: Any = None) -> Any:
    """Return a buffer pointer to row `first` that reaches `count` rows; none if that is negative.

    Args:
        source: The rows; they lie at least their width apart.
        first: A row.
        count: Number of rows that may be accessed.
        moved: Elements from row 0 to that row, 64-bit, if they are known.
    """
    # Descriptors are in scalar registers: say that what they are made of is uniform.
    count = fx.rocdl.read_first_lane(count)
    size = source.start.element.width // 8
    reach = fx.max((count - 1) * source.stride.to(fx.Int32) + source.width, 0)
    if moved is None:
        moved = fx.rocdl.read_first_lane(first).to(fx.Int64) * source.stride
    return fx.rocdl.make_buffer_ptr(source.start + moved, (reach * size).to(fx.Int64))


def page_of(a: Any, plan: FlashPlan, block: Block, source: Source, key: Any) -> tuple[Any, Any]:
    """Return (pointer to the page of a key, first key of that page).

    Args:
        a: The arguments.
        plan: The plan.
        block: The workgroup's part.
        source: Rows of k or v.
        key: A key, the same for all lanes of a wave.
    """
    known = fx.max(fx.min(key, block.end - 1), 0)
    number = fx.rocdl.read_first_lane(a.pages[block.sequence, known // plan.page])
    number = known_page(number, a.k)
    return source.start + number.to(fx.Int64) * source.page, key // plan.page * plan.page


def within(condition: Any, offset: Any) -> Any:
    """Return the offset where a condition holds, else one that reads zero.

    Args:
        condition: Known while tracing, a Python bool, or not.
        offset: In elements.
    """
    if isinstance(condition, bool):
        return offset if condition else fx.Int32(NOWHERE)
    return fx.arith.select(condition, offset, fx.Int32(NOWHERE))
