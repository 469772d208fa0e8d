"""The toy target alone: a kernel as the neutral passes leave it, lowered, compiled and launched."""

from __future__ import annotations

import ctypes
import struct

import pytest

from flydsl import mlir
from flydsl.cli.opt_command import run_stages
from flydsl.config import CompileOptions
from flydsl.errors import TargetError
from flydsl.plugins.payloads import CodeObject, LaunchShape
from flydsl.runtime.abi import ABI_VERSION, LAUNCH_FUNCTION, FlyLaunch
from flydsl.runtime.protocol import DeviceRuntime
from flydsl.targets import Target, emit, neutral_stages, pipeline_for
from flydsl.testing import toy_target
from flydsl.testing.fake_target.lowering import argument_layout
from flydsl.testing.fake_target.runtime import ToyRuntime

POINTER = '!fly.ptr<f32, "global", 4 : i64, "">'
ATOM = '!fly.copy_atom<"universal_copy<32>", 32 : i64>'
KERNEL = f"""
gpu.module @kernels {{
  gpu.func @scale(%a: {POINTER}, %n: i32, %b: {POINTER}, %by: f32) kernel {{
    %bid = gpu.block_id x
    %tid = gpu.thread_id x
    %width = gpu.block_dim x
    %first = arith.muli %bid, %width : index
    %at = arith.addi %first, %tid : index
    %i = arith.index_cast %at : index to i32
    %in = arith.cmpi slt, %i, %n : i32
    %half = arith.constant 0.1 : f32
    %atom = "fly.make_copy_atom"() : () -> {ATOM}
    %pa = "fly.add_offset"(%a, %i) : ({POINTER}, i32) -> {POINTER}
    %pb = "fly.add_offset"(%b, %i) : ({POINTER}, i32) -> {POINTER}
    %v = "fly.copy_atom_call_ssa"(%atom, %pa, %in) {{operandSegmentSizes = array<i32: 1, 1, 0, 1>}}
      : ({ATOM}, {POINTER}, i1) -> vector<1xf32>
    %x = vector.extract %v[0] : f32 from vector<1xf32>
    %y = arith.mulf %x, %by : f32
    %z = arith.addf %y, %half : f32
    scf.if %in {{
      "fly.ptr_store"(%z, %pb) : (f32, {POINTER}) -> ()
    }}
    gpu.return
  }}
}}
"""


@pytest.fixture(autouse=True)
def toy():
    with toy_target() as target:
        yield target


def lower(text, target):
    module = mlir.parse_module(text, mlir.new_context())
    stages = pipeline_for(target, CompileOptions()).stages
    assert stages[: len(neutral_stages())] == neutral_stages()
    run_stages(module, target, stages[len(neutral_stages()) :], verify=True)
    return module


def launch(runtime, function, kernarg, grid=(1, 1, 1), block=(1, 1, 1), version=ABI_VERSION):
    buffer = ctypes.create_string_buffer(kernarg, len(kernarg))
    record = FlyLaunch(
        abi_version=version,
        function=function,
        grid=grid,
        block=block,
        kernarg=ctypes.addressof(buffer),
        kernarg_size=len(kernarg),
    )
    return LAUNCH_FUNCTION(runtime.launch_address())(ctypes.byref(record))


def test_a_kernel_is_compiled_and_run(toy):
    code = emit(lower(KERNEL, toy), toy, CompileOptions())
    assert code.format == "toy-object"
    info = code.kernel("scale")
    assert [(arg.offset, arg.size) for arg in info.args] == [(0, 8), (8, 4), (16, 8), (24, 4)]
    assert info.kernarg_size == 32
    runtime = ToyRuntime()
    module = runtime.load(code, 0)
    count, room = 13, 16
    source, target = (runtime.allocate(4 * room, 0) for _ in range(2))
    runtime.copy_to_device(source, struct.pack(f"{room}f", *range(room)), 0)
    runtime.copy_to_device(target, struct.pack(f"{room}f", *[-1.0] * room), 0)
    kernarg = struct.pack("<QixxxxQfxxxx", source, count, target, 2.0)
    assert launch(runtime, module.function("scale"), kernarg, (4, 1, 1), (4, 1, 1)) == 0
    found = struct.unpack(f"{room}f", runtime.copy_from_device(target, 4 * room, 0))
    assert found[:count] == pytest.approx([2.0 * i + 0.1 for i in range(count)])
    assert found[count:] == (-1.0,) * (room - count)
    assert runtime.launches == 1
    with pytest.raises(KeyError):
        module.function("other")
    module.unload()
    runtime.free(source, 0)
    runtime.free(target, 0)


