"""Kernels compiled from LLVM IR, run on the emulator, against numpy."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from flydsl.config import scope
from flydsl.errors import UserError
from flydsl_emu.codeobject import read_code_object
from flydsl_emu.decode import decode, format_instruction
from flydsl_emu.decode.oracle import Disassembler, find_library
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.jit_tier import JitTier

ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
Compile = Callable[[str, str], bytes]
Array = Any

HEADER = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare float @llvm.exp2.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.fma.f32(float, float, float)
"""


@pytest.fixture(params=["numpy", "jit"], autouse=True)
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every kernel runs on both tiers."""
    if request.param == "jit" and not JitTier.available():
        pytest.skip("no code generator for this processor")
    with scope(FLYDSL_EMU_TIER=request.param):
        yield request.param


def launch(
    code: bytes,
    geometry: Geometry,
    arguments: tuple[Any, ...],
    *,
    steps: int = 10**9,
    name: str = "k",
) -> LaunchRecord:
    """Run kernel `name`: arrays become pointers, ints i32, floats f32."""
    kernel = LoadedCode(read_code_object(code)).kernels[name]
    data = b""
    ranges = []
    for n, x in enumerate(arguments):
        if isinstance(x, np.ndarray):
            data += bytes(-len(data) % 8) + struct.pack("<Q", x.ctypes.data)
            ranges.append(
                Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, f"argument {n}")
            )
        else:
            data += struct.pack("<f" if isinstance(x, float) else "<i", x)
    return kernel.launch(geometry, data, ranges, steps)


def elementwise(body: str, inputs: int = 2, element: str = "float") -> str:
    """A kernel that stores `body`'s %r for elements %x0, %x1 … of its input arrays."""
    pointers = ", ".join(f"ptr addrspace(1) %p{n}" for n in range(inputs + 1))
    loads = "\n".join(
        f"  %a{n} = getelementptr {element}, ptr addrspace(1) %p{n}, i64 %j\n"
        f"  %x{n} = load {element}, ptr addrspace(1) %a{n}"
        for n in range(inputs)
    )
    return (
        HEADER
        + f"""
define amdgpu_kernel void @k({pointers}, i32 %n) "amdgpu-flat-work-group-size"="256,256" {{
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %m = mul i32 %b, 256
  %i = add i32 %m, %t
  %j = sext i32 %i to i64
  %ok = icmp slt i32 %i, %n
  br i1 %ok, label %yes, label %no
yes:
{loads}
{body}
  %out = getelementptr {element}, ptr addrspace(1) %p{inputs}, i64 %j
  store {element} %r, ptr addrspace(1) %out
  br label %no
no:
  ret void
}}"""
    )


FLOAT_BODIES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add": ("  %r = fadd float %x0, %x1", lambda a, b: a + b),
    "divide": ("  %r = fdiv float %x0, %x1", lambda a, b: a / b),
    "square root": (
        "  %q = fmul float %x0, %x0\n  %r = call float @llvm.sqrt.f32(float %q)",
        lambda a, _b: np.sqrt(a * a),
    ),
    "maximum": (
        "  %r = call float @llvm.maxnum.f32(float %x0, float %x1)",
        np.fmax,
    ),
    "integer round trip": (
        "  %q = fptosi float %x0 to i32\n  %r = sitofp i32 %q to float",
        lambda a, _b: np.trunc(a),
    ),
    "half": (
        (
            "  %q = fptrunc float %x0 to half\n  %s = fptrunc float %x1 to half\n"
            "  %u = fadd half %q, %s\n  %r = fpext half %u to float"
        ),
        lambda a, b: (a.astype(np.float16) + b.astype(np.float16)).astype(np.float32),
    ),
    "comparison": (
        "  %c = fcmp ogt float %x0, %x1\n  %r = select i1 %c, float %x0, float 1.5",
        lambda a, b: np.where(a > b, a, np.float32(1.5)),
    ),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", FLOAT_BODIES)
