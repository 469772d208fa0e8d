"""Launching code objects under the sanitizer, for its tests."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flydsl_emu.codeobject import read_code_object
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Allocation, Geometry
from flydsl_emu.sanitizer import SanitizerReport, check_launch

__all__ = ["allocations_of", "checked", "kernarg_of"]


def kernarg_of(arguments: Sequence[Any]) -> bytes:
    """Arrays become pointers, ints i32."""
    data = b""
    for x in arguments:
        if isinstance(x, np.ndarray):
            data += bytes(-len(data) % 8) + struct.pack("<Q", x.ctypes.data)
        else:
            data += struct.pack("<i", x)
    return data


def allocations_of(arguments: Sequence[Any]) -> list[Allocation]:
    """Return the memory of the arrays among the arguments."""
    return [
        Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, f"argument {n}")
        for n, x in enumerate(arguments)
        if isinstance(x, np.ndarray)
    ]


def checked(
    hsaco: bytes,
    arguments: Sequence[Any],
    *,
    checks: str = "all",
    grid: int = 1,
    block: int = 256,
    change: Callable[[LoadedCode], None] | None = None,
) -> SanitizerReport:
    """Launch kernel ``k`` and return what the sanitizer finds."""
    code = LoadedCode(read_code_object(hsaco))
    if change is not None:
        change(code)
    geometry = Geometry((grid, 1, 1), (block, 1, 1))
    kernel = code.kernels["k"]
    return check_launch(kernel, geometry, kernarg_of(arguments), allocations_of(arguments), checks)
