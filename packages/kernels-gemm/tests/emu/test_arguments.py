"""Arguments that do not fit are refused, each with its code."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.errors import ConfigError, FlyDSLError, TargetError
from flydsl_kernels.gemm import (
    GemmConfig,
    GemmProblem,
    Operand,
    PreshuffledWeight,
    Scaling,
    compile_fp8_gemm,
    compile_mx_gemm,
    compile_preshuffle_gemm,
    gemm,
    grouped_gemm,
    launch_gemm,
    plan_gemm,
    preshuffle_b,
)

A, B = np.ones((4, 128), np.float16), np.ones((8, 128), np.float16)


@pytest.mark.parametrize(("options", "code"), [
    ({"layout": "xy"}, "C912"), ({"layout": "nn"}, "U911"), ({"activation": "tanh"}, "C912"),
    ({"bias": np.ones(7, np.float32)}, "U542"), ({"bias": np.ones(8, np.int32)}, "U543"),
    ({"residual": np.ones((4, 7), np.float32)}, "U542"),
    ({"scale_a": np.ones(3, np.float32)}, "U911"),
    ({"scale_a": np.ones(4)}, "U543"), ({"scale_a": "2"}, "U540"), ({"out_dtype": "int64"}, "C916"),
    ({"scale_a": True}, "U540"), ({"scale_b": [1.0]}, "U540"), ({"bias": 3.0}, "U540"),
    ({"residual": [1]}, "U540"), ({"out_dtype": np.float64}, "C916"), ({"out_dtype": 3}, "U549"),
    ({"split_k": 2.5}, "U549"), ({"split_k": "2"}, "U549"), ({"split_k": 0}, "C920"),
    ({"layout": None}, "U549"), ({"layout": ["nt"]}, "U549"), ({"activation": 1}, "U549"),
    ({"activation": np.tanh}, "U549"), ({"bias": np.ma.masked_array(np.ones(8, "f"))}, "U547"),
    ({"out": np.ones((4, 9), np.float32)}, "U542"),
    ({"out": np.ones((4, 8), np.float32), "out_dtype": "float16"}, "U913"),
    ({"out": np.ones((8, 4), np.float32).T}, "U912"),
    ({"scale_b": np.ones((1, 1), np.float32)}, "C913"),
    ({"config": GemmConfig(16, 64, 48, 1, 4)}, "C921"), ({"split_k": 1000}, "C920"),
    ({"config": {}}, "U910"), ({"out": [1]}, "U540"),
    ({"out": np.lib.stride_tricks.as_strided(np.zeros(8, np.float16), (4, 8), (0, 2))}, "U546"),
    ({"out": np.frombuffer(bytes(64), np.float16).reshape(4, 8)}, "U545"),
])  # fmt: skip
def test_options(options, code, gfx942):
    with pytest.raises(FlyDSLError) as caught:
        gemm(A, B, **options)
    assert caught.value.code == f"FLY-{code}"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_operands(gfx942):
    with pytest.raises(FlyDSLError, match="a is neither a NumPy array"):
        gemm([[1.0]], B)
    with pytest.raises(FlyDSLError, match="no matrix"):
        gemm(A[0], B)
    with pytest.raises(FlyDSLError, match="different lengths"):
        gemm(np.ones((2, 4, 128), np.float16), np.ones((3, 8, 128), np.float16))
    with pytest.raises(FlyDSLError, match="different lengths"):
        gemm(np.broadcast_to(A, (2, 4, 128)), np.ones((3, 8, 128), np.float16))
    with pytest.raises(ConfigError, match="not supported"):
        gemm(A.astype(np.float64), B.astype(np.float64))
    with pytest.raises(TypeError, match="biass"):
        gemm(A, B, biass=None)


def test_k_has_to_be_whole_blocks_of_scales(gfx942):
    a, b = np.ones((4, 192), np.int8), np.ones((256, 192), np.int8)
    scales = np.ones((4, 1), np.float32), np.ones((2, 1), np.float32)
    with pytest.raises(ConfigError, match="multiple of the block") as caught:
        gemm(a, b, scale_a=scales[0], scale_b=scales[1])
    assert caught.value.code == "FLY-C914"


def test_an_architecture_without_the_type(target):
    import ml_dtypes

    other = ml_dtypes.float8_e4m3fn if target == "gfx942" else ml_dtypes.float8_e4m3fnuz
    with pytest.raises(TargetError, match="no matrix instruction"):
        gemm(np.ones((4, 64), other), np.ones((4, 64), other))


ENDS, STACK = np.array([2, 4], np.int32), np.ones((2, 8, 128), np.float16)
SIZES = {"N": 64, "K": 256, "tile_m": 32, "tile_n": 64, "tile_k": 64}


@pytest.mark.parametrize(("call", "code"), [
    (lambda: grouped_gemm(A, STACK, [2, 4]), "U540"),
    (lambda: grouped_gemm(A, STACK, None), "U540"),
    (lambda: grouped_gemm(A, STACK, ENDS, config={}), "U910"),
    (lambda: grouped_gemm(A, STACK, ENDS, layout=3), "U549"),
    (lambda: grouped_gemm(A, None, ENDS), "U540"), (lambda: gemm(A, None), "U540"),
    (lambda: gemm(None, preshuffle_b(np.ones((16, 64), np.float16))), "U540"),
    (lambda: GemmProblem("a", 8, 16), "U549"), (lambda: GemmProblem(4, 8, 16.0), "U549"),
    (lambda: GemmProblem(4, 8, 16, dtype=None), "U549"),
    (lambda: GemmProblem(4, 8, 16, a=3), "U549"),
    (lambda: GemmProblem(4, 8, 16, bias="no"), "U549"), (lambda: GemmProblem(4, 8, -1), "C910"),
    (lambda: Operand(k_major=1), "U549"), (lambda: Operand(leading=None), "U549"),
    (lambda: Scaling(a=1), "U549"), (lambda: GemmConfig(16.0, 64, 64, 1, 4), "U549"),
    (lambda: GemmConfig(16, 64, 64, 1, 4, direct="yes"), "U549"),
    (lambda: plan_gemm(None, "gfx942"), "U549"),
    (lambda: plan_gemm(GemmProblem(4, 8, 16), 3), "U910"),
    (lambda: plan_gemm(GemmProblem(4, 8, 16), None), "U910"),
    (lambda: plan_gemm(GemmProblem(4, 8, 16), "gfx942", split_k="2"), "U549"),
    (lambda: preshuffle_b([[1.0]]), "U540"), (lambda: preshuffle_b(A, layout=16), "U549"),
    (lambda: preshuffle_b(STACK, scales=[1]), "U540"),
    (lambda: preshuffle_b(STACK, dtype=3), "U549"),
    (lambda: preshuffle_b(np.ones((16, 64), np.float16), arch=942), "U549"),
    (lambda: PreshuffledWeight("16x16", "float16", 16, 64, None), "U540"),
    (lambda: PreshuffledWeight("16x16", "float16", "16", 64, STACK), "U549"),
    (lambda: compile_preshuffle_gemm(**{**SIZES, "N": "64"}), "U549"),
    (lambda: compile_preshuffle_gemm(**SIZES, lds_stage="two"), "U549"),
    (lambda: compile_preshuffle_gemm(**SIZES, epilogue=None), "U549"),
    (lambda: compile_preshuffle_gemm(**SIZES, use_async_copy="no"), "U549"),
    (lambda: compile_preshuffle_gemm(**SIZES, in_dtype=np.int8), "U549"),
    (lambda: compile_mx_gemm(N=64, K=256, tile=64), "C930"),
    (lambda: compile_mx_gemm(N=64, K=None), "U549"),
    (lambda: compile_mx_gemm(N=64, K=256, a_dtype=["fp4"]), "U549"),
    (lambda: compile_fp8_gemm(M="1", N=64, K=64), "U549"),
    (lambda: compile_fp8_gemm(M=1, N=64, K=64.0), "U549"),
    (lambda: launch_gemm(A, A, A, A, A, 4.0, 8, K=256, tile_m=32, tile_n=128, tile_k=256), "U549"),
])  # fmt: skip
def test_other_kinds(call, code, gfx942):
    with pytest.raises(FlyDSLError) as caught:
        call()
    assert caught.value.code == f"FLY-{code}"


def test_unknown_options_are_named(gfx942):
    for call in (lambda: grouped_gemm(A, STACK, ENDS, foo=3), lambda: gemm(A, B, foo=3)):
        with pytest.raises(TypeError, match="foo"):
            call()


def test_scales_may_be_numbers(gfx942):
    random = np.random.default_rng()
    a, b = (random.standard_normal((n, 64)).astype(np.float16) for n in (5, 24))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    one = np.full((1,), 0.5, np.float32)
    for given in (2.0, 2, np.float32(2), np.int64(2)):
        found = gemm(a, b, scale_a=given, scale_b=one, out_dtype=np.float32)
        assert np.array_equal(found, gemm(a, b, out_dtype="float32"))
    small = gemm(a, b, scale_b=-3.0, scale_out=0.25, out_dtype=np.int8)
    assert small.dtype == np.int8
    assert np.abs(small - np.clip(np.rint(-12 * exact), -128, 127)).max() <= 1
    grouped = grouped_gemm(a, b[None], np.array([5], np.int32), scale_a=2.0, out_dtype="float32")
    assert np.array_equal(grouped, 2 * gemm(a, b, out_dtype="float32"))
    shuffled = preshuffle_b(random.standard_normal((16, 64)).astype(np.float16))
    doubled = gemm(a, shuffled, scale_a=2.0, out_dtype="float32")
    assert np.array_equal(doubled, 2 * gemm(a, shuffled, out_dtype="float32"))


def test_element_types_by_any_name(gfx942):
    import ml_dtypes

    for kind in (ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "bfloat16"):
        assert gemm(A, B, out_dtype=kind).dtype == ml_dtypes.bfloat16
    assert GemmProblem(4, 8, 16, np.float16, out_dtype=np.dtype("f4")).out_dtype == "float32"
