"""Results in 8 bits with a scale per row, against float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import row_reference as reference

from flydsl import config
from flydsl.errors import ConfigError
from flydsl_kernels.norm import layernorm_quantised, rmsnorm_quantised

# Largest number, distance of numbers at 1 (integers: everywhere) and of the smallest ones.
FORMATS = {
    "int8": (127.0, 0.0, 1.0),
    "float8_e4m3fn": (448.0, 2.0**-3, 2.0**-9),
    "float8_e4m3fnuz": (240.0, 2.0**-3, 2.0**-10),
}


def check(found, expected, bound, dtype):
    """Check that a result is within half a step of the reference, plus the error in f32."""
    small, scales = found
    limit, relative, least = FORMATS[dtype]
    top = np.abs(expected).max(-1)
    slack = bound.max(-1) + 4 * reference.U * top
    assert (np.abs(scales * limit - top) <= slack + 2.0**-119).all()
    got = small.astype(np.float64) * scales.astype(np.float64)[..., None]
    step = np.maximum(relative * np.abs(expected), (least * top / limit)[..., None])
    assert (np.abs(got - expected) <= step / 2 * 1.0001 + slack[..., None]).all()
    assert (np.abs(small.astype(np.float64)).max(-1) == limit).all()


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("columns", [7, 1000, 5001, 65603])
def test_against_float64(columns, dtype, gfx942):
    random = np.random.default_rng()
    x = random.standard_normal((3, columns)).astype(np.float32)
    w, b = (random.standard_normal(columns).astype(np.float32) for _ in range(2))
    expected, bound = reference.rmsnorm(x, w, 1e-6, np.float32)
    check(rmsnorm_quantised(x, w, dtype=dtype), expected, bound, dtype)
    expected, bound = reference.layernorm(x, w, b, 1e-5, np.float32)
    check(layernorm_quantised(x, w, b, dtype=dtype), expected, bound, dtype)


@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201"])
def test_other_architectures(arch):
    x = np.random.default_rng().standard_normal((5, 999)).astype(ml_dtypes.bfloat16)
    one = np.ones(999)
    expected, bound = reference.rmsnorm(x, one, 1e-6, np.float32)
    with config.scope(FLYDSL_TARGET=arch):
        check(rmsnorm_quantised(x, dtype="float8_e4m3fn"), expected, bound, "float8_e4m3fn")


def test_zeros_nan_and_no_rows(gfx942):
    x = np.ones((3, 40), np.float32)
    x[0] = 0
    x[1, 7] = np.nan
    small, scales = rmsnorm_quantised(x)
    assert (small[0] == 0).all()
    assert scales[0] == 0
    assert np.isnan(scales[1])
    assert (small[2] == 127).all()
    small, scales = rmsnorm_quantised(x[:0])
    assert small.shape == (0, 40)
    assert scales.shape == (0,)


def test_another_type_is_refused(gfx942):
    with pytest.raises(ConfigError, match="FLY-C903"):
        rmsnorm_quantised(np.ones((1, 8), np.float32), dtype="int4")


def test_tensors(gfx942):
    torch = pytest.importorskip("torch", reason="these are tensors of PyTorch")
    x = torch.randn(2, 3, 64)
    small, scales = layernorm_quantised(x)
    assert (small.dtype, small.shape, scales.shape) == (torch.int8, x.shape, (2, 3))
    wanted = torch.nn.functional.layer_norm(x.double(), (64,), eps=1e-5)
    error = (small.double() * scales[..., None] - wanted).abs()
    assert bool((error <= scales[..., None] * 0.501).all())
