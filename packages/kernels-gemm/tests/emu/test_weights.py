"""Preshuffled weights that go straight to registers, on every architecture, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import BF16, After, check, dtype_of, fp8, operand, padded, product

import flydsl_emu
from flydsl import config
from flydsl.errors import ConfigError, FlyDSLError, TargetError
from flydsl_kernels.gemm import (
    GemmConfig,
    GemmProblem,
    Operand,
    compile_mx_gemm,
    compile_preshuffle_gemm,
    gemm,
    plan_gemm,
    preshuffle_b,
)
from flydsl_kernels.gemm.planning import WEIGHT_TILES

ARCHS = ("gfx1100", "gfx1201", "gfx1250")
KINDS = ("bfloat16", "float16", "int8", "fp8")
FORMATS = [(arch, kind) for arch in ARCHS for kind in KINDS if kind != "fp8" or arch != "gfx1100"]


def name_of(arch, kind):
    return fp8(arch) if kind == "fp8" else kind


def run(arch, kind, extents, parts=8, order="16x16", gaps=(3, 5, 0), **options):
    """Multiply an A with gaps between its rows by weights, check the result, and return it."""
    random = np.random.default_rng()
    name = name_of(arch, kind)
    m, n, k = extents
    a, b = operand(random, (m, k), name), operand(random, (n, k), name)
    out = options.setdefault("out_dtype", "float32")
    with config.scope(FLYDSL_TARGET=arch):
        got = gemm(padded(a, gaps), preshuffle_b(b, layout=order), **options)
    check(got, *product(a, b.astype(np.float64).T, After(), out, parts))
    return got


@pytest.mark.parametrize(("arch", "kind"), FORMATS)
def test_every_format(arch, kind):
    """Rows and columns that no tile has whole, a tail of K, parts of K."""
    random = np.random.default_rng()
    step = 64 // dtype_of(name_of(arch, kind)).itemsize
    m, n = int(random.choice([1, 2, 16, 17, 33])), 16 * int(random.integers(1, 7))
    with flydsl_emu.sanitize():
        run(arch, kind, (m, n, 5 * step), split_k=int(random.integers(1, 3)))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("m", [1, 2, 16, 17, 33, 64, 112, 129])
@pytest.mark.parametrize(("arch", "kind"), FORMATS)
def test_every_format_and_number_of_rows(arch, kind, m):
    step = 64 // dtype_of(name_of(arch, kind)).itemsize
    for n, steps, split in ((16, 1, 1), (80, 3, 1), (144, 6, 2), (48, 11, 3)):
        with flydsl_emu.sanitize():
            run(arch, kind, (m, n, steps * step), split_k=split)
    run(arch, kind, (m, 272, 9 * step))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("out", ["bfloat16", "int8"])
def test_what_follows_the_product(arch, out):
    random = np.random.default_rng()
    m, n, k = 18, 96, 128
    a, b = operand(random, (m, k), "int8"), operand(random, (n, k), "int8")
    scale_a = (random.random(m) / 64).astype(np.float32)
    scale_b = (random.random(n) / 64).astype(np.float32)
    bias, residual = (random.standard_normal(x).astype(np.float32) for x in (n, (m, n)))
    divisors = np.exp2(random.integers(-5, 3, m)).astype(np.float32) if out == "int8" else None
    activation = str(random.choice(["relu", "silu", "gelu", "gelu_erf"]))
    memory = np.full((m + 2, n + 8), 7, dtype_of(out))
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        got = gemm(
            a, preshuffle_b(b, scales=scale_b), scale_a=scale_a, bias=bias, residual=residual,
            activation=activation, scale_out=divisors, out=memory[1:-1, 4:-4],
        )  # fmt: skip
    after = After(
        scale_a[:, None], scale_b, bias, activation, residual,
        divisors[:, None] if out == "int8" else 1.0,
    )  # fmt: skip
    check(got, *product(a, b.T, after, out))
    memory[1:-1, 4:-4] = 7
    assert (memory == 7).all()


@pytest.mark.parametrize("arch", ["gfx942", *ARCHS])
def test_batches(arch):
    """Weights of a batch, one A for all of them, and rows of a batch by one matrix of weights."""
    random = np.random.default_rng()
    many = operand(random, (3, 32, 96), "float16")
    a = operand(random, (3, 5, 96), "float16")
    weights = preshuffle_b(many)
    other = np.swapaxes(many, 1, 2)
    memory = np.full((3, 7, 32), np.nan, np.float32)
    residual = random.standard_normal((3, 5, 32)).astype(np.float32)
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        check(gemm(a, weights), *product(a, other, After(), "float16"))
        got = gemm(a[0], weights, out_dtype="float32")
        check(got, *product(a[0], other, After(), "float32"))
        # The rows of `out` that belong to A are not evenly apart: they are copied.
        out = gemm(a, preshuffle_b(many[0]), residual=residual, out=memory[:, :5])
        check(out, *product(a, other[0], After(residual=residual), "float32", 2))
    assert np.isnan(memory[:, 5:]).all()


@pytest.mark.parametrize(("arch", "order", "k"), [
    ("gfx1201", "rdna4_fp8", 80), ("gfx1250", "cdna5_16x16", 144), ("gfx1201", "16x16", 192),
])  # fmt: skip
def test_orders_of_8_bit_floats(arch, order, k):
    with flydsl_emu.sanitize():
        run(arch, "fp8", (33, 48, k), order=order, split_k=2)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_scales_of_blocks(arch):
    random = np.random.default_rng()
    m, n, k = 17, 144, 256
    a, b = (operand(random, (rows, k), fp8(arch)) for rows in (m, n))
    scale_a = random.random((m, k // 128)).astype(np.float32)
    scale_b = random.random((2, k // 128)).astype(np.float32)
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        got = gemm(a, preshuffle_b(b), scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
    wide_a = a.astype(np.float64) * np.repeat(scale_a.astype(np.float64), 128, 1)
    times = np.repeat(np.repeat(scale_b.astype(np.float64), 128, 0)[:n], 128, 1)
    check(got, *product(wide_a, (b.astype(np.float64) * times).T, After(), "float32", 8))


@pytest.mark.parametrize("arch", ARCHS)
def test_what_lies_behind_the_last_column_and_row_is_not_multiplied(arch):
    """A tail of K: what follows in memory is the next block of columns, here NaN and infinity."""
    random = np.random.default_rng()
    m, n, k = 16, 48, 96
    a, b = (random.standard_normal((rows, k)).astype(BF16) for rows in (m, n))
    b[16:32, ::2], b[16:32, 1::2] = np.nan, np.inf
    with config.scope(FLYDSL_TARGET=arch):
        chosen = GemmConfig(16, 64, 64, 1, 4)
        got = gemm(a, preshuffle_b(b), config=chosen, out_dtype="float32")
    assert np.isnan(got[:, 16:32]).all()
    fine = np.r_[0:16, 32:48]
    check(got[:, fine], *product(a, b[fine].T, After(), "float32"))


@pytest.mark.parametrize("arch", ["gfx950", "gfx1100"])
def test_sums_of_integers_are_exact(arch):
    a, b = np.full((3, 2048), 127, np.int8), np.full((32, 2048), 127, np.int8)
    b[:, ::2] = -128
    b[7] = -128
    with config.scope(FLYDSL_TARGET=arch):
        got = gemm(a, preshuffle_b(b), out_dtype="int32")
    assert got.dtype == np.int32
    assert np.array_equal(got, a.astype(np.int32) @ b.astype(np.int32).T)


@pytest.mark.parametrize("arch", ARCHS)
def test_steps_shared_by_a_number_of_workgroups(arch):
    chosen = GemmConfig(16, 64, 64, 1, 4, streams=7)
    with flydsl_emu.sanitize():
        run(arch, "float16", (33, 112, 320), config=chosen)


def tiles():
    """Yield (architecture, tile, row in bytes) of shipped tiles where they are legal."""
    order = Operand(order="16x16")
    for arch in ARCHS:
        found = {
            (c.config.tile_m, c.config.tile_n, c.config.waves_m, c.config.waves_n, c.config.tile_k)
            for c in plan_gemm(GemmProblem(999, 992, 992, b=order), arch).candidates
            if not (c.config.direct or c.config.streams)
        }
        for tile in WEIGHT_TILES:
            yield from ((arch, tile, 2 * k) for k in (32, 64, 128) if (*tile, k) in found)


def one_tile(arch, tile, row):
    chosen = GemmConfig(*tile[:2], row // 2, *tile[2:])
    with flydsl_emu.collect() as reports:
        extents = tile[0] + 3, tile[1] + 16, row + 32
        run(arch, "bfloat16", extents, config=chosen, gaps=(8, 8, 0))
    report = reports[0]
    problem = GemmProblem(999, 992, 992, b=Operand(order="16x16"), out_dtype="float32")
    (predicted,) = {
        c.registers
        for c in plan_gemm(problem, arch, split_k=1).candidates
        if (c.config.tile_m, c.config.tile_n, c.config.waves_m, c.config.waves_n) == tile
        and c.config.tile_k == chosen.tile_k
        and not (c.config.direct or c.config.streams)
    }
    assert report.resources.scratch_bytes == 0
    assert report.vgprs <= 1.1 * predicted
    traffic = [t for t in report.traffic if t.space == "lds"]
    assert [t.conflict_ratio for t in traffic] == [1.0] * 2


@pytest.mark.parametrize("arch", ARCHS)
def test_tiles(arch):
    """Results are right, nothing spills, LDS has no conflicts, registers are as predicted."""
    one_tile(arch, (32, 128, 1, 4), 64)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("arch", "tile", "row"), list(tiles()), ids=str)
def test_all_tiles(arch, tile, row):
    one_tile(arch, tile, row)


@pytest.mark.parametrize(("arch", "kind"), [
    ("gfx1100", "fp16"), ("gfx1100", "int8"), ("gfx1201", "bf16"), ("gfx1201", "fp8"),
    ("gfx1250", "int8"), ("gfx1250", "fp8"), ("gfx1201", "int4"), ("gfx1250", "bf16_int4"),
])  # fmt: skip
def test_the_builder(arch, kind):
    """`compile_preshuffle_gemm` for plain arrays: tails, scales, bias and activation."""
    random = np.random.default_rng()
    names = {"bf16": "bfloat16", "fp16": "float16", "int4": "int8", "bf16_int4": "bfloat16"}
    name = names.get(kind) or name_of(arch, kind)
    m, n, k = 33, 80, 320
    a = operand(random, (m, k), name)
    if kind.endswith("int4"):
        b = random.integers(-8, 8, (n, k)).astype(np.int8)
        weights = preshuffle_b(b, layout="int4_packed", dtype="int4")
    else:
        b = operand(random, (n, k), name)
        weights = preshuffle_b(b)
    scale_a, scale_b = (random.random(x).astype(np.float32) for x in (m, n))
    bias = random.standard_normal(n).astype(BF16)
    c = np.full((m + 2, n), np.nan, np.float32)
    launch = compile_preshuffle_gemm(
        N=n, K=k, tile_m=32, tile_n=64, tile_k=128, in_dtype=kind, out_dtype="f32",
        epilogue="bias_silu", xcd_swizzle=4,
    )  # fmt: skip
    bare = (x.view(np.uint8) if kind == "fp8" else x for x in (a, weights.data))
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        launch(c[:m], *bare, scale_a, scale_b, bias, m, n, None)
    scaled = kind not in ("bf16", "fp16")
    after = After(scale_a[:, None] if scaled else 1.0, scale_b if scaled else 1.0, bias, "silu")
    check(c[:m], *product(a, b.astype(np.float64).T, after, "float32", 2))
    assert np.isnan(c[m:]).all()


@pytest.mark.parametrize(("arch", "change", "error", "match"), [
    ("gfx1100", {"in_dtype": "fp8"}, TargetError, "no matrix instruction"),
    ("gfx1201", {"use_async_copy": True}, ConfigError, "architecture that has them"),
    ("gfx1201", {"tile_m": 256, "tile_n": 256}, ConfigError, "registers"),
])  # fmt: skip
def test_what_the_builder_cannot_build(arch, change, error, match):
    given = {"tile_m": 32, "tile_n": 64, "tile_k": 128, "in_dtype": "int8", **change}
    item = np.uint8 if given["in_dtype"] == "fp8" else np.int8
    a, b, ones = np.zeros((8, 128), item), np.zeros((64, 128), item), np.ones(64, np.float32)
    launch = compile_preshuffle_gemm(N=64, K=128, **given)
    with config.scope(FLYDSL_TARGET=arch), pytest.raises(error, match=match):
        launch(np.zeros((8, 64), BF16), a, b, ones, ones, ones, 8, 64, None)


def test_weights_with_shared_exponents_are_for_cdna4():
    codes, scales = np.zeros((64, 128), np.uint8), np.zeros((64, 8), np.uint8)
    launch = compile_mx_gemm(N=64, K=256)
    c = np.zeros((64, 64), BF16)
    with config.scope(FLYDSL_TARGET="gfx1250"), pytest.raises(TargetError) as caught:
        launch(c, codes, codes, scales, scales, c, 64, 64, None)
    assert caught.value.allowed == "gfx950"
    assert "plain matrices" in caught.value.hint


@pytest.mark.parametrize(("arch", "options", "match"), [
    ("gfx1201", {"config": GemmConfig(16, 64, 48, 1, 4)}, "power of two"),
    ("gfx1100", {"config": GemmConfig(128, 256, 64, 1, 4)}, "registers"),
    ("gfx1250", {"split_k": 999}, "few parts"),
    ("gfx1100", {"layout": "tn"}, "no layout"),
    ("gfx1201", {"batch": True}, "different lengths"),
    ("gfx1201", {"type": np.float16}, "types"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(arch, options, match):
    given = dict(options)
    a, b = np.ones((2, 4, 64), given.pop("type", BF16)), np.ones((3, 32, 64), BF16)
    weights = preshuffle_b(b if given.pop("batch", False) else b[0])
    with config.scope(FLYDSL_TARGET=arch), pytest.raises(FlyDSLError, match=match) as caught:
        gemm(a, weights, **given)
    assert caught.value.allowed
