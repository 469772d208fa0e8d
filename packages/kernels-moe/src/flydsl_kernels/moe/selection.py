"""Chooses how the routing is divided among threads: `select_gating` and `select_sort`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from flydsl_kernels.moe.problem import GatingProblem, SortProblem

__all__ = [
    "GatingPlan",
    "QuantPlan",
    "RowsPlan",
    "SortPlan",
    "quant_plan",
    "rows_plan",
    "select_gating",
    "select_sort",
]

BLOCK = 256
LEAST_LANES = 16
"""Lanes of a token at least: as many as experts can be chosen, since lane i keeps the i-th."""
MOST_LANES = 32
"""Lanes of a token at most: every target's wave has that many."""
SOME_EXPERTS = 4
"""Experts of a lane, while there are lanes."""
ONE_GROUP_PAIRS = 8192
"""Pairs that one workgroup sorts alone."""
CHUNK = 8192
"""Pairs that one of several workgroups sorts."""
COUNTS = 8192
"""Counts in LDS, one per wave of 32 lanes and expert: 32 KiB."""


@dataclass(frozen=True, slots=True)
class GatingPlan:
    """What the gating kernel is compiled for.

    Attributes:
        experts: Number of experts.
        chosen: Experts chosen per token.
        lanes: Lanes of a wave that share a token; a power of two.
        each: Experts of a lane: neighbours, except past the last expert.
        scoring: ``softmax`` or ``sigmoid``.
        renormalise: Divide the weights by their sum.
        biased: Choose by score plus bias.
        groups: Groups of experts.
        top_groups: Groups chosen from.
        pair_scores: A group's score is the sum of its two best, not its best.
        scale: Factor of the weights.
        block: Threads of a workgroup.
    """

    experts: int
    chosen: int
    lanes: int
    each: int
    scoring: str
    renormalise: bool
    biased: bool
    groups: int
    top_groups: int
    pair_scores: bool
    scale: float
    block: int = BLOCK

    @property
    def tokens(self) -> int:
        """Tokens of a workgroup."""
        return self.block // self.lanes


@dataclass(frozen=True, slots=True)
class SortPlan:
    """What the sorting kernels are compiled for.

    Attributes:
        experts: Number of experts.
        slots: Experts per token.
        unit: Entries of a block.
        block: Threads of a workgroup; each of its waves has a part of the pairs.
        chunk: Pairs of a workgroup.
        phases: Whether several workgroups sort, in three launches.
        masked: Whether a mask says which experts are here.
        counted: Whether the number of tokens is in device memory.
    """

    experts: int
    slots: int
    unit: int
    block: int
    chunk: int
    phases: bool
    masked: bool
    counted: bool


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """What a kernel on whole rows is compiled for.

    Attributes:
        vector: Elements of one load.
        placed: Whether a number per pair says where its row is, or with -1 that it has none.
        gathered: Whether that number is the row; else rows are in the order of the pairs.
        weighted: Whether rows are multiplied by the weights of the pairs.
        block: Threads of a workgroup.
    """

    vector: int
    placed: bool = False
    gathered: bool = False
    weighted: bool = False
    block: int = BLOCK


@dataclass(frozen=True, slots=True)
class QuantPlan:
    """What a quantisation of rows is compiled for.

    Attributes:
        dtype: The small type.
        limit: Its largest number.
        vector: Elements of one load.
        group: Columns that share a scale: 128, 32 (powers of two), or 0 for whole rows.
        smooth: Multiply columns by factors of the row's expert first.
        by_slot: Rows of the result are slot * tokens + token, of the input tokens.
        block: Threads of a workgroup.
    """

    dtype: str
    limit: float
    vector: int
    group: int = 0
    smooth: bool = False
    by_slot: bool = False
    block: int = BLOCK


rows_plan = lru_cache(maxsize=256, typed=True)(RowsPlan)
"""`RowsPlan`, the same object for equal arguments."""
quant_plan = lru_cache(maxsize=256, typed=True)(QuantPlan)
"""`QuantPlan`, the same object for equal arguments."""


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def select_gating(problem: GatingProblem) -> GatingPlan:
    """Return the plan for a problem, whatever its number of tokens; every valid one has a plan."""
    # The scale is a text, since 0.0 equals -0.0.
    return _gating_plan(
        problem.experts, problem.chosen, problem.scoring, problem.renormalise, problem.biased,
        (problem.groups, problem.top_groups), float(problem.scale).hex(),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _gating_plan(
    experts: int, chosen: int, scoring: str, renormalise: bool, biased: bool,
    groups: tuple[int, int], scale: str,
) -> GatingPlan:  # fmt: skip
    wanted = max(_power_of_two(-(-experts // SOME_EXPERTS)), _power_of_two(groups[0]))
    lanes = min(MOST_LANES, max(LEAST_LANES, wanted))
    return GatingPlan(
        experts, chosen, lanes, -(-experts // lanes), scoring, renormalise, biased, *groups, biased,
        float.fromhex(scale),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def select_sort(problem: SortProblem, masked: bool = False, counted: bool = False) -> SortPlan:
    """Return the plan for a problem; of the number of pairs it depends on the size class only.

    Args:
        problem: What is to be computed.
        masked: Whether a mask says which experts are here.
        counted: Whether the number of tokens is in device memory.
    """
    phases = problem.pairs > ONE_GROUP_PAIRS
    most = COUNTS // _power_of_two(problem.experts) * 32
    block = min(most, 1024 if problem.pairs > 1024 else 256)
    chunk = CHUNK if phases else ONE_GROUP_PAIRS
    return SortPlan(
        problem.experts, problem.slots, problem.unit, block, chunk, phases, masked, counted
    )
