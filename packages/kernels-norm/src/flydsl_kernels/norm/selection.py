"""Chooses how a row is divided among threads: `select_rows`.

Four regimes, in one description (`RowPlan`):

* short rows: a row belongs to `WAVE` lanes or fewer, a workgroup has several rows, and values are
  combined by shuffles (and, where waves are narrower, between two of them);
* rows that fit the registers of a workgroup: one row per workgroup, every thread keeps up to
  `MAX_CHUNKS` vectors of 16 bytes, values are combined by shuffles and then through shared memory;
* longer rows: a workgroup of 1024 threads passes over the row in a loop;
* few long rows: several workgroups pass over parts of a row, leave what they found in memory, and
  a second launch combines that, always in the same order.

The number of columns stays a run-time value: few plans serve all sizes, and compiling takes as long
for a short row as for a long one. A plan depends on the problem alone, so results are the same on
every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from flydsl_kernels.norm.problem import ELEMENT_BYTES, RowProblem

__all__ = [
    "FEW_CHUNKS",
    "MAX_CHUNKS",
    "SOFTMAX_CHUNKS",
    "SPLIT_ROWS",
    "ColumnPlan",
    "NormPlan",
    "QuantPlan",
    "RowPlan",
    "SoftmaxPlan",
    "norm_plan",
    "quant_plan",
    "row_plan",
    "select_columns",
    "select_rows",
    "softmax_plan",
]

VECTOR_BYTES = 16
WAVE = 64
"""Lanes that share a short row; on a target with narrower waves these are several waves."""
BLOCK = 256
MAX_LANES = 1024
SPLIT_ROWS = 16
"""Most rows that are split among workgroups: more rows keep a device busy without."""
SPLIT_VECTORS = 2048
"""Fewest vectors of a part."""
LEAST_SPLITS = 4
MAX_SPLITS = 16
SPLIT_LANES = 512
MAX_SLABS = 512
"""Workgroups that sum over rows side by side."""
ROWS_OF_SLAB = 8
FEW_CHUNKS = 4
SOFTMAX_CHUNKS = 2
"""Softmax keeps f32 values of all of them at once."""
MAX_CHUNKS = 7
"""Vectors of a row that a thread keeps: 56 registers of f32 at 16-bit elements. With one more, a
thread of the largest workgroups would not have registers enough for weights beside them."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows are divided among the threads of a workgroup.

    Attributes:
        vector: Elements of one load.
        lanes: Threads that share a row: a power of two up to `WAVE`, or a multiple of it.
        block: Threads of a workgroup, a multiple of `lanes`.
        chunks: Vectors of a row that a thread keeps in registers.
        whole: Whether every thread has all of `chunks`; else they are loaded under a mask.
        tail: Whether rows have elements after their last full vector.
        looped: Whether the kernel passes over the row in loops and keeps nothing.
        splits: Workgroups that share a row, a power of two; more than one only of looped rows.
    """

    vector: int
    lanes: int
    block: int
    chunks: int
    whole: bool
    tail: bool
    looped: bool = False
    splits: int = 1

    @property
    def span(self) -> int:
        """Lanes whose vectors of one chunk are neighbours."""
        return min(self.lanes, WAVE)

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
        group: Elements of a row that share a scale; 0: all of them.
        power: Scales are powers of two, in one byte.
        smooth: Multiply results by a factor per column.
        added: Add a residual first.
    """

    norm: NormPlan
    limit: float
    group: int = 0
    power: bool = False
    smooth: bool = False
    added: bool = False


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


