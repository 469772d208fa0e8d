"""How a tile is shared by waves, and how it must lie in LDS: plain Python.

Tiles here have their modes from the outermost to the innermost, whose elements are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flydsl.errors import UserValueError
from flydsl_rocdl.arch.tensor import pad_codes

__all__ = [
    "LdsRuns",
    "compute_padding_encoding",
    "compute_warp_distribution",
    "dense_strides",
    "lds_runs",
    "padded_strides",
]


def compute_warp_distribution(
    tile_shape: Sequence[int], num_warps: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how many waves share each mode, and the part of one wave.

    From the outermost mode on, the waves of a mode are doubled while they fit it; what is left
    goes to the innermost. A part is the quotient rounded up.

    Args:
        tile_shape: Extents of the tile.
        num_warps: Waves, a power of two.

    Raises:
        UserValueError: No power of two.
    """
    if num_warps < 1 or num_warps & (num_warps - 1):
        raise UserValueError("waves share a tile in powers of two", code="FLY-U655",
                             value=num_warps)  # fmt: skip
    left, waves = num_warps, []
    for extent in tile_shape:
        own = 1
        while left > 1 and 2 * own <= extent:
            own, left = 2 * own, left // 2
        waves.append(own)
    waves[-1] *= left
    return tuple(waves), tuple(-(-e // w) for e, w in zip(tile_shape, waves, strict=True))


def compute_padding_encoding(
    pad_interval: int, pad_amount: int, elem_bytes: int = 2
) -> tuple[int, int]:
    """Return the codes of pads of `pad_amount` elements after each `pad_interval` elements.

    Raises:
        UserValueError: The hardware has no such pads.
    """
    codes = pad_codes(pad_interval * elem_bytes, pad_amount * elem_bytes)
    if codes is None:
        raise UserValueError(
            "the tensor data mover has no such pads", code="FLY-U655",
            value=f"{pad_amount} after {pad_interval} elements of {elem_bytes} bytes",
            allowed="1 to 128 dwords after a power of two from 2 to 256 dwords",
        )  # fmt: skip
    return codes


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tile without gaps."""
    out, step = [], 1
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return tuple(reversed(out))


def padded_strides(shape: Sequence[int], interval: int, amount: int) -> tuple[int, ...] | None:
    """Return the strides of a dense tile with pads, in elements; None when it has no strides."""
    out = []
    for stride, extent in zip(dense_strides(shape), shape, strict=True):
        if stride % interval and stride * extent > interval:
            return None
        out.append(stride + stride // interval * amount)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class LdsRuns:
    """How a tile lies in LDS: runs of elements, with a gap after each but the last.

    Attributes:
        run: Elements of a run, 0 when there are no gaps.
        gap: Elements between runs.
    """

    run: int = 0
    gap: int = 0


def lds_runs(shape: Sequence[int], strides: Sequence[int]) -> LdsRuns:
    """Return the runs of a tile in LDS.

    Args:
        shape: Extents of what one wave transfers.
        strides: Elements from one place to the next along each mode.

    Raises:
        UserValueError: The elements do not lie in the tile's order with equal gaps.
    """
    found = LdsRuns()
    for dense, extent, stride in reversed(
        list(zip(dense_strides(shape), shape, strides, strict=True))
    ):
        if extent == 1 or stride == _at(dense, found):
            continue
        if found.run or stride <= dense:
            raise _wrong(shape, strides)
        found = LdsRuns(dense, stride - dense)
    return found


def _at(dense: int, found: LdsRuns) -> int:
    """Return where element number `dense` lies; nowhere inside a run's later elements."""
    if not found.run:
        return dense
    return dense + dense // found.run * found.gap if dense % found.run == 0 else -1


def _wrong(shape: Sequence[int], strides: Sequence[int]) -> UserValueError:
    return UserValueError(
        "a tensor transfer writes LDS in the order of the tile, with equal gaps", code="FLY-U656",
        value=f"tile {tuple(shape)} with strides {tuple(strides)} in LDS",
        allowed="the innermost mode contiguous, and one gap after each run of it",
    )  # fmt: skip