def test_float_expression(compile_ir: Compile, arch: str, name: str) -> None:
    body, reference = FLOAT_BODIES[name]
    rng = np.random.default_rng(3)
    n = 1003
    a, b = (rng.standard_normal(n).astype(np.float32) * 100 for _ in range(2))
    out = np.full(n + 8, 7.0, np.float32)
    launch(compile_ir(elementwise(body), arch), Geometry((4, 1, 1), (256, 1, 1)), (a, b, out, n))
    assert np.array_equal(out[:n], reference(a, b))
    assert (out[n:] == 7.0).all()


INTEGER_BODIES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "unsigned division": (
        "  %d = or i32 %x1, 1\n  %r = udiv i32 %x0, %d",
        lambda a, b: a // (b | np.uint32(1)),
    ),
    "signed remainder": (
        "  %d = or i32 %x1, 1\n  %r = srem i32 %x0, %d",
        lambda a, b: (
            np.fmod(a.view(np.int32).astype(np.int64), (b | np.uint32(1)).view(np.int32))
            .astype(np.int32)
            .view(np.uint32)
        ),
    ),
    "wide multiply": (
        (
            "  %p = zext i32 %x0 to i64\n  %q = zext i32 %x1 to i64\n  %s = mul i64 %p, %q\n"
            "  %u = lshr i64 %s, 17\n  %r = trunc i64 %u to i32"
        ),
        lambda a, b: (a.astype(np.uint64) * b >> np.uint64(17)).astype(np.uint32),
    ),
    "rotate": (
        (
            "  %s = and i32 %x1, 31\n  %l = shl i32 %x0, %s\n  %c = sub i32 32, %s\n"
            "  %h = and i32 %c, 31\n  %q = lshr i32 %x0, %h\n  %r = or i32 %l, %q"
        ),
        lambda a, b: (a << (b & 31)) | (a >> ((32 - (b & 31)) & 31)),
    ),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", INTEGER_BODIES)
def test_integer_expression(compile_ir: Compile, arch: str, name: str) -> None:
    body, reference = INTEGER_BODIES[name]
    rng = np.random.default_rng(4)
    n = 512
    a, b = (rng.integers(0, 2**32, n, dtype=np.uint32) for _ in range(2))
    out = np.zeros(n, np.uint32)
    code = compile_ir(elementwise(body, element="i32"), arch)
    launch(code, Geometry((2, 1, 1), (256, 1, 1)), (a, b, out, n))
    assert np.array_equal(out, reference(a, b))


LOOP = (
    HEADER
    + """
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %start = load i32, ptr addrspace(1) %p
  br label %loop
loop:
  %x = phi i32 [%start, %entry], [%next, %again]
  %steps = phi i32 [0, %entry], [%more, %again]
  %done = icmp eq i32 %x, 1
  br i1 %done, label %end, label %again
again:
  %odd = and i32 %x, 1
  %is = icmp eq i32 %odd, 1
  %three = mul i32 %x, 3
  %up = add i32 %three, 1
  %down = lshr i32 %x, 1
  %next = select i1 %is, i32 %up, i32 %down
  %more = add i32 %steps, 1
  br label %loop
end:
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %steps, ptr addrspace(1) %q
  ret void
}"""
)


def collatz(x: int) -> int:
    steps = 0
    while x != 1:
        x = 3 * x + 1 if x & 1 else x >> 1
        steps += 1
    return steps


def test_lanes_and_waves_that_loop_differently(compile_ir: Compile) -> None:
    start = np.arange(1, 257, dtype=np.uint32)
    out = np.zeros(256, np.uint32)
    launch(compile_ir(LOOP, "gfx942"), Geometry((1, 1, 1), (256, 1, 1)), (start, out))
    assert out.tolist() == [collatz(int(x)) for x in start]


REVERSE = (
    HEADER
    + """
@tile = internal addrspace(3) global [256 x i32] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out)
    "amdgpu-flat-work-group-size"="256,256" {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %b, 256
  %i = add i32 %base, %t
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %x = load i32, ptr addrspace(1) %p
  %l = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %t
  store i32 %x, ptr addrspace(3) %l
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %r = sub i32 255, %t
  %m = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %r
  %y = load i32, ptr addrspace(3) %m
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %y, ptr addrspace(1) %q
  ret void
}"""
)