def test_every_index_reaches_the_body(toy):
    pointer = POINTER.replace("f32", "i32")
    names = [f"gpu.{kind} {axis}" for kind in ("block_id", "thread_id") for axis in "xyz"]
    sizes = [f"gpu.{kind} {axis}" for kind in ("grid_dim", "block_dim") for axis in "xyz"]
    lines = [f"%i{k} = {name}" for k, name in enumerate(names)]
    lines += [f"%s{k} = {name}" for k, name in enumerate(sizes)]
    lines.append("%at0 = arith.constant 0 : index")
    # The row-major position over (block z, y, x, thread z, y, x); each cell counts its visits.
    for step, k in enumerate((2, 1, 0, 5, 4, 3)):
        lines.append(f"%m{step} = arith.muli %at{step}, %s{k} : index")
        lines.append(f"%at{step + 1} = arith.addi %m{step}, %i{k} : index")
    body = "\n".join(lines)
    text = f"""
    gpu.module @kernels {{
      gpu.func @mark(%a: {pointer}) kernel {{
        {body}
        %at = arith.index_cast %at6 : index to i64
        %p = "fly.add_offset"(%a, %at) : ({pointer}, i64) -> {pointer}
        %old = "fly.ptr_load"(%p) : ({pointer}) -> i32
        %one = arith.constant 1 : i32
        %new = arith.addi %old, %one : i32
        "fly.ptr_store"(%new, %p) : (i32, {pointer}) -> ()
        gpu.return
      }}
    }}
    """
    runtime = ToyRuntime()
    module = runtime.load(emit(lower(text, toy), toy, CompileOptions()), 0)
    grid, block = (2, 3, 4), (5, 2, 3)
    total = 24 * 30
    memory = runtime.allocate(4 * total, 0)
    assert launch(runtime, module.function("mark"), struct.pack("<Q", memory), grid, block) == 0
    visits = struct.unpack(f"{total}i", runtime.copy_from_device(memory, 4 * total, 0))
    assert set(visits) == {1}


def test_register_memory_and_loops_over_pointers(toy):
    register = POINTER.replace("global", "register")
    text = f"""
    gpu.module @kernels {{
      gpu.func @sum(%a: {POINTER}, %n: i32, %out: {POINTER}) kernel {{
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %nil = arith.constant 0.0 : f32
        %r = "fly.alloca"() {{bytes = 4 : i64}} : () -> {register}
        "fly.ptr_store"(%nil, %r) : (f32, {register}) -> ()
        %end = scf.for %i = %zero to %n step %one iter_args(%p = %a) -> ({POINTER}) : i32 {{
          %x = "fly.ptr_load"(%p) : ({POINTER}) -> f32
          %s = "fly.ptr_load"(%r) : ({register}) -> f32
          %t = arith.addf %x, %s : f32
          "fly.ptr_store"(%t, %r) : (f32, {register}) -> ()
          %q = "fly.add_offset"(%p, %one) : ({POINTER}, i32) -> {POINTER}
          scf.yield %q : {POINTER}
        }}
        %s = "fly.ptr_load"(%r) : ({register}) -> f32
        "fly.ptr_store"(%s, %out) : (f32, {POINTER}) -> ()
        gpu.return
      }}
    }}
    """
    runtime = ToyRuntime()
    module = runtime.load(emit(lower(text, toy), toy, CompileOptions()), 0)
    memory = runtime.allocate(4 * 8, 0)
    runtime.copy_to_device(memory, struct.pack("8f", *range(8)), 0)
    kernarg = struct.pack("<QixxxxQ", memory, 8, memory)
    assert launch(runtime, module.function("sum"), kernarg) == 0
    assert struct.unpack("f", runtime.copy_from_device(memory, 4, 0)) == (28.0,)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("gpu.barrier", "gpu.barrier"),
        ('%p = "fly.get_dyn_shared"() : () -> ' + POINTER.replace("global", "shared"), "shared"),
        (
            '%x = "fly.ptr_load"(%s) : (' + POINTER.replace("global", "shared") + ") -> f32",
            "shared",
        ),
    ],
)
def test_what_it_lacks_is_refused_at_the_line(toy, line, word):
    shared = POINTER.replace("global", "shared")
    text = f"""
    gpu.module @kernels {{
      gpu.func @k(%s: {shared}) kernel {{
        {line} loc("kernel.py":7:3)
        gpu.return
      }}
    }}
    """
    with pytest.raises(TargetError, match=word) as caught:
        lower(text, toy)
    assert caught.value.code == "FLY-T531"
    assert (caught.value.location.file, caught.value.location.line) == ("kernel.py", 7)


def test_unresolved_symbols_are_refused_when_loading(toy):
    body = """
      llvm.func @missing(i32) -> i32
      func.func @k(%launch: !llvm.ptr) -> i32 attributes {toy_args = []} {
        %c = arith.constant 1 : i32
        %r = llvm.call @missing(%c) : (i32) -> i32
        return %r : i32
      }
    """
    module = mlir.parse_module(f"gpu.module @kernels {{{body}}}", mlir.new_context())
    run_stages(module, toy, pipeline_for(toy, CompileOptions()).stages[-1:])
    with pytest.raises(TargetError, match="missing"):
        ToyRuntime().load(emit(module, toy, CompileOptions()), 0)


def test_the_runtime_refuses_foreign_code_and_records(toy):
    runtime = ToyRuntime()
    assert isinstance(runtime, DeviceRuntime)
    assert isinstance(toy, Target)
    with pytest.raises(TargetError, match="other-format"):
        runtime.load(CodeObject("other-format", toy.spec, b"", ()), 0)
    with pytest.raises(TargetError, match="ELF"):
        runtime.load(CodeObject("toy-object", toy.spec, b"text", ()), 0)
    assert launch(runtime, 0, b"", version=99) == 1
    assert "version 99" in str(runtime.take_error(1))
    assert runtime.take_error(1) is None


def test_limits_and_argument_types(toy):
    with pytest.raises(TargetError):
        toy.check_launch(LaunchShape("k", block=(1025, 1, 1)))
    assert argument_layout(["i8", "f64", "i16"]) == ([(0, 1), (8, 8), (16, 2)], 24)
    with pytest.raises(TargetError, match="vector"):
        argument_layout(["vector<4xf32>"])
