"""The host stub of a launcher: geometry, kernel arguments, extents, errors, empty grids."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from flydsl import mlir
from flydsl.codegen import CodegenWorker
from flydsl.codegen.host import host_request
from flydsl.codegen.machine_code import MachineCode, MappedCode
from flydsl.compiler.lowering import HOST_PIPELINE
from flydsl.errors import CompilerBug, UserTypeError
from flydsl.passes import host_lowering
from flydsl.plugins.payloads import KernelArg, KernelInfo
from flydsl.runtime.abi import (
    ABI_VERSION,
    LAUNCH_FUNCTION,
    WANTS_EXTENTS,
    FlyExtent,
    FlyHostContext,
)

MEMREF = '!fly.memref<f32, "global", "(?,?):(?{i64},1)", 4 : i64>'
PTR = '!fly.ptr<f32, "global", 4 : i64, "">'
KERNEL = KernelInfo(
    "k_0",
    (
        KernelArg("p", "global_buffer", 0, 8),
        KernelArg("m", "by_value", 8, 4),
        KernelArg("n", "by_value", 12, 4),
        KernelArg("s", "by_value", 16, 8),
        KernelArg("flag", "by_value", 24, 1),
        KernelArg("h", "by_value", 26, 2),
        KernelArg("hidden", "hidden_block_count_x", 32, 4, hidden=True),
    ),
    kernarg_size=256,
    kernarg_align=16,
)
MODULE = f"""
module attributes {{gpu.container_module}} {{
  gpu.module @kernels {{
    gpu.func @k_0(%p: {PTR}, %m: i32, %n: i32, %s: i64, %flag: i1, %h: f16) kernel {{
      gpu.return
    }}
  }}
  func.func @launch(%flag: i1, %p: {PTR}, %m: i32, %n: i32, %s: i64, %h: f16, %st: i64) {{
    %c1 = arith.constant 1 : i32
    %c256 = arith.constant 256 : i32
    %c64 = arith.constant 64 : i32
    %up = arith.addi %m, %c256 : i32
    %last = arith.subi %up, %c1 : i32
    %grid = arith.divui %last, %c256 : i32
    gpu.launch_func <%st : i64> @kernels::@k_0 blocks in (%grid, %n, %c1)
      threads in (%c256, %c1, %c1) : i32 dynamic_shared_memory_size %c64
      args(%p : {PTR}, %m : i32, %n : i32, %s : i64, %flag : i1, %h : f16)
      {{fly.arg_types = [{MEMREF}, i1, f16]}}
    return
  }}
}}
"""
TWICE = f"""
module attributes {{gpu.container_module}} {{
  func.func @launch(%p: {PTR}, %n: i32) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %st = arith.constant 3 : i64
    scf.for %i = %c0 to %n step %c1 : i32 {{
      %q = "fly.add_offset"(%p, %i) : ({PTR}, i32) -> {PTR}
      gpu.launch_func <%st : i64> @kernels::@a blocks in (%i, %c1, %c1)
        threads in (%c1, %c1, %c1) : i32 args(%q : {PTR}) {{fly.arg_types = [{PTR}]}}
      gpu.launch_func <%st : i64> @kernels::@b blocks in (%c1, %c1, %c1)
        threads in (%c1, %c1, %c1) : i32 {{fly.arg_types = []}}
    }}
    return
  }}
}}
"""


@dataclass
class Launched:
    """One call of the runtime."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    function: int
    stream: int
    dynamic_lds: int
    device: int
    kernarg: bytes
    extents: list[tuple[int, ...]] = field(default_factory=list)


class Stub:
    """A compiled stub with a runtime that records its launches."""

    def __init__(self, worker: CodegenWorker, text: str, *kernels: KernelInfo) -> None:
        module = mlir.parse_module(text, mlir.thread_context())
        host_lowering.run(module, None, kernels=kernels)
        mlir.run_pipeline(module, HOST_PIPELINE)
        mlir.verify(module)
        llvm_ir = mlir.llvm.translate_module_to_llvmir(module.operation)
        llvm_ir = host_lowering.append_thunks(llvm_ir, module)
        result = worker.compile(host_request(llvm_ir))
        self.mapped = MappedCode(MachineCode.from_object(result.object, host_lowering.STUB))
        self.call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)(
            self.mapped.address
        )
        self.launches: list[Launched] = []
        self.results: list[int] = []
        self.callback = LAUNCH_FUNCTION(self._launch)
        self.handles = (ctypes.c_uint64 * 4)(100, 101, 102, 103)

    def _launch(self, pointer) -> int:
        record = pointer.contents
        assert record.abi_version == ABI_VERSION
        extents = (FlyExtent * record.extent_count).from_address(record.extents)
        self.launches.append(
            Launched(
                tuple(record.grid),
                tuple(record.block),
                tuple(record.cluster),
                record.function,
                record.stream,
                record.dynamic_lds,
                record.device,
                ctypes.string_at(record.kernarg, record.kernarg_size),
                [(e.argument, e.flags, e.base, e.low, e.high) for e in extents],
            )
        )
        return self.results.pop(0) if self.results else 0

    def run(self, arguments: bytes, flags: int = 0) -> int:
        launch = ctypes.cast(self.callback, ctypes.c_void_p).value
        context = FlyHostContext(ABI_VERSION, 2, flags, launch, ctypes.addressof(self.handles))
        result: int = self.call(ctypes.addressof(context), arguments)
        return result


