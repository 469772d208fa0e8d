"""Bit fields of the combined wait instruction, `s_waitcnt`."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import UserTypeError, UserValueError

__all__ = ["GFX9_WAITS", "GFX11_WAITS", "WaitFields"]

Piece = tuple[int, int, int]
"""(bit of the value, bit of the immediate, width)."""


@dataclass(frozen=True, slots=True)
class WaitFields:
    """Where each counter sits in the 16-bit immediate.

    Attributes:
        vmcnt, lgkmcnt, expcnt: Pieces ``(value bit, immediate bit, width)`` of each counter.
    """

    vmcnt: tuple[Piece, ...]
    lgkmcnt: tuple[Piece, ...]
    expcnt: tuple[Piece, ...]

    def limit(self, counter: str) -> int:
        """Return the largest value of `counter`, which also means "do not wait"."""
        pieces: tuple[Piece, ...] = getattr(self, counter)
        return (1 << sum(width for _, _, width in pieces)) - 1

    def encode(
        self, vmcnt: int | None = None, lgkmcnt: int | None = None, expcnt: int | None = None
    ) -> int:
        """Return the immediate that waits until each given counter is at most its value.

        Args:
            vmcnt: Vector memory operations that may stay outstanding; None does not wait.
            lgkmcnt: LDS, scalar memory and message operations likewise.
            expcnt: Exports likewise.

        Raises:
            UserTypeError: A value is not a Python int (counters are immediates).
            UserValueError: A value is outside the counter's range.
        """
        out = 0
        for name, value in (("vmcnt", vmcnt), ("lgkmcnt", lgkmcnt), ("expcnt", expcnt)):
            limit = self.limit(name)
            count = limit if value is None else value
            if isinstance(count, bool) or not isinstance(count, int):
                raise UserTypeError(
                    f"s_waitcnt needs a compile-time integer for {name}",
                    code="FLY-U610",
                    value=value,
                    hint="the counter is an immediate of the instruction; use a Constexpr",
                )
            if not 0 <= count <= limit:
                raise UserValueError(
                    f"{name} is out of range",
                    code="FLY-U611",
                    value=value,
                    allowed=f"0 to {limit} on this architecture",
                )
            for low, position, width in getattr(self, name):
                out |= ((count >> low) & ((1 << width) - 1)) << position
        return out

    def decode(self, immediate: int) -> dict[str, int]:
        """Return the counters of an immediate, the inverse of `encode`."""
        out = {}
        for name in ("vmcnt", "lgkmcnt", "expcnt"):
            value = 0
            for low, position, width in getattr(self, name):
                value |= ((immediate >> position) & ((1 << width) - 1)) << low
            out[name] = value
        return out


GFX9_WAITS = WaitFields(vmcnt=((0, 0, 4), (4, 14, 2)), lgkmcnt=((0, 8, 4),), expcnt=((0, 4, 3),))
"""Vector memory in bits 3:0 and 15:14, exports in 6:4, LDS and scalar memory in 11:8."""

GFX11_WAITS = WaitFields(vmcnt=((0, 10, 6),), lgkmcnt=((0, 4, 6),), expcnt=((0, 0, 3),))
"""Exports in bits 2:0, LDS and scalar memory in 9:4, vector memory in 15:10."""
