"""The HIP device runtime: AMD GPUs through ``libamdhip64``, loaded when a GPU is first used.

* `search`: where the library can be; `library`: the functions taken from it and their errors.
* `trampoline`: the native launch function between host stubs and HIP.
* `runtime`: `HipRuntime`, which implements `flydsl.runtime.DeviceRuntime`.
* `peers`: memory of other GPUs and other processes.

A HIP function that is missing here: declare it in `library.FUNCTIONS`, call it with
`HipLibrary.call`.
"""

from flydsl_rocdl.hip.runtime import HipRuntime, create

__all__ = ["HipRuntime", "create"]
