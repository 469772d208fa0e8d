"""Kernels that run in, or change, other float modes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl_emu.codeobject import read_code_object
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Allocation, Geometry
from flydsl_emu.execution.program import needs_interpreter

ARCHS = ("gfx942", "gfx950")
Array = Any
Compile = Callable[[str, str], bytes]

TEXT = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare void @llvm.set.rounding(i32)
declare i32 @llvm.get.rounding()
declare half @llvm.fptrunc.round.f16.f32(float, metadata)
declare void @llvm.amdgcn.s.setreg(i32, i32)

define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %r)
    ATTRIBUTES {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %t
  %pr = getelementptr float, ptr addrspace(1) %r, i32 %t
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
BODY
  ret void
}
"""


def run(
    compile_ir: Compile, arch: str, body: str, a: Array, b: Array, attributes: str = ""
) -> Array:
    text = TEXT.replace("BODY", body).replace("ATTRIBUTES", attributes)
    kernel = LoadedCode(read_code_object(compile_ir(text, arch))).kernels["k"]
    result = np.zeros(len(a), np.float32)
    arrays = (a, b, result)
    ranges = [Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, "array") for x in arrays]
    pointers = struct.pack("<3Q", *(x.ctypes.data for x in arrays))
    kernel.launch(Geometry((1, 1, 1), (len(a), 1, 1)), pointers, ranges)
    return result


def values(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    a[:8] = [1e-40, -1e-40, 1.5e-38, 0.0, -0.0, 1e-20, -1e-20, 3.0]
    b[:8] = [1.0, 1e-39, 0.25, 1.0, 1.0, 1e-25, 1e-20, 3e30]
    return a, b


def flush(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


FLUSH = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
STORE = "\n  store volatile float %s, ptr addrspace(1) %pr"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("operation", ["fadd", "fmul", "fdiv"])
def test_kernels_that_flush_denormals(compile_ir: Compile, arch: str, operation: str) -> None:
    a, b = values(1)
    got = run(compile_ir, arch, f"  %s = {operation} float %x, %y{STORE}", a, b, FLUSH)
    exact = {"fadd": np.add, "fmul": np.multiply, "fdiv": np.divide}[operation]
    with np.errstate(all="ignore"):
        want = flush(exact(flush(a), flush(b)))
    kept = run(compile_ir, arch, f"  %s = {operation} float %x, %y{STORE}", a, b)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(want))
    assert np.array_equal(kept, exact(a, b))
    assert not np.array_equal(kept, got)


@pytest.mark.parametrize("arch", ARCHS)
def test_rounding_set_by_each_wave(compile_ir: Compile, arch: str) -> None:
    """Each of four waves adds in a rounding mode of its own, and reports it."""
    a, b = values(2)
    body = """
  %wave = lshr i32 %t, 6
  %w = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %wave)
  call void @llvm.set.rounding(i32 %w)
  %s = fadd float %x, %y
  %g = call i32 @llvm.get.rounding()
  %f = sitofp i32 %g to float
  %odd = icmp eq i32 %t, 255
  %v = select i1 %odd, float %f, float %s
  store volatile float %v, ptr addrspace(1) %pr"""
    # The sum must stay between the two calls.
    strict = body.replace(
        "fadd float %x, %y",
        "call float @llvm.experimental.constrained.fadd.f32("
        'float %x, float %y, metadata !"round.dynamic", metadata !"fpexcept.ignore")',
    )
    text = "strictfp"
    declaration = (
        "declare float @llvm.experimental.constrained.fadd.f32(float, float, metadata, metadata)"
    )
    got = run(lambda t, c: compile_ir(t + declaration, c), arch, strict, a, b, text)
    wide = a.astype(np.float64) + b
    nearest = wide.astype(np.float32)
    # Rounding by number: toward zero, nearest, up, down.
    above = np.where(nearest < wide, np.nextafter(nearest, np.float32(np.inf)), nearest)
    below = np.where(nearest > wide, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    zero = np.where(wide > 0, below, above)
    want = np.select([np.arange(256) // 64 == k for k in range(4)], [zero, nearest, above, below])
    assert np.array_equal(got[8:255], want[8:255])
    assert got[255] == 3.0
    assert not np.array_equal(want, nearest)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("direction", ["upward", "downward"])
def test_truncation_in_a_direction(compile_ir: Compile, arch: str, direction: str) -> None:
    a, b = values(3)
    body = f"""
  %h = call half @llvm.fptrunc.round.f16.f32(float %x, metadata !"round.{direction}")
  %s = fpext half %h to float
  store volatile float %s, ptr addrspace(1) %pr"""
    got = run(compile_ir, arch, body, a, b).astype(np.float64)
    assert (got >= a).all() if direction == "upward" else (got <= a).all()
    near = a[8:].astype(np.float16).astype(np.float64)
    step = np.abs(np.spacing(a[8:].astype(np.float16))).astype(np.float64)
    assert (np.abs(got[8:] - a[8:]) <= step).all()
    assert not np.array_equal(got[8:], near)


@pytest.mark.parametrize("arch", ARCHS)
def test_which_kernels_need_modes(compile_ir: Compile, arch: str) -> None:
    plain = f"  %s = fadd float %x, %y{STORE}"
    for body, attributes, want in (
        (plain, "", False),
        (plain, FLUSH, True),
        (f"  call void @llvm.set.rounding(i32 0)\n{plain}", "", True),
    ):
        text = TEXT.replace("BODY", body).replace("ATTRIBUTES", attributes)
        kernel = LoadedCode(read_code_object(compile_ir(text, arch))).kernels["k"]
        assert needs_interpreter(kernel.program) == want
