"""Launches through the native trampoline: what HIP is given, and what is refused before."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import plugins
from flydsl.errors import TargetError, UserError
from flydsl.runtime.abi import ABI_VERSION, FlyLaunch
from flydsl_rocdl.hip.core import HipKernel


@flyc.kernel
def scaled(A: fx.Tensor, B: fx.Tensor, n: fx.Int32, factor: fx.Float32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        B[i] = A[i] * factor


@flyc.jit
def launch(
    A: fx.Tensor,
    B: fx.Tensor,
    n: fx.Int32,
    factor: fx.Float32,
    blocks: fx.Int32,
    stream: fx.Stream,
):
    scaled(A, B, n, factor).launch(grid=(blocks,), block=(64,), smem=256, stream=stream)


@pytest.fixture
def arrays():
    return np.arange(100, dtype=np.float32), np.zeros(100, dtype=np.float32)


def test_a_call_passes_geometry_stream_and_packed_arguments(hip_for_host, stub, arrays):
    a, b = arrays
    before = stub.launches
    launch(a, b, 100, 2.5, 2, 0x1234)
    assert stub.launches == before + 1
    last = stub.last
    assert tuple(last.grid) == (2, 1, 1)
    assert tuple(last.block) == (64, 1, 1)
    assert (last.lds, last.stream, last.device) == (256, 0x1234, 0)
    data = bytes(last.kernarg[: last.size])
    # Each tensor is its address and its extent; then n and the factor.
    pointer_a, extent_a, pointer_b, extent_b, n, factor = struct.unpack("QixxxxQiif", data)
    assert (pointer_a, pointer_b) == (a.ctypes.data, b.ctypes.data)
    assert (extent_a, extent_b, n, factor) == (100, 100, 100, 2.5)


def test_a_grid_computed_as_zero_launches_nothing(hip_for_host, stub, arrays):
    launch(*arrays, 100, 1.0, 2, None)
    before = stub.launches
    launch(*arrays, 100, 1.0, 0, None)
    assert stub.launches == before


def test_a_failing_launch_raises_what_hip_says_at_the_callers_line(hip_for_host, stub, arrays):
    launch(*arrays, 100, 1.0, 1, None)
    stub.fail(719)
    with pytest.raises(TargetError, match="unspecified launch failure") as caught:
        launch(*arrays, 100, 1.0, 1, None)
    assert "hipErrorLaunchFailure (719)" in str(caught.value)
    assert "test_launch.py" in str(caught.value)
    launch(*arrays, 100, 1.0, 1, None)


def test_a_grid_with_too_many_threads_is_refused(hip_for_host, stub, arrays):
    before = stub.launches
    with pytest.raises(UserError, match=r"too many threads") as caught:
        launch(*arrays, 100, 1.0, 2**26, None)
    assert "67108864" in str(caught.value)
    assert stub.launches == before
    launch(*arrays, 100, 1.0, 2**26 - 1, None)
    assert stub.launches == before + 1


class Direct:
    """Calls the native launch function with a record of its own."""

    def __init__(self, runtime, capacity=65536):
        self.kernel = HipKernel(
            function=0xF00, max_threads=256, lds_static=1024, lds_capacity=capacity
        )
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
        self.entry = prototype(runtime.launch_address())
        self.runtime = runtime

    def __call__(self, **fields):
        record = FlyLaunch(
            abi_version=ABI_VERSION,
            function=ctypes.addressof(self.kernel),
            driver=self.runtime.driver_address(0),
        )
        fields = {"grid": (1, 1, 1), "block": (64, 1, 1), "cluster": (1, 1, 1)} | fields
        for name, value in fields.items():
            array = isinstance(value, tuple)
            setattr(record, name, (ctypes.c_uint32 * 3)(*value) if array else value)
        return self.entry(ctypes.addressof(record))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"block": (257, 1, 1)}, "1 to 256 threads"),
        ({"block": (16, 16, 2)}, "(16, 16, 2)"),
        ({"block": (2**16, 2**16, 2**16)}, "65536"),
        ({"block": (0, 1, 1)}, "(0, 1, 1)"),
        # Products beyond 64 bits.
        ({"block": (2**31, 2**31, 4)}, "2147483648"),
        ({"block": (641, 2**26, 2**31 + 5)}, "641"),
        ({"grid": (1, 2**31, 1), "block": (1, 4, 1)}, "below 2**32"),
        ({"grid": (1, 1, 2**32 - 1), "block": (1, 1, 2)}, "below 2**32"),
        ({"dynamic_lds": 64513}, "1024 static + 64513 dynamic bytes"),
        ({"grid": (5, 1, 1), "cluster": (2, 1, 1)}, "grid (5, 1, 1), clusters of (2, 1, 1)"),
        ({"grid": (4, 3, 1), "cluster": (2, 2, 0)}, "whole clusters"),
    ],
)
def test_limits_are_checked_before_hip_is_called(runtime, stub, fields, words):
    before = stub.launches
    direct = Direct(runtime)
    status = direct(**fields)
    assert status < 0
    assert stub.launches == before
    assert words in str(runtime.take_error(status))


def test_what_just_fits_is_launched(runtime, stub):
    direct = Direct(runtime)
    assert direct(block=(256, 1, 1), grid=(2**24 - 1, 1, 1), dynamic_lds=64512) == 0
    assert stub.last.lds == 64512
    assert stub.last.function == 0xF00


def test_another_abi_version_is_refused_without_touching_the_driver(runtime):
    assert Direct(runtime)(abi_version=ABI_VERSION + 1, driver=8) == -1


def test_a_launch_switches_to_its_device_and_back(runtime, stub):
    stub.devices("gfx942", "gfx942")
    stub.library.hipSetDevice(0)
    assert Direct(runtime)(device=1) == 0
    current = ctypes.c_int()
    stub.library.hipGetDevice(ctypes.byref(current))
    assert (stub.last.device, current.value) == (1, 0)
    # The error of the switch itself arrives too.
    assert Direct(runtime)(device=5) == 101


def test_clusters_go_through_the_extended_launch(runtime, stub):
    assert Direct(runtime)(cluster=(2, 1, 1), grid=(4, 1, 1), stream=0x77) == 0
    assert tuple(stub.last.cluster) == (2, 1, 1)
    assert stub.last.stream == 0x77
    assert Direct(runtime)() == 0
    assert tuple(stub.last.cluster) == (0, 0, 0)


def test_clusters_need_a_hip_that_has_them(runtime):
    direct = Direct(runtime)
    address = runtime.driver_address(0)
    runtime._driver.launch_ex = 0
    runtime.driver_address = {0: address}.get
    status = direct(cluster=(2, 1, 1))
    error = runtime.take_error(status)
    assert isinstance(error, TargetError)
    assert "(2, 1, 1)" in str(error)


@flyc.jit
def of_size(A: fx.Tensor, B: fx.Tensor, y: fx.Constexpr[int], smem: fx.Constexpr[int]):
    scaled(A, B, 100, 2.0).launch(grid=(2,), block=(16, y, 2), smem=smem)


@pytest.mark.parametrize(
    ("y", "smem", "blocks"), [(2, 0, 2048 // 64), (8, 0, 2048 // 256), (8, 65536, 2048 // 256 - 1)]
)
def test_how_many_workgroups_fit_is_what_hip_says(hip_for_host, stub, arrays, y, smem, blocks):
    compiled = flyc.compile(of_size, *arrays, y, smem)
    launches, unloads = stub.launches, stub.library.stub_unloads()
    assert compiled.max_blocks_per_cu() == blocks
    assert (stub.launches, stub.library.stub_unloads()) == (launches, unloads + 1)


def test_how_many_workgroups_fit_is_asked_of_a_device_of_the_architecture(
    stub, arrays, monkeypatch
):
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", stub.path)
    monkeypatch.setenv("FLYDSL_TARGET", "gfx950")
    with plugins.isolated(installed=True):
        # Compiled with host tensors: calls of it run in the emulator.
        compiled = flyc.compile(of_size, *arrays, 8, 0)
        with pytest.raises(TargetError, match="there is no device") as caught:
            compiled.max_blocks_per_cu()
        assert caught.value.code == "FLY-T453"
        stub.devices("gfx4711", "gfx942", "gfx950")
        assert compiled.max_blocks_per_cu() == 8
        monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
        assert flyc.compile(of_size, *arrays, 4, 0).max_blocks_per_cu() == 16


@flyc.jit
def twice(A: fx.Tensor, B: fx.Tensor):
    scaled(A, B, 100, 2.0).launch(grid=(2,), block=(64,))
    scaled(B, A, 100, 2.0).launch(grid=(2,), block=(64,))


@flyc.jit
def nothing(A: fx.Tensor, B: fx.Tensor):
    pass


@flyc.jit
def block_at_run_time(A: fx.Tensor, B: fx.Tensor, n: fx.Int32):
    scaled(A, B, 100, 2.0).launch(grid=(2,), block=(64, n, 1))


@flyc.jit
def shared_at_run_time(A: fx.Tensor, B: fx.Tensor, n: fx.Int32):
    scaled(A, B, 100, 2.0).launch(grid=(2,), block=(64,), smem=n)


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        (twice, (), "not make exactly one kernel launch"),
        (nothing, (), "not make exactly one kernel launch"),
        (block_at_run_time, (2,), "the block of scaled.* is computed at run time"),
        (shared_at_run_time, (64,), "the shared memory of scaled.* is computed at run time"),
    ],
)
def test_how_many_workgroups_fit_needs_one_launch_of_a_known_size(
    hip_for_host, arrays, function, given, said
):
    compiled = flyc.compile(function, *arrays, *given)
    with pytest.raises(ValueError, match=said) as caught:
        compiled.max_blocks_per_cu()
    assert caught.value.code == "FLY-U425"
    assert "test_launch.py" in str(caught.value)
