"""What the lowering refuses, with the user's line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flydsl.errors import CompilerBug, TargetError

Kernel = Callable[..., str]

MFMA = (
    '%a = "fly.make_mma_atom"() : () -> !fly.mma_atom<"mfma<16,16,32,bf16,bf16,f32>">\n'
    '%r = "fly.mma_atom_call_ssa"(%a, %x, %x, %c) '
    "{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : "
    '(!fly.mma_atom<"mfma<16,16,32,bf16,bf16,f32>">, vector<8xbf16>, vector<8xbf16>, '
    "vector<4xf32>) -> vector<4xf32>\n"
)
SHORT_COPY = (
    '%a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_copy<128>", 32 : i64>\n'
    '%y = "fly.copy_atom_call_ssa"(%a, %x) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : '
    '(!fly.copy_atom<"universal_copy<128>", 32 : i64>, !fly.ptr<f32, "global", 4 : i64, "">) '
    "-> vector<2xf32>"
)
FLOAT_AND = (
    '%a = "fly.make_copy_atom"() : () -> '
    '!fly.copy_atom<"universal_atomic<and,f32,>", 32 : i64>\n'
    '"fly.copy_atom_call_ssa"(%a, %v, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : '
    '(!fly.copy_atom<"universal_atomic<and,f32,>", 32 : i64>, f32, '
    '!fly.ptr<f32, "global", 4 : i64, "">) -> ()'
)
BUFFER_FROM_GLOBAL = (
    '%a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"buffer_copy<32,0>", 32 : i64>\n'
    '%y = "fly.copy_atom_call_ssa"(%a, %x) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : '
    '(!fly.copy_atom<"buffer_copy<32,0>", 32 : i64>, !fly.ptr<f32, "global", 4 : i64, "">) '
    "-> vector<1xf32>"
)


@pytest.mark.parametrize(
    ("body", "parameters", "code", "text"),
    [
        ("%y = math.tanh %x : f128", "%x: f128", "FLY-T631", "tanh is not available for f128"),
        ("%y = math.exp %x : f128", "%x: f128", "FLY-T631", "exp is not available for f128"),
        ("%w = arith.constant 128 : i32\n%y, %v = gpu.shuffle xor %x, %w, %w : i32", "%x: i32",
         "FLY-T632", "over 128 lanes"),
        ("%w = arith.constant 64 : i32\n%y, %v = gpu.shuffle xor %x, %w, %w : vector<8xf32>",
         "%x: vector<8xf32>", "FLY-T632", "cannot be shuffled"),
        (MFMA, "%x: vector<8xbf16>, %c: vector<4xf32>", "FLY-T634",
         "no matrix instruction 16x16x32 bf16"),
        ('gpu.printf "x"', "", "FLY-T630", "gpu.printf has no lowering"),
        ('%y = "fly.ptr_load"(%x) : (!fly.ptr<f4E2M1FN, "global", 1 : i64, "">) -> f4E2M1FN',
         '%x: !fly.ptr<f4E2M1FN, "global", 1 : i64, "">', "FLY-T633", "whole number of bytes"),
        ('%y = "fly.ptr_load"(%x) : (!fly.ptr<f32, "texture", 4 : i64, "">) -> f32',
         '%x: !fly.ptr<f32, "texture", 4 : i64, "">', "FLY-T630", "no address space 'texture'"),
        (SHORT_COPY, '%x: !fly.ptr<f32, "global", 4 : i64, "">', "FLY-T633", "copy of 128 bits"),
        (BUFFER_FROM_GLOBAL, '%x: !fly.ptr<f32, "global", 4 : i64, "">', "FLY-T633",
         "cannot move from global to registers"),
        (FLOAT_AND, '%x: !fly.ptr<f32, "global", 4 : i64, "">, %v: f32', "FLY-T635",
         "no atomic and"),
    ],
)  # fmt: skip
def test_refused(kernel: Kernel, body: str, parameters: str, code: str, text: str) -> None:
    with pytest.raises(TargetError, match=text) as caught:
        kernel(body, parameters)
    assert caught.value.code == code


def test_the_error_names_the_users_line(kernel: Kernel) -> None:
    with pytest.raises(TargetError) as caught:
        kernel('%y = math.tanh %x : f128 loc("user.py":12:5)', "%x: f128")
    assert caught.value.location is not None
    assert str(caught.value.location) == "user.py:12"


def test_a_matrix_shape_of_a_newer_architecture_is_listed(kernel: Kernel) -> None:
    parameters = "%x: vector<8xbf16>, %c: vector<4xf32>"
    with pytest.raises(TargetError) as caught:
        kernel(MFMA, parameters, "gfx942")
    assert "16x16x16 bf16 -> f32" in caught.value.allowed
    assert "mfma.f32.16x16x32.bf16" in kernel(MFMA, parameters, "gfx950")


def test_a_wave64_shuffle_on_wave32_is_refused(kernel: Kernel) -> None:
    body = (
        "%w = arith.constant 64 : i32\n%o = arith.constant 1 : i32\n"
        "%y, %v = gpu.shuffle xor %x, %o, %w : i32"
    )
    kernel(body, "%x: i32", "gfx942")
    with pytest.raises(TargetError, match="64 lanes"):
        kernel(body, "%x: i32", "gfx1100")


def test_occupancy_hints_are_checked_and_passed_on(lower: Kernel) -> None:
    text = "gpu.module @m { gpu.func @k() kernel { gpu.return } }"
    assert '["amdgpu-waves-per-eu", "2,4"]' in lower(text, waves_per_eu=(2, 4))
    with pytest.raises(TargetError, match="waves_per_eu") as caught:
        lower(text, waves_per_eu=(9,))
    assert caught.value.code == "FLY-T612"


def test_unsafe_math_means_the_hardware_functions(lower: Kernel) -> None:
    text = """gpu.module @m { gpu.func @k(%x: f32) {
      %a = math.rsqrt %x : f32
      %b = math.cos %x : f32
      gpu.return
    } }"""
    assert "@__fly_cos(" in lower(text)
    unsafe = lower(text, unsafe_fp_math=True)
    assert "@__fly_rsqrt_fast(" in unsafe
    assert 'llvm.call_intrinsic "llvm.cos"' in unsafe


def test_unknown_options_are_a_bug(lower: Kernel) -> None:
    with pytest.raises(CompilerBug):
        lower("gpu.module @m {}", nonsense=1)
