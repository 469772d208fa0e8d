"""What is to be computed by the routing: `GatingProblem` and `SortProblem`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_fields, is_finite

__all__ = [
    "MAX_EXPERTS",
    "MAX_SLOTS",
    "MAX_TOKENS",
    "GatingProblem",
    "SortProblem",
    "gating_problem",
    "refuse",
    "sort_problem",
]

MAX_EXPERTS = 1024
MAX_CHOSEN = 16
MAX_GROUPS = 32
MAX_SLOTS = 127
"""Experts of a token that fit a packed id, whose upper byte is not negative."""
MAX_TOKENS = (1 << 24) - 1
LOGIT_TYPES = ("float32", "float16", "bfloat16")
SCORINGS = ("softmax", "sigmoid")


def refuse(message: str, code: str, value: object, allowed: str, hint: str = "") -> None:
    """Raise the `ConfigError` of a configuration that the kernels do not have."""
    raise ConfigError(message, code=code, value=value, allowed=allowed, hint=hint)


def _within(value: int, low: int, high: int, what: str, code: str) -> None:
    if not low <= value <= high:
        refuse(f"{what} is out of range", code, value, f"{low} to {high}")


@dataclass(frozen=True, slots=True)
class GatingProblem:
    """The choice of experts for every token.

    Attributes:
        tokens: Number of tokens; zero is allowed.
        experts: Number of experts, 1 to 1024.
        chosen: Experts chosen per token, 1 to 16.
        dtype: Element type of the logits.
        scoring: ``softmax`` or ``sigmoid``.
        renormalise: Divide the weights of a token by their sum.
        biased: Whether a correction is added to the scores for the choice.
        groups: Groups of neighbouring experts; divides `experts`.
        top_groups: Groups that experts are chosen from.
        scale: Factor of the weights.

    Raises:
        ConfigError: One of these is out of range.
    """

    tokens: int
    experts: int
    chosen: int
    dtype: str
    scoring: str = "softmax"
    renormalise: bool = True
    biased: bool = False
    groups: int = 1
    top_groups: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        _within(self.tokens, 0, (1 << 31) - 1, "the number of tokens", "FLY-C970")
        _within(self.experts, 1, MAX_EXPERTS, "the number of experts", "FLY-C971")
        if self.dtype not in LOGIT_TYPES:
            refuse("gating does not take logits of this type", "FLY-C972", self.dtype,
                   ", ".join(LOGIT_TYPES))  # fmt: skip
        if self.scoring not in SCORINGS:
            refuse("gating does not know this scoring", "FLY-C972", self.scoring,
                   ", ".join(SCORINGS))  # fmt: skip
        if not 1 <= self.groups <= MAX_GROUPS or self.experts % self.groups:
            refuse("the groups do not divide the experts", "FLY-C973", self.groups,
                   f"a divisor of {self.experts}, up to {MAX_GROUPS}")  # fmt: skip
        _within(self.top_groups, 1, self.groups, "the number of groups chosen", "FLY-C973")
        most = min(MAX_CHOSEN, self.top_groups * (self.experts // self.groups))
        _within(self.chosen, 1, most, "the number of experts chosen", "FLY-C971")
        if not is_finite(self.scale):
            refuse("the factor of the weights is not finite", "FLY-C972", self.scale,
                   "a finite number")  # fmt: skip


_PLAIN = (int, int, int, str, str, bool, bool, int, int, float)
"""Types of the fields of a `GatingProblem`."""


def gating_problem(*values: Any) -> GatingProblem:
    """Return `GatingProblem(*values)`; in repeated calls with plain values the same object."""
    if tuple(map(type, values)) != _PLAIN:
        return GatingProblem(*values)
    return _gating_problem(values[-1].hex(), *values)


@lru_cache(maxsize=4096)
def _gating_problem(scale: str, *values: Any) -> GatingProblem:
    del scale  # in the key: 0.0 equals -0.0, and its weights do not
    return GatingProblem(*values)


@dataclass(frozen=True, slots=True)
class SortProblem:
    """The ordering of (token, slot) pairs by expert.

    Attributes:
        tokens: Number of tokens; zero is allowed.
        slots: Experts per token, 1 to 127.
        experts: Number of experts, 1 to 1024.
        unit: Entries of a block; those of an expert are padded to a multiple.

    Raises:
        ConfigError: One of these is out of range.
    """

    tokens: int
    slots: int
    experts: int
    unit: int

    def __post_init__(self) -> None:
        check_fields(self)
        _within(self.tokens, 0, MAX_TOKENS, "the number of tokens", "FLY-C970")
        _within(self.slots, 1, MAX_SLOTS, "the number of experts per token", "FLY-C971")
        _within(self.experts, 1, MAX_EXPERTS, "the number of experts", "FLY-C971")
        _within(self.unit, 1, 1024, "the number of entries of a block", "FLY-C974")
        if self.pairs + self.experts * self.unit >= 1 << 31:
            refuse("there are too many pairs of token and expert", "FLY-C970", self.pairs,
                   "fewer than 2^31 with padding")  # fmt: skip

    @property
    def pairs(self) -> int:
        """Number of (token, slot) pairs."""
        return self.tokens * self.slots

    @property
    def capacity(self) -> int:
        """Entries that the sorted order can have at most: experts without tokens have none."""
        return self.pairs + min(self.experts, self.pairs) * (self.unit - 1)

    @property
    def blocks(self) -> int:
        """Blocks that the sorted order can have at most."""
        return self.capacity // self.unit


@lru_cache(maxsize=4096, typed=True)
def sort_problem(tokens: int, slots: int, experts: int, unit: int) -> SortProblem:
    """Return `SortProblem(...)`: the same object in repeated calls."""
    return SortProblem(tokens, slots, experts, unit)
