"""Code objects from device modules: instructions, resources, and errors at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flydsl.config import scope
from flydsl.errors import CompilerBug, TargetError
from flydsl.plugins.payloads import CodeObject
from flydsl_rocdl.hsaco import find_assembler, read_elf

Build = Callable[..., CodeObject]

GLOBAL = '!fly.ptr<f32, "global", 16 : i64, "">'
SHARED = '!fly.ptr<f32, "shared", 16 : i64, "">'
COPY = '!fly.copy_atom<"universal_copy<128>", 32 : i64>'
VECTOR_COPY = f"""
  %t = gpu.thread_id x
  %i = arith.index_cast %t : index to i32
  %c4 = arith.constant 4 : i32
  %o = arith.muli %i, %c4 : i32
  %p = "fly.add_offset"(%a, %o) : ({GLOBAL}, i32) -> {GLOBAL}
  %q = "fly.add_offset"(%b, %o) : ({GLOBAL}, i32) -> {GLOBAL}
  %atom = "fly.make_copy_atom"() : () -> {COPY}
  %v = "fly.copy_atom_call_ssa"(%atom, %p) {{operandSegmentSizes = array<i32: 1, 1, 0, 0>}} :
      ({COPY}, {GLOBAL}) -> vector<4xf32>
  %w = arith.addf %v, %v : vector<4xf32>
  "fly.copy_atom_call_ssa"(%atom, %w, %q) {{operandSegmentSizes = array<i32: 1, 1, 1, 0>}} :
      ({COPY}, vector<4xf32>, {GLOBAL}) -> ()
