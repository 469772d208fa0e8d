"""Epilogues against float64, at the edges of f32 too."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import ConfigError
from flydsl_rocdl.kernels.epilogue import ACTIVATIONS, Epilogue, quantised


@flyc.kernel
def _apply(X: fx.Tensor, Scale: fx.Tensor, Bias: fx.Tensor, Rest: fx.Tensor, Y: fx.Tensor,
           steps: fx.Constexpr[Epilogue]) -> None:  # fmt: skip
    """Four columns a lane, one row."""
    place = fx.thread_idx.x * 4

    def four(tensor: Any) -> Any:
        return fx.Vector.from_elements([tensor[place + i] for i in fx.range_constexpr(4)])

    result = steps.apply(
        four(X), Y.dtype, row_scale=fx.Float32(0.25), column_scales=four(Scale), bias=four(Bias),
        residual=four(Rest), inverse_scale=fx.Float32(3.0),
    )  # fmt: skip
    for i in fx.range_constexpr(4):
        Y[place + i] = result[i]


@flyc.jit
def _launch(X: fx.Tensor, Scale: fx.Tensor, Bias: fx.Tensor, Rest: fx.Tensor, Y: fx.Tensor,
            steps: fx.Constexpr[Epilogue]) -> None:  # fmt: skip
    _apply(X, Scale, Bias, Rest, Y, steps).launch(grid=1, block=64)


def _wide(name: str, x: Any) -> Any:
    with np.errstate(over="ignore"):
        if name == "relu":
            return np.maximum(x, 0)
        if name == "silu":
            return x / (1 + np.exp(-x))
        if name == "gelu":
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x


def _run(steps: Epilogue, x: Any, kind: Any) -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    scale = random.uniform(0.1, 2, 256).astype(np.float32)
    bias = random.standard_normal(256).astype(ml_dtypes.bfloat16)
    rest = random.standard_normal(256).astype(np.float16)
    y = np.zeros(256, kind)
    with scope(FLYDSL_TARGET="gfx950"):
        _launch(x, scale, bias, rest, y, steps)
    wide = x.astype(np.float64)
    if steps.scaled:
        wide = wide * 0.25 * scale.astype(np.float64)
    if steps.bias:
        wide = wide + bias.astype(np.float64)
    wide = _wide(steps.activation, wide)
    return y, wide + rest.astype(np.float64) if steps.residual else wide


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_step_in_f32(name: str) -> None:
    x = np.random.default_rng(6).standard_normal(256).astype(np.float32) * 4
    x[:8] = [0, -0.0, 90, -90, 1e-30, -1e-30, 700, -700]
    for scaled, bias, residual in ((False, False, False), (True, True, False), (True, True, True)):
        y, wide = _run(Epilogue(scaled, bias, name, residual), x, np.float32)
        # A few roundings, the exponential's 1 ulp times |x| up to 90, against the magnitudes.
        assert np.all(np.abs(y - wide) <= 2e-6 * (np.abs(wide) + 4)), name


def test_integer_sums_are_converted_and_results_rounded() -> None:
    x = np.random.default_rng(7).integers(-(2**20), 2**20, 256).astype(np.int32)
    y, wide = _run(Epilogue.named("bias_relu", scaled=True), x, ml_dtypes.bfloat16)
    assert np.all(np.abs(y.astype(np.float64) - wide) <= np.abs(wide) * 2.0**-8 + 1e-3)


@pytest.mark.parametrize("kind", [np.int8, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_quantised_results_saturate_and_round_to_even(kind: Any) -> None:
    x = np.random.default_rng(8).standard_normal(256).astype(np.float32) * 100
    x[:6] = [1e9, -1e9, 0.5 / 3, 2.5 / 3, -1.5 / 3, 0]
    y, wide = _run(Epilogue(quantised=True), x, kind)
    scaled = (x * np.float32(3)).astype(np.float64)
    if kind is np.int8:
        assert np.array_equal(y, np.clip(np.rint(scaled), -127, 127))
    else:
        largest = 448.0 if kind is ml_dtypes.float8_e4m3fn else 57344.0
        expected = np.clip(scaled, -largest, largest).astype(np.float32).astype(kind)
        assert np.array_equal(y.view(np.uint8), expected.view(np.uint8))
    assert wide.shape == y.shape


def test_unknown_names_and_types_are_refused() -> None:
    for make in (
        lambda: Epilogue(activation="tanh"), lambda: Epilogue.named("relu"),
        lambda: Epilogue.named("bias_tanh"), lambda: quantised(None, fx.Int32),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            make()
        assert caught.value.code == "FLY-C608"
        assert caught.value.allowed
