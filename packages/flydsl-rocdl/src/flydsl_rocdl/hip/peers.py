"""Memory of other GPUs and other processes, for communication kernels."""

from __future__ import annotations

import ctypes

from flydsl.errors import TargetError, UserError
from flydsl_rocdl.hip.functions import IpcMemHandle
from flydsl_rocdl.hip.runtime import HipRuntime

__all__ = ["IPC_HANDLE_BYTES", "close_shared", "enable_peer_access", "export_shared", "open_shared"]

IPC_HANDLE_BYTES = ctypes.sizeof(IpcMemHandle)
"""Length of what `export_shared` returns."""

_ALREADY_ENABLED = 704  # hipErrorPeerAccessAlreadyEnabled
_LAZY_PEER_ACCESS = 1  # hipIpcMemLazyEnablePeerAccess


def enable_peer_access(runtime: HipRuntime, device: int, peer: int) -> None:
    """Let kernels on `device` access the memory of `peer`; enabling it again changes nothing.

    Raises:
        TargetError: The two GPUs cannot reach one another.
    """
    library = runtime.library
    if device == peer:
        return
    possible = ctypes.c_int()
    library.call("hipDeviceCanAccessPeer", ctypes.byref(possible), device, peer)
    if not possible.value:
        raise TargetError(
            "these GPUs cannot access one another's memory",
            code="FLY-T656",
            value=f"{device} and {peer}",
        )
    name = "hipDeviceEnablePeerAccess"
    with runtime.on(device):
        library.accept(name, library.function(name)(peer, 0), _ALREADY_ENABLED)


def export_shared(runtime: HipRuntime, address: int, device: int) -> bytes:
    """Return a handle by which another process can open the allocation at `address`.

    Args:
        runtime: The runtime.
        address: Start of an allocation of device memory.
        device: The GPU it is on.
    """
    handle = IpcMemHandle()
    with runtime.on(device):
        runtime.library.call("hipIpcGetMemHandle", ctypes.byref(handle), address)
    return bytes(handle)


def open_shared(runtime: HipRuntime, handle: bytes, device: int) -> int:
    """Return the address at which the allocation behind `handle` appears on `device`.

    Raises:
        UserError: The handle does not have `IPC_HANDLE_BYTES` bytes.
        TargetError: HIP cannot open it; the process that exported it must not be this one.
    """
    given: object = handle
    if not isinstance(given, (bytes, bytearray)) or len(given) != IPC_HANDLE_BYTES:
        raise UserError(
            "this is no handle of shared device memory",
            code="FLY-U653",
            value=f"{len(given)} bytes" if isinstance(given, (bytes, bytearray)) else given,
            allowed=f"the {IPC_HANDLE_BYTES} bytes that export_shared returned",
        )
    opened = IpcMemHandle.from_buffer_copy(handle), _LAZY_PEER_ACCESS
    return runtime.made("hipIpcOpenMemHandle", "hipIpcCloseMemHandle", device, *opened)


def close_shared(runtime: HipRuntime, address: int, device: int) -> None:
    """Close what `open_shared` opened."""
    with runtime.on(device):
        runtime.library.call("hipIpcCloseMemHandle", address)
