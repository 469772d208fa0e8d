"""Device runtimes: the C ABI of a launch, the interface that a runtime implements, and the choice.

* `abi`: the structures that host stubs and runtimes share.
* `protocol`: `DeviceRuntime` and `LoadedModule`.
* `output`: what kernels print and assert, and the buffer that carries it; `synchronize`.
* `choice`: which runtime and device a call uses.

A runtime is a plugin: implement `DeviceRuntime` in a distribution and announce it with a
`RuntimeInfo` through the hook `flydsl_device_runtimes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flydsl.runtime.choice import Placement, choose_placement, open_runtime
    from flydsl.runtime.output import synchronize
    from flydsl.runtime.protocol import DeviceRuntime, LoadedModule

__all__ = [
    "DeviceRuntime",
    "LoadedModule",
    "Placement",
    "choose_placement",
    "open_runtime",
    "synchronize",
]

_HOMES = {
    "DeviceRuntime": "protocol",
    "LoadedModule": "protocol",
    "Placement": "choice",
    "choose_placement": "choice",
    "open_runtime": "choice",
    "synchronize": "output",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a launch out of the cache needs little of this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"flydsl.runtime.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
