"""Instructions at the ends of branches: immediates that differ, and products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope


@flyc.kernel
def _immediates(out: fx.Tensor, n: fx.Int32) -> None:
    lane = fx.thread_idx.x
    value = lane
    if n == 0:
        value = fx.llvm.call_intrinsic(
            "llvm.amdgcn.update.dpp", fx.Int32, value, value, 0xB1, 15, 15, True
        )
    else:
        value = fx.llvm.call_intrinsic(
            "llvm.amdgcn.update.dpp", fx.Int32, value, value, 0x4E, 15, 15, True
        )
    if n == 0:
        fx.rocdl.s_sleep(1)
    else:
        fx.rocdl.s_sleep(2)
    out[lane] = value


@flyc.jit
def _launch_immediates(out: fx.Tensor, n: fx.Int32) -> None:
    _immediates(out, n).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_branches_that_differ_in_an_immediate(arch: str) -> None:
    """Both permute the lanes of groups of four, in ways that only an immediate tells apart."""
    for n, distance in ((0, 1), (1, 2)):
        out = np.zeros(64, np.int32)
        with scope(FLYDSL_TARGET=arch):
            _launch_immediates(out, n)
        assert np.array_equal(out, np.arange(64) ^ distance)


@flyc.kernel
def _products(a: fx.Tensor, x: fx.Tensor, out: fx.Tensor, n: fx.Int32) -> None:
    lane = fx.thread_idx.x
    h = fx.Vector([a[lane, i] for i in range(4)])
    s = fx.Vector([x[lane, i] for i in range(4)])
    if n & 2 == 0:
        for _ in range(n):
            s = s + fx.rocdl.readfirstlane(fx.Float32, s[0])
    else:
        s = fx.rocdl.mfma_f32_16x16x16f16(fx.Float32x4, [h, h, s, 0, 0, 0])
    for _ in range(n):
        s = fx.rocdl.mfma_f32_16x16x16f16(fx.Float32x4, [h, h, s, 0, 0, 0])
    s = fx.rocdl.mfma_f32_16x16x16f16(fx.Float32x4, [h, h, s, 0, 0, 0])
    for _ in range(n):
        s = fx.Vector([s[0], s[1] * 3.0, s[2], s[3]])
    for i in fx.range_constexpr(4):
        out[lane, i] = s[i]


@flyc.jit
def _launch_products(a: fx.Tensor, x: fx.Tensor, out: fx.Tensor, n: fx.Int32) -> None:
    _products(a, x, out, n).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_products_in_branches_are_there_when_they_are_used(arch: str) -> None:
    random = np.random.default_rng()
    a = random.standard_normal((64, 4)).astype(np.float16)
    x = random.standard_normal((64, 4)).astype(np.float32)
    rows = a.astype(np.float64).reshape(4, 16, 4).transpose(1, 0, 2).reshape(16, 16)
    product = (rows @ rows.T).reshape(4, 4, 16).transpose(0, 2, 1).reshape(64, 4)
    for n in range(4):
        wanted = x.astype(np.float64)
        for _ in range(0 if n & 2 else n):
            wanted = wanted + wanted[0, 0]
        wanted = wanted + product * (n + 1 + (n >> 1))
        wanted[:, 1] *= 3**n
        out = np.zeros_like(x)
        with scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
            _launch_products(a, x, out, n)
        assert np.abs(out - wanted).max() < 1e-5 * np.abs(wanted).max()