@pytest.mark.parametrize("arch", ARCHS)
def test_workgroups_have_their_own_lds(compile_ir: Compile, arch: str) -> None:
    data = np.arange(256 * 70, dtype=np.uint32)
    out = np.zeros_like(data)
    launch(compile_ir(REVERSE, arch), Geometry((70, 1, 1), (256, 1, 1)), (data, out))
    assert np.array_equal(out, data.reshape(70, 256)[:, ::-1].reshape(-1))


IDS = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
define amdgpu_kernel void @k(ptr addrspace(1) %out) {
  %bx = call i32 @llvm.amdgcn.workgroup.id.x()
  %by = call i32 @llvm.amdgcn.workgroup.id.y()
  %bz = call i32 @llvm.amdgcn.workgroup.id.z()
  %tx = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %tz = call i32 @llvm.amdgcn.workitem.id.z()
  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %gx = load i32, ptr addrspace(4) %h
  %p1 = getelementptr i8, ptr addrspace(4) %h, i32 4
  %gy = load i32, ptr addrspace(4) %p1
  %p2 = getelementptr i8, ptr addrspace(4) %h, i32 12
  %sx = load i16, ptr addrspace(4) %p2
  %d = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %p3 = getelementptr i8, ptr addrspace(4) %d, i32 6
  %sy = load i16, ptr addrspace(4) %p3
  %wx = zext i16 %sx to i32
  %wy = zext i16 %sy to i32
  %z0 = mul i32 %bz, %gy
  %z1 = add i32 %z0, %by
  %z2 = mul i32 %z1, %gx
  %group = add i32 %z2, %bx
  %u0 = mul i32 %tz, %wy
  %u1 = add i32 %u0, %ty
  %u2 = mul i32 %u1, %wx
  %item = add i32 %u2, %tx
  %per = mul i32 %wx, %wy
  %per2 = mul i32 %per, 2
  %v0 = mul i32 %group, %per2
  %at = add i32 %v0, %item
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %at, ptr addrspace(1) %q
  ret void
}"""


def test_ids_hidden_arguments_and_dispatch_packet(compile_ir: Compile) -> None:
    grid, block = (3, 2, 2), (5, 7, 2)
    total = 3 * 2 * 2 * 5 * 7 * 2
    out = np.full(total, -1, np.int32)
    launch(compile_ir(IDS, "gfx942"), Geometry(grid, block), (out,))
    assert out.tolist() == list(range(total))


SCRATCH = (
    HEADER
    + """
define amdgpu_kernel void @k(ptr addrspace(1) %out, i32 %k) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = alloca [16 x i32], addrspace(5)
  br label %loop
loop:
  %i = phi i32 [0, %0], [%n, %loop]
  %p = getelementptr [16 x i32], ptr addrspace(5) %a, i32 0, i32 %i
  %m = mul i32 %i, %t
  store volatile i32 %m, ptr addrspace(5) %p
  %n = add i32 %i, 1
  %c = icmp eq i32 %n, 16
  br i1 %c, label %end, label %loop
end:
  %s = add i32 %t, %k
  %w = and i32 %s, 15
  %q = getelementptr [16 x i32], ptr addrspace(5) %a, i32 0, i32 %w
  %v = load volatile i32, ptr addrspace(5) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void
}"""
)


@pytest.mark.parametrize("arch", ARCHS)
def test_private_arrays(compile_ir: Compile, arch: str) -> None:
    out = np.zeros(128, np.int32)
    launch(compile_ir(SCRATCH, arch), Geometry((1, 1, 1), (128, 1, 1)), (out, 3))
    assert out.tolist() == [((t + 3) & 15) * t for t in range(128)]


ATOMIC = (
    HEADER
    + """