@pytest.fixture(scope="module")
def worker() -> Iterator[CodegenWorker]:
    with CodegenWorker() as running:
        yield running


@pytest.fixture
def stub(worker: CodegenWorker) -> Stub:
    return Stub(worker, MODULE, KERNEL)


def arguments(p=0x1000, m=1000, n=3, s=50, flag=1, h=0x3C00, stream=7) -> bytes:
    return struct.pack("<B7xQiiqH6xq", flag, p, m, n, s, h, stream)


def test_a_launch_reaches_the_runtime_as_written(stub: Stub) -> None:
    assert stub.run(arguments()) == 0
    (launch,) = stub.launches
    assert launch.grid == (4, 3, 1)
    assert launch.block == (256, 1, 1)
    assert launch.cluster == (1, 1, 1)
    assert (launch.function, launch.stream, launch.dynamic_lds, launch.device) == (100, 7, 64, 2)
    assert len(launch.kernarg) == 28
    assert struct.unpack_from("<QiiqBxH", launch.kernarg) == (0x1000, 1000, 3, 50, 1, 0x3C00)
    assert launch.extents == []


@pytest.mark.parametrize(
    ("m", "n", "s", "low", "high"),
    [
        (10, 3, 50, 0, 4 * (9 * 50 + 2 + 1)),
        (10, 3, -50, 4 * -450, 4 * 3),
        (1, 1, 12345, 0, 4),
        (10, 3, 0, 0, 12),
        (2, 3, 2**40, 0, 4 * (2**40 + 3)),
    ],
)
def test_extents_are_the_bytes_that_the_layout_reaches(
    stub: Stub, m: int, n: int, s: int, low: int, high: int
) -> None:
    assert stub.run(arguments(m=m, n=n, s=s), WANTS_EXTENTS) == 0
    assert stub.launches[0].extents == [(0, 1, 0x1000, low, high)]


def test_an_empty_grid_launches_nothing(stub: Stub) -> None:
    assert stub.run(arguments(m=0)) == 0
    assert stub.run(arguments(n=0)) == 0
    assert stub.launches == []


def test_the_runtime_s_result_is_returned(stub: Stub) -> None:
    stub.results = [13]
    assert stub.run(arguments()) == 13


def _kernel(name: str, *sizes: int) -> KernelInfo:
    args = tuple(KernelArg(f"a{i}", "by_value", 8 * i, size) for i, size in enumerate(sizes))
    return KernelInfo(name, args, 8 * len(sizes), 8)


def test_launches_in_a_loop_stop_at_the_first_error(worker: CodegenWorker) -> None:
    stub = Stub(worker, TWICE, _kernel("b"), _kernel("a", 8))
    assert stub.run(struct.pack("<Qi", 0x1000, 3)) == 0
    # The first iteration's grid of `a` is empty.
    assert [launch.function for launch in stub.launches] == [100, 101, 100, 101, 100]
    pointers = [struct.unpack("<Q", x.kernarg)[0] for x in stub.launches if x.function == 101]
    assert pointers == [0x1004, 0x1008]
    stub.launches.clear()
    stub.results = [0, 0, 5]
    assert stub.run(struct.pack("<Qi", 0x1000, 3)) == 5
    assert [launch.function for launch in stub.launches] == [100, 101, 100]


def test_metadata_that_differs_is_our_bug(worker: CodegenWorker) -> None:
    with pytest.raises(CompilerBug, match="differ from those of its launch"):
        Stub(worker, TWICE, _kernel("a", 4), _kernel("b"))
    with pytest.raises(CompilerBug, match="has no kernel a"):
        Stub(worker, TWICE, _kernel("b"))


def test_device_code_in_a_launcher_is_the_user_s_error(worker: CodegenWorker) -> None:
    text = TWICE.replace(
        "    scf.for",
        f'    %v = "fly.ptr_load"(%p) : ({PTR}) -> f32\n    scf.for',
    )
    with pytest.raises(UserTypeError, match="ptr_load is device code"):
        Stub(worker, text, _kernel("a", 8), _kernel("b"))
