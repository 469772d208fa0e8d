"""Products with weights of four bits through local data share, on every architecture."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from product_reference import BF16, After, check, dtype_of, fp8, operand, padded, product

import flydsl_emu
from flydsl import config
from flydsl.errors import ConfigError, FlyDSLError, TargetError, UserTypeError
from flydsl_kernels.gemm import (
    GemmConfig,
    GemmProblem,
    PreshuffledWeight,
    choices,
    gemm,
    grouped_gemm,
    plan_gemm,
    preshuffle_b,
)
from flydsl_kernels.gemm.planning import TILES
from flydsl_kernels.gemm.tuning import problem_of, tuned_gemm

ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
WAVE_MATRIX = ARCHS[2:]
TYPES = ("bfloat16", "float16", "int8", "e4m3", "e5m2")
FORMATS = [(arch, name) for arch in ARCHS for name in TYPES if name[0] != "e" or fp8(arch)]
ROWS = (1, 2, 16, 17, 33, 64, 112, 129)
COLUMNS = (64, 192, 320)


def weights(random, shape):
    """Return numbers of -8 to 7, and the same as preshuffled weights."""
    b = random.integers(-8, 8, shape).astype(np.int8)
    return b, preshuffle_b(b, layout="int4_packed", dtype="int4")


def run(arch, name, extents, **options):
    """Multiply with all extras, `a` and the results among poison; check, and return the report."""
    random = np.random.default_rng()
    m, n, k = extents
    name = fp8(arch, name) if name.startswith("e") else name
    a, (b, weight) = operand(random, (m, k), name), weights(random, (n, k))
    scale_a, scale_b = (random.random(count).astype(np.float32) for count in (m, n))
    bias, residual = random.standard_normal(n).astype(BF16), random.standard_normal((m, n))
    residual = residual.astype(np.float32)
    out = np.full((m + 1, n + 7), 7, np.float32)[:, 3:]
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize(), flydsl_emu.collect() as reports:
        got = gemm(
            padded(a, (8, 8, 0)), weight, scale_a=scale_a, scale_b=scale_b, bias=bias,
            activation="silu", residual=padded(residual), out=out[:m, :n], **options,
        )  # fmt: skip
    after = After(scale_a[:, None], scale_b, bias, "silu", residual)
    check(got, *product(a, b.T.astype(np.float64), after, "float32", 32))
    assert (out[:, n:] == 7).all()
    assert (out[m:] == 7).all()
    return reports[0]


@pytest.mark.parametrize(("arch", "name"), [f for f in FORMATS if f[0] in WAVE_MATRIX])
def test_products(arch, name):
    """One of the extents for each case, so that all of them appear."""
    case = FORMATS.index((arch, name))
    extents = ROWS[case % len(ROWS)], (80, 16, 144)[case % 3], COLUMNS[(case // 3 + case) % 3]
    run(arch, name, extents)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("k", COLUMNS)
@pytest.mark.parametrize(("arch", "name"), FORMATS)
def test_products_of_every_extent(arch, name, k):
    for number, m in enumerate(ROWS):
        for turn in range(2):
            # Parts of K, and on gfx942 and gfx950 the other kernel, where they are not split.
            n = (16, 80, 272)[(number + turn) % 3]
            run(arch, name, (m, n, k), split_k=2 if turn else None)


@pytest.mark.parametrize(("arch", "name"), FORMATS)
def test_every_number_meets_every_place(arch, name):
    """Weights of one number each: a wrong nibble, order or sign shows."""
    random = np.random.default_rng()
    n, k = 32, 64
    numbers = np.tile(np.arange(-8, 8), n * k // 16)
    b = random.permutation(numbers).reshape(n, k).astype(np.int8)
    b[:16] = np.arange(-8, 8)[:, None]
    weight = preshuffle_b(b, layout="int4_packed", dtype="int4")
    a = np.eye(k).astype(dtype_of(fp8(arch, name) if name.startswith("e") else name))
    with config.scope(FLYDSL_TARGET=arch):
        got = gemm(a, weight, out_dtype="float32", split_k=1)
    assert np.array_equal(got, b.T.astype(np.float32))


@pytest.mark.parametrize(("arch", "name", "tile", "more"), [
    ("gfx942", "bfloat16", (64, 128, 64, 2, 2), {}),
    ("gfx942", "int8", (16, 64, 128, 1, 4), {"split_k": 2}),
    ("gfx950", "float16", (64, 64, 64, 2, 2), {"direct": True}),
    ("gfx950", "int8", (32, 128, 128, 1, 4), {"direct": True, "split_k": 2}),
    ("gfx950", "e4m3", (64, 64, 128, 2, 2), {"split_k": 2}),
    ("gfx1100", "bfloat16", (16, 64, 32, 1, 4), {"split_k": 3}),
    ("gfx1100", "int8", (64, 128, 64, 2, 2), {}),
    ("gfx1201", "float16", (16, 128, 128, 1, 4), {"streams": 19}),
    ("gfx1201", "int8", (64, 64, 64, 2, 2), {"split_k": 2}),
    ("gfx1201", "e5m2", (128, 64, 64, 1, 4), {}),
    ("gfx1250", "bfloat16", (64, 128, 64, 2, 2), {"direct": True}),
    ("gfx1250", "int8", (64, 64, 128, 2, 2), {"direct": True, "streams": 7}),
])  # fmt: skip
def test_configurations(arch, name, tile, more):
    """Parts of K, shared steps, A straight into LDS; nothing in LDS has bank conflicts."""
    chosen = GemmConfig(*tile, **more)
    report = run(arch, name, (70, 144, 320), config=chosen)
    traffic = [t.conflict_ratio for t in report.traffic if t.space == "lds"]
    assert traffic
    assert max(traffic) == 1.0
    assert report.resources.scratch_bytes == 0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("arch", "name"), [f for f in FORMATS if f[1] != "e5m2"])
def test_every_shipped_tile(arch, name):
    """Every legal tile in one of its depths, at extents that it does not divide."""
    kind = fp8(arch, name) if name.startswith("e") else name
    found = plan_gemm(GemmProblem(300, 304, 448, kind, "int4", "float32"), arch, split_k=1)
    choices_of = {}
    for item in found.candidates:
        own = item.config
        if not own.streams:
            choices_of.setdefault((own.tile_m, own.tile_n, own.waves_m), []).append(item)
    assert {tile[0] for tile in choices_of} >= {tile[0] for tile in TILES[:8]}
    worst = 0.0
    for number, tile in enumerate(sorted(choices_of)):
        item = choices_of[tile][number % len(choices_of[tile])]
        chosen = replace(item.config, group_m=2)
        report = run(arch, name, (chosen.tile_m + 3, chosen.tile_n + 16, 448), config=chosen)
        assert report.resources.scratch_bytes == 0, chosen
        worst = max(worst, report.vgprs / item.registers)
    assert worst <= 1.2


@pytest.mark.parametrize("arch", WAVE_MATRIX)
def test_results_of_every_type(arch):
    """Default types, int32 sums, 8-bit results; leading axes, also of an `out` with gaps."""
    random = np.random.default_rng(zlib.crc32(arch.encode()))
    a, (b, weight) = operand(random, (3, 5, 128), "int8"), weights(random, (48, 128))
    wide = a.reshape(15, 128).astype(np.int64) @ b.T.astype(np.int64)
    scale = random.random(15).astype(np.float32) / 64
    out = np.zeros((3, 8, 48), np.float32)[:, :5]
    with config.scope(FLYDSL_TARGET=arch):
        sums = gemm(a, weight, out_dtype="int32")
        eight = gemm(a, weight, scale_a=scale, out_dtype="int8")
        apart = gemm(a, weight, scale_a=scale, out=out)
        halves = gemm(a.astype(np.float16), weight)
    assert sums.shape == (3, 5, 48)
    assert np.array_equal(sums.reshape(15, 48), wide)
    after = After(scale_a=scale[:, None])
    check(eight.reshape(15, 48), *product(a.reshape(15, 128), b.T, after, "int8"))
    check(apart.reshape(15, 48), *product(a.reshape(15, 128), b.T, after, "float32"))
    assert halves.dtype == np.float16


@pytest.mark.parametrize("arch", ARCHS)
def test_batches_and_groups(arch):
    random = np.random.default_rng()
    name = TYPES[ARCHS.index(arch) % 3]
    m, n, k = 20, 48, 192
    a, (b, weight) = operand(random, (3, m, k), name), weights(random, (3, n, k))
    scale = random.random((3, n)).astype(np.float32)
    flat = a.reshape(3 * m, k)
    ends = np.array([7, 7, 3 * m - 4], np.int32)
    kept = np.full((3 * m, n), 7, np.float32)
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        got = gemm(a, weight, scale_b=scale, out_dtype="float32", split_k=2)
        one = gemm(a[0], weight, scale_b=scale, out_dtype="float32")
        grouped = grouped_gemm(flat, weight, ends, scale_b=scale, out=kept)
    after = After(scale_b=scale[:, None])
    columns = b.swapaxes(1, 2)
    check(got, *product(a, columns, after, "float32", 2))
    check(one, *product(np.stack([a[0]] * 3), columns, after, "float32"))
    for group, rows in ((0, slice(0, 7)), (2, slice(7, 3 * m - 4))):
        own = After(scale_b=scale[group])
        check(grouped[rows], *product(flat[rows], columns[group], own, "float32"))
    assert (grouped[3 * m - 4 :] == 7).all()


def test_a_transposed_operand():
    random = np.random.default_rng()
    a, (b, weight) = operand(random, (64, 37), "bfloat16"), weights(random, (32, 64))
    with config.scope(FLYDSL_TARGET="gfx1201"), flydsl_emu.sanitize():
        got = gemm(a.T, weight, out_dtype="float32")
    check(got, *product(a.T, b.T, After(), "float32"))


def test_the_winner_of_a_search(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "_MOST", 2)
    random = np.random.default_rng()
    a, (b, weight) = operand(random, (1, 16, 64), "float16"), weights(random, (64, 64))
    c = np.zeros((1, 16, 64), np.float32)
    data = weight.data.reshape(1, 64, 32)
    with config.scope(FLYDSL_TARGET="gfx1100", FLYDSL_RUNTIME_CACHE_DIR=tmp_path):
        assert problem_of(a, data, c).b_dtype == "int4"
        tuned_gemm(a, data, c, None)
    check(c[0], *product(a[0], b.T, After(), "float32"))


def test_the_plan_knows_packed_weights():
    """They are a quarter of the traffic, but every wave unpacks its own: few along M are best."""
    for arch in ARCHS:
        wide, narrow = (
            plan_gemm(GemmProblem(16, 4096, 4096, "bfloat16", kind), arch).best
            for kind in ("", "int4")
        )
        assert narrow.roofline < 0.3 * wide.roofline
        assert narrow.seconds <= wide.seconds
        best = plan_gemm(GemmProblem(2048, 4096, 4096, "bfloat16", "int4"), arch).best.config
        assert best.waves_m == 1
        assert best.tile_m >= 64


@pytest.mark.parametrize("arch", WAVE_MATRIX)
def test_what_does_not_fit_is_refused(arch):
    random = np.random.default_rng()
    a, (b, weight) = np.ones((4, 64), BF16), weights(random, (32, 64))
    with config.scope(FLYDSL_TARGET=arch):
        four = PreshuffledWeight("fp4_16lane", "float4_e2m1fn", 32, 128, b)
        with pytest.raises(ConfigError, match="another layout"):
            gemm(np.ones((4, 128), BF16), four)
        with pytest.raises(ConfigError, match="element type"):
            gemm(a[:, :32], weight.data)  # bytes that do not say what they are
        bound = preshuffle_b(b, layout="int4_packed", dtype="int4", arch="gfx942")
        with pytest.raises(ConfigError, match="another architecture"):
            gemm(a, bound)
        with pytest.raises(ConfigError, match="element type"):
            gemm(a.astype(np.float32), weight)
        with pytest.raises(ConfigError, match="no layout"):
            gemm(a, weight, layout="nn")
        with pytest.raises(FlyDSLError, match="fit the weights"):
            gemm(a[:, :32], weight)
        with pytest.raises(ConfigError, match="blocks of 64") as wrong:
            preshuffle_b(b[:, :24], layout="int4_packed", dtype="int4")
        assert wrong.value.value == 24
        with pytest.raises(ConfigError) as wrong:
            gemm(a, weight, config=GemmConfig(64, 96, 64, 2, 4))
        assert wrong.value.code == "FLY-C920"
        import torch

        with pytest.raises(UserTypeError):
            gemm(torch.ones(4, 64, dtype=torch.bfloat16), weight)


def test_8_bit_floats_of_other_architectures():
    """Weights become floats that the instructions multiply, or the call is an error."""
    _, weight = weights(np.random.default_rng(), (32, 64))
    for arch, name in (("gfx1100", "float8_e4m3fn"), ("gfx942", "float8_e4m3fn"),
                       ("gfx1201", "float8_e5m2fnuz")):  # fmt: skip
        with config.scope(FLYDSL_TARGET=arch), pytest.raises(TargetError) as wrong:
            gemm(np.ones((4, 64), dtype_of(name)), weight)
        assert wrong.value.hint


def test_problems_that_are_none():
    """Weights of four bits as A, plain, of odd extents, or with types that they do not become."""
    for arguments in (
        {"dtype": "int4"}, {"dtype": "float32", "b_dtype": "int4"},
        {"b_dtype": "int4", "n": 24}, {"b_dtype": "int4", "k": 24},
        {"dtype": "int8", "b_dtype": "int2"},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            GemmProblem(**{"m": 16, "n": 64, "k": 64, **arguments})
