"""What the back end refuses, reported at the user's line."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.diagnostics import PerformanceWarning
from flydsl.errors import TargetError, UserError

HERE = __file__


def _heavy(a: fx.Tensor) -> None:
    """Holds 256 values over a barrier, with registers for 64."""
    lane = fx.thread_idx.x
    values = [a[lane * 256 + i] for i in range(256)]
    fx.barrier()
    for i in range(256):
        a[lane * 256 + i] = values[i] * values[255 - i]


def _launcher(spills: Literal["report", "warn", "error"]) -> Any:
    @flyc.kernel(spills=spills)
    def heavy(a: fx.Tensor) -> None:
        _heavy(a)

    @flyc.jit
    def launch(a: fx.Tensor) -> None:
        heavy(a).launch(grid=(1,), block=(1024, 1, 1))

    return launch


def test_spills_are_reported_or_an_error() -> None:
    a = np.zeros(1024 * 256, np.float32)
    with scope(FLYDSL_TARGET="gfx1100", COMPILE_ONLY=False):
        assert flyc.compile(_launcher("report"), a).kernels[0].vgpr_spills > 0
        with pytest.warns(PerformanceWarning, match="spills"):
            flyc.compile(_launcher("warn"), a)
        with pytest.raises(TargetError, match="spills") as caught:
            flyc.compile(_launcher("error"), a)
    assert caught.value.code == "FLY-T613"
    assert caught.value.location is not None
    assert caught.value.location.file == HERE
    with pytest.raises(UserError):
        flyc.kernel(spills="never")  # type: ignore[call-overload]


@flyc.kernel
def _too_much_lds(out: fx.Tensor) -> None:
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 20000], alignment=16)
    lds = fx.make_view(storage.ptr, fx.make_layout(20000, 1))
    lds[fx.thread_idx.x] = fx.Float32(1.0)
    out[fx.thread_idx.x] = lds[63 - fx.thread_idx.x]


@flyc.jit
def _launch_too_much_lds(out: fx.Tensor) -> None:
    _too_much_lds(out).launch(grid=(1,), block=(64, 1, 1))


def test_too_much_lds_is_an_error_at_the_kernel() -> None:
    out = np.zeros(64, np.float32)
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(TargetError) as caught:
        _launch_too_much_lds(out)
    assert caught.value.location is not None
    assert caught.value.location.file == HERE
    with scope(FLYDSL_TARGET="gfx950"):
        _launch_too_much_lds(out)
    assert np.array_equal(out, np.ones(64))
