"""The C ABI between compiled host stubs and device runtimes (DESIGN §11.3 and §11.4).

A host stub has the C signature
``int32_t stub(const FlyHostContext *context, const void *arguments)``. It computes the launch
geometry, packs kernel arguments and calls ``context->launch`` once per kernel launch with a
`FlyLaunch`. A non-zero return stops the stub and is passed on; the caller turns it into the
exception that the runtime recorded.
"""

from __future__ import annotations

import ctypes

__all__ = [
    "ABI_VERSION",
    "DIMENSIONS",
    "EXTENT_WRITABLE",
    "LAUNCH_FUNCTION",
    "REFUSED",
    "STUB_FUNCTION",
    "WANTS_EXTENTS",
    "FlyExtent",
    "FlyHostContext",
    "FlyLaunch",
]

ABI_VERSION = 3
EXTENT_WRITABLE = 1
"""Bit of `FlyExtent.flags`: the kernel may write the range."""
WANTS_EXTENTS = 1
"""Bit of `FlyHostContext.flags`: the stub must fill `FlyLaunch.extents`."""
REFUSED = -16
"""The stub's own result ``REFUSED - i``: the value of ``DIMENSIONS[i]`` cannot be launched.

The stub then has not called the runtime, whose negative results lie above `REFUSED`; the value is
in `FlyHostContext.refused`.
"""
DIMENSIONS = (
    *(f"{part}.{axis}" for part in ("grid", "block", "cluster") for axis in "xyz"),
    "smem",
)
"""What a stub checks before a launch: counts from 0 to 2**32 - 1, and bytes from 0 to 2**31 - 1."""


class FlyExtent(ctypes.Structure):
    """Bytes that one tensor argument can reach: ``[base + low, base + high)``.

    `argument` counts tensor arguments of the kernel from zero. An empty tensor has low == high.
    """

    _fields_ = [
        ("argument", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("base", ctypes.c_uint64),
        ("low", ctypes.c_int64),
        ("high", ctypes.c_int64),
    ]


class FlyLaunch(ctypes.Structure):
    """One kernel launch.

    `grid` counts workgroups, `block` threads, `cluster` workgroups; `dynamic_lds` is in bytes;
    `kernarg` holds the explicit arguments at the offsets that the code object's metadata lists;
    `driver` is what the runtime put into `FlyHostContext.driver`.
    """

    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("function", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("dynamic_lds", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("kernarg", ctypes.c_uint64),
        ("kernarg_size", ctypes.c_uint64),
        ("extents", ctypes.c_uint64),
        ("extent_count", ctypes.c_uint64),
        ("driver", ctypes.c_uint64),
    ]


class FlyHostContext(ctypes.Structure):
    """What a stub needs from its runtime.

    `functions` points to an array of ``uint64_t`` function handles, one per kernel of the module in
    module order; `launch` is the address of ``int32_t launch(const FlyLaunch *)``; `driver` is the
    runtime's own, handed to `launch` in the record, so that `launch` can be code without data;
    `output` is the address of the device's output buffer for programs that print, else 0; `refused`
    receives the value that made the stub return `REFUSED` or less. When launches are refused in
    several threads at once, it holds one of them.
    """

    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("flags", ctypes.c_uint64),
        ("launch", ctypes.c_uint64),
        ("functions", ctypes.c_uint64),
        ("driver", ctypes.c_uint64),
        ("output", ctypes.c_uint64),
        ("refused", ctypes.c_int64),
    ]


LAUNCH_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(FlyLaunch))
STUB_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
