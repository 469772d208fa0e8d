"""Device runtimes: the C ABI of a launch, the interface that a runtime implements, and the choice.

* `abi`: the structures that host stubs and runtimes share.
* `protocol`: `DeviceRuntime`, `LoadedModule` and `OccupancyModule`.
* `output`: what kernels print and assert, and the buffer that carries it; `synchronize`.
* `choice`: which runtime and device a call uses.

A runtime is a plugin: implement `DeviceRuntime` in a distribution and announce it with a
`RuntimeInfo` through the hook `flydsl_device_runtimes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from

if TYPE_CHECKING:
    from flydsl.runtime.choice import (
        Placement,
        check_streams,
        choose_placement,
        open_runtime,
        present_device,
    )
    from flydsl.runtime.output import synchronize
    from flydsl.runtime.protocol import DeviceRuntime, LoadedModule, OccupancyModule

__all__ = [
    "DeviceRuntime",
    "LoadedModule",
    "OccupancyModule",
    "Placement",
    "check_streams",
    "choose_placement",
    "open_runtime",
    "present_device",
    "synchronize",
]

_HOMES = {
    "DeviceRuntime": ".protocol",
    "LoadedModule": ".protocol",
    "OccupancyModule": ".protocol",
    "Placement": ".choice",
    "check_streams": ".choice",
    "choose_placement": ".choice",
    "open_runtime": ".choice",
    "present_device": ".choice",
    "synchronize": ".output",
}

# Import what is asked for: a launch out of the cache needs little of this package.
__getattr__ = imported_from(globals(), _HOMES)
