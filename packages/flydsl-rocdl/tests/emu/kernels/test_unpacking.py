"""Weights of four bits as other types: every number at every place, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_rocdl.kernels.preshuffle import pack_int4
from flydsl_rocdl.kernels.unpacking import unpacker

THREADS, EACH = 64, 16
KINDS = {
    "int4": np.int8,
    "bf16_int4": ml_dtypes.bfloat16,
    "fp16_int4": np.float16,
    "e4m3fn_int4": ml_dtypes.float8_e4m3fn,
    "e4m3fnuz_int4": ml_dtypes.float8_e4m3fnuz,
    "e5m2_int4": ml_dtypes.float8_e5m2,
    "e5m2fnuz_int4": ml_dtypes.float8_e5m2fnuz,
}


@flyc.kernel
def _unpack(Packed: fx.Tensor, Y: fx.Tensor, kind: fx.Constexpr[str]) -> None:
    """Sixteen weights a lane."""
    place = fx.thread_idx.x * 2
    two = [Packed[place], Packed[place + 1]]
    unpack = unpacker(kind)
    if fx.const_expr(kind in ("bf16_int4", "fp16_int4")):
        pieces = [unpack(word) for word in two]
    else:
        pieces = [unpack(fx.Vector.from_elements(two))]
    for number, piece in enumerate(pieces):
        for word in fx.range_constexpr(4):
            Y[fx.thread_idx.x * (4 * len(pieces)) + number * 4 + word] = piece[word]


@flyc.jit
def _launch(Packed: fx.Tensor, Y: fx.Tensor, kind: fx.Constexpr[str]) -> None:
    _unpack(Packed, Y, kind).launch(grid=1, block=THREADS)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1250"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_at_every_place(kind: str, arch: str) -> None:
    random = np.random.default_rng()
    numbers = random.integers(-8, 8, (THREADS, EACH)).astype(np.int8)
    numbers[:16] = (np.arange(16)[:, None] + np.arange(EACH)) % 16 - 8
    wanted = np.dtype(KINDS[kind])
    y = np.zeros(THREADS * EACH * wanted.itemsize // 4, np.int32)
    with scope(FLYDSL_TARGET=arch):
        _launch(pack_int4(numbers).view(np.int32).reshape(-1), y, kind)
    assert np.array_equal(y.view(wanted).reshape(numbers.shape).astype(np.int8), numbers)
    assert y.view(wanted).tobytes() == numbers.astype(wanted).tobytes()
