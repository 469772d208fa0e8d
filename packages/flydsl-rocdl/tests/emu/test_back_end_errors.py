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


@flyc.kernel
def _body(a: fx.Tensor, what: fx.Constexpr) -> None:
    what(a, fx.thread_idx.x)


@flyc.jit
def _launch_body(a: fx.Tensor, what: fx.Constexpr, threads: fx.Constexpr[int]) -> None:
    _body(a, what).launch(grid=(1,), block=(threads, 1, 1))


def _line_of(text: str) -> int:
    with open(HERE, encoding="utf-8") as source:
        return next(n for n, line in enumerate(source, 1) if text in line)


def _transposing(a: Any, lane: Any) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 64], alignment=16)
    pointer = fx.to_llvm_ptr(space.ptr)
    words = fx.rocdl.ds_read_tr16_b64("vector<4xf16>", pointer)  # the line that is told
    a[lane] = fx.Vector(words, 4, fx.Float16)[0]


def _unknown(a: Any, _: Any) -> None:
    fx.llvm.call_intrinsic("llvm.amdgcn.no.such.thing", None)


def _all_registers(_a: Any, _: Any) -> None:
    fx.llvm.inline_asm("v_mov_b32 v255, 0", "~{v255}", None)


def _too_many_values(_a: Any, _: Any) -> None:
    values = [fx.llvm.inline_asm("; $0", "=v", "vector<32xi32>") for _ in range(8)]
    names = ",".join("v" for _ in values)
    fx.llvm.inline_asm("; $0 $1 $2 $3 $4 $5 $6 $7", names, None, *values)


def test_an_intrinsic_that_the_architecture_lacks() -> None:
    a = np.zeros(64, np.float16)
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(TargetError) as caught:
        flyc.compile(_launch_body, a, _transposing, 64)
    assert caught.value.code == "FLY-T611"
    assert "ds.read.tr16.b64" in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == _line_of("# the line that is told")
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(TargetError, match=r"no\.such\.thing"):
        flyc.compile(_launch_body, a, _unknown, 64)


@pytest.mark.parametrize(("arch", "threads"), [("gfx942", 1024), ("gfx1100", 1024)])
def test_more_registers_than_a_workgroup_can_have(arch: str, threads: int) -> None:
    a = np.zeros(64, np.float16)
    with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(_launch_body, a, _all_registers, threads)
    assert caught.value.code == "FLY-T614"
    assert caught.value.location is not None
    assert caught.value.location.file == HERE
    with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True):
        flyc.compile(_launch_body, a, _all_registers, threads // 2)


def test_assembly_that_needs_more_registers_than_there_are() -> None:
    a = np.zeros(64, np.float16)
    with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(_launch_body, a, _too_many_values, 1024)
    assert caught.value.code == "FLY-T611"
    assert "registers" in str(caught.value)
