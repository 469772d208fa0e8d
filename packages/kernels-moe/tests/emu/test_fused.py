"""`fused_moe` end to end, with the quantisation of activations in between.

Bounds follow the data: half a step of each quantisation (see `steps`) and the bounds of each
product are carried through the next product with the magnitudes of its weights. Such bounds hold
for the worst signs, so the relative error in the mean square is checked too: quantisation errors of
different columns are independent.
"""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from moe_reference import BF16, FORMATS, Case, activated, allowed, case, gemm1, unpacked

from flydsl import config
from flydsl.errors import ConfigError
from flydsl_kernels.moe import (
    ExpertWeights,
    fused_moe,
    moe_gemm2,
    moe_quantise,
    moe_sort,
    prepare_experts,
    topk_gating,
)
from flydsl_kernels.moe.ops import layer as fused_module
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight, preshuffle_b

EVERY = [(arch, name) for arch, names in FORMATS.items() for name in names]
# Relative half steps of the formats of activations, and of their least numbers over the largest:
# 3 bits of mantissa down to 2^-9 of 448 (2^-10 of 240), 255 steps, 1 bit down to 0.5 of 6.
HALF_STEPS = {
    "float8_e4m3fn": (2.0**-4, 2.0**-10 / 448),
    "float8_e4m3fnuz": (2.0**-4, 2.0**-11 / 240),
    "int8": (0.0, 0.5 / 127),
    "fp4": (0.25, 0.25 / 6),
}


def kind_of(name, arch):
    if name.startswith("int8"):
        return "int8"
    if name == "mxfp4":
        return "fp4"
    return "float8_e4m3fnuz" if arch == "gfx942" else "float8_e4m3fn"


def half_steps(x, name, arch):
    """Return how far quantised rows may be from `x`, of any columns' groups."""
    if name.startswith("bf16") or name == "f16":
        return np.zeros_like(x)
    relative, least = HALF_STEPS[kind_of(name, arch)]
    group = {"fp8_block": 128, "mxfp8_mxfp4": 32, "mxfp4": 32}.get(name, x.shape[-1])
    top = np.zeros_like(x)
    for start in range(0, x.shape[-1], group):
        part = x[..., start : start + group]
        top[..., start : start + group] = np.abs(part).max(-1, keepdims=True)
    # A power of two is up to twice the scale; quotients and scales are rounded to f32.
    wide = 2 if group == 32 else 1
    return np.maximum(relative * np.abs(x), wide * least * top) * (1 + 2.0**-10)


def meaning(q, scales, name):
    """Return what quantised rows stand for."""
    numbers = unpacked(q) if name == "mxfp4" else q.astype(np.float64)
    if scales.dtype == np.uint8:
        return numbers * np.repeat(2.0 ** (scales.astype(np.float64) - 127), 32, -1)
    if scales.ndim == 1:
        return numbers * scales[:, None].astype(np.float64)
    return numbers * np.repeat(scales.astype(np.float64), 128, -1)[:, : numbers.shape[1]]


def layers(name, arch, experts, k, channels):
    """Return two random layers as cases and prepared."""
    one = case(name, arch, 1, experts, 2 * channels, k)
    two = case(name, arch, 1, experts, k, channels)
    prepared = (
        prepare_experts(one.w, format=name, gated=True, scales=one.w_scales),
        prepare_experts(two.w, format=name, scales=two.w_scales),
    )
    return one, two, prepared


