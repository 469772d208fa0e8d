"""Matrix products of the vector API on numpy arrays.

Operands are unpacked into matrices of doubles with k before the rows, so that what is copied lies
in runs in registers and matrices alike; the matrices of one machine reuse their memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from flydsl_emu.numpy_tier.fused import fused_multiply_add
from flydsl_emu.numpy_tier.lanes import Lanes
from flydsl_emu.semantics.matrix_plan import MatrixPlan, Side

__all__ = ["Matrices", "Products"]

Array = Any

_PACKED: dict[str, tuple[Any, int]] = {"f16": (np.float16, 2), "i8": (np.int8, 4)}
_HIGH = np.uint32(0xFFFF0000)
_HALF = np.uint32(16)
_WORD = np.uint64(32)


class Products(Protocol):
    """Multiplies batches of matrices whose sums are chains in single precision."""

    def multiply(
        self,
        plan: MatrixPlan,
        a: Sequence[Array],
        b: Sequence[Array],
        c: Sequence[Array],
    ) -> list[Array] | None:
        """Return what `VectorApi.matrix_multiply` returns, or None if that is not worth while.

        Args:
            plan: Layout; it is `MatrixPlan.chained`.
            a: Arrays ``(waves, lanes)`` of 32-bit elements.
            b: Likewise.
            c: Likewise.
        """
        ...


class Matrices(Lanes):
    """`VectorApi.matrix_multiply` through stacked matrix products.

    Attributes:
        buffers: Doubles to build matrices in, by their use; each serves one product at a time.
        products: What multiplies large batches faster, with the same results, if there is such.
    """

    buffers: dict[str, Array]
    products: Products | None

    def matrix_multiply(
        self, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array], plan: MatrixPlan
    ) -> list[Array]:
        """Implement `VectorApi.matrix_multiply`."""
        if plan.chained and self.products is not None:
            arrays = [[self.spread(x) for x in y] for y in (a, b, c)]
            found = self.products.multiply(plan, *arrays)
            if found is not None:
                return found
        left = self._matrix("left", a, plan.a, plan.blocks, plan.m)
        right = self._matrix("right", b, plan.b, plan.blocks, plan.n)
        product = self._buffer("product", (self.state.waves, plan.blocks, plan.m, plan.n))
        if plan.chained:
            return self._chained(left, right, product, c, plan)
        np.matmul(left.transpose(0, 1, 3, 2), right, out=product)
        return self._accumulate(self._by_element(product, plan), c, plan)

    def _chained(
        self, left: Array, right: Array, total: Array, c: Sequence[Array], plan: MatrixPlan
    ) -> list[Array]:
        """Return the registers of chains of fused multiply-adds in single precision.

        Args:
            left: A, as of `_matrix`.
            right: B.
            total: Memory for the sums.
            c: Accumulator.
            plan: Layout.
        """
        views = self._by_element(total, plan)
        for view, x in zip(views, c, strict=True):
            np.copyto(view, self.spread(x).view(np.float32).reshape(view.shape))
        # Factors of at most 12 bits: the product is exact in double, and a sum of numbers of 24
        # bits that is rounded to 53 bits first is rounded to 24 as if at once (Figueroa, "When is
        # double rounding innocuous?", 1995); below the normal range it is exact in double already,
        # or too close to the larger term for any other result.
        exact = "f32" not in (plan.a.format, plan.b.format)
        term = self._buffer("term", total.shape)
        single = np.empty(total.shape, np.float32)
        for k in range(plan.k):
            x, y = left[:, :, k, :, None], right[:, :, k, None, :]
            if exact:
                np.multiply(x, y, out=term)
                np.add(term, total, out=term)
                np.copyto(single, term, casting="same_kind")
            else:
                single = fused_multiply_add(
                    *(z.astype(np.float32) for z in np.broadcast_arrays(x, y, total))
                )
            np.copyto(total, single)
        lanes = self.state.waves, self.lane_count
        return [x.astype(np.float32).reshape(lanes).view(np.uint32) for x in views]

    def _buffer(self, use: str, shape: tuple[int, ...]) -> Array:
        """Return doubles of a shape with any contents, the same memory for the same use."""
        size = prod(shape)
        found = self.buffers.get(use)
        if found is None or found.size < size:
            found = self.buffers[use] = np.empty(size)
        return found[:size].reshape(shape)

    def _matrix(self, use: str, data: Sequence[Array], side: Side, blocks: int, rows: int) -> Array:
        """Return an operand as doubles of shape ``(waves, blocks, k, rows)``."""
        waves = self.state.waves
        groups = 1 if side.replicated else self.lane_count // (rows * blocks)
        count = int(len(data) * _elements_per_word(side))
        run = count // side.splits
        matrix = self._buffer(use, (waves, blocks, side.splits, groups, run, rows))
        used = groups * blocks * rows
        for at, x in enumerate(self._elements(data, side)):
            shaped = x[:, :used].reshape(waves, groups, blocks, rows)
            np.copyto(matrix[:, :, at // run, :, at % run], shaped.transpose(0, 2, 1, 3))
        return matrix.reshape(waves, blocks, side.splits * groups * run, rows)

    def _elements(self, data: Sequence[Array], side: Side) -> Iterator[Array]:
        """Yield each element of all lanes, in any float or integer type: ``(waves, lanes)``."""
        if side.format in ("singles", "values"):
            yield from (self.spread(x) for x in data)
        elif side.format == "f64":
            for low, high in zip(data[0::2], data[1::2], strict=True):
                wide = np.left_shift(self.spread(high).astype(np.uint64), _WORD)
                yield np.bitwise_or(wide, self.spread(low)).view(np.float64)
        elif side.format == "f32":
            yield from (np.ascontiguousarray(self.spread(x)).view(np.float32) for x in data)
        elif side.format == "bf16":
            for x in data:
                words = self.spread(x)
                yield np.left_shift(words, _HALF).view(np.float32)
                yield np.bitwise_and(words, _HIGH).view(np.float32)
        else:
            dtype, count = _PACKED[side.format]
            for x in data:
                parts = np.ascontiguousarray(self.spread(x)).view(dtype)
                yield from (parts[:, k::count] for k in range(count))

    def _by_element(self, product: Array, plan: MatrixPlan) -> list[Array]:
        """Return a view of the products for each element of the accumulator.

        All have the same shape, whose first axis is the wave and whose others are its lanes.
        """
        waves = self.state.waves
        if plan.accumulator == "f64" and plan.blocks > 1:
            # Rows of a block lie 16 lanes apart, as in the 16-row instruction.
            return [product.transpose(0, 2, 1, 3)]
        group = plan.interleave
        sets = self.lane_count // plan.n
        rows = plan.m * plan.blocks
        shaped = product.reshape(waves, rows // (group * sets), sets, group, plan.n)
        return [shaped[:, k // group, :, k % group] for k in range(plan.results)]

    def _accumulate(
        self, products: Sequence[Array], c: Sequence[Array], plan: MatrixPlan
    ) -> list[Array]:
        """Add the accumulator and return registers."""
        shape = products[0].shape
        lanes = self.state.waves, self.lane_count
        if plan.accumulator == "f64":
            out = []
            for k, x in enumerate(products):
                wide = np.left_shift(self.spread(c[2 * k + 1]).astype(np.uint64), _WORD)
                addend = np.bitwise_or(wide, self.spread(c[2 * k])).view(np.float64)
                bits = np.add(x, addend.reshape(shape)).reshape(lanes).view(np.uint64)
                out.append(bits.astype(np.uint32))
                out.append(np.right_shift(bits, _WORD).astype(np.uint32))
            return out
        addends = [self.spread(x).reshape(shape) for x in c]
        if plan.accumulator == "i32":
            wrapped = [x.astype(np.int64).astype(np.uint32) for x in products]
            sums = [np.add(x, y) for x, y in zip(wrapped, addends, strict=True)]
        elif plan.accumulator == "values":
            sums = [np.add(x, y) for x, y in zip(products, addends, strict=True)]
        else:
            total = self._buffer("total", shape)
            sums = []
            for x, y in zip(products, addends, strict=True):
                np.copyto(total, y.view(np.float32))
                np.add(x, total, out=total)
                sums.append(total.astype(np.float32).view(np.uint32))
        return [x.reshape(lanes) for x in sums]


def _elements_per_word(side: Side) -> float:
    """Return how many elements a register of an operand holds, or a value of ``"values"``."""
    return {"f16": 2, "bf16": 2, "i8": 4, "f64": 0.5}.get(side.format, 1)
