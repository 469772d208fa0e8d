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
LATENT = 512
ROPE = 64
MLA_WIDTH = LATENT + ROPE
"""Elements of a cached token of multi-head latent attention: latent, then rotated ones."""
LATENT_STEP = 32
"""Keys that a workgroup of latent attention takes at a time."""


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


@dataclass(frozen=True, slots=True)
class LatentProblem:
    """Decoding of multi-head latent attention with a paged cache.

    Keys are the tokens of the cache, values their first `LATENT` elements; all heads share them.

    Attributes:
        dtype: Element type of queries: one of 16 bits, or an 8-bit float.
        cache: Element type of the cache: one of 16 bits, or of 8.
        heads: Heads of queries.
        queries: Queries of a sequence.
        page: Tokens of a page.

    Raises:
        ConfigError: One of these is not supported.
    """

    dtype: str
    cache: str
    heads: int
    queries: int
    page: int

    def __post_init__(self) -> None:
        small = [name for name in LIMITS if name != "int8"]
        if self.dtype not in (*QUERIES, *small):
            raise ConfigError(
                "queries of this element type are not decoded",
                code="FLY-C950",
                value=self.dtype,
                allowed=", ".join((*QUERIES, *small)),
            )
        caches = (self.kind, *LIMITS)
        if self.cache not in caches:
            raise ConfigError(
                "caches of this element type are not decoded",
                code="FLY-C950",
                value=self.cache,
                allowed=", ".join(caches),
            )

    @property
    def kind(self) -> str:
        """Element type of 16 bits that products are computed in, and of the result."""
        return self.dtype if self.dtype in QUERIES else "bfloat16"


@dataclass(frozen=True, slots=True)
class LatentPlan:
    """What the kernel of a `LatentProblem` is compiled for.

    Attributes:
        problem: The problem.
        deep: Whether a matrix instruction takes 32 k, else 16.
        waves: Waves of a workgroup, which have different rows.
        columns: Blocks of 16 rows of a wave.
    """

    problem: LatentProblem
    deep: bool
    waves: int
    columns: int

    @property
    def rows(self) -> int:
        """Rows of queries of a sequence."""
        return self.problem.heads * self.problem.queries

    @property
    def block_rows(self) -> int:
        """Rows of a workgroup."""
        return self.waves * self.columns * ROWS

    @property
    def blocks(self) -> int:
        """Workgroups that share the rows of a sequence."""
        return -(-self.rows // self.block_rows)


def select_latent(problem: LatentProblem, deep: bool) -> LatentPlan:
    """Return the plan for a problem; arguments as of `select_decode`."""
    tiles = -(-problem.heads * problem.queries // ROWS)
    columns = 2 if tiles >= 2 * WAVES else 1
    waves = WAVES if tiles >= 3 else max(1, tiles)
    return LatentPlan(problem, deep, waves, columns)
