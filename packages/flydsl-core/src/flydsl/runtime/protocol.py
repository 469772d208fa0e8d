"""The interface that a device runtime implements (HIP, the emulator, CUDA, …)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from flydsl.plugins.payloads import CodeObject, TargetSpec

__all__ = ["DeviceRuntime", "LoadedModule", "OccupancyModule"]


class LoadedModule(Protocol):
    """A code object loaded on one device."""

    def function(self, name: str) -> int:
        """Return the handle of the kernel called `name` for `FlyLaunch.function`.

        Raises:
            KeyError: The code object has no such kernel.
        """
        ...

    def unload(self) -> None:
        """Release the module; its handles become invalid."""
        ...


@runtime_checkable
class OccupancyModule(LoadedModule, Protocol):
    """A loaded code object whose runtime knows how many workgroups run at once."""

    def active_blocks(self, name: str, threads: int, dynamic_lds: int = 0) -> int:
        """Return how many workgroups of the kernel called `name` one compute unit holds.

        Args:
            name: The kernel.
            threads: Threads of a workgroup.
            dynamic_lds: Bytes of dynamic shared memory of a workgroup.
        """
        ...


@runtime_checkable
class DeviceRuntime(Protocol):
    """Loads code objects and launches kernels on one kind of device."""

    name: str
    wants_extents: bool

    def device_count(self) -> int:
        """Return how many devices this runtime drives."""
        ...

    def problem(self) -> str:
        """Return why there are no devices, for messages; empty if there are some."""
        ...

    def device_spec(self, device: int) -> TargetSpec | None:
        """Return the device's architecture; None when it adapts to the code object (emulator)."""
        ...

    def load(self, code: CodeObject, device: int) -> LoadedModule:
        """Load `code` on `device`.

        Raises:
            TargetError: The runtime or the device cannot run this code object.
        """
        ...

    def restart(self, code: CodeObject, device: int) -> tuple[str, tuple[object, ...]] | None:
        """Return how a later process loads `code` on `device` without plugins or a compiler.

        Returns:
            A function as ``"module:function"`` and its first argument, plain values that `marshal`
            can write; the second is the device. It returns a runtime and a loaded module, or raises
            `LookupError` if the device is another one. None where there is no shorter way than
            `load`.
        """
        ...

    def launch_address(self) -> int:
        """Return the address of ``int32_t launch(const FlyLaunch *)``."""
        ...

    def driver_address(self, device: int) -> int:
        """Return what `FlyLaunch.driver` holds for launches on `device`; 0 if nothing."""
        ...

    def take_error(self, status: int) -> BaseException | None:
        """Return the exception behind this thread's last launch, whose result was `status`.

        Clears whatever the runtime recorded. None: nothing is known but the number.
        """
        ...

    def current_stream(self, device: int) -> int:
        """Return the stream handle that a launch without a stream uses."""
        ...

    def synchronize(self, stream: int, device: int) -> None:
        """Wait for the work on `stream`; raise what it failed with."""
        ...

    def measure(self, run: Callable[[], object], device: int) -> tuple[float, str]:
        """Return the cost of `run`, a function that launches on `device`, and its unit.

        Real devices report time (``"ms"``), emulators what they model (``"model us"``).
        """
        ...

    def allocate(self, size: int, device: int) -> int:
        """Allocate `size` bytes of device memory and return the address."""
        ...

    def free(self, address: int, device: int) -> None:
        """Free memory that `allocate` returned."""
        ...

    def copy_to_device(self, address: int, data: bytes | memoryview, device: int) -> None:
        """Copy host bytes to device memory."""
        ...

    def copy_from_device(self, address: int, size: int, device: int) -> bytes:
        """Copy `size` bytes of device memory to the host."""
        ...
