"""The arguments of `flash_attention`, checked: `Sequences`, `Keys`, `Extras`."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext.arguments import as_text, check_fields, is_finite
from flydsl_kernels.attention.problem import check_splits

__all__ = ["Extras", "Keys", "Sequences"]

__flydsl_internal__ = True  # errors are at the line of the caller

_MOST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Sequences:
    """Packed sequences, as the arguments of `flash_attention`."""

    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    max_seqlen_q: int | None = None
    max_seqlen_k: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("max_seqlen_q", "max_seqlen_k"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _MOST:
                raise UserValueError(f"{name} is no length", code="FLY-U949", value=value,
                                     allowed=f"0 to {_MOST}, or None")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keys:
    """Where keys are, how they are divided, and results, as the arguments of `flash_attention`."""

    block_table: Any = None
    seqlens_k: Any = None
    kv_layout: str = "linear"
    num_splits: int = 1
    return_lse: bool = False

    def __post_init__(self) -> None:
        check_splits(self.num_splits)
        check_fields(self)
        if as_text(self.kv_layout, "kv_layout") not in ("linear", "vectorised"):
            raise UserValueError(
                "pages have no such layout", code="FLY-U941", value=self.kv_layout,
                allowed="linear, vectorised",
            )  # fmt: skip
        if self.block_table is not None and self.seqlens_k is None:
            raise UserValueError("pages need the number of keys of each sequence",
                                 code="FLY-U942", hint="pass seqlens_k")  # fmt: skip
        if self.block_table is None and self.kv_layout != "linear":
            raise UserValueError("only pages have a vectorised layout", code="FLY-U941",
                                 value=self.kv_layout, hint="pass block_table")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extras:
    """What changes scores, as the arguments of `flash_attention`."""

    causal: bool = False
    window: tuple[int | None, ...] = (None, None)
    softmax_scale: float | None = None
    bias: Any = None
    alibi_slopes: Any = None
    sink: Any = None
    descale: tuple[Any, Any, Any] = (None, None, None)

    def __post_init__(self) -> None:
        scale = self.softmax_scale
        if scale is not None and not (is_finite(scale) and scale > 0):
            raise UserValueError("the scale of scores is positive and finite", code="FLY-U943",
                                 value=scale, allowed="positive numbers")  # fmt: skip
        given: object = self.window  # the annotation is a promise of the caller
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        if not pair or not all(s is None or isinstance(s, numbers.Integral) for s in self.window):
            raise UserValueError("a window is a pair: keys to the left and to the right",
                                 code="FLY-U944", value=self.window,
                                 allowed="two integers or None")  # fmt: skip

    @property
    def bounds(self) -> tuple[int, int]:
        """Keys that a row sees to its left and right, -1 for all."""
        left, right = self.window
        return _reach(left), 0 if self.causal else _reach(right)


def _reach(side: int | None) -> int:
    return -1 if side is None or side < 0 else min(int(side), _MOST // 4)
