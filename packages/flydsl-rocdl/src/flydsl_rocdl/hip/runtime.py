"""`HipRuntime`: implements `flydsl.runtime.DeviceRuntime` on AMD GPUs."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from flydsl.codegen.kept import kept_host
from flydsl.codegen.machine_code import MappedCode
from flydsl.errors import TargetError, UserError
from flydsl_rocdl.hip import records
from flydsl_rocdl.hip.library import HipLibrary
from flydsl_rocdl.settings import HIP_HOLDS_GIL

if TYPE_CHECKING:
    from flydsl.plugins.payloads import CodeObject, TargetSpec

__all__ = ["HipCode", "HipModule", "HipRuntime", "create", "restart"]

_NO_DEVICE = 100  # hipErrorNoDevice
_CAPTURE_RELAXED = 2  # hipStreamCaptureModeRelaxed
_TO_DEVICE, _TO_HOST = 1, 2  # hipMemcpyKind
_PROPERTIES_BYTES, _ARCH_NAME_OFFSET = 1472, 1160
"""Size of ``hipDeviceProp_tR0600``, which begins with its `name`, and where its `gcnArchName` is;
both are of 256 characters."""


class HipCode:
    """What a launch needs of a code object; plain values, so that a cache can keep it.

    A plain class: generated ones cost a launch out of the cache time.

    Attributes:
        arch: The device's architecture as HIP names it, features included.
        data: The code object.
        lds_capacity: Bytes that a workgroup can have.
        kernels: Largest workgroup and bytes of static LDS by name.
    """

    __slots__ = ("arch", "data", "kernels", "lds_capacity")

    def __init__(
        self, arch: str, data: bytes, lds_capacity: int, kernels: dict[str, tuple[int, int]]
    ) -> None:
        self.arch, self.data = arch, data
        self.lds_capacity, self.kernels = lds_capacity, kernels

    def plain(self) -> tuple[str, bytes, int, dict[str, tuple[int, int]]]:
        """Return the constructor's arguments."""
        return self.arch, self.data, self.lds_capacity, self.kernels


