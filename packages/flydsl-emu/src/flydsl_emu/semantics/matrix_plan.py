"""How matrix operands lie in lanes and registers.

An operand of the product holds, in lane ``(g * blocks + b) * rows + i``, element ``h * q + e`` of
row i of block b and of column ``k = h * (groups * q) + g * q + e``, where the lane's elements come
in `splits` runs of q. For the usual instructions there is one run, so a lane holds consecutive k;
f8f6f4 with 8-bit elements has two. A replicated operand fills the wave with copies of the lanes of
group 0, which then holds all k.

Results and accumulators stack the rows of all blocks: row r and column j are element
``r // (G * R) * G + r % G``, lane ``r // G % R * n + j`` with R = lanes / n and G = `interleave`
(MFMA: 4, or 1 for f64).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LANES", "MatrixPlan", "Side"]

LANES = 64


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of the product.

    Attributes:
        format: ``"f16"``, ``"bf16"``, ``"f32"``, ``"f64"``, ``"i8"``: packed in registers; or
            already unpacked, one value per element: ``"singles"`` of ``F32``, ``"values"`` of
            ``F64``.
        splits: Runs of consecutive k in a lane.
        replicated: Every group of lanes holds a copy (WMMA of gfx11).
    """

    format: str
    splits: int = 1
    replicated: bool = False

    @property
    def packed(self) -> str:
        """The format if a register holds a pair of 16-bit elements, else empty."""
        return self.format if self.format in ("f16", "bf16") else ""


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """Shape and layout of one matrix product ``d = a @ b + c``.

    Attributes:
        m, n, k: Shape of one block's product: m x k times k x n.
        blocks: Independent blocks.
        a, b: The operands; `b` lies like the transpose of an n x k matrix.
        accumulator: ``"f32"``, ``"f64"`` or ``"i32"``: registers; or ``"values"``: one ``F64`` per
            element, for accumulator and result, summed in double and left to the caller to round.
        lanes: Lanes of a wave.
        rows_together: Consecutive rows that a lane holds; 0 for those of MFMA.
    """

    m: int
    n: int
    k: int
    blocks: int
    a: Side
    b: Side
    accumulator: str
    lanes: int = LANES
    rows_together: int = 0

    @property
    def chained(self) -> bool:
        """Whether the sum is a chain of fused multiply-adds in single precision.

        It begins with the accumulator and takes k in ascending order:
        ``s = fma(a[i, k], b[k, j], s)``, each rounded to f32. Otherwise sums are taken in double
        (exactly for integers) and rounded once.
        """
        return self.accumulator == "f32" and "values" not in (self.a.format, self.b.format)

    @property
    def interleave(self) -> int:
        """Consecutive rows that a lane's elements hold."""
        return self.rows_together or (1 if self.accumulator == "f64" else 4)

    @property
    def results(self) -> int:
        """Accumulator elements of one lane."""
        return self.m * self.n * self.blocks // self.lanes
