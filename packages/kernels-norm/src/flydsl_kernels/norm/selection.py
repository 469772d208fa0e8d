"""Chooses how a row is divided among threads: `select_rows`.

Three regimes, in one description (`RowPlan`):

* short rows: a row belongs to the lanes of one wave or fewer, a workgroup has several rows, and
  values are combined by shuffles alone;
* rows that fit the registers of a workgroup: one row per workgroup, every thread keeps up to
  `MAX_CHUNKS` vectors of 16 bytes, values are combined by shuffles and then through shared memory;
* longer rows: a workgroup of 1024 threads passes over the row in a loop.

The number of columns stays a run-time value: few plans serve all sizes, and compiling takes as long
for a short row as for a long one.
"""

from __future__ import annotations

from dataclasses import dataclass

from flydsl_kernels.norm.problem import ELEMENT_BYTES, RowProblem

__all__ = [
    "MAX_CHUNKS",
    "ColumnPlan",
    "NormPlan",
    "QuantPlan",
    "RowPlan",
    "SoftmaxPlan",
    "select_columns",
    "select_rows",
]

VECTOR_BYTES = 16
WAVE = 64
"""Lanes that share a short row; on a target with narrower waves these are several waves."""
BLOCK = 256
MAX_LANES = 1024
MAX_SLABS = 512
"""Workgroups that sum over rows side by side."""
ROWS_OF_SLAB = 8
FEW_CHUNKS = 4
MAX_CHUNKS = 8
"""Vectors of a row that a thread keeps: 64 registers of f32 at 16-bit elements."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows are divided among the threads of a workgroup.

    Attributes:
        vector: Elements of one load.
        lanes: Threads that share a row; a power of two.
        block: Threads of a workgroup, a multiple of `lanes`.
        chunks: Vectors of a row that a thread keeps in registers.
        whole: How many of `chunks` every thread has in full; the others are loaded under a mask.
        tail: Whether rows have elements after their last full vector.
        looped: Whether the kernel passes over the row in loops and keeps nothing.
    """

    vector: int
    lanes: int
    block: int
    chunks: int
    whole: int
    tail: bool
    looped: bool = False

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return self.block // self.lanes

    def grid(self, rows: int) -> int:
        """Return the number of workgroups for `rows` rows."""
        return -(-rows // self.rows)


@dataclass(frozen=True, slots=True)
class NormPlan:
    """What a normalisation kernel is compiled for.

    Attributes:
        row: How rows are divided.
        mean: Subtract the mean (LayerNorm), or not (RMSNorm).
        weight: Multiply by a weight per column.
        bias: Add a bias per column.
        eps: Added to the variance (or the mean square).
    """

    row: RowPlan
    mean: bool
    weight: bool
    bias: bool
    eps: float


@dataclass(frozen=True, slots=True)
class SoftmaxPlan:
    """What a softmax kernel is compiled for.

    Attributes:
        row: How rows are divided.
        logarithm: Compute the logarithm of the softmax.
    """

    row: RowPlan
    logarithm: bool


@dataclass(frozen=True, slots=True)
class QuantPlan:
    """What a normalisation with 8-bit results is compiled for.

    Attributes:
        norm: The normalisation.
        limit: Largest number of the 8-bit type that results use.
    """

    norm: NormPlan
    limit: float


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """What the sums over rows are compiled for.

    Attributes:
        vector: Elements of one load.
        block: Threads of a workgroup.
        slabs: Groups of rows that are summed apart; row `r` is in group ``r % slabs``.
        weight: Sum for a weight.
        bias: Sum for a bias.
    """

    vector: int
    block: int
    slabs: int
    weight: bool
    bias: bool


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def select_rows(problem: RowProblem) -> RowPlan:
    """Return the plan for a problem; every valid problem has one."""
    vector = VECTOR_BYTES // ELEMENT_BYTES[problem.dtype]
    full, rest = divmod(problem.columns, vector)
    if full <= WAVE * FEW_CHUNKS:
        lanes = min(WAVE, max(vector, _power_of_two(full)))
    else:
        lanes = min(MAX_LANES, max(2 * WAVE, _power_of_two(-(-full // FEW_CHUNKS))))
    chunks = -(-full // lanes)
    if chunks > (MAX_CHUNKS if problem.operands == 1 else FEW_CHUNKS):
        return RowPlan(vector, MAX_LANES, MAX_LANES, 0, 0, rest > 0, looped=True)
    block = max(BLOCK, lanes)
    ragged = problem.rows % (block // lanes) != 0
    whole = 0 if ragged else full // lanes
    return RowPlan(vector, lanes, block, chunks, whole, rest > 0)


def select_columns(problem: RowProblem, weight: bool, bias: bool) -> ColumnPlan:
    """Return the plan for sums over the rows; it depends on the problem alone, not on a device."""
    vector = VECTOR_BYTES // ELEMENT_BYTES[problem.dtype]
    blocks = -(-problem.columns // (vector * BLOCK))
    slabs = max(1, min(MAX_SLABS // blocks, problem.rows // ROWS_OF_SLAB))
    return ColumnPlan(vector, BLOCK, _power_of_two(slabs), weight, bias)
