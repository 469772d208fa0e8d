"""What tensor arguments hold: saved, restored and compared while candidates are tried."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flydsl.autotune.comparing import different_everywhere
from flydsl.axes import repeats_elements
from flydsl.compiler.arguments import TensorArgument
from flydsl.compiler.arguments.foreign import is_foreign, view_of
from flydsl.compiler.arguments.tensors import library_of
from flydsl.errors import UserTypeError
from flydsl.expr.structs import Struct

__all__ = ["Snapshot", "clear", "on_host", "shape_of", "tensors_in"]


def tensors_in(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a call by name: those inside wrappers and structs, too."""
    for name, value in arguments.items():
        if isinstance(value, TensorArgument):
            yield name, value.tensor
        elif isinstance(value, Struct):
            kind: Any = type(value)
            fields = {f"{name}.{f.name}": getattr(value, f.name) for f in kind.fields}
            yield from tensors_in(fields)
        elif library_of(value) or is_foreign(value):
            yield name, value


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return the extents of a tensor of any library."""
    return tuple(tensor.shape) if library_of(tensor) else view_of(tensor).shape


def clear(tensor: Any) -> None:
    """Set all elements of a tensor to zero."""
    if library_of(tensor) == "torch":
        tensor.data.zero_()
    elif library_of(tensor):
        tensor[...] = 0
    else:
        low, data = _bytes("an argument", tensor)
        ctypes.memset(low, 0, len(data))


class Snapshot:
    """The contents of the tensors among a call's arguments.

    Args:
        arguments: Arguments by name.
        names: Those to save; None saves all.

    Raises:
        UserTypeError: A tensor on a device belongs to a library that cannot copy it for us.
    """

    def __init__(self, arguments: Mapping[str, Any], names: Collection[str] | None = None) -> None:
        self._tensors = {
            name: value
            for name, value in tensors_in(arguments)
            if names is None or name.partition(".")[0] in names
        }
        self._saved = self.contents()

    def restore(self, contents: Mapping[str, Any] | None = None) -> None:
        """Put the saved contents back, or other ones."""
        for name, saved in (self._saved if contents is None else contents).items():
            value = self._tensors[name]
            if library_of(value) == "torch":
                torch = sys.modules["torch"]
                with torch.no_grad():
                    # Of a view that autograd does not know: what is put back has not changed.
                    _distinct(value.data).copy_(saved)
            elif library_of(value) == "numpy":
                if value.flags.writeable:
                    value[...] = saved
            else:
                low, data = saved
                ctypes.memmove(low, data, len(data))

    def contents(self) -> dict[str, Any]:
        """Return what the tensors hold now, by name."""
        return {name: _content(name, value) for name, value in self._tensors.items()}

    def disturbed(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the saved contents with other numbers where a run has left what was there.

        A run from there tells whether it writes these elements: it may have put there what was
        there already. Only floating-point numbers are replaced, for others may be positions.

        Args:
            found: What the tensors held after a run. Empty is returned if all has changed.
        """
        changed: dict[str, Any] = {}
        for name, saved in self._saved.items():
            other = None if isinstance(saved, tuple) else different_everywhere(saved, found[name])
            if other is not None:
                changed[name] = other
        return {**self._saved, **changed} if changed else {}


def _content(name: str, value: Any) -> Any:
    library = library_of(value)
    if library == "torch":
        return _distinct(value.detach()).clone()
    return value.copy() if library == "numpy" else _bytes(name, value)


def _distinct(tensor: Any) -> Any:
    """Return a view of a torch tensor that has each element in memory once."""
    torch = sys.modules["torch"]
    extents, strides = tuple(tensor.shape), tuple(tensor.stride())
    if 0 in extents or not repeats_elements(extents, strides):
        return tensor
    last = sum((n - 1) * s for n, s in zip(extents, strides, strict=True))
    return torch.as_strided(tensor, (last + 1,), (1,))


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


def on_host(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Return contents that another process can compare: no addresses, nothing on a device."""
    return {
        name: saved.cpu()
        if library_of(saved) == "torch"
        else saved[1]
        if isinstance(saved, tuple)
        else saved
        for name, saved in contents.items()
    }
