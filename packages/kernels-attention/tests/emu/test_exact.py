"""Every 8-bit number in every type of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from decode_reference import BF16, F16, FN, FNUZ, INT8

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.device.exact import exact16

E5M2 = np.dtype("float8_e5m2")


@flyc.kernel
def _widen(codes: fx.Tensor, out: fx.Tensor) -> None:
    thread = fx.thread_idx.x
    loaded = (codes.iter + thread * 8).load(vector_alias(codes.dtype, (8,)))
    (out.iter + thread * 8).store(exact16(loaded, out.dtype))


@flyc.jit
def _launch(codes: fx.Tensor, out: fx.Tensor) -> None:
    _widen(codes, out).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize("wide", [BF16, F16], ids=str)
@pytest.mark.parametrize("narrow", [FN, FNUZ, E5M2, INT8], ids=str)
def test_every_code_keeps_its_value_and_sign(narrow, wide, any_arch):
    codes, out = np.arange(256, dtype=np.uint8).view(narrow), np.zeros(256, wide)
    _launch(codes, out)
    found, exact = out.astype(np.float32), codes.astype(np.float32)
    assert np.array_equal(found, exact, equal_nan=True)
    numbers = ~np.isnan(exact)
    assert np.array_equal(np.signbit(found[numbers]), np.signbit(exact[numbers]))
