"""Known faults of devices, streams and installations, with the stand-in for HIP.

The names hold the row of the project's list of known faults (A152, B33, B34, B35).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import TargetError, UserError
from flydsl_rocdl.hip import HipRuntime
from flydsl_rocdl.hip.streams import HipStream


@flyc.kernel
def adding_kernel(X: fx.Tensor, n: fx.Int32):
    if fx.thread_idx.x < n:
        X[fx.thread_idx.x] = X[fx.thread_idx.x] + 1.0


@flyc.jit
def adding(X: fx.Tensor, n: fx.Int32):
    adding_kernel(X, n).launch(grid=1, block=64)


@flyc.jit
def adding_on(X: fx.Tensor, n: fx.Int32, stream: fx.Stream = None):
    adding_kernel(X, n).launch(grid=1, block=64, stream=stream)


class Tensor:
    """An array on a GPU, as other libraries offer it."""

    def __init__(self, device):
        self.device = device
        self.__cuda_array_interface__ = {
            "shape": (64,),
            "strides": None,
            "typestr": "<f4",
            "data": (0x10000 * (device + 1), False),
            "version": 3,
        }

    def __dlpack_device__(self):
        return (10, self.device)


@pytest.fixture
def hip(stub, hip_for_host, monkeypatch):
    """The runtime that calls use; where tensors are says on which device they run."""
    monkeypatch.delenv("FLYDSL_DEVICE")
    return stub


def test_B33_each_device_gets_code_for_its_architecture(hip):
    hip.devices("gfx942:sramecc+:xnack-", "gfx950:sramecc+:xnack-", "gfx942:sramecc+:xnack-")
    functions = []
    for device in (0, 1, 2, 1, 0):
        loads = hip.loads
        adding(Tensor(device), 64)
        last = hip.last
        assert last.device == device
        assert last.function & 7 == device
        assert int.from_bytes(bytes(last.kernarg[:8]), "little") == 0x10000 * (device + 1)
        functions.append((device, hip.loads - loads))
    # Loaded once for a device.
    assert functions == [(0, 1), (1, 1), (2, 1), (1, 0), (0, 0)]
    targets = {flyc.compile(adding, Tensor(d), 64).code.target.arch for d in (0, 1, 2)}
    assert targets == {"gfx942", "gfx950"}


def test_B33_tensors_of_two_devices_and_devices_that_are_not_there_are_refused(hip):
    @flyc.jit
    def two(X: fx.Tensor, Y: fx.Tensor):
        adding_kernel(X, 64).launch(grid=1, block=64)

    hip.devices("gfx942", "gfx942")
    launches = hip.launches
    with pytest.raises(UserError, match="different devices"):
        two(Tensor(0), Tensor(1))
    with pytest.raises(TargetError, match="no device 2"):
        adding(Tensor(2), 64)
    assert hip.launches == launches


def test_B33_a_saved_launcher_for_another_architecture_is_refused(hip, tmp_path):
    with config.scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True):
        flyc.compile(adding, Tensor(0), 64).save(tmp_path / "adding.fly")
    hip.devices("gfx950", "gfx942")
    loaded, loads = flyc.load(tmp_path / "adding.fly"), hip.loads
    for _ in range(2):
        with pytest.raises(TargetError, match="gfx950"):
            loaded(Tensor(0), 64)
    assert hip.loads == loads
    loaded(Tensor(1), 64)
    assert (hip.loads, hip.last.device) == (loads + 1, 1)


@pytest.mark.parametrize("named", ["gfx950", "gfx1201"])
def test_B33_code_for_another_architecture_is_not_launched(hip, named):
    launches = hip.launches
    with (
        config.scope(FLYDSL_TARGET=named),
        pytest.raises(TargetError, match=f"{named} differs from the device"),
    ):
        adding(Tensor(0), 64)
    assert hip.launches == launches


def test_B33_an_architecture_that_is_not_known_is_not_taken_for_another(hip):
    hip.devices("gfx9999")
    with pytest.raises(TargetError, match="gfx9999"):
        adding(Tensor(0), 64)


@pytest.mark.parametrize("stream", [1, 2, 0x7F0012345678])
def test_B34_the_stream_that_an_array_names_is_waited_for(hip, stream):
    library = hip.library
    library.stub_synced.restype = library.stub_launches_then.restype = ctypes.c_uint64
    hip.devices("gfx942", "gfx942")
    compiled = flyc.compile(adding, Tensor(1), 64)
    library.hipStreamSynchronize(ctypes.c_void_p(0x99))
    for call in (adding, adding, compiled):
        call(Tensor(1), 64)
        assert library.stub_synced() == 0x99
    for turn in range(3):
        for call in (adding, compiled):
            array = Tensor(1)
            array.__cuda_array_interface__["stream"] = stream + turn
            launches = hip.launches
            call(array, 64)
            assert (hip.launches, hip.last.device) == (launches + 1, 1)
            assert (library.stub_synced(), library.stub_launches_then()) == (
                stream + turn, launches,
            )  # fmt: skip
    failed = []
    for count in range(6):
        hip.fail_after(count, 719)
        launches = hip.launches
        with contextlib.suppress(TargetError):
            adding(array, 64)
        failed.append(library.stub_failed())
        if failed[-1] == b"hipStreamSynchronize":
            assert hip.launches == launches
    assert b"hipStreamSynchronize" in failed
    hip.fail_after(1 << 30, 0)
    hip.restore(0)
    for wrong in (0, -1, 1 << 64, True, "1"):
        array.__cuda_array_interface__["stream"] = wrong
        launches = hip.launches
        for call in (adding, compiled):
            with pytest.raises(UserError, match="names no stream that there can be"):
                call(array, 64)
        assert hip.launches == launches


class Indexed:
    """A stream as PyTorch has it."""

    def __init__(self, device, handle=0x50):
        self.device_index, self.cuda_stream = device, handle


class OnDevice:
    """A stream that tells its device by an object."""

    def __init__(self, device, handle=0x50):
        self.device, self.cuda_stream = types.SimpleNamespace(index=device), handle


@fx.struct
class Where:
    stream: fx.Stream


@flyc.jit
def adding_where(X: fx.Tensor, n: fx.Int32, where: Where):
    adding_kernel(X, n).launch(grid=1, block=64, stream=where.stream)


@pytest.mark.parametrize("kind", [Indexed, OnDevice, HipStream])
@pytest.mark.parametrize("inside", [False, True])
def test_B34_a_stream_of_another_device_is_refused(hip, stub, tmp_path, kind, inside):
    def stream(device):
        if kind is HipStream:
            found = HipStream(HipRuntime(stub.path), device)
        else:
            found = kind(device)
        return Where(found) if inside else found

    hip.devices("gfx942", "gfx942")
    function = adding_where if inside else adding_on
    calls = [function, function, flyc.compile(function, Tensor(0), 64, stream(0))]
    if not inside:
        calls[2].save(tmp_path / "adding.fly")
        calls.append(flyc.load(tmp_path / "adding.fly"))
    for call in calls:
        for tensor, device in ((0, 1), (0, 0), (0, 1), (1, 0), (0, 0), (1, 1), (1, 0)):
            if tensor and call is calls[2]:
                continue
            launches = hip.launches
            if tensor == device:
                call(Tensor(tensor), 64, stream(device))
                assert (hip.launches, hip.last.device) == (launches + 1, device)
                continue
            with pytest.raises(UserError, match="stream is on another device") as caught:
                call(Tensor(tensor), 64, stream(device))
            assert caught.value.code == "FLY-U451"
            assert f"a stream of device {device}" in str(caught.value)
            assert hip.launches == launches


class Torch:
    """PyTorch's current stream, as its ROCm version tells it."""

    def __init__(self, monkeypatch):
        torch = pytest.importorskip("torch")
        self.current = {0: 0x770, 1: 0x771}
        monkeypatch.setattr(torch.version, "hip", "7.0")
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", self.current.get, raising=False)


