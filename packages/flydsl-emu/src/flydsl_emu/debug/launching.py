"""Something to call for what a user wants to debug."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.frontend import KernelFunction, jit

__all__ = ["launcher_of"]

_GEOMETRY = ("grid", "block", "smem", "cluster")


def launcher_of(function: object, geometry: Mapping[str, Any]) -> Callable[..., object]:
    """Return what to call with the arguments.

    Args:
        function: A launcher or any other function that launches, or a kernel.
        geometry: For a kernel, arguments of ``launch``: ``grid``, ``block``.

    Raises:
        UserTypeError: A kernel without geometry, geometry without a kernel, or neither.
    """
    if isinstance(function, KernelFunction):
        unknown = set(geometry) - set(_GEOMETRY)
        if unknown or not {"grid", "block"} <= set(geometry):
            raise UserTypeError(
                f"kernel {function.name!r} needs its geometry",
                code="FLY-U723",
                value=tuple(geometry),
                allowed="grid=, block= (and smem=, cluster=), or the launcher that launches it",
            )
        return _made_for(function, geometry)
    if geometry or not callable(function):
        raise UserTypeError(
            "geometry goes with a kernel, and anything else must be callable",
            code="FLY-U723",
            value=function,
        )
    return function


def _made_for(kernel: KernelFunction, geometry: Mapping[str, Any]) -> Callable[..., object]:
    """Return a launcher with the kernel's parameters; tracing needs its source, so it gets some."""
    parameters = kernel.signature.parameters
    names = [p.name for p in parameters]
    shape = ", ".join(f"{name}={value!r}" for name, value in geometry.items())
    typed = ", ".join(f"{n}: _types[{n!r}]" for n in names)
    text = (
        f"def launch({typed}):\n"
        f"    _kernel({', '.join(names)}).launch({shape})\n"
    )  # fmt: skip
    filename = f"<launcher of {kernel.qualname} at {id(kernel):#x}: {shape}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {
        "_kernel": kernel,
        "_types": {p.name: p.annotation for p in parameters},
        "__name__": kernel.module,
    }
    exec(compile(text, filename, "exec"), scope)  # noqa: S102 - the text is made above
    made: Callable[..., object] = jit(scope["launch"])
    return made
