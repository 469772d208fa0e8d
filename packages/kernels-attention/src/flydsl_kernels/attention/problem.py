"""What is to be computed: `FlashProblem`."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import ConfigError

__all__ = ["DTYPES", "MAX_HEAD", "FlashProblem", "check_splits"]

DTYPES = ("bfloat16", "float16", "float8_e4m3fn", "float8_e4m3fnuz")
"""Element types of q, k and v."""
MAX_HEAD = 256
_MAX_SPLITS = 128
_PAGES = (16, 1024)


def check_splits(splits: object) -> None:
    """Check a number of parts of the keys.

    Raises:
        ConfigError: It is no integer, or out of range.
    """
    whole = isinstance(splits, int) and not isinstance(splits, bool)
    if not whole or not 1 <= splits <= _MAX_SPLITS:  # type: ignore[operator]
        raise ConfigError(
            "keys cannot be divided into this many parts", code="FLY-C943", value=splits,
            allowed=f"1 to {_MAX_SPLITS}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlashProblem:
    """An attention.

    Attributes:
        dtype: Element type of q, k and v.
        heads: Heads of q.
        kv_heads: Heads of k and v, a divisor of `heads`.
        d_qk: Elements of a row of q and k.
        d_v: Elements of a row of v.
        left: Keys that a row sees to the left of its own place; negative for all.
        right: The same for the right.
        varlen: Whether sequences are packed.
        lengths: Whether numbers of keys are given per sequence.
        page: Keys of a page, 0 for none.
        vectorised: Whether pages have the vectorised layout.
        bias: Whether there is a bias.
        alibi: Whether there are slopes.
        sink: Whether there are sinks.
        splits: Parts of the keys.
        lse: Whether the logarithms of the sums are wanted.
        short: Whether there are so few rows that workgroups should take fewer of them.

    Raises:
        ConfigError: One of these is out of range.
    """

    dtype: str
    heads: int
    kv_heads: int
    d_qk: int
    d_v: int
    left: int = -1
    right: int = -1
    varlen: bool = False
    lengths: bool = False
    page: int = 0
    vectorised: bool = False
    bias: bool = False
    alibi: bool = False
    sink: bool = False
    splits: int = 1
    lse: bool = False
    short: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(
                "attention of this element type is not supported", code="FLY-C940",
                value=self.dtype, allowed=", ".join(DTYPES),
            )  # fmt: skip
        for width in (self.d_qk, self.d_v):
            if not 8 <= width <= MAX_HEAD or width % 8:
                raise ConfigError(
                    "a head has another number of elements than the kernels take",
                    code="FLY-C941", value=width, allowed=f"multiples of 8 up to {MAX_HEAD}",
                    hint="pad the last axis with zeros",
                )  # fmt: skip
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise ConfigError(
                "every head of k and v serves the same number of heads of q", code="FLY-C942",
                value=f"{self.heads} and {self.kv_heads}", allowed="a multiple of the kv heads",
            )  # fmt: skip
        check_splits(self.splits)
        low, high = _PAGES
        if self.page and (not low <= self.page <= high or self.page % low):
            raise ConfigError(
                "pages have another number of keys than the kernels take", code="FLY-C944",
                value=self.page, allowed=f"multiples of {low} up to {high}",
            )  # fmt: skip
        if self.vectorised and (self.byte or self.d_qk % 8):
            raise ConfigError(
                "the vectorised layout of pages is for elements of 16 bits", code="FLY-C947",
                value=self.dtype, allowed="bfloat16, float16",
            )  # fmt: skip

    @property
    def byte(self) -> bool:
        """Whether elements have 8 bits."""
        return self.dtype.startswith("float8")
