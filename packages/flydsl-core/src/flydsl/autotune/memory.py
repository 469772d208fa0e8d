"""What tensor arguments hold: saved, restored and compared while candidates are tried."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

from flydsl.compiler.arguments.foreign import is_foreign, view_of
from flydsl.compiler.arguments.tensors import library_of
from flydsl.errors import UserTypeError

__all__ = ["Snapshot", "differences"]

_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}
"""Relative tolerance by bytes of a floating-point element: candidates may sum in another order."""


class Snapshot:
    """The contents of the tensors among a call's arguments.

    Args:
        arguments: Arguments by name.

    Raises:
        UserTypeError: A tensor on a device belongs to a library that cannot copy it for us.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._saved: dict[str, tuple[Any, Any]] = {}
        for name, value in arguments.items():
            if library_of(value) == "torch":
                self._saved[name] = value, value.detach().clone()
            elif library_of(value) == "numpy":
                self._saved[name] = value, value.copy()
            elif is_foreign(value):
                self._saved[name] = value, _bytes(name, value)

    def restore(self) -> None:
        """Put the saved contents back."""
        for value, saved in self._saved.values():
            if library_of(value) == "torch":
                torch = sys.modules["torch"]
                with torch.no_grad():
                    value.copy_(saved)
            elif library_of(value) == "numpy":
                if value.flags.writeable:
                    value[...] = saved
            else:
                low, data = saved
                ctypes.memmove(low, data, len(data))

    def contents(self) -> dict[str, Any]:
        """Return what the tensors hold now, by name."""
        return {
            name: Snapshot({name: value})._saved[name][1]
            for name, (value, _) in self._saved.items()
        }


def _bytes(name: str, value: Any) -> tuple[int, bytes]:
    """Return the lowest address that a host tensor reaches, and the bytes from there on."""
    view = view_of(value)
    if view.device != "cpu":
        raise UserTypeError(
            f"the contents of {name!r} cannot be saved while candidates are tried",
            code="FLY-U471",
            value=type(value).__name__,
            allowed="torch tensors, NumPy arrays, host tensors of other libraries",
        )
    from flydsl.compiler.arguments.dtypes import element_of

    size = element_of(view.dtype).size
    spans = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    if 0 in view.shape:
        return view.address, b""
    low = view.address + size * sum(span for span in spans if span < 0)
    high = view.address + size * (1 + sum(span for span in spans if span > 0))
    return low, ctypes.string_at(low, high - low)


def differences(
    found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float | None
) -> str:
    """Return the name of a tensor whose contents differ and by how much; empty if none do.

    Args:
        found: Contents by name.
        wanted: What they are compared with.
        tolerance: Relative and absolute; None takes one for the element type. Integers must agree.
    """
    for name, expected in wanted.items():
        text = _difference(found[name], expected, tolerance)
        if text:
            return f"{name} {text}"
    return ""


def _difference(found: Any, expected: Any, tolerance: float | None) -> str:
    if isinstance(expected, tuple):
        return "" if found == expected else "differs"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(expected, torch.Tensor):
        size, floating = expected.element_size(), expected.is_floating_point()
        found, expected = (t.detach().to("cpu", torch.float64) for t in (found, expected))
        found, expected = found.numpy(), expected.numpy()
    else:
        size, floating = expected.itemsize, expected.dtype.kind not in "biu"
    numpy: Any = sys.modules["numpy"]
    if not floating:
        return "" if numpy.array_equal(found, expected) else "differs"
    limit = _TOLERANCES.get(size, 0.1) if tolerance is None else tolerance
    found, expected = found.astype("float64"), expected.astype("float64")
    scale = float(numpy.nanmax(numpy.abs(expected), initial=0.0, where=numpy.isfinite(expected)))
    good = numpy.isclose(found, expected, rtol=limit, atol=limit * scale, equal_nan=True)
    if good.all():
        return ""
    worst = float(numpy.nanmax(numpy.abs(found - expected)))
    return f"differs in {int((~good).sum())} elements, by up to {worst:.3g}"
