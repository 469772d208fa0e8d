"""The HIP device runtime: AMD GPUs through ``libamdhip64``, loaded when a GPU is first used.

* `search`: where the library can be; `library`: the functions taken from it and their errors.
* `trampoline`: the native launch function between host stubs and HIP.
* `runtime`: `HipRuntime`, which implements `flydsl.runtime.DeviceRuntime`.
* `streams`: streams, events and graphs; `timing`; `peers`: memory of other GPUs and processes.

A HIP function that is missing here: declare it in `library.FUNCTIONS`, call it with
`HipLibrary.call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flydsl_rocdl.hip.runtime import HipRuntime, create

__all__ = [
    "HipRuntime",
    "create",
]

_HOMES = {
    "HipRuntime": "runtime",
    "create": "runtime",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a launch out of the cache needs little of this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"flydsl_rocdl.hip.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
