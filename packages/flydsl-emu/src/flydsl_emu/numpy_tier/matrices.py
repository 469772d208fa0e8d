"""Matrix products of the vector API on numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flydsl_emu.numpy_tier.lanes import Lanes
from flydsl_emu.semantics.matrix_plan import MatrixPlan, Side

__all__ = ["Matrices"]

Array = Any

_PACKED: dict[str, tuple[Any, int]] = {
    "f16": (np.float16, 2),
    "bf16": (np.uint16, 2),
    "i8": (np.int8, 4),
    "f32": (np.float32, 1),
}


class Matrices(Lanes):
    """`VectorApi.matrix_multiply` through stacked matrix products."""

    def matrix_multiply(
        self, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array], plan: MatrixPlan
    ) -> list[Array]:
        """Implement `VectorApi.matrix_multiply`."""
        left = self._matrix(a, plan.a, plan.blocks, plan.m)
        right = self._matrix(b, plan.b, plan.blocks, plan.n)
        # (waves, blocks, m, n)
        product = np.matmul(left, right.transpose(0, 1, 3, 2))
        lanes = self._to_lanes(product, plan)
        return self._accumulate(lanes, c, plan)

    def _matrix(self, data: Sequence[Array], side: Side, blocks: int, rows: int) -> Array:
        """Return an operand as doubles of shape ``(waves, blocks, rows, k)``."""
        waves = self.state.waves
        elements = self._elements(data, side)
        per_run = elements.shape[2] // side.splits
        groups = 1 if side.replicated else self.lane_count // (rows * blocks)
        elements = elements[:, : groups * rows * blocks]
        shaped = elements.reshape(waves, groups, blocks, rows, side.splits, per_run)
        ordered = shaped.transpose(0, 2, 3, 4, 1, 5)
        return ordered.reshape(waves, blocks, rows, side.splits * groups * per_run)

    def _elements(self, data: Sequence[Array], side: Side) -> Array:
        """Return all elements of a lane as doubles of shape ``(waves, lanes, elements)``."""
        waves = self.state.waves
        if side.format == "values":
            return np.stack([self.spread(x) for x in data], axis=2)
        if side.format == "f64":
            low = np.stack([self.spread(x) for x in data[0::2]], axis=2).astype(np.uint64)
            high = np.stack([self.spread(x) for x in data[1::2]], axis=2).astype(np.uint64)
            return np.bitwise_or(low, np.left_shift(high, np.uint64(32))).view(np.float64)
        dtype, count = _PACKED[side.format]
        words = np.stack([self.spread(x) for x in data], axis=2)
        parts = np.ascontiguousarray(words).view(dtype)
        if side.format == "bf16":
            bits = np.left_shift(parts.astype(np.uint32), np.uint32(16))
            parts = bits.view(np.float32)
        return parts.astype(np.float64).reshape(waves, self.lane_count, len(data) * count)

    def _to_lanes(self, product: Array, plan: MatrixPlan) -> Array:
        """Return products as ``(elements, waves, lanes)`` in the layout of the accumulator."""
        waves = self.state.waves
        if plan.accumulator == "f64" and plan.blocks > 1:
            # Rows of a block lie 16 lanes apart, as in the 16-row instruction.
            return product.transpose(0, 2, 1, 3).reshape(1, waves, self.lane_count)
        group = plan.interleave
        sets = self.lane_count // plan.n
        rows = plan.m * plan.blocks
        shaped = product.reshape(waves, rows // (group * sets), sets, group, plan.n)
        return shaped.transpose(1, 3, 0, 2, 4).reshape(plan.results, waves, self.lane_count)

    def _accumulate(self, lanes: Array, c: Sequence[Array], plan: MatrixPlan) -> list[Array]:
        """Add the accumulator and return registers."""
        if plan.accumulator == "i32":
            wrapped = lanes.astype(np.int64).astype(np.uint32)
            return [np.add(wrapped[k], x) for k, x in enumerate(c)]
        if plan.accumulator == "values":
            return [np.add(lanes[k], x) for k, x in enumerate(c)]
        if plan.accumulator == "f32":
            out = []
            for k, x in enumerate(c):
                total = np.add(lanes[k], x.view(np.float32))
                out.append(total.astype(np.float32).view(np.uint32))
            return out
        out = []
        for k in range(plan.results):
            wide = np.left_shift(np.asarray(c[2 * k + 1], np.uint64), np.uint64(32))
            addend = np.bitwise_or(wide, c[2 * k]).view(np.float64)
            bits = np.add(lanes[k], addend).view(np.uint64)
            out.append(bits.astype(np.uint32))
            out.append(np.right_shift(bits, np.uint64(32)).astype(np.uint32))
        return out
