"""Kernels of gfx11 and gfx12 compiled from LLVM IR: matrix cores, lanes, barriers, narrow types."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.config import scope
from flydsl_emu.codeobject import read_code_object
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.jit_tier import JitTier

Compile = Callable[[str, str], bytes]
Array = Any
ARCHS = ("gfx1100", "gfx1201", "gfx1250")
HEADER = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.permlanex16.i32(i32, i32, i32, i32, i1, i1)
declare i32 @llvm.amdgcn.mov.dpp8.i32(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare i32 @llvm.amdgcn.ballot.i32(i1)
declare i64 @llvm.amdgcn.ballot.i64(i1)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i32 @llvm.amdgcn.readlane.i32(i32, i32)
declare i32 @llvm.amdgcn.cvt.pk.fp8.f32(float, float, i32, i1)
declare float @llvm.amdgcn.cvt.f32.fp8(i32, i32)
"""


@pytest.fixture(params=["numpy", "jit"], autouse=True)
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every kernel runs on both tiers."""
    if request.param == "jit" and not JitTier.available():
        pytest.skip("no code generator for this processor")
    with scope(FLYDSL_EMU_TIER=request.param):
        yield request.param


def launch(
    code: bytes, arguments: tuple[Any, ...], grid: tuple[int, int, int] = (1, 1, 1), block: int = 32
) -> LaunchRecord:
    """Run kernel ``k``: arrays become pointers, ints i32, floats f32."""
    kernel = LoadedCode(read_code_object(code)).kernels["k"]
    data, ranges = b"", []
    for n, x in enumerate(arguments):
        if isinstance(x, np.ndarray):
            data += bytes(-len(data) % 8) + struct.pack("<Q", x.ctypes.data)
            end = x.ctypes.data + x.nbytes
            ranges.append(Allocation(x.ctypes.data, end, True, f"argument {n}"))
        else:
            data += struct.pack("<f" if isinstance(x, float) else "<i", x)
    return kernel.launch(Geometry(grid, (block, 1, 1)), data, ranges, 10**8)


def per_lane(body: str, more: str = "", threads: int = 32, features: str = "") -> str:
    """A kernel that stores `body`'s i32 %r for each thread %t; ``%x`` is the thread's input."""
    attributes = f'"amdgpu-flat-work-group-size"="{threads},{threads}"'
    if features:
        attributes += f' "target-features"="{features}"'
    return f"""{HEADER}
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out{more}) {attributes} {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %x = load i32, ptr addrspace(1) %a
{body}
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}}"""


def names(record: LaunchRecord) -> set[str]:
    parts = [p for i in record.program.instructions for p in (i.parts or (i,))]
    return {p.name for p in parts}


# Matrix cores ------------------------------------------------------------------------------------
# Intrinsic, types of A (and B) and of the accumulator, arguments.
WMMA: dict[tuple[str, str], tuple[str, str, str, str]] = {
    ("gfx1100", "f16"): ("wmma.f32.16x16x16.f16", "<16 x half>", "<8 x float>", "{a}, {b}, {c}"),
    ("gfx1201", "f16"): ("wmma.f32.16x16x16.f16", "<8 x half>", "<8 x float>", "{a}, {b}, {c}"),
    ("gfx1100", "bf16"): ("wmma.f32.16x16x16.bf16", "<16 x i16>", "<8 x float>", "{a}, {b}, {c}"),
    ("gfx1201", "bf16"): ("wmma.f32.16x16x16.bf16", "<8 x i16>", "<8 x float>", "{a}, {b}, {c}"),
    ("gfx1201", "fp8"): ("wmma.f32.16x16x16.fp8.fp8", "<2 x i32>", "<8 x float>", "{a}, {b}, {c}"),
    ("gfx1100", "i8"): (
        "wmma.i32.16x16x16.iu8", "<4 x i32>", "<8 x i32>",
        "i1 true, {a}, i1 true, {b}, {c}, i1 false",
    ),
    ("gfx1201", "i8"): (
        "wmma.i32.16x16x16.iu8", "<2 x i32>", "<8 x i32>",
        "i1 true, {a}, i1 true, {b}, {c}, i1 false",
    ),
}  # fmt: skip
ELEMENTS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8": ml_dtypes.float8_e4m3fn,
    "i8": np.int8,
}


def wmma_kernel(arch: str, kind: str) -> str:
    """Each lane loads its fragments: arrays of ``[lane][element]``."""
    name, ab, acc, arguments = WMMA[arch, kind]
    call = arguments.format(a=f"{ab} %a", b=f"{ab} %b", c=f"{acc} %c")
    suffix = {"<16 x half>": "v16f16", "<8 x half>": "v8f16", "<16 x i16>": "v16i16"}
    suffix |= {"<8 x i16>": "v8i16", "<2 x i32>": "v2i32", "<4 x i32>": "v4i32"}
    result = "v8f32" if "float" in acc else "v8i32"
    full = f"@llvm.amdgcn.{name}.{result}.{suffix[ab]}"
    declared = ", ".join(part.rpartition(" ")[0] for part in call.split(", "))
    return f"""
