"""`HipLibrary`: the functions of ``libamdhip64`` that the runtime calls, with errors as exceptions.

Source: the HIP runtime API reference, https://rocm.docs.amd.com/projects/HIP.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from flydsl.errors import TargetError
from flydsl_rocdl.settings import HIP_LIBRARY

__all__ = ["FUNCTIONS", "HipLibrary", "IpcMemHandle"]

_P, _INT, _UINT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t


class IpcMemHandle(ctypes.Structure):
    """``hipIpcMemHandle_t``: 64 opaque bytes, passed by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


FUNCTIONS: Mapping[str, Sequence[Any]] = MappingProxyType(
    {
        "hipGetDeviceCount": (_P,),
        "hipGetDevice": (_P,),
        "hipSetDevice": (_INT,),
        "hipGetDevicePropertiesR0600": (_P, _INT),
        "hipDeviceSynchronize": (),
        "hipModuleLoadData": (_P, ctypes.c_char_p),
        "hipModuleUnload": (_P,),
        "hipModuleGetFunction": (_P, _P, ctypes.c_char_p),
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (_P, _P, _INT, _SIZE),
        "hipThreadExchangeStreamCaptureMode": (_P,),
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
"""Argument types by name; every one returns ``hipError_t``."""

LAUNCH_FUNCTIONS = ("hipModuleLaunchKernel", "hipDrvLaunchKernelEx")
"""What only the trampoline calls; the second exists since ROCm 7 and is needed for clusters."""


_NEEDED = (LAUNCH_FUNCTIONS[0], "hipGetErrorName", "hipGetErrorString", "hipGetLastError")
"""What tells HIP from another library, and what explains the errors of the others."""


class HipLibrary:
    """A loaded ``libamdhip64``.

    Args:
        path: Path or name of the library; None looks for it.

    Raises:
        TargetError: There is none, or it is no HIP library.
    """

    def __init__(self, path: str | None = None) -> None:
        chosen = path or HIP_LIBRARY.get()
        # Searching takes time, also to import.
        self._library = _load(_candidates() if chosen is None else (str(chosen),))
        self.path = str(self._library._name)
        self._functions: dict[str, Any] = {}
        self._text = self._library.hipGetErrorString
        self._text.restype, self._text.argtypes = ctypes.c_char_p, (_INT,)
        self._name = self._library.hipGetErrorName
        self._name.restype, self._name.argtypes = ctypes.c_char_p, (_INT,)

    def function(self, name: str) -> Any:
        """Return a function of `FUNCTIONS`, typed.

        Raises:
            TargetError: This version of HIP does not have it.
        """
        found = self._functions.get(name)
        if found is None:
            try:
                found = getattr(self._library, name)
            except AttributeError:
                raise TargetError(
                    f"this version of HIP has no {name}", code="FLY-T652", value=self.path
                ) from None
            found.restype, found.argtypes = _INT, list(FUNCTIONS[name])
            self._functions[name] = found
        return found

    def address(self, name: str) -> int:
        """Return the address of a function, or 0 where this version of HIP does not have it."""
        try:
            pointer = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
        except AttributeError:
            return 0
        return pointer.value or 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of `FUNCTIONS`.

        Raises:
            TargetError: It returns an error.
        """
        self.accept(name, self.function(name)(*arguments))

    def accept(self, name: str, status: int, *harmless: int) -> None:
        """Check the result of a function.

        Args:
            name: The function.
            status: What it returned.
            *harmless: Errors that change nothing for the caller.

        Raises:
            TargetError: It is another error.
        """
        if status in harmless:
            self.forget()
        elif status:
            raise self.error(name, status)

    def forget(self) -> None:
        """Clear the error that HIP keeps for the thread: the next to ask would take it for its own.

        PyTorch asks after every launch.
        """
        self._library.hipGetLastError()

    def error(self, what: str, status: int) -> TargetError:
        """Return the exception for a ``hipError_t``, which HIP forgets."""
        self.forget()
        name = (self._name(status) or b"").decode(errors="replace")
        text = (self._text(status) or b"").decode(errors="replace")
        return TargetError(f"{what} failed: {text}", code="FLY-T653", value=f"{name} ({status})")


def _candidates() -> Iterable[str]:
    from flydsl_rocdl.hip.search import candidates

    return candidates()


def _load(paths: Any) -> ctypes.CDLL:
    tried: dict[str, str] = {}
    for path in paths:
        try:
            library = ctypes.CDLL(path)
            for name in _NEEDED:
                getattr(library, name)
        except (OSError, AttributeError) as error:
            tried[path] = str(error)
            continue
        return library
    raise TargetError(
        "the HIP library libamdhip64 cannot be loaded",
        code="FLY-T651",
        value="; ".join(tried.values()),
        hint="install ROCm or a PyTorch for ROCm, set ROCM_PATH to an installation, or name the "
        "library with FLYDSL_HIP_LIBRARY. Host tensors need no GPU: they run in the emulator",
    )
