"""States paged decoding and chooses how it is done: `DecodeProblem`, `select_decode`.

A workgroup takes a part of the keys of a sequence and a head of the cache, for all rows of queries
that share that head, so that keys and values are read once. Its four waves take steps of keys in
turn; each wave computes Sᵀ = K Qᵀ and Oᵀ = Vᵀ Pᵀ with matrix instructions of 16 rows, whose first
result is laid out as the second one's operand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flydsl.errors import ConfigError
from flydsl_kernels.attention.rotary import CACHE_LAYOUTS, LIMITS
from flydsl_kernels.attention.selection import matching_unit
from flydsl_rocdl.arch import ArchFacts

__all__ = ["WAVES", "DecodePlan", "DecodeProblem", "decode_unit", "select_decode"]

_UNITS = {
    "mfma-4x32": ("mfma.f32.16x16x32.bf16",),
    "mfma-4x16": ("mfma.f32.16x16x16bf16.1k",),
    "wmma-1250": ("wmma.f32.16x16x32.bf16",),
    "wmma": ("wmma.f32.16x16x16.bf16",),
}
"""Matrix instructions of 16 rows, with what they need."""

WAVES = 4
"""Waves of a workgroup."""
ROWS = 16
"""Rows of queries of a matrix instruction."""
MOST_COLUMNS = 4
"""Blocks of rows that a wave keeps results of."""
_RESULTS = 128
"""Registers for results that a lane of a wave of 32 has."""
QUERIES = ("bfloat16", "float16")
LATENT = 512
ROPE = 64
MLA_WIDTH = LATENT + ROPE
"""Elements of a cached token of multi-head latent attention: latent, then rotated ones."""


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
        unit: Matrix instruction, a key of `device.matrix.UNITS`.
        span: Neighbouring keys of a step that a lane has values of: 8 or 16.
        columns: Blocks of 16 rows that a wave has.
        blocks: Workgroups that share the rows of a head.
        piece: Elements of a key that a lane loads at once: 8 or 16.
        width: Of values with contiguous elements: those of a key that a lane has.
        turns: Of those: keys of which a lane loads one, all lanes' elements for the others too.
        shares: Shares of the elements of values that are loaded one after the other; one share is
            loaded together with keys.
        key_shares: Shares of the elements of keys likewise.
    """

    problem: DecodeProblem
    unit: str
    span: int
    columns: int
    blocks: int
    piece: int
    width: int
    turns: int = 1
    shares: int = 1
    key_shares: int = 1

    @property
    def loads(self) -> int:
        """Loads of a lane of the values of a key, or of neighbouring keys."""
        return self.tiles // self.width if self.problem.layout == "linear" else self.tiles

    def share(self, number: int) -> range:
        """Return which of these loads belong to a share."""
        size = -(-self.loads // self.shares)
        return range(number * size, min((number + 1) * size, self.loads))

    @property
    def uneven(self) -> bool:
        """Whether some rows see keys that others do not."""
        return self.problem.queries > 1

    @property
    def rows(self) -> int:
        """Rows of queries that share a head of the cache."""
        return self.problem.group * self.problem.queries

    @property
    def parts(self) -> int:
        """Parts of a wave, each of 16 lanes."""
        return wave_parts(self.unit)

    @property
    def shared(self) -> bool:
        """Whether operands of queries are in LDS, not in registers."""
        return self.parts == 2

    @property
    def chunks(self) -> int:
        """Chunks of 8 elements that a lane has of a query."""
        return self.problem.d_qk // (8 * self.parts)

    @property
    def step(self) -> int:
        """Keys that a wave takes at a time."""
        return self.parts * self.span

    @property
    def tiles(self) -> int:
        """Blocks of 16 elements of a value."""
        return self.problem.d_v // ROWS


def wave_parts(unit: str) -> int:
    """Return how many parts of 16 lanes the waves of a matrix instruction have."""
    return 2 if unit.startswith("wmma") else 4


def least_span(unit: str) -> int:
    """Return how many keys of a step a lane has weights of, at least: those of one operand."""
    return 16 if unit == "wmma-1250" else 8


def decode_unit(facts: ArchFacts) -> str:
    """Return the matrix instruction that decoding uses.

    Raises:
        ConfigError: The architecture has none that would do.
    """
    return matching_unit(_UNITS, facts, "decoding")


def select_decode(problem: DecodeProblem, facts: ArchFacts) -> DecodePlan:
    """Return the plan for a problem.

    Args:
        problem: The problem.
        facts: The architecture.

    Raises:
        ConfigError: The architecture has no matrix instruction for it.
    """
    unit = decode_unit(facts)
    parts, most = wave_parts(unit), MOST_COLUMNS
    if parts == 2:
        results = _RESULTS // 2 if unit == "wmma-1250" else _RESULTS
        most = min(most, max(1, results * 2 // problem.d_v))
    tiles = -(-problem.group * problem.queries // ROWS)
    blocks = -(-tiles // most)
    columns = -(-tiles // blocks)
    turned = problem.byte and problem.layout != "linear"
    span = 16 if turned else least_span(unit)
    piece = 16 if problem.byte and problem.d_qk % (16 * parts) == 0 else 8
    crowded = unit == "wmma-1250" and problem.d_v * (1 if problem.byte else 2) > 256
    crowded |= unit == "wmma-11" and problem.d_v == 128 and columns == 1 and not problem.byte
    width, turns = _value_loads(problem, 2 if crowded else 1)
    plan = DecodePlan(problem, unit, span, columns, blocks, piece, width, turns)
    if parts == 4:
        return plan
    keys = span * problem.d_qk * (1 if problem.byte else 2) // 64
    return replace(plan, shares=_shares(plan), key_shares=2 if keys > 64 else 1)


def _shares(plan: DecodePlan) -> int:
    """Return in how many shares values are loaded where waves have 32 lanes.

    A lane has 256 registers. They do not suffice where loads have less than 128 bits, each of which
    takes a register or more; where halves of the wave exchange operands made of floats of 8 bits,
    or all of a value of 128 elements; and where results and values together would fill them.
    """
    size = 1 if plan.problem.byte else 2
    linear = plan.problem.layout == "linear"
    if linear and plan.width * plan.turns * size < 16:
        return plan.loads
    if not linear and plan.unit == "wmma-11" and plan.problem.cache.startswith("float8"):
        return 2
    if plan.turns > 1 and plan.unit == "wmma-11" and plan.problem.d_v == 128:
        return 2 if linear else 1
    values = plan.span * plan.problem.d_v * size // 64
    return min(plan.loads, 4) if plan.columns * plan.tiles * 8 + values > 192 else 1


def _value_loads(problem: DecodeProblem, least: int) -> tuple[int, int]:
    """Return (elements of a value that a lane has, keys whose loads lanes share).

    A lane of 16 loads 128 bits, whole or for two or four lanes, so that all of them have work. Rows
    that are no multiple of 64 bytes are loaded in smaller pieces.

    Args:
        problem: The problem.
        least: Lanes for which a lane loads at least.
    """
    for turns in (1, 2, 4):
        if turns < least:
            continue
        width = (16 if problem.byte else 8) // turns
        if problem.d_v % (ROWS * width) == 0:
            return width, turns
    share = problem.d_v // ROWS
    return share & -share, 1


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
        unit: Matrix instruction, a key of `device.matrix.UNITS`.
        waves: Waves of a workgroup.
        span: Neighbouring keys of a step that a lane has weights of.
        resident: Operands of its 16 rows that a wave has in registers; the others are in LDS.
        split: Neighbouring waves that have the same rows. Each makes a share of their scores, and
            multiplies all weights by a share of the elements of values.
        by_keys: Into how many shares `split` divides the keys of a step for the scores; it divides
            the elements of keys by what is left.
    """

    problem: LatentProblem
    unit: str
    waves: int
    span: int
    resident: int
    split: int = 1
    by_keys: int = 1

    @property
    def parts(self) -> int:
        """Parts of a wave, each of 16 lanes."""
        return wave_parts(self.unit)

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.waves * self.parts * 16

    @property
    def step(self) -> int:
        """Keys that a workgroup takes at a time."""
        return self.parts * self.span

    @property
    def depth(self) -> int:
        """Shares of the elements of keys."""
        return self.split // self.by_keys

    @property
    def pieces(self) -> int:
        """Operands that a wave has of the elements of a row."""
        return MLA_WIDTH // (self.parts * least_span(self.unit) * self.depth)

    @property
    def groups(self) -> int:
        """Groups of 128 elements of values that a wave has."""
        return LATENT // 128 // self.split

    @property
    def uneven(self) -> bool:
        """Whether some rows see values that others do not, and that may be no numbers."""
        return self.problem.queries > 1 and self.problem.cache != "int8"

    @property
    def rows(self) -> int:
        """Rows of queries of a sequence."""
        return self.problem.heads * self.problem.queries

    @property
    def block_rows(self) -> int:
        """Rows of a workgroup."""
        return self.waves // self.split * ROWS

    @property
    def blocks(self) -> int:
        """Workgroups that share the rows of a sequence."""
        return -(-self.rows // self.block_rows)


def select_latent(problem: LatentProblem, facts: ArchFacts) -> LatentPlan:
    """Return the plan for a problem; arguments and errors as of `select_decode`.

    Of 16 rows a wave of 64 lanes has the results in 128 registers of each lane, one of 32 lanes a
    quarter of them in 64. Eight waves of 64 lanes, for 128 rows, have 256 registers: there some of
    the operands of queries are in LDS, as many as it has room for.
    """
    unit = decode_unit(facts)
    span = least_span(unit)
    tiles = -(-problem.heads * problem.queries // ROWS)
    if wave_parts(unit) == 4:
        waves = next(count for count in (1, 2, 4, 8) if count >= min(tiles, 8))
        pieces = MLA_WIDTH // (4 * span)
        if waves < 8:
            return LatentPlan(problem, unit, waves, span, pieces)
        # Where products of 16 keys are no slower, steps of so few leave more room in LDS.
        span = 4 if unit == "mfma-4x16" else span
        room = facts.lds.capacity - 4 * span * MLA_WIDTH * 2
        shared = min(13, room // (waves * 16 * 32 * 2))
        return LatentPlan(problem, unit, waves, span, pieces - shared)
    newest = unit == "wmma-1250"
    # Of 256 registers of a lane, large workgroups have fewer, and so have small ones, whose threads
    # have more of the next tokens.
    least, most = {"wmma-11": (1, 4), "wmma-12": (1, 8), "wmma-1250": (2, 4)}[unit]
    groups = next(count for count in (1, 2, 4, 8) if count >= min(max(tiles, least), most))
    pieces, by_keys = (0, 2) if newest else (9, 1)
    return LatentPlan(problem, unit, 4 * groups, span, pieces, 4, by_keys)
