"""Scales inside the loop along K: of blocks, of groups, and powers of two."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.moe.device.operands import load_words
from flydsl_kernels.moe.plans import GemmPlan

__all__ = ["StepScales", "block_factors", "load_scales", "scale_records"]


def scale_records(pointer: Any, count: Any) -> Any:
    """Return a descriptor of `count` bytes at a pointer."""
    return fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_ptr(pointer, count))


class StepScales:
    """Where a lane finds the scales of a step.

    Attributes:
        plan: What is compiled.
        a: Descriptor of the activations' scales.
        rows: The lane's byte offset for each of its entries.
        w: Descriptor of the expert's scales.
        tiles: Uniform byte offset for each of the wave's blocks of channels.
        lane: The lane's byte offset within a block of channels.
        odd: For each block of channels, 8 where it is the second of a pair, else 0.
        pitch: Uniform distance of two groups of columns in bytes.
    """

    def __init__(self, plan: GemmPlan, **places: Any) -> None:
        self.plan = plan
        self.a = places.get("a")
        self.rows = places.get("rows", [])
        self.w = places.get("w")
        self.tiles = places.get("tiles", [])
        self.lane = places.get("lane")
        self.odd = places.get("odd", [])
        self.pitch = places.get("pitch")


def load_scales(step: Any, at: StepScales) -> list[Any]:
    """Load all scales of a step: those of the channels' blocks, then those of the entries."""
    plan = at.plan
    out: list[Any] = []
    if plan.numbers.w_scale == "block":
        # A tile's channels belong to one block of 128.
        out = [load_words(at.w, fx.Int32(0), tile + step * 4, 4) for tile in at.tiles]
    elif plan.numbers.w_scale == "group":
        # A quarter of the wave has 16 columns of the 64 of a step.
        quarter = fx.thread_idx.x % 64 // 16
        group = (step * 64 + quarter * 16) // plan.group
        place = at.lane + group * at.pitch
        out = [load_words(at.w, place, tile, 4) for tile in at.tiles]
    elif plan.numbers.w_scale == "mx":
        half = plan.numbers.tile_k == 128
        word = step // 2 if half else step
        shifts = [odd + step % 2 * 16 for odd in at.odd] if half else at.odd
        for tile, shift in zip(at.tiles, shifts, strict=True):
            out.append(load_words(at.w, at.lane, tile + word * 256, 4) >> shift)
    if plan.numbers.a_scale == "block":
        out += [load_words(at.a, row, step * 4, 4) for row in at.rows]
    elif plan.numbers.a_scale == "mx":
        shift = fx.thread_idx.x % 64 // 16 * 8
        for row in at.rows:
            pair = load_words(at.a, row, step * 8, 8)
            out += [pair[0] >> shift, pair[1] >> shift]
    return out


def block_factors(scales: list[Any], plan: GemmPlan) -> list[list[Any]]:
    """Return, for gate and gated channels, the factor of each of the lane's entries."""
    halves = [word.bitcast(fx.Float32) for word in scales[: plan.halves]]
    rows = [word.bitcast(fx.Float32) for word in scales[plan.halves :]]
    return [[half * row for row in rows] for half in halves]
