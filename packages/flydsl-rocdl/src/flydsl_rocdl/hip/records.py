"""Structures and results of the native launch function; see `trampoline`, which writes it."""

from __future__ import annotations

import ctypes

from flydsl.runtime.abi import FlyLaunch

__all__ = [
    "BAD_ABI",
    "BAD_BLOCK",
    "BAD_CLUSTER",
    "BAD_GRID",
    "BAD_LDS",
    "ENTRY",
    "HipDriver",
    "HipKernel",
]

ENTRY = "fly_hip_launch"
BAD_ABI, BAD_BLOCK, BAD_GRID, BAD_LDS, BAD_CLUSTER = -1, -2, -3, -4, -5


class HipKernel(ctypes.Structure):
    """A kernel that is loaded on one device; its address is the launch handle.

    `max_threads` is the largest workgroup it was compiled for, `lds_static` and `lds_capacity` are
    bytes.
    """

    _fields_ = (
        ("function", ctypes.c_uint64),
        ("max_threads", ctypes.c_uint32),
        ("lds_static", ctypes.c_uint32),
        ("lds_capacity", ctypes.c_uint32),
    )


class HipDriver(ctypes.Structure):
    """Addresses of the HIP functions, and the record of a launch that was refused.

    `launch_ex` is 0 where HIP does not have it. When launches fail in several threads at once,
    `failed` holds one of them.
    """

    _fields_ = (
        ("launch", ctypes.c_uint64),
        ("launch_ex", ctypes.c_uint64),
        ("get_device", ctypes.c_uint64),
        ("set_device", ctypes.c_uint64),
        ("failed", FlyLaunch),
    )
