"""`ToyRuntime`: runs toy objects on host memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from flydsl.errors import TargetError
from flydsl.plugins.payloads import CodeObject, TargetSpec
from flydsl.runtime.abi import ABI_VERSION, LAUNCH_FUNCTION, FlyLaunch
from flydsl.testing.fake_target.image import Image
from flydsl.testing.fake_target.target import FORMAT

__all__ = ["ToyModule", "ToyRuntime"]

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class ToyModule:
    """A loaded object; a function handle is the address of a kernel's loop."""

    def __init__(self, code: CodeObject) -> None:
        self._image = Image(code.data)
        self._names = frozenset(info.name for info in code.kernels)

    def function(self, name: str) -> int:
        """Return the handle of the kernel called `name`.

        Raises:
            KeyError: There is no such kernel.
        """
        if name not in self._names:
            raise KeyError(name)
        return self._image.address(name)

    def unload(self) -> None:
        """Unmap the code."""
        self._image.close()


class ToyRuntime:
    """A device runtime with one device: the host.

    Attributes:
        name: ``"toy"``.
        wants_extents: False: nothing is checked.
        launches: Number of launches so far, for tests.
    """

    name = "toy"
    wants_extents = False

    def __init__(self) -> None:
        self.launches = 0
        self._errors = threading.local()
        self._buffers: dict[int, Any] = {}
        self._callback: Callable[..., int] = LAUNCH_FUNCTION(self._launch)
        self._address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def device_count(self) -> int:
        """One."""
        return 1

    def problem(self) -> str:
        """Empty: there is always one device."""
        return ""

    def device_spec(self, device: int) -> TargetSpec | None:
        """Return None: the host runs whatever toy object it is given."""
        del device
        return None

    def load(self, code: CodeObject, device: int) -> ToyModule:
        """Load `code`.

        Raises:
            TargetError: It is in another format.
        """
        del device
        if code.format != FORMAT:
            raise TargetError(
                f"the toy runtime cannot load {code.format!r}", code="FLY-T533", allowed=FORMAT
            )
        return ToyModule(code)

    def restart(self, code: CodeObject, device: int) -> None:
        """None: toy objects are only loaded in the process that made them."""
        del code, device

    def launch_address(self) -> int:
        """Return the address of the launch function."""
        return self._address

    def driver_address(self, device: int) -> int:
        """Zero: the launch function needs nothing of its own."""
        del device
        return 0

    def take_error(self, status: int) -> BaseException | None:
        """Return and clear the exception of this thread's last failed launch."""
        del status
        error: BaseException | None = getattr(self._errors, "last", None)
        self._errors.last = None
        return error

    def current_stream(self, device: int) -> int:
        """Zero: there are no streams, launches finish before they return."""
        del device
        return 0

    def synchronize(self, stream: int, device: int) -> None:
        """Do nothing: launches finish before they return."""

    def measure(self, run: Callable[[], object], device: int) -> tuple[float, str]:
        """Count the launches that `run` makes."""
        del device
        before = self.launches
        run()
        return float(self.launches - before), "launches"

    def allocate(self, size: int, device: int) -> int:
        """Allocate host memory."""
        del device
        buffer = ctypes.create_string_buffer(max(size, 1))
        address = ctypes.addressof(buffer)
        self._buffers[address] = buffer
        return address

    def free(self, address: int, device: int) -> None:
        """Free memory that `allocate` returned.

        Raises:
            KeyError: It did not.
        """
        del device, self._buffers[address]

    def copy_to_device(self, address: int, data: bytes | memoryview, device: int) -> None:
        """Copy bytes to `address`."""
        del device
        content = bytes(data)
        ctypes.memmove(address, content, len(content))

    def copy_from_device(self, address: int, size: int, device: int) -> bytes:
        """Copy bytes from `address`."""
        del device
        return ctypes.string_at(address, size)

    def _launch(self, launch: Any) -> int:
        try:
            record: FlyLaunch = launch.contents
            if record.abi_version != ABI_VERSION:
                raise TargetError(
                    f"the launch record has version {record.abi_version}",
                    code="FLY-T534",
                    allowed=str(ABI_VERSION),
                )
            self.launches += 1
            return int(_KERNEL(record.function)(ctypes.addressof(record)))
        except Exception as error:  # noqa: BLE001 - it must not unwind through the stub
            self._errors.last = error
            return 1
