"""What the AMDGPU back end dies of must reach Python as a `TargetError` with LLVM's text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flydsl.codegen import CodegenRequest, CodegenWorker
from flydsl.errors import TargetError

TRIPLE = "amdgcn-amd-amdhsa"
GOOD = "define amdgpu_kernel void @k(ptr addrspace(1) %p) {\n  ret void\n}\n"
LDS = """
@lds = internal addrspace(3) global [100000 x i8] poison
define amdgpu_kernel void @k() {
  store volatile i8 0, ptr addrspace(3) @lds
  ret void
}
"""
MFMA = """
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(
  <8 x bfloat>, <8 x bfloat>, <4 x float>, i32 immarg, i32 immarg, i32 immarg)
define amdgpu_kernel void @k(ptr addrspace(1) %p, <8 x bfloat> %a, <4 x float> %c) {
  %d = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(
    <8 x bfloat> %a, <8 x bfloat> %a, <4 x float> %c, i32 0, i32 0, i32 0)
  store <4 x float> %d, ptr addrspace(1) %p
  ret void
}
"""
LIBCALL = """
declare float @llvm.tan.f32(float)
define amdgpu_kernel void @k(ptr addrspace(1) %p, float %x) {
  %y = call float @llvm.tan.f32(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
"""
INLINE_ASM = """
define amdgpu_kernel void @k() {
  call void asm sideeffect "s_nop 0", ""()
  ret void
}
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[CodegenWorker]:
    with CodegenWorker() as running:
        yield running


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (LDS, r"local memory \(100000\) exceeds limit \(65536\)"),
        (MFMA, "Cannot select: intrinsic %llvm.amdgcn.mfma.f32.16x16x32.bf16"),
        (LIBCALL, "no libcall available for ftan"),
        (INLINE_ASM, "asm parser"),
    ],
    ids=["lds", "mfma", "libcall", "inline-asm"],
)
def test_back_end_failure_is_an_exception(worker: CodegenWorker, source: str, text: str) -> None:
    with pytest.raises(TargetError, match=text) as caught:
        worker.compile(CodegenRequest(source, TRIPLE, cpu="gfx942"))
    assert caught.value.code == "FLY-T424"
    assert worker.compile(CodegenRequest(GOOD, TRIPLE, cpu="gfx942")).object[:4] == b"\x7fELF"


def test_the_same_instruction_compiles_where_it_exists(worker: CodegenWorker) -> None:
    result = worker.compile(CodegenRequest(MFMA, TRIPLE, cpu="gfx950", want_asm=True))
    assert "v_mfma_f32_16x16x32_bf16" in result.asm


def test_unknown_arch(worker: CodegenWorker) -> None:
    with pytest.raises(TargetError, match="'gfx123' is not a recognized processor"):
        worker.compile(CodegenRequest(GOOD, TRIPLE, cpu="gfx123"))
