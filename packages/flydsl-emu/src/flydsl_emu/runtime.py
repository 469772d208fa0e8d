"""The emulator as a device runtime: a launch runs at once, on host memory, in its thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from flydsl.errors import TargetError, UserError, UserTypeError
from flydsl.locking import ProcessLock
from flydsl.plugins import plugin_manager
from flydsl.plugins.payloads import CodeObject, TargetSpec
from flydsl.runtime import open_runtime
from flydsl.runtime.abi import (
    ABI_VERSION,
    EXTENT_WRITABLE,
    LAUNCH_FUNCTION,
    FlyExtent,
    FlyLaunch,
)
from flydsl_emu.codeobject import read_code_object
from flydsl_emu.dispatch import LoadedCode, LoadedKernel
from flydsl_emu.execution import Allocation, Geometry
from flydsl_emu.observers import Observers, observers_of
from flydsl_emu.report.collecting import remember
from flydsl_emu.report.constants import constants_of
from flydsl_emu.semantics.generation import generation
from flydsl_emu.settings import DEVICES, SANITIZE, STEP_LIMIT
from flydsl_emu.streams import Event, Graph, Streams

__all__ = ["EmulatorModule", "EmulatorRuntime", "create", "emulator", "sharing"]

_ALIGNMENT = 256
_LARGEST_CLUSTER = 16
_HELD = 128 << 20
"""Bytes that kernels together keep for later launches; those launched longest ago give way."""


class EmulatorModule:
    """A code object in emulated memory."""

    def __init__(self, runtime: EmulatorRuntime, code: LoadedCode) -> None:
        self._runtime = runtime
        self._code = code
        self._handles: dict[str, int] = {}

    def function(self, name: str) -> int:
        """Return the launch handle of a kernel.

        Raises:
            KeyError: The code object has no such kernel.
        """
        if name not in self._handles:
            self._handles[name] = self._runtime.register(self._code.kernels[name])
        return self._handles[name]

    def unload(self) -> None:
        """Forget the kernels' handles."""
        for handle in self._handles.values():
            self._runtime.unregister(handle)
        self._handles.clear()