def run(name, arch, sizes, mask=None, **options):
    """Run a layer on random tokens and check it against the bound and in the mean square."""
    tokens, experts, slots, k, channels = sizes
    random = np.random.default_rng()
    count = experts if mask is None else int(np.sum(mask))
    one, two, prepared = layers(name, arch, count, k, channels)
    kind = np.float16 if name == "f16" else BF16
    x = random.standard_normal((tokens, k)).astype(kind)
    ids = random.integers(0, experts, (tokens, slots)).astype(np.int32)
    weights = random.random((tokens, slots)).astype(np.float32)
    with config.scope(FLYDSL_TARGET=arch):
        found = fused_moe(x, *prepared, weights, ids, expert_mask=mask, **options)
    local = ids
    if mask is not None:
        places = np.where(mask, np.cumsum(mask) - 1, -1)
        local = places[ids]
    total, bound = np.zeros((tokens, k)), np.zeros((tokens, k))
    wide = x.astype(np.float64)
    off_x = half_steps(wide, name, arch)
    # Products of quantised activations, as the reference computes them from exact ones.
    data = Case(None, None, None, None, wide, one.wide_w)
    h, off_h = gemm1(data, local, lambda t, _: t, kind)
    for t, s in np.ndindex(ids.shape):
        e = local[t, s]
        if e < 0:
            continue
        spread = np.abs(one.wide_w[e]) @ off_x[t]
        sums = one.wide_w[e] @ wide[t]
        gate, up = sums[:channels], sums[channels:]
        off = off_h[t, s] + 1.13 * (np.abs(up) + spread[channels:]) * spread[:channels]
        off += (np.abs(gate) + spread[:channels]) * spread[channels:]
        off *= 1 + allowed(kind)
        off += half_steps(np.abs(h[t, s]) + off, name, arch)
        value = two.wide_w[e] @ h[t, s]
        most = np.abs(two.wide_w[e]) @ (np.abs(h[t, s]) + off)
        error = np.abs(two.wide_w[e]) @ off + channels * 2.0**-24 * most
        factor = float(weights[t, s])
        total[t] += factor * value
        # Rows of pairs are rounded to the type of the result, and again their sum.
        bound[t] += factor * (error + (np.abs(value) + error) * allowed(kind)) * (1 + 2.0**-20)
    bound += (np.abs(total) + bound) * allowed(kind) + 2.0**-24
    difference = found.astype(np.float64) - total
    assert np.all(np.abs(difference) <= bound)
    norm = np.sqrt((total**2).sum())
    noise = {"bf16": 2.0**-7, "f16": 2.0**-9, "fp8": 0.08, "int8": 0.04, "mxfp8": 0.08,
             "mxfp4": 0.35}[name.split("_")[0]]  # fmt: skip
    assert np.sqrt((difference**2).sum()) <= noise * norm + 1e-12
    return found


@pytest.mark.parametrize(("arch", "name"), EVERY)
def test_every_format(arch, name):
    run(name, arch, (17, 4, 2, 256, 128))


@pytest.mark.parametrize(
    ("name", "tokens", "experts", "slots"),
    [("bf16", 1, 4, 1), ("fp8", 1, 64, 8), ("bf16", 3, 4, 6), ("fp8", 3, 8, 2),
     ("bf16", 17, 64, 6), ("fp8", 64, 8, 2), ("bf16", 129, 4, 1)],
)  # fmt: skip
def test_tokens_experts_and_slots(name, tokens, experts, slots):
    run(name, "gfx942", (tokens, experts, slots, 128, 64))


@pytest.mark.parametrize("options", [{"atomic": True}, {"early_weights": True}, {"unit": 64}])
def test_options(options):
    run("bf16", "gfx942", (17, 4, 3, 128, 64), **options)


def test_more_tokens_than_one_launch_takes(monkeypatch):
    monkeypatch.setattr(fused_module, "tokens_at_once", lambda *_: 7)
    run("bf16", "gfx942", (17, 4, 2, 64, 32))
    run("bf16", "gfx942", (17, 4, 2, 64, 32), atomic=True)


def test_experts_elsewhere_count_as_zero():
    mask = np.array([0, 1, 1, 0, 1, 0, 0, 1])
    run("bf16", "gfx942", (17, 8, 3, 128, 64), mask)
    run("fp8", "gfx950", (17, 8, 3, 128, 64), mask)


def test_two_ranks_make_the_whole(gfx942):
    """What two halves of the experts give adds up to what all of them give."""
    random = np.random.default_rng()
    one, two, _ = layers("bf16", "gfx942", 4, 128, 64)
    x = random.standard_normal((9, 128)).astype(np.float32)
    weights, ids = topk_gating(random.standard_normal((9, 4)).astype(np.float32), 2)

    def part(places, mask):
        layers_ = (
            prepare_experts(one.w[places], format="bf16", gated=True),
            prepare_experts(two.w[places], format="bf16"),
        )
        return fused_moe(x, *layers_, weights, ids, expert_mask=mask)

    total = part(slice(None), None)
    halves = part(slice(0, 2), np.array([1, 1, 0, 0])), part(slice(2, 4), np.array([0, 0, 1, 1]))
    assert np.abs(halves[0] + halves[1] - total).max() <= 2.0**-22 * np.abs(total).max()


def test_the_result_is_the_same_in_every_run(gfx942):
    random = np.random.default_rng()
    _, _, prepared = layers("fp8", "gfx942", 4, 128, 64)
    x = random.standard_normal((33, 128)).astype(BF16)
    weights, ids = topk_gating(random.standard_normal((33, 4)).astype(np.float32), 2)
    first = fused_moe(x, *prepared, weights, ids)
    assert first.tobytes() == fused_moe(x, *prepared, weights, ids).tobytes()


