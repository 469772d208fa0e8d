"""States paged decoding and chooses how it is done: `DecodeProblem`, `select_decode`.

A workgroup takes a part of the keys of a sequence and a head of the cache, for all rows of queries
that share that head, so that keys and values are read once. Its four waves take steps of keys in
turn; each wave computes Sᵀ = K Qᵀ and Oᵀ = Vᵀ Pᵀ with matrix instructions of 16 rows, whose first
result is laid out as the second one's operand.
"""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import ConfigError
from flydsl_kernels.attention.rotary import CACHE_LAYOUTS, LIMITS

__all__ = ["WAVES", "DecodePlan", "DecodeProblem", "select_decode"]

WAVES = 4
"""Waves of a workgroup."""
ROWS = 16
"""Rows of queries of a matrix instruction."""
MOST_COLUMNS = 4
"""Blocks of rows that a wave keeps results of."""
QUERIES = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class DecodeProblem:
    """Decoding with a paged cache.

    Attributes:
        dtype: Element type of queries and results.
        cache: Element type of the cache: `dtype` or one of 8 bits.
        group: Heads of queries that share a head of the cache.
        queries: Queries of a sequence.
        d_qk: Elements of a query and of a key.
        d_v: Elements of a value.
        page: Tokens of a page.
        layout: Layout of the cache.
        token_scales: Whether every token has scales; else there is one of keys, one of values.
        window: Whether queries see only a number of the last keys.

    Raises:
        ConfigError: One of these is out of range.
    """

    dtype: str
    cache: str
    group: int
    queries: int
    d_qk: int
    d_v: int
    page: int
    layout: str
    token_scales: bool = False
    window: bool = False

    def __post_init__(self) -> None:
        self._check_types()
        for width in (self.d_qk, self.d_v):
            if width % 32 or not 32 <= width <= 256:
                raise ConfigError(
                    "heads of this many elements are not decoded",
                    code="FLY-C951",
                    value=width,
                    allowed="multiples of 32 up to 256",
                )
        if self.page % 16 or self.page < 16:
            raise ConfigError(
                "pages of this many tokens are not decoded",
                code="FLY-C952",
                value=self.page,
                allowed="multiples of 16",
            )

    def _check_types(self) -> None:
        if self.dtype not in QUERIES:
            raise ConfigError(
                "queries of this element type are not decoded",
                code="FLY-C950",
                value=self.dtype,
                allowed=", ".join(QUERIES),
            )
        if self.cache != self.dtype and self.cache not in LIMITS:
            raise ConfigError(
                "caches of this element type are not decoded",
                code="FLY-C950",
                value=self.cache,
                allowed=f"{self.dtype}, " + ", ".join(LIMITS),
            )
        if self.layout not in CACHE_LAYOUTS:
            raise ConfigError(
                "caches of this layout are not decoded",
                code="FLY-C953",
                value=self.layout,
                allowed=", ".join(CACHE_LAYOUTS),
            )

    @property
    def byte(self) -> bool:
        """Whether elements of the cache have 8 bits."""
        return self.cache != self.dtype


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What the kernels of a problem are compiled for.

    Attributes:
        problem: The problem.
        deep: Whether a matrix instruction takes 32 k, else 16.
        span: Neighbouring keys of a step that a lane has values of: 8 or 16.
        columns: Blocks of 16 rows that a wave has.
        blocks: Workgroups that share the rows of a head.
        piece: Elements of a key that a lane loads at once: 8 or 16.
        width: Of values with contiguous elements: those that a lane loads at once.
    """

    problem: DecodeProblem
    deep: bool
    span: int
    columns: int
    blocks: int
    piece: int
    width: int

    @property
    def rows(self) -> int:
        """Rows of queries that share a head of the cache."""
        return self.problem.group * self.problem.queries

    @property
    def step(self) -> int:
        """Keys that a wave takes at a time."""
        return 4 * self.span

    @property
    def tiles(self) -> int:
        """Blocks of 16 elements of a value."""
        return self.problem.d_v // ROWS


def select_decode(problem: DecodeProblem, deep: bool) -> DecodePlan:
    """Return the plan for a problem.

    Args:
        problem: The problem.
        deep: Whether the architecture has matrix instructions of 16 rows and 32 k of 16 bits.
    """
    rows = problem.group * problem.queries
    tiles = -(-rows // ROWS)
    blocks = -(-tiles // MOST_COLUMNS)
    columns = -(-tiles // blocks)
    span = 16 if problem.byte and problem.layout != "linear" else 8
    piece = 16 if problem.byte and problem.d_qk % 64 == 0 else 8
    share = problem.d_v // ROWS
    width = min(8, share & -share)
    return DecodePlan(problem, deep, span, columns, blocks, piece, width)
