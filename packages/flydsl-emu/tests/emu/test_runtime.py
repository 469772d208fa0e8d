"""The emulator behind the C launch ABI, and its reports."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError, UserError
from flydsl.plugins import isolated
from flydsl.plugins.payloads import CodeObject, TargetSpec
from flydsl.runtime import DeviceRuntime
from flydsl.runtime.abi import ABI_VERSION, EXTENT_WRITABLE, LAUNCH_FUNCTION, FlyExtent, FlyLaunch
from flydsl_emu import plugin
from flydsl_emu.runtime import EmulatorRuntime, create

Compile = Callable[[str, str], bytes]
Array = Any

SCALE = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
@dynamic = external addrspace(3) global [0 x i32], align 16
define amdgpu_kernel void @scale(ptr addrspace(1) %in, ptr addrspace(1) %out, float %f)
    "amdgpu-flat-work-group-size"="1,256" {
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = mul i32 %b, 64
  %i = add i32 %m, %t
  %p = getelementptr float, ptr addrspace(1) %in, i32 %i
  %x = load float, ptr addrspace(1) %p
  %y = fmul float %x, %f
  %l = getelementptr float, ptr addrspace(3) @dynamic, i32 %t
  store float %y, ptr addrspace(3) %l
  %z = load volatile float, ptr addrspace(3) %l
  %q = getelementptr float, ptr addrspace(1) %out, i32 %i
  store float %z, ptr addrspace(1) %q
  ret void
}"""


def extents(*arrays: tuple[Array, bool]) -> Any:
    table = (FlyExtent * len(arrays))()
    for n, (x, writable) in enumerate(arrays):
        flags = EXTENT_WRITABLE if writable else 0
        table[n] = FlyExtent(n, flags, x.ctypes.data, 0, x.nbytes)
    return table


class Setup:
    """A runtime with the kernel loaded, and arrays for it."""

    def __init__(self, code: bytes, arch: str) -> None:
        self.runtime: EmulatorRuntime = create()
        self.code = code
        spec = TargetSpec("rocdl", arch)
        self.module = self.runtime.load(CodeObject("hsaco", spec, code, ()), 0)
        self.input = np.arange(640, dtype=np.float32)
        self.output = np.zeros(640, np.float32)

    def launch(self, groups: int = 10, table: Any = None, **changes: Any) -> int:
        kernarg = struct.pack("<QQf", self.input.ctypes.data, self.output.ctypes.data, 3.0)
        buffer = ctypes.create_string_buffer(kernarg, len(kernarg))
        if table is None:
            table = extents((self.input, False), (self.output, True))
        record = FlyLaunch(
            abi_version=ABI_VERSION,
            function=self.module.function("scale"),
            grid=(groups, 1, 1),
            block=(64, 1, 1),
            cluster=(1, 1, 1),
            dynamic_lds=256,
            kernarg=ctypes.addressof(buffer),
            kernarg_size=len(kernarg),
            extents=ctypes.addressof(table),
            extent_count=len(table),
        )
        for name, value in changes.items():
            setattr(record, name, value)
        return int(LAUNCH_FUNCTION(self.runtime.launch_address())(ctypes.byref(record)))


@pytest.fixture(params=["gfx942", "gfx950"])
def setup(request: pytest.FixtureRequest, compile_ir: Compile) -> Setup:
    return Setup(compile_ir(SCALE, request.param), request.param)


def test_launches_through_the_function_pointer(setup: Setup) -> None:
    assert isinstance(setup.runtime, DeviceRuntime)
    assert setup.launch() == 0
    assert np.array_equal(setup.output, setup.input * 3)
    assert setup.runtime.take_error(1) is None


def test_kernels_launched_long_ago_keep_no_memory(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = TargetSpec("rocdl", "gfx942")
    code = CodeObject("hsaco", spec, setup.code, ())
    monkeypatch.setattr("flydsl_emu.runtime._HELD", 1)
    modules = [setup.module, *(setup.runtime.load(code, 0) for _ in range(3))]
    for _ in range(2):
        for module in modules:
            setup.output[:] = 0
            assert setup.launch(function=module.function("scale")) == 0
            assert np.array_equal(setup.output, setup.input * 3)
            held = [m._code.kernels["scale"].held for m in modules]
            assert [h > 0 for h in held] == [m is module for m in modules]


def test_reports_out_of_bounds_with_the_argument(setup: Setup) -> None:
    assert setup.launch(groups=11) == 1
    error = setup.runtime.take_error(1)
    assert isinstance(error, UserError)
    assert "past the end of tensor argument 0" in str(error)
    assert "workgroup (10, 0, 0)" in str(error)
    assert setup.runtime.take_error(1) is None


def test_refuses_to_write_a_read_only_argument(setup: Setup) -> None:
    table = extents((setup.input, False), (setup.output, False))
    assert setup.launch(table=table) == 1
    error = setup.runtime.take_error(1)
    assert isinstance(error, UserError)
    assert error.code == "FLY-U716"
    assert "the launch has no writable buffers" in str(error)


def test_refuses_a_tensor_without_memory(setup: Setup) -> None:
    table = extents((setup.input, False), (setup.output, True))
    table[0].base = 0
    assert setup.launch(table=table) == 1
    error = setup.runtime.take_error(1)
    assert isinstance(error, UserError)
    assert error.code == "FLY-U729"
    assert "tensor argument 0" in str(error)
    table[0].high = 0  # empty: then no memory is needed, and the kernel reads outside it
    assert setup.launch(table=table) == 1
    assert setup.runtime.take_error(1).code == "FLY-U711"  # type: ignore[union-attr]


def test_lds_is_bounded_by_the_launch(setup: Setup) -> None:
    assert setup.launch(dynamic_lds=128) == 1
    error = setup.runtime.take_error(1)
    assert isinstance(error, UserError)
    assert error.code == "FLY-U712"
    assert "128 bytes of LDS" in str(error)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"block": (512, 1, 1)}, "FLY-U720"),
        ({"dynamic_lds": 1 << 20}, "FLY-U721"),
        ({"function": 12345}, "FLY-U715"),
        ({"abi_version": 99}, "FLY-T705"),
        ({"cluster": (2, 1, 1)}, "FLY-T705"),
    ],
)
def test_refuses_impossible_launches(setup: Setup, changes: dict[str, Any], code: str) -> None:
    assert setup.launch(**changes) == 1
    error = setup.runtime.take_error(1)
    assert isinstance(error, (UserError, TargetError))
    assert error.code == code


