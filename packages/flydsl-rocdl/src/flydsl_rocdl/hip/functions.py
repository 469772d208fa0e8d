"""Argument types of the functions of ``libamdhip64`` that this package calls.

Source: the HIP runtime API reference, https://rocm.docs.amd.com/projects/HIP.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

__all__ = ["FUNCTIONS", "IpcMemHandle"]

_P, _INT, _UINT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t


class IpcMemHandle(ctypes.Structure):
    """``hipIpcMemHandle_t``: 64 opaque bytes, passed by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


FUNCTIONS: Mapping[str, Sequence[Any]] = MappingProxyType(
    {
        "hipDeviceSynchronize": (),
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (_P, _P, _INT, _SIZE),
        "hipMalloc": (_P, _SIZE),
        "hipFree": (_P,),
        "hipMemcpy": (_P, _P, _SIZE, _INT),
        "hipStreamCreateWithFlags": (_P, _UINT),
        "hipStreamDestroy": (_P,),
        "hipStreamSynchronize": (_P,),
        "hipStreamWaitEvent": (_P, _P, _UINT),
        "hipStreamBeginCapture": (_P, _INT),
        "hipStreamEndCapture": (_P, _P),
        "hipStreamIsCapturing": (_P, _P),
        "hipGraphInstantiate": (_P, _P, _P, _P, _SIZE),
        "hipGraphLaunch": (_P, _P),
        "hipGraphDestroy": (_P,),
        "hipGraphExecDestroy": (_P,),
        "hipEventCreateWithFlags": (_P, _UINT),
        "hipEventDestroy": (_P,),
        "hipEventRecord": (_P, _P),
        "hipEventSynchronize": (_P,),
        "hipEventElapsedTime": (_P, _P, _P),
        "hipDeviceCanAccessPeer": (_P, _INT, _INT),
        "hipDeviceEnablePeerAccess": (_INT, _UINT),
        "hipDeviceDisablePeerAccess": (_INT,),
        "hipIpcGetMemHandle": (_P, _P),
        "hipIpcOpenMemHandle": (_P, IpcMemHandle, _UINT),
        "hipIpcCloseMemHandle": (_P,),
    }
)
"""Argument types by name; every one returns ``hipError_t``. What launching needs is in
`flydsl_rocdl.hip.core`."""
