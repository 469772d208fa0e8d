"""`HipRuntime`: implements `flydsl.runtime.DeviceRuntime` on AMD GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flydsl.errors import TargetError
from flydsl_rocdl.hip import core
from flydsl_rocdl.hip.core import HipCode, HipLauncher, HipModule
from flydsl_rocdl.settings import HIP_LIBRARY

if TYPE_CHECKING:
    from flydsl.plugins.payloads import CodeObject, TargetSpec

__all__ = ["HipRuntime", "create"]

_NO_DEVICE = 100  # hipErrorNoDevice
_TO_DEVICE, _TO_HOST = 1, 2  # hipMemcpyKind


class HipRuntime(HipLauncher):
    """The GPUs of this process, in HIP's order, and their memory."""

    def __init__(self, path: str | None = None, *, holds: bool | None = None) -> None:
        super().__init__(path, holds=holds)
        self._specs: dict[int, TargetSpec] = {}

    # Devices -------------------------------------------------------------------------------------
    def problem(self) -> str:
        """Return why there are no devices; empty if there are some."""
        try:
            library = self.library
            status, count = self._count(library)
        except TargetError as error:
            return f"{error.message} ({error.value}); {error.hint}"
        if status not in (0, _NO_DEVICE):
            return library.error("hipGetDeviceCount", status).message
        return "" if count else "HIP sees no GPU"

    def device_spec(self, device: int) -> TargetSpec | None:
        """Return the target id of a GPU, as HIP names it.

        Raises:
            TargetError: The device does not exist, or its architecture is not supported.
        """
        spec = self._specs.get(device)
        if spec is None:
            from flydsl_rocdl.target import parse_target

            name = self.arch_name(device)
            spec = parse_target(name)
            if spec is None:
                raise TargetError(
                    "HIP reports an unknown architecture", code="FLY-T655", value=name
                )
            self._specs[device] = spec
        return spec

    def device_model(self, device: int) -> str:
        """Return what its maker calls a GPU: models of one architecture differ in size.

        Raises:
            TargetError: The device does not exist.
        """
        return self._property(device, 0)

    # Modules and launches ------------------------------------------------------------------------
    def load(self, code: CodeObject, device: int) -> HipModule:
        """Load `code` on `device`.

        Raises:
            TargetError: It is for another architecture, or HIP refuses it.
        """
        if code.format != "hsaco":
            raise TargetError("HIP loads AMD code objects only", code="FLY-T654", value=code.format)
        spec = self.device_spec(device)
        if spec is not None and spec.arch != code.target.arch:
            raise TargetError(
                "the code object is for another architecture than the device",
                code="FLY-T654",
                value=str(code.target),
                allowed=str(spec),
            )
        return HipModule(self, self._code(code, device), device)

    def _code(self, code: CodeObject, device: int) -> HipCode:
        from flydsl_rocdl.arch import lookup

        kernels = {info.name: (info.max_threads or 1024, info.lds_static) for info in code.kernels}
        capacity = lookup(code.target.arch).lds.capacity
        return HipCode(self.arch_name(device), code.data, capacity, kernels)

    def restart(self, code: CodeObject, device: int) -> tuple[str, tuple[Any, ...]] | None:
        """Return how a later process loads `code` on this device: a function, and its argument."""
        # Which library it is otherwise depends on those that a process has loaded.
        named = self.library.path if HIP_LIBRARY.get() is not None else None
        state = named, self.holds_interpreter, *self._code(code, device).plain()
        return f"{core.__name__}:restart", state

    # Streams and memory --------------------------------------------------------------------------
    def synchronize(self, stream: int, device: int) -> None:
        """Wait for the work on `stream`.

        Raises:
            TargetError: Work on the device has failed.
        """
        with self.on(device):
            self.library.call("hipStreamSynchronize", stream)

    def measure(self, run: Callable[[], object], device: int) -> tuple[float, str]:
        """Return the median time of one run, after warming up, in ms."""
        from flydsl_rocdl.hip.timing import median_milliseconds

        with self.on(device):
            return median_milliseconds(self.library, run, self.current_stream(device)), "ms"

    def allocate(self, size: int, device: int) -> int:
        """Allocate device memory."""
        return self.made("hipMalloc", "hipFree", device, max(size, 1))

    def free(self, address: int, device: int) -> None:
        """Free memory that `allocate` returned."""
        with self.on(device):
            self.library.call("hipFree", address)

    def copy_to_device(self, address: int, data: bytes | memoryview, device: int) -> None:
        """Copy host bytes to device memory."""
        content = bytes(data)
        with self.on(device):
            self.library.call("hipMemcpy", address, content, len(content), _TO_DEVICE)

    def copy_from_device(self, address: int, size: int, device: int) -> bytes:
        """Copy device memory to the host."""
        buffer = ctypes.create_string_buffer(max(size, 1))
        with self.on(device):
            self.library.call("hipMemcpy", buffer, address, size, _TO_HOST)
        return buffer.raw[:size]


def create() -> HipRuntime:
    """Return a new HIP runtime; HIP itself is loaded when it is first needed."""
    return HipRuntime()
