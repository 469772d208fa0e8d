"""HIP as far as a launch needs it.

One module, and nothing else of this package: reading modules is most of what the first call of a
process takes.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Final

from flydsl.codegen.kept import kept_host
from flydsl.codegen.machine_code import MappedCode
from flydsl.errors import TargetError
from flydsl.runtime.abi import FlyLaunch

__all__ = [
    "ENTRY",
    "LAUNCH_FUNCTIONS",
    "HipCode",
    "HipDriver",
    "HipKernel",
    "HipLauncher",
    "HipLibrary",
    "HipModule",
    "restart",
]

_CAPTURE_RELAXED = 2  # hipStreamCaptureModeRelaxed
_PROPERTIES_BYTES, _ARCH_NAME_OFFSET = 1472, 1160
"""Size of ``hipDeviceProp_tR0600``, which begins with its `name`, and where its `gcnArchName` is;
both are of 256 characters."""
_P, _INT, _UINT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_FUNCTIONS: Final[Mapping[str, Sequence[Any]]] = MappingProxyType(
    {
        "hipGetDeviceCount": (_P,),
        "hipGetDevice": (_P,),
        "hipSetDevice": (_INT,),
        "hipGetDevicePropertiesR0600": (_P, _INT),
        "hipModuleLoadData": (_P, ctypes.c_char_p),
        "hipModuleUnload": (_P,),
        "hipModuleGetFunction": (_P, _P, ctypes.c_char_p),
        "hipThreadExchangeStreamCaptureMode": (_P,),
    }
)
"""Argument types of what is called here; `flydsl_rocdl.hip.functions` has all others."""
LAUNCH_FUNCTIONS = ("hipModuleLaunchKernel", "hipDrvLaunchKernelEx")
"""What only the trampoline calls; the second exists since ROCm 7 and is needed for clusters."""
_NEEDED = (LAUNCH_FUNCTIONS[0], "hipGetErrorName", "hipGetErrorString", "hipGetLastError")
"""What tells HIP from another library, and what explains the errors of the others."""
ENTRY = "fly_hip_launch"


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


class HipLibrary:
    """A loaded ``libamdhip64``.

    Args:
        path: Path or name of the library; None looks for it.

    Raises:
        TargetError: There is none, or it is no HIP library.
    """

    def __init__(self, path: str | None = None) -> None:
        self._library = _load(_candidates() if path is None else (path,))
        self.path = str(self._library._name)
        self._functions: dict[str, Any] = {}
        self._text = self._library.hipGetErrorString
        self._text.restype, self._text.argtypes = ctypes.c_char_p, (_INT,)
        self._name = self._library.hipGetErrorName
        self._name.restype, self._name.argtypes = ctypes.c_char_p, (_INT,)

    def function(self, name: str) -> Any:
        """Return one of HIP's functions, typed.

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
            found.restype, found.argtypes = _INT, list(_FUNCTIONS.get(name) or _others()[name])
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
        """Call a function of HIP.

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


def _others() -> Mapping[str, Sequence[Any]]:
    from flydsl_rocdl.hip.functions import FUNCTIONS

    return FUNCTIONS


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

    def __init__(self, runtime: HipLauncher, code: HipCode, device: int) -> None:
        self._runtime, self._code, self._device = runtime, code, device
        self._kernels: dict[str, HipKernel] = {}
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
            found = self._kernels[name] = HipKernel(
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


class HipLauncher:
    """What launches kernels on the GPUs of this process, in HIP's order.

    Args:
        path: The HIP library; None looks for it when it is first needed.
        holds: Whether launches keep the interpreter's lock; None leaves it to the setting.
    """

    name = "hip"
    wants_extents = False

    def __init__(self, path: str | None = None, *, holds: bool | None = None) -> None:
        self._path, self._holds = path, holds
        self._library: HipLibrary | None = None
        self._missing: TargetError | None = None
        self._lock = threading.Lock()
        self._driver = HipDriver()
        self._mapped: MappedCode | None = None
        self._torch_stream: Callable[[int], int] | None = None

    @property
    def holds_interpreter(self) -> bool:
        """Whether launches keep the interpreter's lock, as the user has asked for."""
        if self._holds is not None:
            return self._holds
        from flydsl_rocdl.settings import HIP_HOLDS_GIL

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
                    # Looking again would cost every call without tensors a search of the disk.
                    raise _copied(self._missing)
                if self._library is None:
                    try:
                        self._library = HipLibrary(self._path)
                    except TargetError as error:
                        self._missing = _copied(error)
                        raise
        return self._library

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

    def arch_name(self, device: int) -> str:
        """Return the target id of a GPU as HIP writes it.

        Raises:
            TargetError: The device does not exist.
        """
        return self._property(device, _ARCH_NAME_OFFSET)

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

    # Launches ------------------------------------------------------------------------------------
    def launch_address(self) -> int:
        """Return the address of the native launch function."""
        if self._mapped is None:
            with self._lock:
                if self._mapped is None:
                    code = kept_host(ENTRY, _llvm_ir)
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
        from flydsl_rocdl.hip.refusals import refusal

        launch = self._driver.failed
        kernel = HipKernel.from_address(launch.function) if launch.function else None
        return refusal(status, launch, kernel)

    def current_stream(self, device: int) -> int:
        """Return PyTorch's current stream where PyTorch drives this GPU, else the null stream."""
        if self._torch_stream is None:
            torch: Any = sys.modules.get("torch")
            if torch is None or not getattr(torch.version, "hip", None):
                return 0
            self._torch_stream = torch._C._cuda_getCurrentRawStream
        return self._torch_stream(device)


def restart(state: tuple[Any, ...], device: int) -> tuple[HipLauncher, HipModule]:
    """Load what `flydsl_rocdl.hip.HipRuntime.restart` described.

    Args:
        state: The library that the user has named, whether launches keep the interpreter's lock,
            and what `HipCode` takes.
        device: The device that it was described for.

    Raises:
        LookupError: The device is another one now.
        TargetError: HIP is missing or does not load it.
    """
    path, holds, *code = state
    launcher, found = HipLauncher(path, holds=holds), HipCode(*code)
    if launcher.device_count() <= device or launcher.arch_name(device) != found.arch:
        raise LookupError(f"device {device} is no {found.arch}")
    return launcher, HipModule(launcher, found, device)


def _llvm_ir() -> str:
    from flydsl_rocdl.hip.trampoline import llvm_ir

    return llvm_ir(ENTRY, HipKernel, HipDriver)


def _copied(error: TargetError) -> TargetError:
    """Return an error to be raised again: one grows by what it passes through, and keeps a line."""
    import copy

    return copy.copy(error)