@pytest.mark.parametrize("function", [adding, adding_on])
def test_B34_without_a_stream_it_is_torchs_current_one(hip, monkeypatch, function):
    torch = Torch(monkeypatch)
    hip.devices("gfx942", "gfx942")
    compiled = flyc.compile(function, Tensor(0), 64)
    for call in (function, function, compiled):
        for device, stream in ((0, 0x10), (1, 0x20), (0, 0x30)):
            if call is compiled and device:
                continue
            torch.current[device] = stream
            call(Tensor(device), 64)
            assert (hip.last.device, hip.last.stream) == (device, stream)
    # A stream that is given is taken, the null stream too.
    for given, handle in ((0x99, 0x99), (0, 0), (None, torch.current[0])):
        adding_on(Tensor(0), 64, given)
        assert hip.last.stream == handle


def test_B34_launches_are_captured_by_graphs(hip, monkeypatch):
    """Without a stream, on the current one; and without the module having been loaded before."""
    torch = Torch(monkeypatch)
    stream = HipStream(HipRuntime(hip.path))
    torch.current[0] = stream.cuda_stream

    @flyc.jit
    def fresh(X: fx.Tensor):
        adding_kernel(X, 64).launch(grid=1, block=64)

    with stream.capture() as graph:
        fresh(Tensor(0))
        assert (hip.last.captured, hip.last.stream) == (1, stream.cuda_stream)
        fresh(Tensor(0))
        assert hip.last.captured == 1
    launches = hip.launches
    graph.launch(stream)
    assert hip.launches == launches + 1
    fresh(Tensor(0))
    assert hip.last.captured == 0
    graph.close()
    stream.close()


