"""`gemm` of plain matrices with E8M0 scales on gfx1250, against float64, under the sanitizer."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from product_reference import BF16, After, check, finished, padded

import flydsl.compiler as flyc
import flydsl_emu
from flydsl import config
from flydsl.errors import FlyDSLError
from flydsl_kernels.gemm import (
    GemmConfig,
    GemmProblem,
    Operand,
    Scaling,
    gemm,
    plan_gemm,
    preshuffle_b,
)
from flydsl_kernels.gemm.device.epilogue import Extras
from flydsl_kernels.gemm.device.mx import launch_mx
from flydsl_kernels.gemm.shared import derive_shared
from flydsl_rocdl.arch import KNOWN
from flydsl_rocdl.kernels.preshuffle import pack_fp4, pack_fp6

KINDS = {
    "fp8": ml_dtypes.float8_e4m3fn,
    "bf8": ml_dtypes.float8_e5m2,
    "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn,
    "fp4": ml_dtypes.float4_e2m1fn,
}
BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
SHARED = Scaling("shared", "shared")
PAIRS = [("fp8", "bf8"), ("fp6", "fp6"), ("bf6", "fp8"), ("fp4", "fp4"), ("fp8", "fp4"),
         ("fp4", "bf6")]  # fmt: skip


@pytest.fixture(autouse=True)
def _gfx1250():
    with config.scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        yield


def codes(random, shape, name, low=120):
    """Return numbers over all finite codes of a type, E8M0 scales, and both as float64."""
    every = np.arange(2 ** BITS[name]).astype(np.uint8).view(KINDS[name])
    every = every[np.isfinite(every.astype(np.float64))]
    values = every[random.integers(0, len(every), shape)]
    scales = random.integers(low, low + 14, (*shape[:-1], shape[-1] // 32)).astype(np.uint8)
    times = np.repeat(np.exp2(scales.astype(np.float64) - 127), 32, -1)
    return values, scales, values.astype(np.float64) * times


def expected(wide_a, wide_b, after, out):
    """Return the finished product and its bound."""
    total = wide_a @ np.swapaxes(wide_b, -1, -2)
    magnitude = np.abs(wide_a) @ np.abs(np.swapaxes(wide_b, -1, -2))
    return finished(total, magnitude, after, out, wide_a.shape[-1])


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_every_format_and_tail(kinds):
    random = np.random.default_rng()
    for m, n, k in ((1, 1, 32), (17, 70, 128), (int(random.integers(33, 65)), 33, 160)):
        a, scale_a, wide_a = codes(random, (m, k), kinds[0])
        b, scale_b, wide_b = codes(random, (n, k), kinds[1])
        got = gemm(padded(a), b, scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
        check(got, *expected(wide_a, wide_b, After(), "float32"))


@pytest.mark.parametrize("kinds", [("fp8", "fp4"), ("fp4", "fp4"), ("fp6", "bf8")], ids="-".join)
def test_parts_of_k(kinds):
    """Parts that are whole steps, a last one that is not, and parts without any columns."""
    random = np.random.default_rng()
    for (m, n, k), parts in (((17, 70, 704), 3), ((2, 40, 160), 4)):
        a, scale_a, wide_a = codes(random, (2, m, k), kinds[0])
        b, scale_b, wide_b = codes(random, (n, k), kinds[1])
        bias = random.standard_normal(n).astype(np.float32)
        got = gemm(
            a, b, scale_a=scale_a, scale_b=scale_b, bias=bias, activation="relu", split_k=parts,
            out_dtype="float32",
        )  # fmt: skip
        after = After(bias=bias, activation="relu")
        check(got, *expected(wide_a, wide_b, after, "float32"))


@pytest.mark.parametrize("kinds", [("fp8", "fp4"), ("fp4", "fp8"), ("fp6", "bf8")], ids="-".join)
def test_rearranged_weights(kinds):
    """Of one matrix and of a batch, also in parts of K and with all that follows."""
    random = np.random.default_rng()
    m, n, k = 35, 96, 640
    a, scale_a, wide_a = codes(random, (2, m, k), kinds[0])
    b, scale_b, wide_b = codes(random, (2, n, k), kinds[1])
    given = pack_fp4(b.view(np.uint8)) if kinds[1] == "fp4" else b
    options = {"layout": "cdna5_16x16", "dtype": np.dtype(KINDS[kinds[1]]).name}
    one, both = (preshuffle_b(x, scales=s, **options) for x, s in (
        (given[0], scale_b[0]), (given, scale_b)))  # fmt: skip
    bias = random.standard_normal(n).astype(np.float32)
    got = gemm(a, one, scale_a=scale_a, bias=bias, activation="silu", out_dtype="float32")
    after = After(bias=bias, activation="silu")
    check(got, *expected(wide_a, wide_b[0], after, "float32"))
    got = gemm(a, both, scale_a=scale_a, split_k=3, out_dtype="float32")
    check(got, *expected(wide_a, wide_b, After(), "float32"))
    got = gemm(a[1], one, scale_a=scale_a[1], config=GemmConfig(32, 32, 128, 2, 1))
    check(got, *expected(wide_a[1], wide_b[0], After(), "bfloat16"))


def test_loads_of_rearranged_weights():
    """A wave reads whole runs of memory: 32 lanes, 16 bytes each, and no load is in the way."""
    problem = GemmProblem(4096, 4096, 4096, "float8_e4m3fn", "float4_e2m1fn", scaling=SHARED,
                          b=Operand(order="cdna5_16x16"))  # fmt: skip
    plan = derive_shared(problem, KNOWN["gfx1250"], plan_gemm(problem, "gfx1250").best.config)
    assert plan.rearranged
    a, b = np.zeros((1, 256, 4096), np.uint8), np.zeros((1, 256, 2048), np.uint8)
    scales = np.zeros((1, 256, 128), np.uint8)
    c = np.zeros((1, 256, 256), BF16)
    with config.scope(COMPILE_ONLY="1"):
        found = flyc.compile(launch_mx, a, b, scales, scales, c, Extras(c, c, c, c, c), plan, None)
        isa = found.isa
    (kernel,) = found.kernels
    assert (kernel.spills, kernel.scratch, kernel.lds_static) == (0, 0, 0)
    loops = re.findall(r"(\.LBB\d+_\d+):(.*?)s_cbranch_\w+ \1", isa, re.DOTALL)
    loop = max((text for _, text in loops), key=len)
    tiles = plan.tiles[0], plan.tiles[1]
    assert loop.count("v_wmma_scale") == 2 * tiles[0] * tiles[1]
    assert loop.count("buffer_load_b128") == 2 * (4 * tiles[0] + 2 * tiles[1])
    assert loop.count("buffer_load_b32") == 2 * (tiles[0] + tiles[1])
    assert "v_mov" not in loop
    waits = [int(x, 0) for x in re.findall(r"s_wait_loadcnt (\w+)", loop)]
    # All but one turn's first product wait for loads of the step before theirs only.
    assert sorted(waits)[1] >= 5 * tiles[0] + 3 * tiles[1] - 4


@pytest.mark.parametrize("tile", [(16, 64, 1, 4), (64, 32, 2, 1), (32, 96, 1, 3)], ids=str)
def test_configurations_of_ones_own(tile):
    random = np.random.default_rng()
    m, n, k = 70, 100, 416
    a, scale_a, wide_a = codes(random, (m, k), "fp8")
    b, scale_b, wide_b = codes(random, (n, k), "fp4")
    chosen = GemmConfig(*tile[:2], 128, *tile[2:], split_k=2, group_m=3)
    got = gemm(a, b, scale_a=scale_a, scale_b=scale_b, config=chosen, out_dtype="float32")
    check(got, *expected(wide_a, wide_b, After(), "float32"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("m", [1, 2, 16, 17, 33, 64, 112, 129])
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_every_format_and_number_of_rows(kinds, m):
    random = np.random.default_rng()
    for n, k, parts in ((16, 32, 1), (80, 384, 2), (130, 992, 1), (130, 992, 3)):
        a, scale_a, wide_a = codes(random, (m, k), kinds[0])
        b, scale_b, wide_b = codes(random, (n, k), kinds[1])
        got = gemm(
            padded(a), b, scale_a=scale_a, scale_b=scale_b, split_k=parts, out_dtype="float32"
        )
        check(got, *expected(wide_a, wide_b, After(), "float32"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_all_planned_configurations():
    """Each has no spills, and about as many registers as were predicted."""
    random = np.random.default_rng()
    for kinds in (("fp8", "fp8"), ("fp6", "fp4"), ("fp4", "fp4")):
        a, scale_a, wide_a = codes(random, (259, 416), kinds[0])
        b, scale_b, wide_b = codes(random, (270, 416), kinds[1])
        names = [np.dtype(KINDS[kind]).name for kind in kinds]
        problem = GemmProblem(259, 270, 416, *names, "float32", scaling=SHARED)
        found = plan_gemm(problem, "gfx1250", split_k=1).candidates
        assert len(found) >= 6
        for item in found:
            with flydsl_emu.collect() as reports:
                got = gemm(a, b, scale_a=scale_a, scale_b=scale_b, config=item.config,
                           out_dtype="float32")  # fmt: skip
            check(got, *expected(wide_a, wide_b, After(), "float32"))
            assert reports[0].resources.scratch_bytes == 0
            assert reports[0].vgprs <= 1.15 * item.registers


@pytest.mark.parametrize(("arch", "change", "code", "rule"), [
    ("gfx1250", {"tile_k": 256}, "C921", "one instruction"),
    ("gfx1250", {"tile_m": 24}, "C920", "waves divide tile_m"),
    ("gfx1250", {"direct": True}, "C927", "no direct"),
    ("gfx1250", {"streams": 64}, "C927", "no streams"),
    ("gfx1250", {"split_k": 0}, "C920", "at least 1"),
    ("gfx1250", {"order": "cdna5_16x16", "tile_n": 48, "waves_n": 1}, "C920", "tiles begin where"),
    ("gfx1250", {"order": "cdna5_16x16", "k": 448}, "C927", "whole blocks"),
    ("gfx1250", {"tile_m": 512, "tile_n": 512}, "C924", "registers"),
    ("gfx950", {}, "C920", "four waves"),
    ("gfx950", {"waves_m": 1, "waves_n": 4, "tile_n": 64}, "C930", "tile_n is in blocks"),
    ("gfx950", {"waves_m": 1, "waves_n": 4, "split_k": 3}, "C920", "parts of K are equal"),
])  # fmt: skip
def test_a_broken_rule_is_named(arch, change, code, rule):
    change = dict(change)
    order = change.pop("order", "fp4_16lane" if arch == "gfx950" else "")
    problem = GemmProblem(64, 128, change.pop("k", 512), *["float4_e2m1fn"] * 2, scaling=SHARED,
                          b=Operand(order=order))  # fmt: skip
    values = {"tile_m": 64, "tile_n": 128, "tile_k": 128, "waves_m": 2, "waves_n": 2, **change}
    with pytest.raises(FlyDSLError, match=rule) as caught:
        derive_shared(problem, KNOWN[arch], GemmConfig(**values))
    assert caught.value.code == f"FLY-{code}"
    assert caught.value.allowed


def test_problems_are_planned_where_there_are_instructions():
    names = ["float8_e4m3fn", "float4_e2m1fn"]
    plain = GemmProblem(4096, 4096, 4096, *names, scaling=SHARED)
    assert plain.out_dtype == "bfloat16"
    choice = plan_gemm(plain, "gfx1250")
    times = [c.seconds for c in choice.candidates]
    assert times == sorted(times)
    assert choice.best.config.tile_m * choice.best.config.tile_n >= 64 * 128
    assert {c.config.split_k for c in plan_gemm(plain, "gfx1250", split_k=3).candidates} == {3}
    assert plan_gemm(replace(plain, m=1), "gfx1250").best.config.split_k > 1
    weights = replace(plain, b=Operand(order="fp4_16lane"))
    assert plan_gemm(weights, "gfx950").best.config.tile_k >= 128
    with pytest.raises(FlyDSLError, match="order of their own"):
        plan_gemm(plain, "gfx950")
    with pytest.raises(FlyDSLError, match="order of their own"):
        plan_gemm(weights, "gfx1250")
    with pytest.raises(FlyDSLError, match="no product of these types"):
        plan_gemm(replace(weights, dtype="float8_e5m2"), "gfx950")
    with pytest.raises(FlyDSLError, match="does not multiply with E8M0"):
        plan_gemm(plain, "gfx1201")
    for wrong, code in (({"k": 48}, "C914"), ({"dtype": "bfloat16"}, "C915")):
        with pytest.raises(FlyDSLError) as caught:
            replace(plain, **wrong)
        assert caught.value.code == f"FLY-{code}"
    with pytest.raises(FlyDSLError) as caught:
        Scaling("shared", "row")
    assert caught.value.code == "FLY-C913"


@pytest.mark.parametrize("out", ["bfloat16", "float16", "float8_e4m3fn"])
def test_what_follows_the_product(out):
    random = np.random.default_rng()
    (a, scale_a, wide_a), (b, scale_b, wide_b) = (
        codes(random, (rows, 96), "fp4", 118) for rows in (18, 40)
    )
    bias = random.standard_normal(40).astype(np.float32)
    residual = random.standard_normal((18, 40)).astype(BF16)
    small = out.startswith("float8")
    divisors = np.exp2(random.integers(-2, 3, 18)).astype(np.float32) if small else None
    memory = np.full((20, 48), np.nan).astype(KINDS["fp8"] if small else np.dtype(
        BF16 if out == "bfloat16" else out))  # fmt: skip
    got = memory[1:19, 4:44]
    gemm(a, b, scale_a=scale_a, scale_b=scale_b, bias=bias, residual=residual, out=got,
         activation="silu", scale_out=divisors)  # fmt: skip
    after = After(bias=bias, residual=residual.astype(np.float64), activation="silu",
                  scale_out=divisors[:, None] if small else 1.0)  # fmt: skip
    check(got, *expected(wide_a, wide_b, after, out))
    memory[1:19, 4:44] = np.nan
    assert np.isnan(memory.astype(np.float64)).all()


def test_batches_and_packed_codes():
    random = np.random.default_rng()
    a, scale_a, wide_a = codes(random, (3, 5, 64), "fp6")
    b, scale_b, wide_b = codes(random, (20, 64), "fp4")
    packed = pack_fp6(a.view(np.uint8)), pack_fp4(b.view(np.uint8))
    powers = scale_a.view(ml_dtypes.float8_e8m0fnu)
    got = gemm(*packed, scale_a=powers, scale_b=scale_b)
    assert got.dtype == BF16
    check(got, *expected(wide_a, wide_b, After(), "bfloat16"))
    assert gemm(*(x[..., :0, :] for x in packed), scale_a=powers[:, :0],
                scale_b=scale_b[:0]).shape == (3, 0, 0)  # fmt: skip


def test_the_smallest_and_largest_scales_and_nan():
    a, b = (np.ones((16, 128), KINDS["fp6"]) for _ in range(2))
    scale_a, scale_b = np.full((16, 4), 127, np.uint8), np.full((16, 4), 127, np.uint8)
    scale_a[1], scale_b[1] = 0, 254
    scale_a[2, 3] = 255
    got = gemm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
    assert got[0, 0] == 128
    assert got[1, 1] == 128
    assert got[0, 1] == np.inf
    assert np.isnan(got[2]).all()
    assert not np.isnan(got[3:]).any()


def test_the_largest_tile_has_one_instruction_per_product_and_no_spills():
    random = np.random.default_rng()
    m, n, k = 130, 140, 288
    a, scale_a, wide_a = codes(random, (m, k), "fp8")
    b, scale_b, wide_b = codes(random, (n, k), "fp4")
    c = np.empty((1, m, n), np.float32)
    given = (a.view(np.uint8)[None], pack_fp4(b.view(np.uint8))[None], scale_a[None],
             scale_b[None], c, Extras(c, c, c, c, c))  # fmt: skip
    problem = GemmProblem(m, n, k, "float8_e4m3fn", "float4_e2m1fn", "float32", scaling=SHARED)
    found = plan_gemm(problem, "gfx1250", split_k=1).candidates
    plan = derive_shared(
        problem, KNOWN["gfx1250"],
        max((c.config for c in found), key=lambda c: c.tile_m * c.tile_n // c.waves),
    )  # fmt: skip
    assert plan.ragged
    assert plan.tiles[0] * plan.tiles[1] == 8
    compiled = flyc.compile(launch_mx, *given, plan, None)
    # Every tile, in each of the two steps of a turn.
    assert compiled.isa.count("v_wmma_scale_f32_16x16x128_f8f6f4") == 16
    assert "scratch_" not in compiled.isa
    assert "saveexec" not in compiled.isa  # descriptors in vector registers would need loops
    launch_mx(*given, plan, None)
    check(c[0], *expected(wide_a, wide_b, After(), "float32"))


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng()
    (a, scale_a, wide_a), (b, scale_b, wide_b) = (
        codes(random, (rows, 64), "fp8") for rows in (9, 24)
    )
    tensors = [torch.from_numpy(x.view(np.uint8)) for x in (a, b, scale_a, scale_b)]
    codes_a, codes_b = (x.view(torch.float8_e4m3fn) for x in tensors[:2])
    got = gemm(codes_a, codes_b, scale_a=tensors[2], scale_b=tensors[3], out_dtype="float32")
    check(got.numpy(), *expected(wide_a, wide_b, After(), "float32"))
    bias = torch.zeros(24, requires_grad=True)
    with pytest.raises(FlyDSLError) as caught:
        gemm(codes_a, codes_b, scale_a=tensors[2], scale_b=tensors[3], bias=bias)
    assert caught.value.code == "FLY-U914"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"k": 48}, "FLY-C914"), ({"scale_b": None}, "FLY-U911"), ({"scale_a": None}, "FLY-U911"),
        ({"split_k": 999}, "FLY-C920"), ({"layout": "nn"}, "FLY-C927"),
        ({"scale_b": np.ones((8, 4), np.uint8)}, "FLY-U542"),
        ({"type": np.float16}, "FLY-C915"), ({"b_k": 128}, "FLY-U911"),
        ({"arch": "gfx1201"}, "FLY-T910"), ({"arch": "gfx950"}, "FLY-T910"),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)  # fmt: skip
def test_what_does_not_fit_is_refused(change, code):
    k, kind = change.get("k", 64), change.get("type", KINDS["fp8"])
    columns = change.get("b_k", k)
    a, b = np.ones((8, k), kind), np.ones((8, columns), kind)
    options = {
        "scale_a": np.full((8, k // 32), 127, np.uint8),
        "scale_b": np.full((8, columns // 32), 127, np.uint8),
        **{key: x for key, x in change.items() if key in ("scale_a", "scale_b", "split_k",
                                                          "layout")},
    }  # fmt: skip
    arch = change.get("arch", "gfx1250")
    with config.scope(FLYDSL_TARGET=arch), pytest.raises(FlyDSLError) as caught:
        gemm(a, b, **options)
    assert caught.value.code == code


@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize("other", ["fp8", "bytes"])
def test_bytes_with_too_few_scales_are_not_said_to_have_other_columns(which, other):
    """Bytes of two codes with half their scales would be codes of 6 bits."""
    byte = {"a": np.zeros((8, 32), np.uint8), "b": np.zeros((24, 32), np.uint8)}
    given = {name: byte[name] if name == which or other == "bytes"
             else np.zeros((len(byte[name]), 64), KINDS["fp8"]) for name in "ab"}  # fmt: skip
    rows = len(byte[which])
    scales = {f"scale_{name}": np.full((len(byte[name]), 2), 127, np.uint8) for name in "ab"}
    scales[f"scale_{which}"] = scales[f"scale_{which}"][:, :1]
    with config.scope(FLYDSL_TARGET="gfx1250"), pytest.raises(FlyDSLError) as caught:
        gemm(given["a"], given["b"], **scales)
    error = caught.value
    assert error.code == "FLY-U542"
    assert f"scale_{which}" in error.message
    assert f"({rows}, 1)" in str(error)
    assert f"({rows}, 2) for scale_{which}" in error.allowed
    if other == "fp8":
        assert error.message == f"scale_{which} has another shape than the product needs"