class EmulatorRuntime:
    """Implements `flydsl.runtime.DeviceRuntime`.

    Memory that a kernel may touch: the tensor arguments of the launch (their extents), memory from
    `allocate`, and what `sharing` names.
    """

    name = "emu"
    wants_extents = True

    def __init__(self) -> None:
        self._kernels: dict[int, LoadedKernel] = {}
        self._recent: dict[LoadedKernel, None] = {}
        self._next = 1
        self._lock = ProcessLock()
        self._errors = threading.local()
        self._owned: dict[int, tuple[Any, Allocation]] = {}
        self._shared: list[Allocation] = []
        self._streams = Streams()
        self._launches = 0
        # A device runs one launch at a time; devices run side by side, in threads of the caller.
        self._devices: dict[int, ProcessLock] = {}
        # The callback object must outlive every stub that was given its address.
        self._callback = LAUNCH_FUNCTION(self._launch)

    # Devices and modules -------------------------------------------------------------------------
    def device_count(self) -> int:
        """Return the number of emulated devices."""
        return DEVICES.get()

    def problem(self) -> str:
        """Return an empty text: there is always a device."""
        return ""

    def device_spec(self, device: int) -> TargetSpec | None:  # noqa: ARG002
        """Return None: an emulated device takes the architecture of the code object."""
        return None

    def load(self, code: CodeObject, device: int) -> EmulatorModule:
        """Load a code object.

        Raises:
            TargetError: It is not an HSACO file of an architecture that the emulator knows, or the
                device does not exist.
        """
        if code.format != "hsaco":
            raise TargetError(
                "the emulator loads AMD code objects only", code="FLY-T701", value=code.format
            )
        if not 0 <= device < self.device_count():
            raise TargetError(
                "no such emulated device",
                code="FLY-T705",
                value=device,
                allowed=f"0 to {self.device_count() - 1} (FLYDSL_EMU_DEVICES)",
            )
        return EmulatorModule(self, LoadedCode(read_code_object(code.data)))

    def register(self, kernel: LoadedKernel) -> int:
        """Return a new launch handle for `kernel`."""
        with self._lock:
            handle = self._next
            self._next += 1
            self._kernels[handle] = kernel
        return handle

    def unregister(self, handle: int) -> None:
        """Make a launch handle invalid."""
        kernel = self._kernels.pop(handle, None)
        with self._lock:
            if kernel is not None:
                self._recent.pop(kernel, None)

    # Launching -----------------------------------------------------------------------------------
    def restart(self, code: CodeObject, device: int) -> None:
        """Return None: what emulating costs is far more than finding out what to load."""

    def launch_address(self) -> int:
        """Return the address of the C launch function."""
        return ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def driver_address(self, device: int) -> int:  # noqa: ARG002
        """Return zero: the launch function needs nothing of its own."""
        return 0

    def take_error(self, status: int) -> BaseException | None:  # noqa: ARG002
        """Return and clear the exception of this thread's last failed launch."""
        error: BaseException | None = getattr(self._errors, "last", None)
        self._errors.last = None
        return error

    def _launch(self, pointer: Any) -> int:
        try:
            self._accept(pointer.contents)
        except BaseException as error:  # noqa: BLE001 - re-raised by the caller through take_error
            self._errors.last = error
            return 1
        return 0

    def _accept(self, launch: FlyLaunch) -> None:
        """Run a launch, or record it if its stream is being captured."""
        if launch.abi_version != ABI_VERSION:
            raise TargetError(
                "the launch record has another ABI version",
                code="FLY-T705",
                value=launch.abi_version,
            )
        kernel = self._kernels.get(launch.function)
        if kernel is None:
            raise UserError(
                "the kernel's module was unloaded", code="FLY-U715", value=launch.function
            )
        self._streams.check(launch.stream, launch.device)
        _check(kernel, _geometry(launch, kernel))
        graph = self._streams.capturing(launch.stream)
        if graph is not None:
            graph.add(launch)
            return
        self._run(launch)

    def _run(self, launch: FlyLaunch) -> None:
        kernel = self._kernels.get(launch.function)
        if kernel is None:
            raise UserError(
                "the kernel's module was unloaded", code="FLY-U715", value=launch.function
            )
        with self._device(launch.device):
            self._run_on_device(launch, kernel)
            self._launches += 1

    def _device(self, device: int) -> ProcessLock:
        with self._lock:
            return self._devices.setdefault(device, ProcessLock())

    def _run_on_device(self, launch: FlyLaunch, kernel: LoadedKernel) -> None:
        geometry = _geometry(launch, kernel)
        kernarg = ctypes.string_at(launch.kernarg, launch.kernarg_size)
        allocations = [*self._extents(launch, kernel), *self._shared]
        allocations += [allocation for _, allocation in self._owned.values()]
        observers = observers_of(kernel, geometry, tuple(allocations))
        if SANITIZE.get():
            observers = _sanitized(observers, kernel, geometry, tuple(allocations))
        record = None
        try:
            record = kernel.launch(geometry, kernarg, allocations, STEP_LIMIT.get(), observers)
        finally:
            if observers is not None:
                observers.finished(record)
            self._launched(kernel)
        remember(record)

    def _launched(self, kernel: LoadedKernel) -> None:
        """Note a launch, and have other kernels release memory if all keep too much."""
        with self._lock:
            self._recent.pop(kernel, None)
            self._recent[kernel] = None
            held = sum(other.held for other in self._recent)
            for other in tuple(self._recent):
                if held <= _HELD or other is kernel:
                    break
                held -= other.held
                del self._recent[other]
                other.release()

    @staticmethod
    def _extents(launch: FlyLaunch, kernel: LoadedKernel) -> Iterator[Allocation]:
        buffers = [a.name for a in kernel.kernel.arguments if a.kind == "global_buffer"]
        if not launch.extent_count:
            return
        extents = (FlyExtent * launch.extent_count).from_address(launch.extents)
        for extent in extents:
            index = int(extent.argument)
            known = buffers[index] if index < len(buffers) else ""
            name = f"tensor argument {index}" + (f" ({known})" if known else "")
            writable = bool(extent.flags & EXTENT_WRITABLE)
            base = int(extent.base)
            if base == 0 and extent.high > extent.low:
                raise UserError(
                    f"{name} has elements but no memory: its address is 0",
                    code="FLY-U729",
                    value=f"bytes {extent.low} to {extent.high}",
                )
            yield Allocation(base + int(extent.low), base + int(extent.high), writable, name)

    # Streams and memory --------------------------------------------------------------------------
    def current_stream(self, device: int) -> int:  # noqa: ARG002
        """Return this thread's stream: that of `using_stream`, else the default one."""
        return self._streams.current()

    def synchronize(self, stream: int, device: int) -> None:
        """Return at once: launches have finished when they return.

        Raises:
            UserError: The stream is being captured, or does not exist on the device.
        """
        self._streams.check(stream, device)
        self._streams.refuse_in_capture(stream, "waiting")

    def create_stream(self, device: int = 0) -> int:
        """Return the handle of a new stream, for launchers' stream parameters."""
        return self._streams.create(device)

    def destroy_stream(self, stream: int) -> None:
        """Make a stream's handle invalid."""
        self._streams.refuse_in_capture(stream, "destroying")
        self._streams.destroy(stream)

    def using_stream(self, stream: int) -> AbstractContextManager[None]:
        """Make a stream current for this thread's launches inside the block."""
        return self._streams.using(stream)

    def record_event(self, stream: int = 0) -> Event:
        """Return an event at the end of what was launched so far."""
        self._streams.check(stream)
        return Event(stream, self._launches)

    def wait_event(self, stream: int, event: Event) -> None:
        """Return at once: what the event waits for has ended."""
        self._streams.check(stream)
        self._streams.check(event.stream)

    def capture(self, stream: int) -> AbstractContextManager[Graph]:
        """Record the launches on a stream inside the block instead of running them.

        Example::

            with runtime.capture(stream) as graph:
                launch(x, y, stream=stream)
            graph.replay()
        """
        return self._streams.capture(stream, self._run)

    def measure(self, run: Callable[[], object], device: int) -> tuple[float, str]:  # noqa: ARG002
        """Return what the execution report's model says about the launches that `run` makes."""
        from flydsl_emu.report import collect

        with collect() as reports:
            run()
        return sum(report.modelled_microseconds or 0.0 for report in reports), "model us"

    def allocate(self, size: int, device: int) -> int:  # noqa: ARG002
        """Return the address of `size` new zeroed bytes."""
        buffer = ctypes.create_string_buffer(size + _ALIGNMENT)
        address = (ctypes.addressof(buffer) + _ALIGNMENT - 1) & -_ALIGNMENT
        name = f"device allocation {address:#x}"
        self._owned[address] = (buffer, Allocation(address, address + size, True, name))
        return address

    def free(self, address: int, device: int) -> None:  # noqa: ARG002
        """Free memory that `allocate` returned.

        Raises:
            UserError: It did not.
        """
        if self._owned.pop(address, None) is None:
            raise UserError(
                "no emulated allocation has this address", code="FLY-U711", value=address
            )

    def copy_to_device(self, address: int, data: bytes | memoryview, device: int) -> None:  # noqa: ARG002
        """Copy bytes to emulated device memory."""
        raw = bytes(data)
        ctypes.memmove(address, raw, len(raw))

    def copy_from_device(self, address: int, size: int, device: int) -> bytes:  # noqa: ARG002
        """Copy bytes from emulated device memory."""
        return ctypes.string_at(address, size)

    @contextmanager
    def sharing(
        self, address: int, size: int, *, writable: bool = True, name: str = "shared memory"
    ) -> Iterator[None]:
        """Let kernels access ``[address, address + size)`` of host memory inside the block."""
        allocation = Allocation(address, address + size, writable, name)
        self._shared.append(allocation)
        try:
            yield
        finally:
            self._shared.remove(allocation)


