"""What of a tensor's address and strides decides how it is specialised, and what may be done."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["MAX_ALIGNMENT", "alignment_of", "repeats_elements", "unit_axis"]

MAX_ALIGNMENT = 16
"""Bytes; the widest access that one lane makes."""


def alignment_of(address: int) -> int:
    """Return the largest power of two up to `MAX_ALIGNMENT` that divides `address`."""
    capped = address | MAX_ALIGNMENT
    return capped & -capped


def unit_axis(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the axis that is static with stride one, or -1 if there is none.

    Among several the last one of more than one element, for the strides of others mean nothing; but
    the last axis of a row-major tensor, which is what rows of one element are, too.
    """
    last = len(strides) - 1
    if last >= 0 and strides[last] == 1 and (shape[last] != 1 or _row_major(shape, strides)):
        return last
    units = [axis for axis, stride in enumerate(strides) if stride == 1]
    real = [axis for axis in units if shape[axis] != 1]
    return (real or units or [-1])[-1]


def repeats_elements(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements of a tensor that is not empty are the same memory.

    Axes that interleave count as if they were.
    """
    reach = 0
    axes = zip(strides, shape, strict=True)
    for step, extent in sorted((abs(step), extent) for step, extent in axes if extent > 1):
        if step <= reach:
            return True
        reach += (extent - 1) * step
    return False


def _row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True
