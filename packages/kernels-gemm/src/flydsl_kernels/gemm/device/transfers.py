"""Tiles of operands by the tensor data mover: one instruction of a wave for its rows of a tile.

Rows lie in LDS in the order of the tile, a piece of 16 bytes apart, so that reads of one piece of
consecutive rows spread over all banks. The descriptor bounds rows and columns: what is past the
last of either becomes zeros and costs no memory traffic.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.staging import Operand
from flydsl_kernels.gemm.device.windows import wide

__all__ = ["arrived", "transfer"]


def transfer(operand: Operand, k: Any, buffer: Any) -> None:
    """Start this wave's part of the tile at column `k`; it arrives some time later.

    Args:
        operand: The operand, whose k is contiguous.
        k: Column of A.
        buffer: Where the tile begins in LDS, in pieces.
    """
    plan = operand.plan
    each = plan.rows // plan.tensor
    wave = fx.rocdl.readfirstlane(fx.Int32, fx.thread_idx.x // (plan.threads // plan.tensor))
    below = wave * each
    row = wide(operand.first + below)
    offset = (row * wide(operand.stride) + wide(k)) * plan.element_bytes
    source = fx.recast_iter(fx.Int8, operand.pointer) + offset
    target = operand.lds + (buffer + below * plan.distance)
    tdm = fx.rocdl.tdm_ops
    descriptor = tdm.make_tensor_descriptor_2d(
        source, target, (0, 0), (each, plan.tile_k), (operand.stride, 1), (each, plan.tile_k),
        plan.element_bytes, pad_interval=plan.tile_k, pad_amount=16 // plan.element_bytes,
        oob_outer_bound=fx.max(operand.rows - operand.first - below, fx.Int32(0)),
        oob_inner_bound=fx.max(operand.k - k, fx.Int32(0)),
    )  # fmt: skip
    tdm.tensor_load_2d(descriptor)


def arrived() -> None:
    """Wait for all transfers of this wave; other waves see the tiles after a barrier."""
    fx.rocdl.tdm_ops.tensor_wait()