def _sanitized(
    observers: Observers | None,
    kernel: LoadedKernel,
    geometry: Geometry,
    allocations: tuple[Allocation, ...],
) -> Observers | None:
    """Add the checks that FLYDSL_SANITIZE asks for."""
    from flydsl_emu.sanitizer import demanded

    checks = demanded(kernel, geometry, allocations)
    if checks is None:
        return observers
    return Observers([checks, *(observers.members if observers is not None else ())])


def _geometry(launch: FlyLaunch, kernel: LoadedKernel) -> Geometry:
    lanes = kernel.kernel.wave_size
    cluster = tuple(max(1, c) for c in launch.cluster)
    return Geometry(tuple(launch.grid), tuple(launch.block), launch.dynamic_lds, lanes, cluster)


def _check(kernel: LoadedKernel, geometry: Geometry) -> None:
    limit = min(1024, kernel.kernel.max_threads)
    if not 0 < geometry.threads <= limit:
        raise UserError(
            f"kernel {kernel.kernel.name!r}: workgroup size out of range",
            code="FLY-U720",
            value=geometry.block,
            allowed=f"1 to {limit} threads, as the kernel was compiled",
        )
    if any(g * b >= 1 << 32 for g, b in zip(geometry.grid, geometry.block, strict=True)):
        # As on a device: a packet counts threads, in 32 bits along each axis.
        raise UserError(
            f"kernel {kernel.kernel.name!r}: the grid has too many threads along one axis",
            code="FLY-U720",
            value=f"{geometry.grid} workgroups of {geometry.block}",
            allowed="workgroups times threads below 2**32 along each axis",
        )
    _check_cluster(kernel, geometry)
    capacity = int(constants_of(kernel.kernel.arch)["lds_capacity"].value)
    total = kernel.kernel.descriptor.group_segment + geometry.dynamic_lds
    if total > capacity:
        raise UserError(
            f"kernel {kernel.kernel.name!r} asks for more LDS than the device has",
            code="FLY-U721",
            value=total,
            allowed=f"up to {capacity} bytes",
        )


