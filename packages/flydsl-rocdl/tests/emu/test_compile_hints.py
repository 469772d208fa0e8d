"""Every compile hint changes the code that comes out, and unknown ones are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import TargetError, UserError


@flyc.kernel
def _scale(a: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    out[lane] = a[lane] * fx.Float32(0.5) + fx.math.exp2(a[lane])


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor) -> None:
    _scale(a, out).launch(grid=(1,), block=(64, 1, 1))


def _isa(hints: dict[str, Any]) -> str:
    a = np.zeros(64, np.float32)
    with scope(FLYDSL_TARGET="gfx942"):
        text: str = flyc.compile[hints](_launch, a, a.copy()).isa
    return text


def test_denormals_are_flushed_on_request() -> None:
    assert re.search(r"\.amdhsa_float_denorm_mode_32 3", _isa({}))
    assert re.search(r"\.amdhsa_float_denorm_mode_32 0", _isa({"flush_denormals": True}))


def test_fast_math_and_llvm_options_change_the_code() -> None:
    plain = re.findall(r"^\tv_\w+", _isa({}), re.MULTILINE)
    fast = re.findall(r"^\tv_\w+", _isa({"fast_fp_math": True}), re.MULTILINE)
    assert len(fast) < len(plain)
    with pytest.raises(UserError):
        _isa({"llvm_options": {"no-such-option": True}})


@pytest.mark.parametrize("hints", [{"maxnreg": 32}, {"wave_per_eu": 2}, {"flush_denormals": 1}])
def test_unknown_and_malformed_hints_are_refused(hints: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        _isa(hints)


@flyc.kernel
def _heavy(a: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    values = [a[lane * 128 + i] for i in fx.range_constexpr(128)]
    fx.barrier()
    for i in fx.range_constexpr(128):
        out[lane * 128 + i] = values[i] * values[127 - i]


@flyc.jit
def _launch_heavy(a: fx.Tensor, out: fx.Tensor) -> None:
    _heavy(a, out).launch(grid=(1,), block=(64, 1, 1))


def test_occupancy_bounds_reach_the_register_allocator() -> None:
    a = np.zeros(64 * 128, np.float32)
    found = []
    for hints in ({}, {"waves_per_eu": 8}):
        with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True):
            (kernel,) = flyc.compile[hints](_launch_heavy, a, a.copy()).kernels
        found.append(kernel)
    assert found[0].waves_per_simd < 8
    assert found[1].waves_per_simd == 8
    with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile[{"waves_per_eu": 9}](_launch_heavy, a, a.copy())
    assert caught.value.code == "FLY-T612"


def test_unsafe_math_uses_the_hardwares_approximations() -> None:
    exact = re.findall(r"^\tv_\w+", _isa({}), re.MULTILINE)
    approximate = re.findall(r"^\tv_\w+", _isa({"unsafe_fp_math": True}), re.MULTILINE)
    assert len(approximate) < len(exact)


def test_registers_above_255_are_used_only_on_request() -> None:
    """LLVM 22.1 is wrong about them where barriers follow."""

    @flyc.kernel
    def wide(a: fx.Tensor, out: fx.Tensor) -> None:
        lane = fx.thread_idx.x
        values = [a[lane * 300 + i] for i in fx.range_constexpr(300)]
        total = values[0]
        for i in fx.range_constexpr(1, 300):
            total = total + values[i]
        for i in fx.range_constexpr(300):
            out[lane * 300 + i] = values[i] * total

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor) -> None:
        wide(a, out).launch(grid=(1,), block=(32, 1, 1))

    a = np.zeros(32 * 300, np.float32)
    found = []
    for hints in ({}, {"waves_per_eu": 1}):
        with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
            (kernel,) = flyc.compile[hints](launch, a, a.copy()).kernels
        found.append(kernel.vgpr)
    assert found[0] <= 256 < found[1]
