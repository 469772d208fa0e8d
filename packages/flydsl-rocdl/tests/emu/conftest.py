"""Running code objects on the emulator."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest

from flydsl.plugins.payloads import CodeObject
from flydsl.runtime.abi import ABI_VERSION, EXTENT_WRITABLE, LAUNCH_FUNCTION, FlyExtent, FlyLaunch

np = pytest.importorskip("numpy")
emulator = pytest.importorskip("flydsl_emu.runtime")

Run = Callable[..., None]


@pytest.fixture
def run_code() -> Run:
    """Run kernel ``k`` of a code object on host arrays, one block."""

    def run(code: CodeObject, arrays: list[Any], threads: int = 64) -> None:
        runtime = emulator.create()
        module = runtime.load(code, 0)
        arguments = [a for a in code.kernels[0].args if not a.hidden]
        assert [a.size for a in arguments] == [8] * len(arrays)
        kernarg = struct.pack(f"<{len(arrays)}Q", *(a.ctypes.data for a in arrays))
        buffer = ctypes.create_string_buffer(kernarg, code.kernels[0].kernarg_size)
        extents = (FlyExtent * len(arrays))(
            *(FlyExtent(i, EXTENT_WRITABLE, a.ctypes.data, 0, a.nbytes)
              for i, a in enumerate(arrays))
        )  # fmt: skip
        launch = FlyLaunch(
            abi_version=ABI_VERSION,
            function=module.function("k"),
            grid=(1, 1, 1),
            block=(threads, 1, 1),
            cluster=(1, 1, 1),
            kernarg=ctypes.addressof(buffer),
            kernarg_size=len(buffer),
            extents=ctypes.addressof(extents),
            extent_count=len(arrays),
        )
        status = LAUNCH_FUNCTION(runtime.launch_address())(ctypes.byref(launch))
        error = runtime.take_error(1)
        if error is not None:
            raise error
        assert status == 0
        module.unload()

    return run
