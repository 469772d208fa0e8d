"""Text of LDS swizzle patterns."""

from __future__ import annotations

__all__ = ["swizzle_text"]


def swizzle_text(offset: int) -> str:
    """Return the macro that the assembler accepts for a ``ds_swizzle_b32`` offset."""
    if offset & 0x8000 and not offset & 0x7F00:
        lanes = ",".join(str(offset >> 2 * k & 3) for k in range(4))
        return f"swizzle(QUAD_PERM,{lanes})"
    if offset & 0xE000 == 0xC000:
        return f"swizzle(ROTATE,{offset >> 10 & 1},{offset >> 5 & 31})"
    if offset & 0xE000 == 0xE000:
        return f"swizzle(FFT,{offset & 31})"
    if offset & 0x8000:
        return str(offset)
    keep, set_, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    if keep == 31 and set_ == 0 and flip and not flip & (flip - 1):
        return f"swizzle(SWAP,{flip})"
    if keep == 31 and set_ == 0 and flip and not (flip + 1) & flip:
        return f"swizzle(REVERSE,{flip + 1})"
    group = 32 - keep
    if flip == 0 and (keep or set_) and not group & (group - 1) and group > 1 and set_ < group:
        return f"swizzle(BROADCAST,{group},{set_})"
    letters = {(0, 0, 0): "0", (0, 1, 0): "1", (1, 0, 0): "p", (1, 0, 1): "i"}
    pattern = ""
    for bit in range(4, -1, -1):
        keys = (keep >> bit & 1, set_ >> bit & 1, flip >> bit & 1)
        if keys[1]:
            pattern += "0" if keys[2] else "1"
        elif keys[0]:
            pattern += letters[keys]
        else:
            pattern += "1" if keys[2] else "0"
    return f'swizzle(BITMASK_PERM,"{pattern}")'