define amdgpu_kernel void @k(ptr addrspace(1) %sum, ptr addrspace(1) %slots) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %o = atomicrmw add ptr addrspace(1) %sum, i32 %t syncscope("agent") monotonic
  %one = getelementptr i32, ptr addrspace(1) %sum, i32 1
  %f = atomicrmw add ptr addrspace(1) %one, i32 1 syncscope("agent") monotonic
  %p = getelementptr i32, ptr addrspace(1) %slots, i32 %f
  store i32 %t, ptr addrspace(1) %p
  ret void
}"""
)


def test_atomics_are_applied_lane_by_lane(compile_ir: Compile) -> None:
    total, slots = np.zeros(2, np.uint32), np.full(640, 999, np.uint32)
    launch(compile_ir(ATOMIC, "gfx942"), Geometry((10, 1, 1), (64, 1, 1)), (total, slots))
    assert total.tolist() == [10 * sum(range(64)), 640]
    assert sorted(slots.tolist()) == sorted(list(range(64)) * 10)


def test_read_past_the_end_names_everything(compile_ir: Compile) -> None:
    n = 300
    a, b, out = (np.zeros(n, np.float32) for _ in range(3))
    guard = np.zeros(n + 300, np.float32)
    del out
    code = compile_ir(elementwise("  %r = fadd float %x0, %x1"), "gfx942")
    with pytest.raises(UserError) as caught:
        launch(code, Geometry((2, 1, 1), (256, 1, 1)), (a, b, guard, n + 1))
    text = str(caught.value)
    assert caught.value.code == "FLY-U711"
    assert "0 bytes past the end of argument" in text
    assert "workgroup (1, 0, 0), wave 0, lane 44 (thread 44, 0, 0)" in text
    assert "global_load_dword" in text


def test_endless_loop_hits_the_step_limit(compile_ir: Compile) -> None:
    text = """
define amdgpu_kernel void @k(ptr addrspace(1) %p) {
entry:
  br label %loop
loop:
  %x = load volatile i32, ptr addrspace(1) %p
  %c = icmp eq i32 %x, 1
  br i1 %c, label %end, label %loop
end:
  ret void
}"""
    flag = np.zeros(1, np.int32)
    with pytest.raises(UserError, match="may never end"):
        launch(compile_ir(text, "gfx942"), Geometry((1, 1, 1), (64, 1, 1)), (flag,), steps=20000)


HANDSHAKE = """
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %flag, ptr addrspace(1) %out) {
entry:
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = icmp eq i32 %b, 0
  br i1 %first, label %wait, label %signal
wait:
  %x = load atomic i32, ptr addrspace(1) %flag syncscope("agent") monotonic, align 4
  %c = icmp eq i32 %x, 7
  br i1 %c, label %end, label %wait
signal:
  store atomic i32 7, ptr addrspace(1) %flag syncscope("agent") monotonic, align 4
  br label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %b
  store i32 1, ptr addrspace(1) %p
  ret void
}"""


def test_a_workgroup_may_wait_for_a_later_one(compile_ir: Compile) -> None:
    flag, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
    code = compile_ir(HANDSHAKE, "gfx942")
    launch(code, Geometry((2, 1, 1), (64, 1, 1)), (flag, out), steps=10**6)
    assert out.tolist() == [1, 1]


SOURCES = {
    "loop": LOOP,
    "reverse": REVERSE,
    "ids": IDS,
    "scratch": SCRATCH,
    "atomic": ATOMIC,
    **{name: elementwise(body) for name, (body, _) in FLOAT_BODIES.items()},
    **{name: elementwise(body, element="i32") for name, (body, _) in INTEGER_BODIES.items()},
}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", SOURCES)
def test_compiled_code_decodes_as_llvm_does(compile_ir: Compile, arch: str, name: str) -> None:
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")
    kernel = read_code_object(compile_ir(SOURCES[name], arch)).kernels["k"]
    ours = [(i.pc, i.size, format_instruction(i)) for i in decode(arch, kernel.code, 0x1000)]
    theirs = [
        (pc, size, " ".join((text or "").split()))
        for pc, size, text in Disassembler(arch).lines(kernel.code, 0x1000)
    ]
    assert ours == theirs
