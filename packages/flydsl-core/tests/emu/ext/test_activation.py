"""Activation functions against float64 and higher-precision references."""

from __future__ import annotations

import math

import ml_dtypes
import mpmath
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError
from flydsl.ext import activation as act

COUNT = 1024
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 88.7, -88.7, 104, -104,
           20, -20, 1e-20, 5.5, -5.5, -9.0, -13.0]  # fmt: skip


@pytest.fixture(params=["gfx942", "gfx1201"])
def target(request):
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 200, dtype=np.uint32).view(np.float32)
    near = rng.normal(0, 4, COUNT - 200 - len(SPECIAL)).astype(np.float32)
    return np.concatenate([np.array(SPECIAL, np.float32), bits, near])


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def times(x, factor):
    """A product whose limit is zero where a vanishing factor meets infinity."""
    return np.where(factor == 0, -0.0, x * factor)


erfc = np.vectorize(math.erfc, otypes=[float])


def gelu(x):
    return times(x, erfc(-x * math.sqrt(0.5)) / 2)


def gelu_tanh(x):
    return times(x, sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def clamped(x, limit):
    return np.clip(x, -limit, limit)


def silu_half(x):
    return act.silu(x, beta=0.5)


def silu_flat(x):
    return act.silu(x, beta=0.004)


def leaky(x):
    return act.leaky_relu(x, 0.125)


def clamp(x):
    return act.clamp(x, -2.5, 3.0)


def softcap(x):
    return act.softcap(x, 30.0)


REFERENCES = {
    "silu": lambda x: times(x, sigmoid(x)),
    "silu_half": lambda x: times(x, sigmoid(0.5 * x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.125 * x),
    "clamp": lambda x: np.clip(x, -2.5, 3.0),
    "gelu_quick": lambda x: times(x, sigmoid(1.702 * x)),
    "softcap": lambda x: 30 * np.tanh(x / 30),
}
FORMS = {
    # name: (function, reference, relative error in units of 2**-24)
    "sigmoid": (act.sigmoid, sigmoid, 8),
    "silu": (act.silu, REFERENCES["silu"], 8),
    "silu_half": (silu_half, REFERENCES["silu_half"], 8),
    "silu_flat": (silu_flat, lambda x: times(x, sigmoid(0.004 * x)), 8),
    "relu": (act.relu, REFERENCES["relu"], 0),
    "relu_squared": (act.relu_squared, REFERENCES["relu_squared"], 1),
    "leaky_relu": (leaky, REFERENCES["leaky_relu"], 1),
    "clamp": (clamp, REFERENCES["clamp"], 0),
    "gelu": (act.gelu, gelu, lambda x: 16 + 2 * x * x),
    "gelu_tanh": (act.gelu_tanh, gelu_tanh, lambda x: 16 + 4 * np.abs(x) + np.abs(x) ** 3),
    "gelu_quick": (act.gelu_quick, REFERENCES["gelu_quick"], lambda x: 8 + 4 * np.abs(x)),
    "tanh": (act.tanh, np.tanh, 8),
    "softcap": (softcap, REFERENCES["softcap"], 10),
}


def unary(function, x):
    @flyc.kernel
    def kernel(X: fx.Tensor, Y: fx.Tensor):
        i = fx.block_idx.x * 256 + fx.thread_idx.x
        Y[i] = function(X[i])

    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor):
        kernel(X, Y).launch(grid=COUNT // 256, block=256)

    y = np.zeros_like(x)
    launch(x, y)
    return y


@pytest.mark.parametrize("name", FORMS)
def test_error_of_float32(target, inputs, name):
    function, reference, units = FORMS[name]
    y = unary(function, inputs)
    with np.errstate(all="ignore"):
        exact = reference(inputs.astype(np.float64))
        bound = units(inputs.astype(np.float64)) if callable(units) else units
        rounded = exact.astype(np.float32)
        normal = np.isfinite(rounded) & (np.abs(rounded) >= 2.0**-126)
        error = np.abs(y - exact)[normal] / np.abs(exact[normal]) * 2.0**24
    np.testing.assert_array_equal(np.isnan(y), np.isnan(inputs))
    limit = np.broadcast_to(bound, exact.shape)[normal]
    worst = int(np.argmax(error - limit))
    assert error[worst] <= limit[worst] + 1e-9, (inputs[normal][worst], error[worst])
    small = np.isfinite(exact) & ~normal & np.isfinite(rounded)
    assert (np.abs(y[small] - exact[small]) <= 2.0**-125).all()
    assert (y[np.isinf(rounded)] == rounded[np.isinf(rounded)]).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu", "gelu_tanh", "softcap"])
def test_narrow_classes_round_once(target, inputs, name, dtype):
    """The result is the rounding of the exact one, up to ties that the wide error decides."""
    function, reference, _ = FORMS[name]
    with np.errstate(all="ignore"):
        x = inputs.astype(dtype)
        y = unary(function, x)
        exact = reference(x.astype(np.float64))
        low, high = ((exact * f).astype(np.float32).astype(dtype) for f in (1 - 1e-5, 1 + 1e-5))
    found = y.astype(np.float64)
    lower = np.minimum(low.astype(np.float64), high.astype(np.float64))
    upper = np.maximum(low.astype(np.float64), high.astype(np.float64))
    tiny = 2.0**-24 if dtype is np.float16 else 2.0**-125
    right = ((lower - tiny <= found) & (found <= upper + tiny)) | (
        np.isnan(found) & np.isnan(exact)
    )
    assert right.all(), (x[~right], y[~right], exact[~right])


def exact_gelu(x):
    with mpmath.workprec(120):
        return np.array([v * mpmath.erfc(-v * mpmath.sqrt(0.5)) / 2 for v in map(mpmath.mpf, x)])


@pytest.mark.parametrize("name", FORMS)
def test_error_of_float64(target, name):
    function, reference, units = FORMS[name]
    x = np.random.default_rng(6).normal(0, 4, COUNT)
    x[:6] = [np.inf, -np.inf, np.nan, 0.0, 1e-100, -1e-9]
    y = unary(function, x)
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        limits = reference(wide[:3])
    np.testing.assert_array_equal(y[:3], limits.astype(np.float64))
    exact = exact_gelu(x[3:]) if name == "gelu" else reference(wide[3:])
    bound = units(wide[3:]) if callable(units) else units
    error = np.abs(y[3:] - exact) * 2**53
    assert (error <= (bound + 1e-9) * np.abs(exact)).all()


@flyc.kernel
def gated_kernel(X: fx.Tensor, U: fx.Tensor, Y: fx.Tensor):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    g, u = X[i], U[i]
    Y[0, i] = act.swiglu(g, u)
    Y[1, i] = act.swiglu(g, u, limit=7.0, alpha=1.702, up_offset=1.0)
    Y[2, i] = act.geglu(g, u)
    Y[3, i] = act.geglu(g, u, approximate="tanh")
    pair = act.swiglu(fx.Vector([g, u]), fx.Vector([u, g]))
    Y[4, i] = pair[0]
    Y[5, i] = pair[1]


@flyc.jit
def gated(X: fx.Tensor, U: fx.Tensor, Y: fx.Tensor):
    gated_kernel(X, U, Y).launch(grid=COUNT // 256, block=256)


def test_gated_forms(target):
    rng = np.random.default_rng(7)
    x, u = (rng.normal(0, 5, COUNT).astype(np.float32) for _ in range(2))
    x[:4] = [-np.inf, np.nan, 50, -50]
    u[4:8] = [np.inf, np.nan, 50, -50]
    y = np.zeros((6, COUNT), np.float32)
    gated(x, u, y)
    g, w = x.astype(np.float64), u.astype(np.float64)
    least, most = np.minimum(g, 7), clamped(w, 7) + 1
    with np.errstate(all="ignore"):
        want = [
            times(g, sigmoid(g)) * w,
            times(least, sigmoid(1.702 * least)) * most,
            gelu(g) * w,
            gelu_tanh(g) * w,
        ]
        swapped = times(w, sigmoid(w)) * g
    for row, (got, exact) in enumerate(zip(y, want, strict=False)):
        np.testing.assert_allclose(got, exact, rtol=3e-5, atol=1e-37, err_msg=f"row {row}")
    np.testing.assert_array_equal(y[4], y[0])
    np.testing.assert_allclose(y[5], swapped, rtol=1e-6, atol=1e-37)


def integer(_):
    return act.silu(fx.Int32(3))


def negative_beta(x):
    return act.silu(x, beta=-1.0)


def two_classes(x):
    return act.swiglu(x, x.to(fx.Float16))


def zero_limit(x):
    return act.swiglu(x, x, limit=0)


def crossed_bounds(x):
    return act.clamp(x, 1.0, -1.0)


def unknown_form(x):
    return act.geglu(x, x, approximate="erf")


@pytest.mark.parametrize(
    "use", [integer, negative_beta, two_classes, zero_limit, crossed_bounds, unknown_form]
)
def test_mistakes(use):
    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserError, match="FLY-U286"):
        unary(use, np.zeros(COUNT, np.float32))
