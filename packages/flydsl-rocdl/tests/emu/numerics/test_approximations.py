"""What fast-math flags shorten: rounding to bf16 without a look at NaNs, exp2 and log2."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config

pytest.importorskip("flydsl_emu")


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100"], autouse=True)
def target(request):
    """Compile for an architecture with the conversion to bf16, and for two without."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@flyc.kernel
def round_kernel(X: fx.Tensor, Y: fx.Tensor):
    start = fx.block_idx.x * 1024 + fx.thread_idx.x * 4
    value = (X.iter + start).load(fx.Float32x4)
    with fx.fastmath("nnan"):
        small = value.to(fx.BFloat16)
    (Y.iter + start).store(small)


@flyc.jit
def rounded(X: fx.Tensor, Y: fx.Tensor):
    round_kernel(X, Y).launch(grid=X.shape // 1024, block=256)


def test_rounding_without_a_look_at_nans():
    random = np.random.default_rng()
    bits = random.integers(0, 1 << 32, 8192, dtype=np.uint64).astype(np.uint32)
    # Ties and their neighbours, denormals, the largest numbers, infinities.
    bits[:4096] &= np.uint32(0xFFFF0000)
    bits[:4096] += random.integers(0x7FFE, 0x8003, 4096).astype(np.uint32)
    bits[:6] = [0x7F7FFFFF, 0xFF7F8000, 0x7F800000, 0xFF800000, 0x00000001, 0x807FFFFF]
    x = bits.view(np.float32)
    y = np.zeros(8192, ml_dtypes.bfloat16)
    rounded(x, y)
    number = ~np.isnan(x)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    assert np.array_equal(y.view(np.uint16)[number], expected.view(np.uint16)[number])


def test_nans_of_bf16_stay_nans():
    """All of them: their low bits are zero, so that rounding carries nothing away."""
    high = np.r_[0x7FC0:0x8000, 0xFFC0:0x10000].astype(np.uint32)
    x = np.resize(high << 16, 1024).view(np.float32)
    y = np.zeros(1024, ml_dtypes.bfloat16)
    rounded(x, y)
    assert np.isnan(y.astype(np.float32)).all()


@flyc.kernel
def powers_kernel(X: fx.Tensor, Y: fx.Tensor):
    t = fx.block_idx.x * 256 + fx.thread_idx.x
    power = fx.math.exp2(X[t], fastmath="afn")
    Y[0, t] = power
    Y[1, t] = fx.math.log2(power, fastmath="afn")


@flyc.jit
def powers(X: fx.Tensor, Y: fx.Tensor):
    powers_kernel(X, Y).launch(grid=X.shape // 256, block=256)


def test_bare_instructions_for_powers_and_logarithms():
    """One unit in the last place; what is below the normal numbers may be taken for 0."""
    x = np.random.default_rng().uniform(-126, 128, 2048).astype(np.float32)
    x[:6] = [0, 1, -200, -130, np.inf, -np.inf]
    y = np.zeros((2, 2048), np.float32)
    powers(x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.exp2(x.astype(np.float64))
        expected[(expected < 2.0**-126) & (y[0] == 0)] = 0
        assert (np.abs(y[0] - expected)[6:] <= 2.0**-22 * expected[6:]).all()
        assert np.array_equal(y[0, :6], expected[:6].astype(np.float32))
        logarithms = np.log2(y[0].astype(np.float64))
    finite = np.isfinite(logarithms) & (y[0] >= 2.0**-126)
    wanted = logarithms[finite]
    assert (np.abs(y[1][finite] - wanted) <= 2.0**-22 * np.abs(wanted) + 2.0**-24).all()
    assert np.array_equal(y[1][[2, 4, 5]], [-np.inf, np.inf, -np.inf])
