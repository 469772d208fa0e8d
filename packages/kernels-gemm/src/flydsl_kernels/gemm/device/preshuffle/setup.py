"""What a workgroup sets up before its steps, and the loop over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx
from flydsl.errors import ConfigError
from flydsl_kernels.gemm.device.preshuffle.operands import (
    WAVE,
    ARows,
    BBlocks,
    Pitches,
    Place,
    ScaleWords,
    Stage,
)
from flydsl_kernels.gemm.device.preshuffle.plan import IN_DTYPES, PreshufflePlan
from flydsl_kernels.gemm.device.preshuffle.tile import TileBody
from flydsl_rocdl.arch import KNOWN
from flydsl_rocdl.expr.access import amd_facts
from flydsl_rocdl.kernels.matrix_steps import MatrixStep, matrix_step
from flydsl_rocdl.kernels.swizzle import PIECE, xor16
from flydsl_rocdl.kernels.tile_order import xcd_tile
from flydsl_rocdl.kernels.unpacking import unpacker

__all__ = ["PLAIN", "body_of", "place_of", "steps_of"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values


PLAIN = Pitches()
"""No gaps."""


def place_of(plan: PreshufflePlan, rows: Any, columns: Any) -> Place:
    """Return the calling thread's place in the tiles of C."""
    thread = fx.thread_idx.x
    down, along = fx.block_idx.x, fx.block_idx.y
    if plan.group_m:
        tiles = ((rows + (plan.tile_m - 1)) // plan.tile_m,
                 (columns + (plan.tile_n - 1)) // plan.tile_n)  # fmt: skip
        down, along = xcd_tile(down, along, *tiles, group=plan.group_m)
    wave = fx.rocdl.readfirstlane(fx.Int32, thread // WAVE)
    share = plan.tile_n // 4
    return Place(
        thread, thread % WAVE, wave, down * plan.tile_m, along * plan.tile_n + wave * share
    )


def instruction(plan: PreshufflePlan, facts: Any) -> MatrixStep:
    """Return the matrix instruction for a plan: the one with most K that its sizes allow."""
    a, b, _, stored = IN_DTYPES[plan.in_dtype]
    if plan.scaled:
        return matrix_step(facts, b, a, scaled=True)
    wide = stored == 8 and plan.chunks % 2 == 0 and plan.tail_chunks % 2 == 0
    wide = wide and plan.chunks // 2 * plan.row_blocks >= 2
    return matrix_step(facts, a, b, most=32 if wide else 16)


def body_of(
    plan: PreshufflePlan, operands: tuple[Any, ...], extents: tuple[Any, Any], place: Place,
    pitches: Pitches = PLAIN,
) -> TileBody:  # fmt: skip
    """Return what emits the steps of a workgroup.

    Args:
        plan: The configuration.
        operands: Pointers to A, B, and their scales.
        extents: M and N.
        place: The thread's place.
        pitches: How far rows are apart.

    Raises:
        ConfigError: The tiles of A do not fit local data share.
        TargetError: The architecture has no matrix instruction for the types.
    """
    facts = amd_facts("preshuffle_kernel")
    (a, b, scale_a, scale_b), (rows, columns) = operands, extents
    if plan.lds_bytes > facts.lds.capacity:
        raise ConfigError(
            f"tiles of A do not fit the local data share of {facts.name}", code="FLY-C931",
            value=plan.lds_bytes, allowed=f"up to {facts.lds.capacity} bytes",
            hint="smaller tile_m or tile_k, or lds_stage=1",
        )  # fmt: skip
    if plan.direct and PIECE not in facts.lds_dma_bytes:
        raise ConfigError(
            f"{facts.name} does not load {PIECE} bytes per lane into local data share",
            code="FLY-C932", value=facts.name,
            allowed=", ".join(f.name for f in KNOWN.values() if PIECE in f.lds_dma_bytes),
            hint="use_async_copy=False",
        )  # fmt: skip
    step = instruction(plan, facts)
    swizzle = xor16(plan.row_bytes, facts.lds.banks * facts.lds.bank_bytes)
    return TileBody(
        plan, step, ARows(plan, (a, rows, pitches.a), place, swizzle),
        BBlocks(plan, b, columns, place),
        Stage(plan, swizzle, place), unpacker(plan.in_dtype),
        ScaleWords(plan, (scale_a, rows, pitches.scale_a), (scale_b, columns), place)
        if plan.scaled else None,
    )  # fmt: skip


def steps_of(plan: PreshufflePlan, body: TileBody, loop: Callable[..., Any]) -> list[Any]:
    """Emit all steps along K and return the sums."""
    if not plan.steps:
        acc = [body.step.zero() for _ in range(plan.row_blocks * plan.column_blocks)]
    else:
        acc, *_ = loop(plan.steps, body.run, body.start(), stages=2, closed=True)
    return body.tail(acc, plan.steps, plan.steps) if plan.tail_k else acc
