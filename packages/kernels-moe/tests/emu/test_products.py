"""`moe_gemm1` and `moe_gemm2` in every format against float64; see `moe_reference` for bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from moe_reference import BF16, FORMATS, case, gemm1, gemm2

import flydsl_emu
from flydsl import config
from flydsl.errors import ConfigError
from flydsl_kernels.moe import Activation, moe_gemm1, moe_gemm2, moe_sort, prepare_experts

EVERY = [(arch, name) for arch, names in FORMATS.items() for name in names]
CANARY = 1536.0


def routing(tokens, experts, slots, spread=None):
    """Random experts with repetitions, and weights."""
    random = np.random.default_rng()
    ids = random.integers(0, spread or experts, (tokens, slots)).astype(np.int32)
    return ids, random.standard_normal((tokens, slots)).astype(np.float32)


def guarded(shape, dtype):
    """Return an array of NaN between rows of a number, and the whole."""
    whole = np.full((shape[0] + 2, *shape[1:]), CANARY, dtype)
    whole[1:-1] = np.nan
    return whole[1:-1], whole


def check(found, expected, whole=None):
    """Compare where something is expected; elsewhere nothing may have been written."""
    value, bound = expected
    found = found.astype(np.float64)
    there = ~np.isnan(value)
    assert np.all(np.abs(found[there] - value[there]) <= bound[there])
    assert np.isnan(found[~there]).all()
    if whole is not None:
        assert (whole[[0, -1]] == CANARY).all()


def first(name, arch, sizes, unit, activation=None, weighted=False, dtype=BF16):
    """Run the first product with random data and check it."""
    tokens, experts, slots, k, channels = sizes
    data = case(name, arch, tokens, experts, 2 * channels, k)
    ids, weights = routing(tokens, experts, slots)
    out, whole = guarded((tokens, slots, channels), dtype)
    with config.scope(FLYDSL_TARGET=arch):
        order = moe_sort(ids, weights, experts, unit=unit)
        layer = prepare_experts(data.w, format=name, gated=True, scales=data.w_scales)
        how = Activation(**(activation or {}))
        moe_gemm1(data.x, layer, order, x_scales=data.x_scales, activation=how, weighted=weighted,
                  out=out)  # fmt: skip
    expected = gemm1(data, ids, lambda t, _: t, dtype, weights if weighted else None,
                     **(activation or {}))  # fmt: skip
    check(out, expected, whole)


def second(name, arch, sizes, unit, weighted=True, dtype=BF16):
    """Run the second product without and with the sum, and check both."""
    tokens, experts, slots, k, channels = sizes
    data = case(name, arch, tokens * slots, experts, channels, k)
    ids, weights = routing(tokens, experts, slots)
    out, whole = guarded((tokens, slots, channels), dtype)
    with config.scope(FLYDSL_TARGET=arch):
        order = moe_sort(ids, weights, experts, unit=unit)
        layer = prepare_experts(data.w, format=name, scales=data.w_scales)
        options = {"h_scales": data.x_scales, "weighted": weighted}
        moe_gemm2(data.x, layer, order, reduce=False, out=out, **options)
        total = moe_gemm2(data.x, layer, order, dtype="float32", **options)
    given = weights if weighted else None
    check(out, gemm2(data, ids, dtype, given), whole)
    parts, bounds = gemm2(data, ids, np.float32, given)
    magnitude = np.abs(parts).sum(1)
    check(total, (parts.sum(1), bounds.sum(1) + slots * 2.0**-24 * magnitude))


@pytest.mark.parametrize(("arch", "name"), EVERY)
def test_gates_in_every_format(arch, name):
    ragged = 128 if name == "fp8_block" else 72
    first(name, arch, (17, 4, 3, 352, ragged), 32, weighted=name.startswith("bf16"))


@pytest.mark.parametrize(("arch", "name"), EVERY)
def test_down_in_every_format(arch, name):
    second(name, arch, (9, 4, 2, 160, 200), 16, weighted=name != "f16")


@pytest.mark.parametrize(
    ("k", "channels"), [(8, 16), (24, 30), (64, 61), (136, 64), (520, 129), (1000, 3)]
)
def test_ragged_extents(k, channels, gfx942):
    """K in part of a step, one step, odd and even numbers; channels of no multiple of anything."""
    first("bf16", "gfx942", (5, 3, 2, k, channels), 16)
    second("bf16", "gfx942", (5, 3, 2, k, channels), 16)


def test_columns_of_no_whole_piece(gfx942):
    first("bf16", "gfx942", (5, 3, 2, 77, 20), 16)
    first("fp8", "gfx942", (5, 3, 2, 85, 20), 16)


@pytest.mark.parametrize(
    ("arch", "unit"), [("gfx942", 16), ("gfx942", 64), ("gfx942", 128), ("gfx950", 128)]
)
def test_tiles(arch, unit):
    first("fp8", arch, (40, 2, 2, 256, 144), unit)
    second("fp8", arch, (40, 2, 2, 384, 144), unit)


@pytest.mark.parametrize(
    "activation",
    [{"name": "silu", "limit": 7.0, "alpha": 1.702, "offset": 1.0}, {"name": "silu", "limit": 0.5},
     {"name": "gelu"}, {"name": "gelu_tanh"}, {"name": "gelu_tanh", "limit": 0.75}],
)  # fmt: skip
def test_activations(activation, gfx942):
    first("bf16", "gfx942", (9, 3, 2, 64, 48), 16, activation)


@pytest.mark.parametrize("group", [32, 64, 128])
def test_groups_of_integer_weights(group, gfx942):
    data = case("bf16_int4", "gfx942", 7, 3, 96, 384, group)
    ids, weights = routing(7, 3, 2)
    order = moe_sort(ids, weights, 3, unit=16)
    layer = prepare_experts(data.w, format="bf16_int4", gated=True, scales=data.w_scales)
    found = moe_gemm1(data.x, layer, order)
    check(found, gemm1(data, ids, lambda t, _: t, BF16))


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
def test_other_types_of_results(dtype, gfx942):
    first("bf16", "gfx942", (9, 3, 2, 64, 48), 16, dtype=dtype)
    second("fp8", "gfx942", (9, 3, 2, 128, 48), 16, dtype=dtype)


def test_a_row_for_every_slot(gfx942):
    data = case("int8", "gfx942", 18, 4, 96, 128)
    ids, weights = routing(9, 4, 2)
    order = moe_sort(ids, weights, 4, unit=16)
    layer = prepare_experts(data.w, format="int8", gated=True, scales=data.w_scales)
    found = moe_gemm1(data.x, layer, order, x_scales=data.x_scales, by_slot=True)
    check(found, gemm1(data, ids, lambda t, s: s * 9 + t, BF16))


def test_atomic_sums(gfx942):
    data = case("bf16", "gfx942", 18, 4, 72, 128)
    ids, weights = routing(9, 4, 2)
    order = moe_sort(ids, weights, 4, unit=16)
    layer = prepare_experts(data.w, format="bf16")
    found = moe_gemm2(data.x, layer, order, atomic=True)
    parts, bounds = gemm2(data, ids, np.float32, weights)
    check(found, (parts.sum(1), bounds.sum(1) + 2 * 2.0**-24 * np.abs(parts).sum(1)))


@pytest.mark.parametrize("name", ["bf16", "fp8_block", "mxfp4"])
def test_experts_elsewhere_and_idle_ones(name):
    """Pairs that are not here are not written, whatever the other experts do."""
    tokens, experts, slots, arch = 33, 8, 3, "gfx950"
    mask = np.array([1, 0, 1, 1, 0, 0, 1, 0])
    here = np.flatnonzero(mask)
    data = case(name, arch, tokens, len(here), 256, 256)
    ids, weights = routing(tokens, experts, slots)
    ids[ids == 3] = 2  # expert 3 is here and idle
    local = np.full(experts, -1)
    local[here] = np.arange(len(here))
    with config.scope(FLYDSL_TARGET=arch):
        order = moe_sort(ids, weights, experts, unit=16, expert_mask=mask)
        layer = prepare_experts(data.w, format=name, gated=True, scales=data.w_scales)
        out, whole = guarded((tokens, slots, 128), BF16)
        moe_gemm1(data.x, layer, order, x_scales=data.x_scales, out=out)
    check(out, gemm1(data, local[ids], lambda t, _: t, BF16), whole)


def test_an_order_of_more_experts_reads_no_other_weights(gfx942):
    """Where a mask is on a device nobody can compare the numbers before the launch."""
    data = case("bf16", "gfx942", 9, 2, 64, 64)
    ids, weights = routing(9, 5, 2)
    order = replace(moe_sort(ids, weights, 5, unit=16), local=None)
    out, whole = guarded((9, 2, 32), BF16)
    moe_gemm1(data.x, prepare_experts(data.w, format="bf16", gated=True), order, out=out)
    check(out, gemm1(data, np.where(ids < 2, ids, -1), lambda t, _: t, BF16), whole)


def test_an_expert_with_all_tokens(gfx942):
    data = case("fp8", "gfx942", 129, 4, 64, 128)
    ids = np.full((129, 2), 2, np.int32)
    order = moe_sort(ids, np.ones((129, 2), np.float32), 4, unit=64)
    layer = prepare_experts(data.w, format="fp8", gated=True, scales=data.w_scales)
    found = moe_gemm1(data.x, layer, order, x_scales=data.x_scales)
    check(found, gemm1(data, ids, lambda t, _: t, BF16))


@pytest.mark.parametrize(("arch", "name"), [("gfx942", "fp8_block"), ("gfx950", "bf16_mxfp4")])
def test_the_sanitizer_finds_nothing(arch, name):
    with flydsl_emu.sanitize():
        first(name, arch, (9, 2, 2, 384, 128), 32)
        second(name, arch, (9, 2, 2, 160, 72), 16)


def test_refusals(gfx942):
    data = case("bf16", "gfx942", 6, 4, 64, 64)
    ids, weights = routing(6, 4, 2)
    layer = prepare_experts(data.w, format="bf16", gated=True)
    order = moe_sort(ids, weights, 4, unit=16)
    for bad in (
        lambda: moe_gemm1(data.x, layer, moe_sort(ids, weights, 4, unit=24)),
        lambda: moe_gemm1(data.x, layer, moe_sort(ids, weights, 5, unit=16)),
        lambda: moe_gemm1(data.x, layer, order, x_scales=np.ones(6, np.float32)),
        lambda: moe_gemm1(data.x, layer, order, dtype="int8"),
        lambda: moe_gemm2(data.x[:, :32].repeat(2, 0), layer, order),
        lambda: prepare_experts(data.w, format="fp9"),
        lambda: prepare_experts(data.w, format="fp8"),
        lambda: prepare_experts(data.w[0], format="bf16"),
        lambda: prepare_experts(data.w[:, :63], format="bf16", gated=True),
    ):
        with pytest.raises(ConfigError):
            bad()
    eight = case("fp8", "gfx950", 6, 4, 64, 64)
    other = prepare_experts(eight.w, format="fp8", gated=True, scales=eight.w_scales)
    with pytest.raises(ConfigError, match="another kind"):
        moe_gemm1(eight.x, other, order, x_scales=eight.x_scales)
    four = case("bf16_mxfp4", "gfx950", 6, 4, 64, 64)
    newer = prepare_experts(four.w, format="bf16_mxfp4", gated=True, scales=four.w_scales)
    with pytest.raises(ConfigError, match="does not multiply"):
        moe_gemm1(four.x, newer, order)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("arch", "name"), EVERY)
def test_every_format_and_many_sizes(arch, name):
    for tokens, experts, slots, unit in ((1, 4, 1, 16), (3, 8, 6, 16), (64, 4, 8, 128),
                                         (129, 8, 2, 64), (129, 64, 6, 32)):  # fmt: skip
        first(name, arch, (tokens, experts, slots, 384, 128), unit)
        second(name, arch, (tokens, experts, slots, 512, 272), unit)
