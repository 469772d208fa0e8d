"""Arguments that do not fit are refused, each with its code."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.errors import ConfigError, FlyDSLError, TargetError
from flydsl_kernels.gemm import GemmConfig, gemm

A, B = np.ones((4, 128), np.float16), np.ones((8, 128), np.float16)


@pytest.mark.parametrize(("options", "code"), [
    ({"layout": "xy"}, "C912"), ({"layout": "nn"}, "U911"), ({"activation": "tanh"}, "C912"),
    ({"bias": np.ones(7, np.float32)}, "U542"), ({"bias": np.ones(8, np.int32)}, "U543"),
    ({"residual": np.ones((4, 7), np.float32)}, "U542"),
    ({"scale_a": np.ones(3, np.float32)}, "U911"),
    ({"scale_a": np.ones(4)}, "U543"), ({"scale_a": 2.0}, "U540"), ({"out_dtype": "int64"}, "C916"),
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
    with pytest.raises(FlyDSLError, match="neither a NumPy array"):
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
