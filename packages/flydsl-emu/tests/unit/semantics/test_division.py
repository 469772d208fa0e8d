"""v_div_scale, v_div_fmas, v_div_fixup, and the division that they make."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flydsl_emu.testing import InstructionBench

CASES = (
    "v_div_scale_f32",
    "v_div_scale_f64",
    "v_div_fmas_f32",
    "v_div_fmas_f64",
    "v_div_fixup_f16",
    "v_div_fixup_f32",
    "v_div_fixup_f64",
    "v_div_fixup_legacy_f16",
)
Array = Any


def operands(dtype: Any, seed: int, waves: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    shape = (waves, 64)
    edges = np.array(
        [
            0.0,
            -0.0,
            1,
            -1,
            3,
            7,
            0.1,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            info.tiny,
            -info.tiny,
            info.tiny / 4,
            info.tiny / 1024,
            info.max / 2,
            2.0 ** (info.maxexp // 2),
        ],
        dtype,
    )
    out = []
    for _ in range(2):
        bits = rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize - 1, shape, dtype=np.uint64)
        anything = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
        chosen = np.where(
            rng.random(shape) < 0.5, edges[rng.integers(0, len(edges), shape)], anything
        )
        out.append(np.where(np.isnan(chosen), dtype(np.nan), chosen).astype(dtype))
    return out[0], out[1]


@pytest.mark.opcodes("v_div_scale_{form} v_div_fmas_{form} v_div_fixup_{form}")
@pytest.mark.parametrize(("form", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_the_sequence_divides_correctly(form: str, dtype: Any) -> None:
    """The expansion that LLVM emits for an IEEE division gives the correctly rounded quotient."""
    waves = 24
    top, bottom = operands(dtype, 5, waves)

    def run(name: str, *values: Array, **given: Any) -> tuple[Array, ...]:
        return InstructionBench("gfx942", waves).evaluate(name, *values, **given)

    scaled_bottom, _ = run(f"v_div_scale_{form}", bottom, bottom, top)
    scaled_top, flag = run(f"v_div_scale_{form}", top, bottom, top)
    (inverse,) = run(f"v_rcp_{form}", scaled_bottom)
    one = np.ones_like(top)
    for _ in range(2 if form == "f64" else 1):
        (error,) = run(f"v_fma_{form}", -scaled_bottom, inverse, one)
        (inverse,) = run(f"v_fma_{form}", error, inverse, inverse)
    (quotient,) = run(f"v_mul_{form}", scaled_top, inverse)
    if form == "f32":
        (error,) = run(f"v_fma_{form}", -scaled_bottom, quotient, scaled_top)
        (quotient,) = run(f"v_fma_{form}", error, inverse, quotient)
    (error,) = run(f"v_fma_{form}", -scaled_bottom, quotient, scaled_top)
    (result,) = run(f"v_div_fmas_{form}", error, inverse, quotient, vcc=flag)
    (result,) = run(f"v_div_fixup_{form}", result, bottom, top)
    with np.errstate(all="ignore"):
        want = top / bottom
    wrong = ~((result == want) | (np.isnan(result) & np.isnan(want)))
    assert not wrong.any(), (top[wrong][:4], bottom[wrong][:4], result[wrong][:4], want[wrong][:4])
    signs = np.signbit(result) == np.signbit(want)
    assert signs[~np.isnan(want)].all()


def test_scale_leaves_ordinary_operands_alone() -> None:
    top = np.full((1, 64), 6.0, np.float32)
    bottom = np.full((1, 64), 3.0, np.float32)
    result, flag = InstructionBench("gfx942", 1).evaluate("v_div_scale_f32", top, bottom, top)
    assert (result == 6.0).all()
    assert not flag.any()


@pytest.mark.parametrize(
    ("value", "bottom", "top", "want", "flag"),
    [
        (3.0, 3.0, 2.0**100, 3.0 * 2.0**64, True),
        (2.0**100, 3.0, 2.0**100, 2.0**100, True),
        (2.0**-130, 2.0**-130, 2.0**-100, 2.0**-66, False),
        (1.0, 0.0, 1.0, math.nan, False),
        (2.0**-110, 1.5, 2.0**-110, 2.0**-46, False),
    ],
)
def test_scale_cases_of_the_isa_guide(
    value: float, bottom: float, top: float, want: float, flag: bool
) -> None:
    columns = [np.full((1, 64), x, np.float32) for x in (value, bottom, top)]
    result, got = InstructionBench("gfx942", 1).evaluate("v_div_scale_f32", *columns)
    assert np.array_equal(result, np.full((1, 64), want, np.float32), equal_nan=True)
    assert bool(got.all()) == flag
    assert bool(got.any()) == flag


@pytest.mark.parametrize(
    ("form", "dtype", "step"), [("f32", np.float32, 64), ("f64", np.float64, 128)]
)
def test_fmas_scales_by_the_size_of_the_addend(form: str, dtype: Any, step: int) -> None:
    ones, zeros = np.ones((1, 64), dtype), np.zeros((1, 64), dtype)
    flag = np.arange(64)[None, :] % 2 == 0
    for addend, power in ((4.0, step), (0.25, -step)):
        column = np.full((1, 64), addend, dtype)
        (result,) = InstructionBench("gfx942", 1).evaluate(
            f"v_div_fmas_{form}", ones, zeros, column, vcc=flag
        )
        assert (result[flag] == addend * 2.0**power).all()
        assert (result[~flag] == addend).all()


@pytest.mark.parametrize(
    "name", ["v_div_fixup_f16", "v_div_fixup_legacy_f16", "v_div_fixup_f32", "v_div_fixup_f64"]
)
def test_fixup_of_special_operands(name: str) -> None:
    dtype = {"16": np.float16, "32": np.float32, "64": np.float64}[name[-2:]]
    inf, nan = np.inf, np.nan
    rows = [
        (5.0, nan, 1.0, nan),
        (5.0, 1.0, nan, nan),
        (5.0, 0.0, 0.0, nan),
        (5.0, inf, -inf, nan),
        (5.0, 0.0, -2.0, -inf),
        (5.0, 3.0, inf, inf),
        (5.0, -inf, 2.0, -0.0),
        (5.0, -3.0, 0.0, -0.0),
        (0.5, -4.0, 2.0, -0.5),
        (-0.5, -4.0, -2.0, 0.5),
    ]
    columns = np.array(rows, dtype)
    given = [np.tile(columns[:, k], 7)[None, :64] for k in range(3)]
    want = np.tile(columns[:, 3], 7)[None, :64]
    (result,) = InstructionBench("gfx942", 1).evaluate(name, *given)
    assert np.array_equal(result, want, equal_nan=True)
    assert (np.signbit(result) == np.signbit(want))[~np.isnan(want)].all()