"""


@pytest.mark.parametrize(
    ("arch", "load"),
    [
        ("gfx942", "global_load_dwordx4"),
        ("gfx950", "global_load_dwordx4"),
        ("gfx942:sramecc+:xnack-", "global_load_dwordx4"),
        ("gfx1100", "global_load_b128"),
        ("gfx1201", "global_load_b128"),
        ("gfx1250", "global_load_b128"),
    ],
)
def test_vector_copy(kernel: Build, arch: str, load: str) -> None:
    code = kernel(VECTOR_COPY, f"%a: {GLOBAL}, %b: {GLOBAL}", arch)
    assert load in code.isa
    (info,) = code.kernels
    assert info.name == "k"
    assert [(a.offset, a.size) for a in info.args if not a.hidden] == [(0, 8), (8, 8)]
    assert info.required_block == (256, 1, 1)
    assert info.max_threads == 256
    assert info.spills == 0
    assert info.waves_per_simd == (16 if arch.startswith("gfx1") else 8)
    assert str(code.target) == arch
    assert code.format == "hsaco"
    assert read_elf(code.data).symbol("k.kd") is not None


def test_no_hidden_arguments_without_need(kernel: Build) -> None:
    plain = kernel(VECTOR_COPY, f"%a: {GLOBAL}, %b: {GLOBAL}").kernels[0]
    assert not any(a.hidden for a in plain.args)
    assert plain.kernarg_size == 16
    body = f"""
      %g = gpu.grid_dim x
      %i = arith.index_cast %g : index to i32
      %x = arith.sitofp %i : i32 to f32
      "fly.ptr_store"(%x, %a) : (f32, {GLOBAL}) -> ()
    """
    hidden = kernel(body, f"%a: {GLOBAL}").kernels[0]
    assert {a.kind: a.offset for a in hidden.args if a.hidden}["hidden_block_count_x"] == 8


def _lds(bytes_: int) -> str:
    return f"""
      %s = "fly.alloca"() {{bytes = {bytes_} : i64, sym = "tile"}} : () -> {SHARED}
      %t = gpu.thread_id x
      %i = arith.index_cast %t : index to i32
      %p = "fly.add_offset"(%s, %i) : ({SHARED}, i32) -> {SHARED}
      "fly.ptr_store"(%x, %p) : (f32, {SHARED}) -> ()
      gpu.barrier
      %y = "fly.ptr_load"(%s) : ({SHARED}) -> f32
      "fly.ptr_store"(%y, %a) : (f32, {GLOBAL}) -> ()
    """


def test_static_lds_is_reported(kernel: Build) -> None:
    code = kernel(_lds(32768), f"%a: {GLOBAL}, %x: f32")
    assert code.kernels[0].lds_static == 32768
    assert code.kernels[0].waves_per_simd == 2
    assert not code.kernels[0].uses_dynamic_lds
    assert "s_barrier" in code.isa


def test_dynamic_lds_is_reported(kernel: Build) -> None:
    body = f"""
      %s8 = "fly.get_dyn_shared"() : () -> !fly.ptr<i8, "shared", 1024 : i64, "">
      %s = "fly.recast_iter"(%s8) : (!fly.ptr<i8, "shared", 1024 : i64, "">) -> {SHARED}
      "fly.ptr_store"(%x, %s) : (f32, {SHARED}) -> ()
      %y = "fly.ptr_load"(%s) : ({SHARED}) -> f32
      "fly.ptr_store"(%y, %a) : (f32, {GLOBAL}) -> ()
    """
    assert kernel(body, f"%a: {GLOBAL}, %x: f32").kernels[0].uses_dynamic_lds


@pytest.mark.parametrize(
    ("arch", "size", "limit"), [("gfx942", 65552, 65536), ("gfx950", 163856, 163840)]
)
def test_too_much_lds_is_an_error_at_the_kernel(
    kernel: Build, arch: str, size: int, limit: int
) -> None:
    with pytest.raises(TargetError, match=f"needs {size} bytes of local data share") as caught:
        kernel(_lds(size), f"%a: {GLOBAL}, %x: f32", arch)
    assert caught.value.code == "FLY-T610"
    assert str(limit) in caught.value.allowed
    assert str(caught.value.location) == "kernel.py:7"


def test_an_instruction_that_the_architecture_lacks_is_an_error_at_the_kernel(
    kernel: Build,
) -> None:
    body = """
      %z = llvm.mlir.constant(0 : i32) : i32
      %r = llvm.call_intrinsic "llvm.amdgcn.mfma.f32.16x16x32.f16"(%x, %x, %c, %z, %z, %z) :
          (vector<8xf16>, vector<8xf16>, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
      "fly.ptr_store"(%r, %a) : (vector<4xf32>, !fly.ptr<f32, "global", 16 : i64, "">) -> ()
    """
    parameters = f"%a: {GLOBAL}, %x: vector<8xf16>, %c: vector<4xf32>"
    assert "v_mfma_f32_16x16x32_f16" in kernel(body, parameters, "gfx950").isa
    with pytest.raises(TargetError, match="back end refuses") as caught:
        kernel(body, parameters, "gfx942")
    assert caught.value.code == "FLY-T611"
    assert str(caught.value.location) == "kernel.py:7"


def test_a_device_library_call_is_a_bug(build: Build) -> None:
    text = """
    gpu.module @m {
      llvm.func @__ocml_tan_f32(f32) -> f32
      gpu.func @k(%x: f32) kernel {
        %y = llvm.call @__ocml_tan_f32(%x) : (f32) -> f32
        gpu.return
      }
    }
    """
    with pytest.raises(CompilerBug, match="__ocml_tan_f32"):
        build(text)


def test_device_functions_are_internal(build: Build) -> None:
    text = f"""
    gpu.module @m {{
      gpu.func @helper(%x: f32) -> f32 {{
        %y = arith.addf %x, %x : f32
        gpu.return %y : f32
      }}
      gpu.func @k(%a: {GLOBAL}, %x: f32) kernel {{
        %y = llvm.mlir.constant(1.0 : f32) : f32
        "fly.ptr_store"(%y, %a) : (f32, {GLOBAL}) -> ()
        gpu.return
      }}
    }}
    """
    names = [s.name for s in read_elf(build(text).data).symbols]
    assert "k" in names
    assert "helper" not in names


def test_math_needs_no_device_library(kernel: Build) -> None:
    body = "\n".join(
        f"%{i} = math.{name} %{'x' if i == 0 else i - 1} : f32"
        for i, name in enumerate(
            ["exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh",
             "erf", "expm1", "log1p", "sinh", "cosh", "atan", "asin", "acos", "cbrt", "floor",
             "ceil", "trunc", "round", "roundeven", "absf", "asinh", "acosh", "atanh", "erfc"]
        )
    )  # fmt: skip
    body += "\n%p = math.powf %29, %x : f32\n%q = math.atan2 %p, %x : f32\n"
    body += "%s, %c = math.sincos %q : f32\n%l = math.clampf %s to [%c, %x] : f32\n"
    body += "%r = arith.remf %l, %x : f32\n"
    body += f'"fly.ptr_store"(%r, %a) : (f32, {GLOBAL}) -> ()'
    code = kernel(body, f"%a: {GLOBAL}, %x: f32")
    assert "v_exp_f32" in code.isa
    assert code.kernels[0].spills == 0


def test_waves_per_eu_bounds_the_registers(kernel: Build) -> None:
    code = kernel(VECTOR_COPY, f"%a: {GLOBAL}, %b: {GLOBAL}", waves_per_eu=(4, 4))
    assert code.kernels[0].waves_per_simd >= 4


def test_debug_information_is_optional(kernel: Build) -> None:
    parameters = f"%a: {GLOBAL}, %b: {GLOBAL}"
    plain = read_elf(kernel(VECTOR_COPY, parameters).data)
    assert plain.section(".debug_line") is None
    debug = read_elf(kernel(VECTOR_COPY, parameters, debug_info=True).data)
    assert debug.section(".debug_line") is not None


def test_an_external_linker_gives_the_same_memory(kernel: Build, lld: str) -> None:
    parameters = f"%a: {GLOBAL}, %x: f32"
    ours = kernel(_lds(1024), parameters)
    with scope(FLYDSL_ROCDL_LLD=Path(lld)):
        theirs = kernel(_lds(1024), parameters)
    assert ours.kernels == theirs.kernels
    text = [read_elf(code.data).section(".text") for code in (ours, theirs)]
    assert text[0] == text[1]


def test_an_operation_without_translation_is_an_error_not_a_crash(kernel: Build) -> None:
    pointer = '!fly.ptr<f8E3M4, "global", 1 : i64, "">'
    body = (
        '%y = arith.truncf %x : f32 to f8E3M4 loc("kernel.py":9:3)\n'
        f'"fly.ptr_store"(%y, %a) : (f8E3M4, {pointer}) -> ()'
    )
    with pytest.raises(TargetError, match=r"arith\.truncf on f32, f8E3M4") as caught:
        kernel(body, f"%x: f32, %a: {pointer}")
    assert str(caught.value.location) == "kernel.py:9"


ASSEMBLY = f"""
  %y = llvm.inline_asm has_side_effects "v_mul_f32 $0, 2.0, $1", "=v,v" %x : (f32) -> f32
  "fly.ptr_store"(%y, %a) : (f32, {GLOBAL}) -> ()
"""


def test_inline_assembly_goes_through_an_assembler(kernel: Build, llvm_mc: str) -> None:
    with scope(FLYDSL_ROCDL_LLVM_MC=Path(llvm_mc)):
        code = kernel(ASSEMBLY, f"%a: {GLOBAL}, %x: f32", "gfx942:xnack-")
    assert "v_mul_f32" in code.isa
    assert code.kernels[0].name == "k"


def test_a_mistake_in_inline_assembly_is_reported(kernel: Build, llvm_mc: str) -> None:
    body = ASSEMBLY.replace("v_mul_f32", "v_mull_f32")
    with scope(FLYDSL_ROCDL_LLVM_MC=Path(llvm_mc)), pytest.raises(TargetError) as caught:
        kernel(body, f"%a: {GLOBAL}, %x: f32")
    assert caught.value.code == "FLY-T624"
    assert str(caught.value.location) == "kernel.py:7"


def test_without_an_assembler_inline_assembly_says_what_to_install(kernel: Build) -> None:
    missing = Path("/nonexistent/llvm-mc")
    with scope(FLYDSL_ROCDL_LLVM_MC=missing), pytest.raises(TargetError, match="cannot start"):
        kernel(ASSEMBLY, f"%a: {GLOBAL}, %x: f32")
    with pytest.raises(TargetError, match="needs an external assembler") as caught:
        find_assembler(None, candidates=("no-such-program",))
    assert "FLYDSL_ROCDL_LLVM_MC" in caught.value.hint