declare i32 @llvm.amdgcn.workitem.id.x()
declare {acc} {full}({declared})
define amdgpu_kernel void @k(ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pc)
    "amdgpu-flat-work-group-size"="32,32" {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %la = getelementptr {ab}, ptr addrspace(1) %pa, i32 %t
  %lb = getelementptr {ab}, ptr addrspace(1) %pb, i32 %t
  %lc = getelementptr {acc}, ptr addrspace(1) %pc, i32 %t
  %a = load {ab}, ptr addrspace(1) %la
  %b = load {ab}, ptr addrspace(1) %lb
  %c = load {acc}, ptr addrspace(1) %lc
  %d = call {acc} {full}({call})
  store {acc} %d, ptr addrspace(1) %lc
  ret void
}}"""


def fragment(matrix: Array, arch: str) -> Array:
    """Return ``[lane][element]`` of rows of A or columns of B (the ISA guides' layouts)."""
    lane = np.arange(32)
    if arch == "gfx1100":
        return np.ascontiguousarray(matrix[lane % 16])
    half = matrix.shape[1] // 2
    return np.stack([matrix[n % 16, half * (n // 16) : half * (n // 16 + 1)] for n in lane])


def accumulator(matrix: Array, arch: str) -> Array:
    lane, element = np.arange(32)[:, None], np.arange(8)[None, :]
    row = 2 * element + lane // 16 if arch == "gfx1100" else 8 * (lane // 16) + element
    return matrix[row, np.broadcast_to(lane % 16, row.shape)]


@pytest.mark.parametrize(("arch", "kind"), WMMA)
def test_matrix_product(compile_ir: Compile, arch: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    dtype = ELEMENTS[kind]
    if kind == "i8":
        a, b = (rng.integers(-128, 128, (16, 16)).astype(dtype) for _ in range(2))
        c = rng.integers(-(2**20), 2**20, (16, 16)).astype(np.int32)
    else:
        a, b = (rng.normal(0, 1, (16, 16)).astype(dtype) for _ in range(2))
        c = rng.normal(0, 1, (16, 16)).astype(np.float32)
    fa, fb = fragment(a, arch), fragment(np.ascontiguousarray(b.T), arch)
    fc = np.ascontiguousarray(accumulator(c, arch))
    record = launch(compile_ir(wmma_kernel(arch, kind), arch), (fa, fb, fc))
    assert any(name.startswith("v_wmma_") for name in names(record))
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    assert np.allclose(fc, accumulator(want, arch), rtol=1e-6, atol=1e-5)
    if kind == "i8":
        assert np.array_equal(fc, accumulator(want, arch).astype(np.int32))


# Lanes -------------------------------------------------------------------------------------------
LANE_BODIES: dict[str, tuple[str, Callable[[Array], Array], str]] = {
    "exchanged rows": (
        (
            "  %r = call i32 @llvm.amdgcn.permlanex16.i32(i32 %x, i32 %x, i32 u0x76543210, "
            "i32 u0xfedcba98, i1 false, i1 false)"
        ),
        lambda x: x[np.arange(32) ^ 16],
        "v_permlanex16_b32",
    ),
    "groups of eight": (
        "  %r = call i32 @llvm.amdgcn.mov.dpp8.i32(i32 %x, i32 342391)",  # 7 6 5 4 3 2 1 0
        lambda x: x[np.arange(32) ^ 7],
        "",
    ),
    "rotated rows": (
        "  %r = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %x, i32 289, i32 15, i32 15, i1 1)",
        lambda x: x[np.arange(32) & 16 | (np.arange(32) - 1) & 15],
        "",
    ),
    "ballot": (
        (
            "  %c = icmp sgt i32 %x, 0\n  %b = call i32 @llvm.amdgcn.ballot.i32(i1 %c)\n"
            "  %r = add i32 %b, %t"
        ),
        lambda x: (sum(1 << k for k in range(32) if x[k] > 0) + np.arange(32)).astype(np.int32),
        "",
    ),
    "first lane": (
        (
            "  %c = icmp sgt i32 %t, 4\n  br i1 %c, label %yes, label %no\nyes:\n"
            "  %f = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %x)\n  br label %no\nno:\n"
            "  %r = phi i32 [ %f, %yes ], [ -1, %0 ]"
        ),
        lambda x: np.where(np.arange(32) > 4, x[5], -1),
        "v_readfirstlane_b32",
    ),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("case", LANE_BODIES)
def test_lanes(compile_ir: Compile, arch: str, case: str) -> None:
    body, reference, opcode = LANE_BODIES[case]
    x = np.random.default_rng(2).integers(-(2**15), 2**15, 32).astype(np.int32)
    out = np.zeros(32, np.int32)
    record = launch(compile_ir(per_lane(body), arch), (x, out))
    assert np.array_equal(out, reference(x))
    assert not opcode or opcode in names(record)


def test_waves_of_64_lanes_on_gfx1100(compile_ir: Compile) -> None:
    body = (
        "  %c = icmp sgt i32 %x, 0\n  %b = call i64 @llvm.amdgcn.ballot.i64(i1 %c)\n"
        "  %h = lshr i64 %b, 32\n  %l = trunc i64 %h to i32\n  %r = add i32 %l, %t"
    )
    code = compile_ir(per_lane(body, threads=64, features="+wavefrontsize64"), "gfx1100")
    x = np.random.default_rng(3).integers(-9, 9, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    record = launch(code, (x, out), block=64)
    assert record.geometry.lanes == 64
    high = sum(1 << k for k in range(32) if x[32 + k] > 0)
    assert np.array_equal(out, (high + np.arange(64)).astype(np.uint32).view(np.int32))


# Registers ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
def test_vectors_indexed_at_run_time(compile_ir: Compile, arch: str) -> None:
    text = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q, i32 %i) {
  %v = load <32 x float>, ptr addrspace(1) %p
  %e = extractelement <32 x float> %v, i32 %i
  %w = insertelement <32 x float> %v, float 3.0, i32 %i
  store float %e, ptr addrspace(1) %q
  store <32 x float> %w, ptr addrspace(1) %p
  ret void
}"""
    code = compile_ir(text, arch)
    for index in (0, 7, 31):
        x, found = np.arange(32, dtype=np.float32) + 50, np.zeros(1, np.float32)
        record = launch(code, (x, found, index), block=1)
        assert {"v_movrels_b32", "v_movreld_b32"} <= names(record)
        want = np.arange(32, dtype=np.float32) + 50
        assert found[0] == want[index]
        want[index] = 3
        assert np.array_equal(x, want)


def test_registers_above_255(compile_ir: Compile) -> None:
    count = 300
    loads = "".join(
        f"  %a{n} = getelementptr [32 x i32], ptr addrspace(1) %p, i32 {n}, i32 %t\n"
        f"  %x{n} = load volatile i32, ptr addrspace(1) %a{n}\n"
        for n in range(count)
    )
    stores = "".join(
        f"  %m{n} = mul i32 %x{n}, %x{(n + 1) % count}\n"
        f"  store volatile i32 %m{n}, ptr addrspace(1) %a{n}\n"
        for n in range(count)
    )
    text = f"""{HEADER}
define amdgpu_kernel void @k(ptr addrspace(1) %p) "amdgpu-flat-work-group-size"="32,32"
    "amdgpu-waves-per-eu"="1,1" {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
{loads}{stores}  ret void
}}"""
    x = np.random.default_rng(7).integers(0, 2**32, (count, 32), dtype=np.uint32)
    before = x.copy()
    record = launch(compile_ir(text, "gfx1250"), (x,))
    assert record.kernel.vgprs > 256
    assert "s_set_vgpr_msb" in names(record)
    assert np.array_equal(x, before * np.roll(before, -1, 0))


@pytest.mark.parametrize("arch", ARCHS)
def test_halves_of_registers(compile_ir: Compile, arch: str) -> None:
    body = """
  %l = trunc i32 %x to i16
  %s = lshr i32 %x, 16
  %h = trunc i32 %s to i16
  %fl = bitcast i16 %l to half
  %fh = bitcast i16 %h to half
  %sum = fadd half %fl, %fh
  %product = fmul half %sum, %fl
  %c = fcmp ogt half %fl, %fh
  %chosen = select i1 %c, half %product, half %sum
  %i = bitcast half %chosen to i16
  %n = xor i16 %i, %h
  %zl = zext i16 %i to i32
  %zh = zext i16 %n to i32
  %up = shl i32 %zh, 16
  %r = or i32 %up, %zl"""
    rng = np.random.default_rng(4)
    x = rng.normal(0, 2, 64).astype(np.float16)
    out = np.zeros(32, np.int32)
    launch(compile_ir(per_lane(body), arch), (x.view(np.int32), out))
    low, high = x[0::2], x[1::2]
    total = low + high
    chosen = np.where(low > high, total * low, total)
    got = out.view(np.float16)
    assert np.array_equal(got[0::2], chosen)
    assert np.array_equal(got[1::2].view(np.uint16), chosen.view(np.uint16) ^ high.view(np.uint16))


# Memory and barriers -----------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
def test_narrow_uniform_loads(compile_ir: Compile, arch: str) -> None:
    text = """
define amdgpu_kernel void @k(ptr addrspace(1) noalias readonly %p, ptr addrspace(1) noalias %q) {
  %a1 = getelementptr i8, ptr addrspace(1) %p, i64 3
  %a2 = getelementptr i8, ptr addrspace(1) %p, i64 6
  %b = load i8, ptr addrspace(1) %a1
  %h = load i16, ptr addrspace(1) %a2, align 2
  %sb = sext i8 %b to i32
  %sh = zext i16 %h to i32
  %m = mul i32 %sb, 65536
  %r = add i32 %m, %sh
  store i32 %r, ptr addrspace(1) %q
  ret void
}"""
    x = np.array([1, 2, 3, 250, 5, 6, 0x34, 0xF2], np.uint8)
    out = np.zeros(1, np.int32)
    record = launch(compile_ir(text, arch), (x, out), block=1)
    assert out[0] == -6 * 65536 + 0xF234
    if arch == "gfx1201":
        assert {"s_load_i8", "s_load_u16"} & names(record)


@pytest.mark.parametrize("arch", ARCHS)
def test_workgroup_numbers(compile_ir: Compile, arch: str) -> None:
    text = (
        HEADER
        + """
define amdgpu_kernel void @k(ptr addrspace(1) %out) {
  %x = call i32 @llvm.amdgcn.workgroup.id.x()
  %y = call i32 @llvm.amdgcn.workgroup.id.y()
  %z = call i32 @llvm.amdgcn.workgroup.id.z()
  %y1 = mul i32 %y, 5
  %z1 = mul i32 %z, 15
  %s = add i32 %x, %y1
  %at = add i32 %s, %z1
  %z2 = mul i32 %z, 10000
  %y2 = mul i32 %y, 100
  %v1 = add i32 %x, %y2
  %v = add i32 %v1, %z2
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %v, ptr addrspace(1) %o
  ret void
}"""
    )
    out = np.zeros((2, 3, 5), np.int32)
    launch(compile_ir(text, arch), (out,), grid=(5, 3, 2), block=1)
    z, y, x = np.indices(out.shape)
    assert np.array_equal(out, x + 100 * y + 10000 * z)


@pytest.mark.parametrize("arch", ARCHS)
def test_barriers_order_waves(compile_ir: Compile, arch: str) -> None:
    """Waves take turns adding to LDS; without barriers the last one would win."""
    text = (
        HEADER
        + """
@cell = internal addrspace(3) global i32 poison, align 4
define amdgpu_kernel void @k(ptr addrspace(1) %out) "amdgpu-flat-work-group-size"="128,128" {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %wave = lshr i32 %t, 5
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %clear, label %ready
clear:
  store i32 1, ptr addrspace(3) @cell
  br label %ready
ready:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %loop
loop:
  %turn = phi i32 [ 0, %ready ], [ %next, %after ]
  %mine = icmp eq i32 %turn, %wave
  %lane = and i32 %t, 31
  %first = icmp eq i32 %lane, 0
  %go = and i1 %mine, %first
  br i1 %go, label %change, label %after
change:
  %old = load i32, ptr addrspace(3) @cell
  %twice = mul i32 %old, 3
  %new = add i32 %twice, %wave
  store i32 %new, ptr addrspace(3) @cell
  br label %after
after:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %next = add i32 %turn, 1
  %done = icmp eq i32 %next, 4
  br i1 %done, label %end, label %loop
end:
  %v = load i32, ptr addrspace(3) @cell
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %b, 128
  %at = add i32 %base, %t
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %v, ptr addrspace(1) %o
  ret void
}"""
    )
    out = np.zeros(5 * 128, np.int32)
    record = launch(compile_ir(text, arch), (out,), grid=(5, 1, 1), block=128)
    value = 1
    for wave in range(4):
        value = 3 * value + wave
    assert (out == value).all()
    assert ("s_barrier" if arch == "gfx1100" else "s_barrier_signal") in names(record)


@pytest.mark.parametrize("arch", ARCHS)
def test_flushed_denormals(compile_ir: Compile, arch: str) -> None:
    """A division keeps denormals on its way, which s_denorm_mode arranges around it."""
    body = """
  %f = bitcast i32 %x to float
  %q = fdiv float %f, 3.0
  %h = fmul float %q, 0.5
  %r = bitcast float %h to i32"""
    text = per_lane(body).replace(
        '"amdgpu-flat', '"denormal-fp-math-f32"="preserve-sign" "amdgpu-flat'
    )
    x = (2.0 ** -np.arange(100, 132)).astype(np.float32) * np.float32(1.75)
    out = np.zeros(32, np.float32)
    record = launch(compile_ir(text, arch), (x.view(np.int32), out.view(np.int32)))
    assert "s_denorm_mode" in names(record)
    smallest = np.float32(2.0**-126)
    source = np.where(x < smallest, 0, x)
    quotient = (source.astype(np.float64) / 3).astype(np.float32)
    quotient = np.where(quotient < smallest, 0, quotient)
    half = quotient * np.float32(0.5)
    assert np.array_equal(out, np.where(half < smallest, 0, half))


def test_small_float_conversions(compile_ir: Compile) -> None:
    body = """
  %f = bitcast i32 %x to float
  %d = fmul float %f, 2.0
  %p = call i32 @llvm.amdgcn.cvt.pk.fp8.f32(float %f, float %d, i32 %t, i1 true)
  %u = call float @llvm.amdgcn.cvt.f32.fp8(i32 %p, i32 3)
  %b = bitcast float %u to i32
  %m = and i32 %b, -65536
  %h = lshr i32 %p, 16
  %r = or i32 %m, %h"""
    x = np.random.default_rng(5).normal(0, 4, 32).astype(np.float32)
    out = np.zeros(32, np.int32)
    launch(compile_ir(per_lane(body), "gfx1201"), (x.view(np.int32), out))
    small = np.stack([x, x * 2], 1).astype(ml_dtypes.float8_e4m3fn)
    codes = small.view(np.uint16)[:, 0].astype(np.uint32)
    wide = small[:, 1].astype(np.float32).view(np.uint32)
    assert np.array_equal(out.view(np.uint32), wide & 0xFFFF0000 | codes)


def test_scalar_floats(compile_ir: Compile) -> None:
    text = """
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.floor.f32(float)
define amdgpu_kernel void @k(ptr addrspace(1) %out, float %a, float %b, i32 %n) {
  %s = fadd float %a, %b
  %p = fmul float %s, %a
  %m = call float @llvm.maxnum.f32(float %p, float %b)
  %f = call float @llvm.floor.f32(float %m)
  %i = sitofp i32 %n to float
  %q = fsub float %f, %i
  %c = fcmp olt float %q, %p
  %r = select i1 %c, float %q, float %p
  store float %r, ptr addrspace(1) %out
  ret void
}"""
    code = compile_ir(text, "gfx1201")
    for a, b, n in ((1.5, 2.25, 3), (-7.0, 0.5, -40), (2.0, 100.0, 7)):
        out = np.zeros(1, np.float32)
        record = launch(code, (out, a, b, n), block=1)
        assert {"s_add_f32", "s_mul_f32"} <= names(record)
        product = np.float32((a + b) * a)
        q = np.floor(max(product, np.float32(b))) - n
        assert out[0] == (q if q < product else product)
