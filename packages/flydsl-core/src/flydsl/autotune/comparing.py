"""Comparing what two candidates leave in a tensor."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["differences", "different_everywhere"]

_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}
"""Relative tolerance by bytes of a floating-point element: candidates may sum in another order."""


def differences(
    found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float | None
) -> str:
    """Return the name of a tensor whose contents differ and by how much; empty if none do.

    Args:
        found: Contents by name.
        wanted: What they are compared with.
        tolerance: Relative to an element, or to the typical size of those in its row or column,
            for sums may cancel; None takes one for the element type. Integers must agree.
    """
    for name, expected in wanted.items():
        text = _difference(found[name], expected, tolerance)
        if text:
            return f"{name} {text}"
    return ""


def _difference(found: Any, expected: Any, tolerance: float | None) -> str:
    if isinstance(expected, (tuple, bytes)):
        return "" if found == expected else "differs"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(expected, torch.Tensor):
        size, floating = expected.element_size(), expected.is_floating_point()
        kind = torch.float64 if floating else expected.dtype
        found, expected = (t.detach().to("cpu", kind).numpy() for t in (found, expected))
    else:
        size, floating = expected.itemsize, expected.dtype.kind not in "biu"
    numpy: Any = sys.modules["numpy"]
    if not floating:
        wrong = int((found != expected).sum())
        return f"differs in {wrong} elements" if wrong else ""
    limit = _TOLERANCES.get(size, 0.1) if tolerance is None else tolerance
    found, expected = found.astype("float64"), expected.astype("float64")
    bad = ~numpy.isclose(found, expected, rtol=limit, atol=0.0, equal_nan=True)
    if not bad.any():
        return ""
    with numpy.errstate(invalid="ignore"):
        apart = numpy.abs(found - expected)
    bad &= ~(apart <= limit * _typical(numpy, expected))
    if not bad.any():
        return ""
    finite = apart[bad & numpy.isfinite(apart)]
    worst = f"by up to {finite.max():.3g}" if finite.size else "not a number or infinite"
    return f"differs in {int(bad.sum())} elements, {worst}"


def _typical(numpy: Any, values: Any) -> Any:
    """Return for each element the median magnitude of those that share all indices but one.

    The largest of these over the axes. Unlike the largest element, a median does not hide errors
    behind one that is far larger than the others.
    """
    sizes = numpy.where(numpy.isfinite(values) & (values != 0), numpy.abs(values), numpy.nan)
    # Where all are nan there is no median, and no tolerance beyond the relative one.
    largest = numpy.zeros(())
    for axis in range(values.ndim):
        some = numpy.nanmax(numpy.nan_to_num(sizes), axis=axis, keepdims=True) > 0
        filled = numpy.where(some, sizes, 0.0)
        largest = numpy.maximum(largest, numpy.nanmedian(filled, axis=axis, keepdims=True))
    return numpy.broadcast_to(largest, values.shape)


def different_everywhere(saved: Any, found: Any) -> Any | None:
    """Return `saved` with other numbers where `found` has the same bits; None if nowhere.

    None for integers, too.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(saved, torch.Tensor):
        if not saved.is_floating_point():
            return None
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        word = words[saved.element_size()]
        same = saved.view(word) == found.view(word)
        if not same.any():
            return None
        other = torch.where(saved.to(torch.float64) == 1.0, 0.5, 1.0).to(saved.dtype)
        return torch.where(same, other.view(word), saved.view(word)).view(saved.dtype)
    if saved.dtype.kind in "biu":
        return None
    numpy: Any = sys.modules["numpy"]
    word = f"u{saved.itemsize}"
    same = saved.view(word) == found.view(word)
    if not same.any():
        return None
    # Both are numbers of every format, scales that are powers of two included.
    other = numpy.where(saved.astype("float64") == 1.0, 0.5, 1.0).astype(saved.dtype)
    return numpy.where(same, other.view(word), saved.view(word)).view(saved.dtype)