def test_step_limit_comes_from_the_settings(setup: Setup) -> None:
    with scope(FLYDSL_EMU_STEP_LIMIT=5):
        assert setup.launch() == 1
    error = setup.runtime.take_error(1)
    assert isinstance(error, UserError)
    assert error.code == "FLY-U714"


def test_empty_grid_does_nothing(setup: Setup) -> None:
    assert setup.launch(groups=0) == 0
    assert not setup.output.any()


def test_device_memory(setup: Setup) -> None:
    runtime = setup.runtime
    source, target = runtime.allocate(2560, 0), runtime.allocate(2560, 0)
    assert source % 256 == 0
    runtime.copy_to_device(source, setup.input.tobytes(), 0)
    kernarg = ctypes.create_string_buffer(struct.pack("<QQf", source, target, 3.0), 20)
    where = {"kernarg": ctypes.addressof(kernarg), "extent_count": 0}
    assert setup.launch(**where) == 0
    got = np.frombuffer(runtime.copy_from_device(target, 2560, 0), np.float32)
    assert np.array_equal(got, setup.input * 3)
    runtime.free(source, 0)
    assert setup.launch(**where) == 1
    with pytest.raises(UserError):
        runtime.free(source, 0)


def test_shared_host_memory(setup: Setup) -> None:
    table = extents((setup.input, False))
    assert setup.launch(table=table) == 1
    address, size = setup.output.ctypes.data, setup.output.nbytes
    with setup.runtime.sharing(address, size):
        assert setup.launch(table=table) == 0
    assert np.array_equal(setup.output, setup.input * 3)


def test_unloaded_module(setup: Setup) -> None:
    handle = setup.module.function("scale")
    setup.module.unload()
    assert setup.launch(function=handle) == 1
    with pytest.raises(KeyError):
        setup.module.function("missing")


def test_rejects_foreign_code() -> None:
    runtime = create()
    with pytest.raises(TargetError):
        runtime.load(CodeObject("cubin", TargetSpec("x", "y"), b"", ()), 0)
    with pytest.raises(TargetError, match="not an ELF file"):
        runtime.load(CodeObject("hsaco", TargetSpec("x", "y"), b"junk" * 20, ()), 0)


def test_announced_as_a_runtime() -> None:
    with isolated(plugin) as manager:
        info = manager.announced.runtimes["emu"]
    assert info.emulated
    assert info.device_types == ("cpu",)
    assert info.default_target == "gfx942"


def test_reports_of_a_collected_launch(setup: Setup) -> None:
    with flydsl_emu.collect() as reports:
        setup.launch()
    (report,) = reports
    assert report.kernel == "scale"
    assert report.instructions["vmem"] == 20
    assert report.instructions["lds"] == 20
    assert report.total_instructions == sum(report.instructions.values())
    traffic = {(t.space, t.direction): t for t in report.traffic}
    assert traffic["global", "read"].requested_bytes == 2560
    assert traffic["global", "write"].requested_bytes == 2560
    assert 2560 <= traffic["global", "read"].line_bytes <= 2560 + 11 * 128
    assert 5120 <= report.distinct_bytes <= 5120 + 2 * 128
    assert traffic["lds", "write"].conflict_ratio == 1.0
    assert report.modelled_microseconds is not None
    assert report.modelled_microseconds > 0
    assert json.loads(report.to_json())["kernel"] == "scale"
    assert "model:" in str(report)


def test_last_report_counts_without_watching(setup: Setup) -> None:
    setup.launch(groups=3)
    report = flydsl_emu.last_report()
    assert report is not None
    assert report.grid == (3, 1, 1)
    assert report.instructions["valu"] > 0
    assert report.model is None