def _divided(full: int, few: int, most: int) -> tuple[int, int]:
    """Return lanes and chunks for a row of more vectors than `WAVE` lanes take.

    Exact divisions come first, those with about `few` vectors a lane before others.
    """
    for chunks in sorted(range(2, most + 1), key=lambda c: (c > FEW_CHUNKS, abs(c - few))):
        lanes = full // chunks
        if full == lanes * chunks and lanes % WAVE == 0 and lanes <= MAX_LANES:
            return lanes, chunks
    waves = -(-full // (few * WAVE))
    lanes = min(MAX_LANES, waves * WAVE)
    return lanes, -(-full // lanes)


def select_rows(problem: RowProblem, few: int = FEW_CHUNKS) -> RowPlan:
    """Return the plan for a problem; every valid problem has one.

    Args:
        problem: The problem.
        few: How many vectors of a row a thread should have where there is a choice: fewer take
            fewer registers, more share the work that threads have in common.
    """
    vector = VECTOR_BYTES // ELEMENT_BYTES[problem.dtype]
    full, rest = divmod(problem.columns, vector)
    tail = rest > 0
    parts = min(MAX_SPLITS, _power_of_two(full // SPLIT_VECTORS + 1) // 2)
    if parts >= LEAST_SPLITS and problem.rows <= SPLIT_ROWS:
        return RowPlan(vector, SPLIT_LANES, SPLIT_LANES, 0, False, tail, True, parts)
    if full <= WAVE * FEW_CHUNKS:
        lanes = min(WAVE, max(vector, _power_of_two(full)))
        chunks, block = -(-full // lanes), BLOCK
    else:
        most = MAX_CHUNKS if problem.operands == 1 else FEW_CHUNKS
        lanes, chunks = _divided(full, few, most)
        block = lanes
        if chunks > most:
            return RowPlan(vector, MAX_LANES, MAX_LANES, 0, False, tail, True)
    ragged = problem.rows % (block // lanes) != 0
    return RowPlan(vector, lanes, block, chunks, full == lanes * chunks and not ragged, tail)


@lru_cache(maxsize=1024)
def row_plan(problem: RowProblem, few: int = FEW_CHUNKS) -> RowPlan:
    """Return what `select_rows` does; of equal plans the same object, as far as they are kept.

    A launcher knows a plan again by its identity; comparing what it holds takes longer.
    """
    return _one(select_rows(problem, few))


@lru_cache(maxsize=256)
def _one(plan: RowPlan) -> RowPlan:
    return plan


def norm_plan(problem: RowProblem, mean: bool, weight: bool, bias: bool, eps: float) -> NormPlan:
    """Return the plan of a normalisation; of equal ones the same object, as `row_plan` does."""
    # Zero equals its negative, and is another constant.
    return _norm_plan(row_plan(problem), mean, weight, bias, eps or str(eps))


@lru_cache(maxsize=256)
def _norm_plan(row: RowPlan, mean: bool, weight: bool, bias: bool, eps: float | str) -> NormPlan:
    return NormPlan(row, mean, weight, bias, float(eps))


@lru_cache(maxsize=256)
def softmax_plan(row: RowPlan, logarithm: bool) -> SoftmaxPlan:
    """Return the plan of a softmax; of equal ones the same object, as `row_plan` does."""
    return SoftmaxPlan(row, logarithm)


def quant_plan(
    norm: NormPlan, limit: float, group: int, power: bool, smooth: bool, added: bool
) -> QuantPlan:
    """Return the plan of quantised results; of equal ones the same object, as `row_plan` does."""
    # As above: plans with zero and its negative are equal.
    return _quant_plan((norm, norm.eps or str(norm.eps)), limit, group, power, smooth, added)


@lru_cache(maxsize=256)
def _quant_plan(
    norm: tuple[NormPlan, float | str], limit: float, group: int, power: bool, smooth: bool,
    added: bool,
) -> QuantPlan:  # fmt: skip
    return QuantPlan(norm[0], limit, group, power, smooth, added)


def select_columns(problem: RowProblem, weight: bool, bias: bool) -> ColumnPlan:
    """Return the plan for sums over the rows; it depends on the problem alone, not on a device."""
    vector = VECTOR_BYTES // ELEMENT_BYTES[problem.dtype]
    blocks = -(-problem.columns // (vector * BLOCK))
    slabs = max(1, min(MAX_SLABS // blocks, problem.rows // ROWS_OF_SLAB))
    return ColumnPlan(vector, BLOCK, _power_of_two(slabs), weight, bias)
