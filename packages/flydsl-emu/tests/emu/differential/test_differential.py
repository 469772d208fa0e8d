"""Random LLVM IR functions give the same results natively and on the emulator."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from both_targets import differences, make_inputs, run_emulated, run_native
from random_functions import make_function

from flydsl.config import scope
from flydsl_emu.semantics.registry import REGISTRY

BATCH = 32
ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1201")
# 16 batches of 32 functions: every architecture and level once.
CASES = [(n, ARCHS[n % 4], n // 4) for n in range(16)]


def compare(first: int, arch: str, level: int) -> None:
    functions = [make_function(seed) for seed in range(first, first + BATCH)]
    assert len({f.body for f in functions}) == BATCH
    inputs = make_inputs(first)
    native = run_native(functions, inputs)
    emulated = run_emulated(functions, inputs, arch, level)
    failures = []
    for n, function in enumerate(functions):
        for text in differences(function, native[n], emulated[n]):
            failures.append(f"function {first + n}: {text}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("batch", "arch", "level"), CASES)
def test_random_functions(batch: int, arch: str, level: int) -> None:
    compare(batch * BATCH, arch, level)


@pytest.mark.nightly
@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("batch", range(8))
def test_fresh_random_functions(batch: int, arch: str, level: int) -> None:
    seed = int.from_bytes(os.urandom(4), "little") + batch
    compare(seed, arch, level)


@pytest.mark.nightly
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("arch", ARCHS)
def test_random_functions_compiled(arch: str, level: int) -> None:
    with scope(FLYDSL_EMU_TIER="jit"):
        compare(0, arch, level)


def test_a_difference_is_found() -> None:
    function = make_function(5)
    native = np.zeros((4, 16 * len(function.outputs)), np.uint8)
    emulated = native.copy()
    assert not differences(function, native, emulated)
    emulated[2, 0] = 1
    (text,) = differences(function, native, emulated)
    assert "output 0" in text
    assert "thread 2" in text


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("v_div_fixup_f32", lambda _v, quotient, _bottom, _top: quotient),
        ("v_mul_hi_u32", lambda v, a, b: v.mul(a, b)),
        ("v_cmp_class_f32", lambda v, x, _classes: v.is_nan(x)),
    ],
)
def test_a_wrong_opcode_is_found(
    name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = [make_function(seed) for seed in range(BATCH)]
    inputs = make_inputs(0)
    native = run_native(functions, inputs)
    monkeypatch.setitem(REGISTRY, name, replace(REGISTRY[name], function=wrong))
    emulated = run_emulated(functions, inputs, "gfx942", 2)
    assert any(differences(f, native[n], emulated[n]) for n, f in enumerate(functions))