WITHOUT_ROCM = """
import numpy as np
import flydsl.compiler as flyc, flydsl.expr as fx
from flydsl.errors import TargetError

@flyc.kernel
def kernel(X: fx.Tensor):
    X[fx.thread_idx.x] = fx.math.tanh(X[fx.thread_idx.x])

@flyc.jit
def launch(X: fx.Tensor):
    kernel(X).launch(grid=1, block=64)

class Tensor:
    __cuda_array_interface__ = {
        "shape": (64,), "strides": None, "typestr": "<f4", "data": (4096, False), "version": 3
    }

x = np.full(64, 0.5, np.float32)
code = flyc.compile(launch, x).hsaco
print(code[:4] == b"\\x7fELF", abs(x - 0.5).max())
launch(x)
print(abs(x - np.tanh(0.5)).max() < 1e-6)
try:
    launch(Tensor())
except TargetError as error:
    print(error)
"""


@pytest.mark.parametrize("broken", [False, True], ids=["no ROCm", "a HIP that does not load"])
def test_B35_without_rocm_it_compiles_and_says_what_a_gpu_needs(tmp_path, broken):
    """No tool, no bitcode and no library of ROCm is on any path."""
    site = tmp_path / "_rocm_sdk_core" / "lib"
    site.mkdir(parents=True)
    if broken:
        (site / "libamdhip64.so.7").write_text("not a library")
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(WITHOUT_ROCM))
    hidden = ("ROCM", "HIP", "FLYDSL", "LD_LIBRARY", "PATH")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    environment |= {"PATH": "", "FLYDSL_TARGET": "gfx942", "FLYDSL_RUNTIME_ENABLE_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    compiled, ran, *message = done.stdout.splitlines()
    assert (compiled, ran) == ("True 0.0", "True")
    text = "\n".join(message)
    assert "the runtime 'hip' has no device 0" in text
    assert "libamdhip64 cannot be loaded" in text
    assert "install ROCm or a PyTorch for ROCm" in text
    assert ("_rocm_sdk_core/lib/libamdhip64.so.7" in text) == broken


def test_B35_a_hip_out_of_a_pip_package_is_found(stub_path, tmp_path):
    folder = tmp_path / "_rocm_sdk_core" / "lib"
    folder.mkdir(parents=True)
    (folder / "libamdhip64.so.7").write_bytes(stub_path.read_bytes())
    script = "from flydsl_rocdl.hip import HipRuntime; r = HipRuntime(); "
    script += "print(r.device_count(), r.device_spec(0), r.library.path)"
    hidden = ("ROCM", "HIP", "FLYDSL", "LD_LIBRARY", "PYTHONPATH")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    found = f"1 gfx942:sramecc+:xnack- {folder / 'libamdhip64.so.7'}"
    assert done.stdout.strip() == found


@pytest.mark.parametrize("saved", [False, True], ids=["compiled", "saved"])
def test_B33_compiled_launchers_follow_the_tensors_device(hip, tmp_path, saved):
    hip.devices("gfx942", "gfx942", "gfx950")
    with config.scope(FLYDSL_TARGET="gfx942"):
        call = flyc.compile(adding, Tensor(0), 64)
    if saved:
        call.save(tmp_path / "adding.fly")
        call = flyc.load(tmp_path / "adding.fly")
    for device in (0, 1, 0, 1):
        call(Tensor(device), 64)
        assert (hip.last.device, hip.last.function & 7) == (device, device)
    launches = hip.launches
    with pytest.raises((TargetError, UserError)):
        call(Tensor(2), 64)
    assert hip.launches == launches
    call(Tensor(1), 64)
    assert hip.last.device == 1


def test_A152_compiling_does_not_start_the_gpu(hip):
    """So that a process may fork afterwards, and machines without a GPU compile for it."""

    @flyc.jit
    def fresh(X: fx.Tensor, n: fx.Int32):
        adding_kernel(X, n).launch(grid=1, block=64)

    hip.fail_after(2**40, 0)
    with config.scope(FLYDSL_TARGET="gfx950", COMPILE_ONLY=True):
        for x in (Tensor(0), np.zeros(64, np.float32)):
            assert flyc.compile(fresh, x, 64).code.target.arch == "gfx950"
    assert hip.calls == 0
