"""Colours on which black text stays legible.

Contrast is that of WCAG 2: all colours here are at least 7:1 against black (tested).
"""

from __future__ import annotations

import colorsys

__all__ = ["BLANK", "contrast_with_black", "for_key", "for_share", "for_ways", "terminal_code"]

BLANK = "#f4f4f4"
"""Background of what takes no part."""

_WAYS = ((1, "#a6dba0"), (2, "#fff3a3"), (4, "#fdc086"), (8, "#fb9a8c"), (1 << 30, "#f4a3c8"))


def _hex(red: float, green: float, blue: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))


def for_key(number: int) -> str:
    """Return the colour of thread or bank `number`; neighbours differ clearly.

    Hues advance by the golden ratio; lightness and saturation cycle with periods that share no
    factor with one another.
    """
    hue = (number * 0.6180339887498949 + 0.58) % 1.0
    light = (0.80, 0.87, 0.74)[number % 3]
    return _hex(*colorsys.hls_to_rgb(hue, light, (0.75, 0.55)[number % 2]))


def for_share(part: int, whole: int) -> str:
    """Return a shade from pale to mid blue for `part` of `whole`."""
    share = part / max(whole - 1, 1)
    return _hex(*colorsys.hls_to_rgb(0.57, 0.96 - 0.30 * min(max(share, 0.0), 1.0), 0.62))


def for_ways(ways: int) -> str:
    """Return the colour of an access that waits for `ways` others, itself included."""
    return next(colour for most, colour in _WAYS if ways <= most)


def contrast_with_black(colour: str) -> float:
    """Return the WCAG 2 contrast ratio of ``#rrggbb`` and black."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (luminance + 0.05) / 0.05


def terminal_code(colour: str) -> str:
    """Return the escape sequence that sets black text on the nearest of the 256 colours."""
    red, green, blue = (round(int(colour[i : i + 2], 16) / 255 * 5) for i in (1, 3, 5))
    return f"\x1b[30;48;5;{16 + 36 * red + 6 * green + blue}m"