class HipModule:
    """A code object loaded on one GPU."""

    def __init__(self, runtime: HipRuntime, code: HipCode, device: int) -> None:
        self._runtime, self._code, self._device = runtime, code, device
        self._kernels: dict[str, records.HipKernel] = {}
        self._handle = runtime.made("hipModuleLoadData", "hipModuleUnload", device, code.data)

    def function(self, name: str) -> int:
        """Return the launch handle of a kernel.

        Raises:
            KeyError: The code object has no such kernel.
            TargetError: HIP does not find it.
        """
        found = self._kernels.get(name)
        if found is None:
            max_threads, lds_static = self._code.kernels[name]
            found = self._kernels[name] = records.HipKernel(
                function=self.hip_function(name),
                max_threads=max_threads,
                lds_static=lds_static,
                lds_capacity=self._code.lds_capacity,
            )
        return ctypes.addressof(found)

    def hip_function(self, name: str) -> int:
        """Return HIP's own handle (``hipFunction_t``) of a kernel."""
        handle = ctypes.c_void_p()
        library = self._runtime.library
        with self._runtime.on(self._device):
            library.call("hipModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
        return handle.value or 0

    def active_blocks(self, name: str, threads: int, dynamic_lds: int = 0) -> int:
        """Return how many workgroups of a kernel one compute unit holds, as HIP computes it.

        Args:
            name: The kernel.
            threads: Threads of a workgroup.
            dynamic_lds: Bytes of dynamic LDS of a workgroup.
        """
        count = ctypes.c_int()
        function = self.hip_function(name)
        with self._runtime.on(self._device):
            self._runtime.library.call(
                "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
                ctypes.byref(count),
                function,
                threads,
                dynamic_lds,
            )
        return count.value

    def unload(self) -> None:
        """Release the module; its handles become invalid."""
        self._kernels.clear()
        if self._handle:
            with self._runtime.on(self._device):
                self._runtime.library.call("hipModuleUnload", self._handle)
                self._handle = 0


class HipRuntime:
    """The GPUs of this process, in HIP's order.

    Args:
        path: The HIP library; None looks for it when it is first needed.
    """

    name = "hip"
    wants_extents = False

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._library: HipLibrary | None = None
        self._missing: TargetError | None = None
        self._lock = threading.Lock()
        self._driver = records.HipDriver()
        self._mapped: MappedCode | None = None
        self._torch_stream: Callable[[int], int] | None = None

    @property
    def holds_interpreter(self) -> bool:
        """Whether launches keep the interpreter's lock, as the user has asked for."""
        return HIP_HOLDS_GIL.get()

    # Devices -------------------------------------------------------------------------------------
    @property
    def library(self) -> HipLibrary:
        """The HIP library, loaded on first use.

        Raises:
            TargetError: It cannot be found or loaded.
        """
        if self._library is None:
            with self._lock:
                if self._missing is not None:
                    import copy

                    # Looking again would cost every call without tensors a search of the disk. A
                    # copy: an error grows by what it passes through, and keeps the first caller's
                    # line.
                    raise copy.copy(self._missing)
                if self._library is None:
                    try:
                        self._library = HipLibrary(self._path)
                    except TargetError as error:
                        import copy

                        self._missing = copy.copy(error)
                        raise
        return self._library

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

    @staticmethod
    def _count(library: HipLibrary) -> tuple[int, int]:
        count = ctypes.c_int()
        status = library.function("hipGetDeviceCount")(ctypes.byref(count))
        if status:
            library.forget()
        return status, 0 if status else count.value

    def device_count(self) -> int:
        """Return the number of GPUs; 0 where HIP is missing or does not work."""
        try:
            return self._count(self.library)[1]
        except TargetError:
            return 0

    def device_spec(self, device: int) -> TargetSpec | None:
        """Return the target id of a GPU, as HIP names it.

        Raises:
            TargetError: The device does not exist, or its architecture is not supported.
        """
        from flydsl_rocdl.target import parse_target

        name = self.arch_name(device)
        spec = parse_target(name)
        if spec is None:
            raise TargetError("HIP reports an unknown architecture", code="FLY-T655", value=name)
        return spec

    def arch_name(self, device: int) -> str:
        """Return the target id of a GPU as HIP writes it.

        Raises:
            TargetError: The device does not exist.
        """
        return self._property(device, _ARCH_NAME_OFFSET)

    def device_model(self, device: int) -> str:
        """Return what its maker calls a GPU: models of one architecture differ in size.

        Raises:
            TargetError: The device does not exist.
        """
        return self._property(device, 0)

    def _property(self, device: int, offset: int) -> str:
        properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        self.library.call("hipGetDevicePropertiesR0600", properties, device)
        return properties.raw[offset:].split(b"\0", 1)[0].decode(errors="replace")

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Make `device` current inside the block."""
        before = ctypes.c_int()
        self.library.call("hipGetDevice", ctypes.byref(before))
        if before.value != device:
            self.library.call("hipSetDevice", device)
        try:
            yield
        finally:
            if before.value != device:
                self.library.call("hipSetDevice", before.value)

    def made(self, make: str, release: str, device: int, *arguments: object) -> int:
        """Return a handle that a function of HIP writes to its first argument.

        Other threads, and this one, may be capturing graphs meanwhile.

        Args:
            make: The function.
            release: What undoes it, should going back to the device before fail.
            device: The device to be current during the call.
            *arguments: The function's other arguments.

        Raises:
            TargetError: HIP returns an error; then there is nothing to release.
        """
        handle = ctypes.c_void_p()
        complete = False
        try:
            with self.on(device), self.outside_capture():
                self.library.call(make, ctypes.byref(handle), *arguments)
                complete = True
        except BaseException:
            if complete:
                with suppress(TargetError), self.on(device):
                    self.library.call(release, handle)
            raise
        return handle.value or 0

    @contextmanager
    def outside_capture(self) -> Iterator[None]:
        """Allow calls, such as loading, that would invalidate a graph capture of this thread."""
        mode = ctypes.c_int(_CAPTURE_RELAXED)
        self.library.call("hipThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self.library.call("hipThreadExchangeStreamCaptureMode", ctypes.byref(mode))

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
        """Return how a later process loads `code` on this device: `restart` below, and what."""
        return f"{__name__}:restart", self._code(code, device).plain()

    def launch_address(self) -> int:
        """Return the address of the native launch function."""
        if self._mapped is None:
            with self._lock:
                if self._mapped is None:
                    code = kept_host(records.ENTRY, _llvm_ir)
                    self._mapped = MappedCode(code)
        return self._mapped.address

    def driver_address(self, device: int) -> int:  # noqa: ARG002 - the record names the device
        """Return the address of the `HipDriver`."""
        library = self.library
        self._driver.launch = library.address("hipModuleLaunchKernel")
        self._driver.launch_ex = library.address("hipDrvLaunchKernelEx")
        self._driver.get_device = library.address("hipGetDevice")
        self._driver.set_device = library.address("hipSetDevice")
        return ctypes.addressof(self._driver)

    def take_error(self, status: int) -> BaseException | None:
        """Return the exception for a launch status."""
        if status > 0:
            return self.library.error("the launch", status)
        launch = self._driver.failed
        block, grid = tuple(launch.block), tuple(launch.grid)
        kernel = records.HipKernel.from_address(launch.function) if launch.function else None
        if status == records.BAD_BLOCK and kernel is not None:
            return UserError(
                "workgroup size out of range",
                code="FLY-U650",
                value=block,
                allowed=f"1 to {kernel.max_threads} threads, as the kernel was compiled",
            )
        if status == records.BAD_GRID:
            return UserError(
                "the grid has too many threads along one axis",
                code="FLY-U651",
                value=f"{grid} workgroups of {block}",
                allowed="workgroups times threads below 2**32 along each axis",
            )
        if status == records.BAD_LDS and kernel is not None:
            return UserError(
                "the launch asks for more LDS than a workgroup can have",
                code="FLY-U652",
                value=f"{kernel.lds_static} static + {launch.dynamic_lds} dynamic bytes",
                allowed=f"{kernel.lds_capacity} bytes",
            )
        if status == records.BAD_CLUSTER:
            return TargetError(
                "this version of HIP cannot launch clusters",
                code="FLY-T652",
                value=tuple(launch.cluster),
                hint="hipDrvLaunchKernelEx came with ROCm 7",
            )
        return None

    # Streams and memory --------------------------------------------------------------------------
    def current_stream(self, device: int) -> int:
        """Return PyTorch's current stream where PyTorch drives this GPU, else the null stream."""
        if self._torch_stream is None:
            torch: Any = sys.modules.get("torch")
            if torch is None or not getattr(torch.version, "hip", None):
                return 0
            self._torch_stream = torch._C._cuda_getCurrentRawStream
        return self._torch_stream(device)

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


def restart(state: tuple[Any, ...], device: int) -> tuple[HipRuntime, HipModule]:
    """Load what `HipRuntime.restart` described.

    Raises:
        LookupError: The device is another one now.
        TargetError: HIP is missing or does not load it.
    """
    code = HipCode(*state)
    runtime = create()
    if runtime.device_count() <= device or runtime.arch_name(device) != code.arch:
        raise LookupError(f"device {device} is no {code.arch}")
    return runtime, HipModule(runtime, code, device)


def _llvm_ir() -> str:
    from flydsl_rocdl.hip.trampoline import llvm_ir

    return llvm_ir()