def _check_cluster(kernel: LoadedKernel, geometry: Geometry) -> None:
    if geometry.cluster_size == 1:
        return
    if not generation(kernel.kernel.arch).clusters:
        raise TargetError(
            "this architecture has no workgroup clusters", code="FLY-T705", value=geometry.cluster
        )
    uneven = any(g % c for g, c in zip(geometry.grid, geometry.cluster, strict=True))
    if uneven or geometry.cluster_size > _LARGEST_CLUSTER:
        raise UserError(
            f"kernel {kernel.kernel.name!r}: the grid is not whole clusters",
            code="FLY-U720",
            value=f"grid {geometry.grid}, cluster {geometry.cluster}",
            allowed=f"clusters of up to {_LARGEST_CLUSTER} workgroups that divide the grid",
        )


def create() -> EmulatorRuntime:
    """Return a new emulator runtime."""
    return EmulatorRuntime()


def emulator() -> EmulatorRuntime:
    """Return the emulator that this process's launches use: its streams, graphs and memory.

    Raises:
        TargetError: The emulator's plugin is disabled.
    """
    info = plugin_manager().announced.runtimes.get("emu")
    if info is None:
        raise TargetError("the emulator is disabled", code="FLY-T705", value="emu")
    runtime = open_runtime(info)
    assert isinstance(runtime, EmulatorRuntime)
    return runtime


@contextmanager
def sharing(*arrays: Any) -> Iterator[None]:
    """Let kernels access the memory of host arrays inside the block, whatever launches them.

    A kernel that gets addresses rather than tensors (of other devices' buffers, in a table) may
    access only what is shared so.

    Args:
        *arrays: NumPy arrays or torch CPU tensors, each of one block of memory.

    Raises:
        UserTypeError: An object is neither, or is not contiguous.
    """
    with ExitStack() as stack:
        for number, array in enumerate(arrays):
            address, size, writable = _memory_of(array)
            name = f"shared array {number}"
            stack.enter_context(emulator().sharing(address, size, writable=writable, name=name))
        yield


def _memory_of(array: Any) -> tuple[int, int, bool]:
    if hasattr(array, "data_ptr") and array.device.type == "cpu" and array.is_contiguous():
        return int(array.data_ptr()), int(array.numel() * array.element_size()), True
    interface = getattr(array, "__array_interface__", None)
    if interface is not None and interface.get("strides") is None:
        address, read_only = interface["data"]
        return int(address), int(array.nbytes), not read_only
    raise UserTypeError(
        "only contiguous host arrays can be shared", code="FLY-U727", value=type(array).__name__
    )