@pytest.mark.parametrize("name", ["int8", "int8_int4"])
def test_smoothed_activations(name, gfx942):
    random = np.random.default_rng()
    tokens, experts, slots, k, channels = 9, 4, 2, 128, 64
    one, two, prepared = layers(name, "gfx942", experts, k, channels)
    x = random.standard_normal((tokens, k)).astype(BF16)
    x[:, 5] *= 50  # what smoothing is for
    smooth = (
        (random.random((experts, k)) + 0.5).astype(np.float32),
        (random.random((experts, channels)) + 0.5).astype(np.float32),
    )
    smooth[0][:, 5] /= 50
    ids = random.integers(0, experts, (tokens, slots)).astype(np.int32)
    weights = random.random((tokens, slots)).astype(np.float32)
    found = fused_moe(x, *prepared, weights, ids, smooth=smooth)
    q, scales = moe_quantise(x, format=name, ids=ids, smooth=smooth[0], by_slot=True)
    total = np.zeros((tokens, k))
    for t, s in np.ndindex(ids.shape):
        e = ids[t, s]
        row = x[t].astype(np.float64) * smooth[0][e]
        assert np.abs(q[s * tokens + t] * float(scales[s * tokens + t]) - row).max() <= (
            0.5001 / 127 * np.abs(row).max()
        )
        sums = one.wide_w[e] @ row
        h = activated(sums[:channels], sums[channels:]) * smooth[1][e]
        total[t] += weights[t, s] * (two.wide_w[e] @ h)
    difference = found.astype(np.float64) - total
    assert np.sqrt((difference**2).sum()) <= 0.04 * np.sqrt((total**2).sum())


@pytest.mark.parametrize(("arch", "name"), EVERY)
def test_quantised_rows(arch, name):
    if name.startswith("bf16") or name == "f16":
        with pytest.raises(ConfigError):
            moe_quantise(np.zeros((2, 32), np.float32), format=name)
        return
    random = np.random.default_rng()
    x = (random.standard_normal((7, 416)) * np.exp(4 * random.standard_normal((7, 1)))).astype(BF16)
    x[3] = 0
    x[4, :40] = 0
    dtype = kind_of(name, arch) if "fp8" in name else "float8_e4m3fn"
    with config.scope(FLYDSL_TARGET=arch):
        found = meaning(*moe_quantise(x, format=name, dtype=dtype), name)
    wide = x.astype(np.float64)
    assert np.all(np.abs(found - wide) <= half_steps(wide, name, arch))


def test_weights_past_four_gigabytes(gfx942):
    """The last of 1024 experts begins past 4 GiB; nothing but its weights is ever touched."""
    experts, n, k = 1024, 64, 65536 + 8192
    each = n * k
    assert (experts - 1) * each > 1 << 32
    random = np.random.default_rng()
    room = mmap.mmap(-1, experts * each)
    data = np.frombuffer(room, np.int8)
    w = random.integers(-128, 128, (n, k)).astype(np.int8)
    data[-each:] = preshuffle_b(w, layout="16x16", dtype="int8").data.reshape(-1)
    weight = PreshuffledWeight("16x16", "int8", n, k, data.reshape(experts, n, k), experts)
    scales = np.full((experts, n), 2.0**-14, np.float32)
    layer = ExpertWeights(weight, scales, "int8", n, k, False)
    x = random.integers(-128, 128, (1, k)).astype(np.int8)
    ids, one = np.array([[experts - 1]], np.int32), np.ones((1, 1), np.float32)
    order = moe_sort(ids, one, experts, unit=16)
    found = moe_gemm2(x, layer, order, h_scales=one[0], dtype="float32")
    exact = w.astype(np.int64) @ x[0].astype(np.int64)
    assert np.abs(exact).max() > 0
    expected = exact.astype(np.float32) * np.float32(2.0**-14)
    assert np.array_equal(found[0], expected)


def test_refusals(gfx942):
    _, _, prepared = layers("bf16", "gfx942", 4, 64, 32)
    x, one = np.zeros((3, 64), BF16), np.ones((3, 2), np.float32)
    ids = np.zeros((3, 2), np.int32)
    for bad in (
        lambda: fused_moe(x, prepared[1], prepared[0], one, ids),
        lambda: fused_moe(x[:, :32], *prepared, one, ids),
        lambda: fused_moe(x[:2], *prepared, one, ids),
        lambda: fused_moe(x, *prepared, one, ids, unit=20),
        lambda: fused_moe(x, *prepared, one, ids, smooth=(np.ones((4, 64), np.float32), None)),
        lambda: fused_moe(x, *prepared, one, ids, smooth=(one, None), expert_mask=np.ones(4)),
    ):
        with pytest.raises(ConfigError):
            bad()
    assert fused_moe(x[:0], *prepared, one[:0], ids[:0]).shape == (0, 64)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["bf16", "fp8"])
def test_every_number_of_tokens_experts_and_slots(name, arch):
    for tokens in (1, 3, 17, 64, 129):
        for experts in (4, 8, 64):
            for slots in (1, 2, 6, 8):
                run(name, arch, (tokens, experts, slots, 128, 64))
