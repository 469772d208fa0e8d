"""The HIP device runtime: AMD GPUs through ``libamdhip64``, loaded when a GPU is first used.

* `core`: the library, its errors, modules and launches: all that the first call of a process needs
  if the cache has its code.
* `trampoline`: the native launch function between host stubs and HIP.
* `search`: where the library can be; `functions`: those taken from it; `refusals`: launches that
  never reach it.
* `runtime`: `HipRuntime`, which implements `flydsl.runtime.DeviceRuntime`.
* `streams`: streams, events and graphs; `timing`; `peers`: memory of other GPUs and processes.

A HIP function that is missing here: declare it in `functions.FUNCTIONS`, call it with
`HipLibrary.call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from

if TYPE_CHECKING:
    from flydsl_rocdl.hip.runtime import HipRuntime, create

__all__ = [
    "HipRuntime",
    "create",
]

_HOMES = {
    "HipRuntime": ".runtime",
    "create": ".runtime",
}

# Import what is asked for: a launch out of the cache needs little of this package.
__getattr__ = imported_from(globals(), _HOMES)
