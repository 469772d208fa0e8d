"""A stand-in for libamdhip64, compiled from C, and kernels launched through it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import plugins
from flydsl_rocdl.hip import HipRuntime

SOURCE = Path(__file__).parent / "stub_hip.c"


class Record(ctypes.Structure):
    """``struct record`` of the stub: one launch."""

    _fields_ = (
        ("function", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("lds", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("captured", ctypes.c_int32),
        ("size", ctypes.c_uint64),
        ("kernarg", ctypes.c_ubyte * 1024),
    )


class Stub:
    """The test's side of the stub library."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.library = ctypes.CDLL(self.path)
        self.library.stub_last.restype = ctypes.POINTER(Record)
        for name in ("stub_launches", "stub_loads", "stub_unloads", "stub_calls"):
            getattr(self.library, name).restype = ctypes.c_uint64
        self.library.stub_live.restype = ctypes.c_int64
        self.library.stub_fail_after.argtypes = (ctypes.c_uint64, ctypes.c_int)
        for name in ("stub_call", "stub_failed"):
            getattr(self.library, name).restype = ctypes.c_char_p

    @property
    def last(self) -> Record:
        return self.library.stub_last().contents

    @property
    def launches(self) -> int:
        return self.library.stub_launches()

    @property
    def loads(self) -> int:
        return self.library.stub_loads()

    def fail(self, status: int) -> None:
        """Let the next recorded call return `status`."""
        self.library.stub_fail(status)

    def fail_after(self, calls: int, status: int) -> None:
        """Let the call after so many others, of any function, return `status`."""
        self.library.stub_fail_after(calls, status)

    @property
    def calls(self) -> int:
        """Calls since `fail_after`."""
        return self.library.stub_calls()

    @property
    def state(self) -> tuple[int, ...]:
        """What must be as before after a failure: device, capture modes, last error."""
        device = ctypes.c_int()
        self.library.hipGetDevice(ctypes.byref(device))
        modes = ("stub_capturing", "stub_capture_mode", "stub_last_error")
        return device.value, *(getattr(self.library, name)() for name in modes)

    def restore(self, device: int) -> None:
        """Make `device` current and end what changes the capture mode."""
        self.library.hipSetDevice(device)
        self.library.hipThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int()))

    @property
    def live(self) -> int:
        """How many modules, allocations, streams, events, graphs and handles there are."""
        return sum(self.library.stub_live(kind) for kind in range(7))

    def devices(self, *architectures: str) -> None:
        self.library.stub_devices(len(architectures))
        for device, name in enumerate(architectures):
            self.library.stub_arch(device, name.encode())


@flyc.kernel
def ones(X: fx.Tensor):
    X[fx.thread_idx.x] = 1.0


@flyc.jit
def launch_ones(X: fx.Tensor, stream: fx.Stream):
    ones(X).launch(grid=1, block=64, stream=stream)


@pytest.fixture
def launch():
    """A launcher of one kernel on a tensor of 64 elements, on a stream."""
    return launch_ones


@pytest.fixture(scope="session")
def stub_path(tmp_path_factory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the stand-in for HIP needs a C compiler")
    # Not under HIP's name: later tests of this process would take it for a HIP that is loaded.
    path = tmp_path_factory.mktemp("hip") / "stub_hip.so"
    versions = f"-Wl,--version-script={SOURCE.with_suffix('.map')}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", versions, "-o", path, SOURCE], check=True)
    return path


@pytest.fixture
def stub(stub_path) -> Stub:
    """The stub library, with one gfx942."""
    library = Stub(stub_path)
    library.library.stub_reset()
    library.devices("gfx942:sramecc+:xnack-")
    library.library.hipSetDevice(0)
    return library


@pytest.fixture
def runtime(stub) -> HipRuntime:
    return HipRuntime(stub.path)


@pytest.fixture
def hip_for_host(stub, monkeypatch):
    """Let calls with host tensors go to the stub: a test has no tensors on a GPU."""
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", stub.path)
    monkeypatch.setenv("FLYDSL_HIP_HOST_TENSORS", "1")
    monkeypatch.setenv("FLYDSL_DEVICE", "hip")
    with plugins.isolated(installed=True):
        yield
