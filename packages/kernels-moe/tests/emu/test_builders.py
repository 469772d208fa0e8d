"""The entry points under other names do what the operations do, into arrays that are given."""

from __future__ import annotations

import numpy as np
import pytest
from moe_reference import BF16, case

from flydsl.errors import ConfigError
from flydsl_kernels.moe import moe_gemm1, moe_gemm2, moe_sort, prepare_experts, topk_gating
from flydsl_kernels.moe.ops import builders as named
from flydsl_kernels.moe.problem import SortProblem


def test_gating(gfx942):
    logits = np.random.default_rng().standard_normal((9, 64)).astype(np.float32)
    launch = named.build_topk_gating_softmax_module(64, 6, "f32", False)
    weights, ids, places = (np.zeros((9, 6), t) for t in (np.float32, np.int32, np.int32))
    launch(logits, weights, ids, places, 9)
    expected = topk_gating(logits, 6, renormalise=False)
    assert np.array_equal(weights, expected[0])
    assert np.array_equal(ids, expected[1])
    assert np.array_equal(places, np.arange(6) * 9 + np.arange(9)[:, None])
    launch(logits, weights, ids, None, 9)
    with pytest.raises(ConfigError):
        named.build_topk_gating_softmax_module(2000, 6)


def test_a_layer(gfx942):
    """Both products and the sum, with the buffers and sizes of other callers."""
    random = np.random.default_rng()
    tokens, experts, slots, k, channels, unit = 17, 8, 2, 256, 128, 32
    ids = random.integers(0, experts, (tokens, slots)).astype(np.int32)
    weights = random.random((tokens, slots)).astype(np.float32)
    size = tokens * slots + experts * unit - slots
    sorted_ids, kept = np.full(size, 7, np.int32), np.full(size, 7, np.float32)
    blocks, valid = np.full(-(-size // unit), 7, np.int32), np.zeros(2, np.int32)
    total = np.ones((tokens, k), np.float32)
    named.moe_sorting_flydsl(ids, weights, sorted_ids, kept, blocks, valid, total, experts,
                             unit_size=unit)  # fmt: skip
    assert not total.any()
    order = moe_sort(ids, weights, experts, unit=unit)
    length = int(order.valid[0])
    assert np.array_equal(valid, order.valid)
    assert np.array_equal(sorted_ids[:length], order.ids[:length])
    assert (sorted_ids[length:] == (slots << 24) | tokens).all()

    one = case("fp8", "gfx942", tokens, experts, 2 * channels, k)
    layer = prepare_experts(one.w, format="fp8", gated=True, scales=one.w_scales)
    sizes = {"model_dim": k, "inter_dim": channels, "experts": experts, "topk": slots,
             "tile_m": unit, "tile_n": 128, "tile_k": 128}  # fmt: skip
    h = np.zeros((tokens, slots, channels), BF16)
    first = named.compile_moe_gemm1(**sizes, doweight_stage1=False, out_dtype="bf16",
                                    in_dtype="fp8")  # fmt: skip
    order_arguments = sorted_ids, blocks, kept, valid
    first(h, one.x, layer.weight.data.reshape(-1), one.x_scales, layer.scales.reshape(-1),
          *order_arguments, tokens, channels, k, len(blocks))  # fmt: skip
    assert np.array_equal(h, moe_gemm1(one.x, layer, order, x_scales=one.x_scales))

    two = case("fp8", "gfx942", tokens * slots, experts, k, channels)
    down = prepare_experts(two.w, format="fp8", scales=two.w_scales)
    given = two.x, down.weight.data, two.x_scales, down.scales
    parts = np.zeros((tokens, slots, k), np.float32)
    second = named.compile_moe_gemm2(**sizes, in_dtype="fp8", accumulate=False)
    second(parts, *given, *order_arguments, tokens)
    expected = moe_gemm2(two.x, down, order, h_scales=two.x_scales, reduce=False, dtype="float32")
    assert np.array_equal(parts, expected)
    whole = np.zeros((tokens, k), np.float32)
    masked = ids.copy()
    masked[0] = experts
    named.compile_moe_reduction(topk=slots, model_dim=k, dtype_str="f32", use_mask=True,
                                num_experts=experts)(parts, whole, masked, tokens)  # fmt: skip
    assert not whole[0].any()
    assert np.allclose(whole[1:], parts[1:].sum(1), rtol=2.0**-22)
    named.compile_moe_gemm2(**sizes, in_dtype="fp8")(total, *given, *order_arguments, tokens)
    assert np.allclose(total, parts.sum(1), rtol=2.0**-20, atol=2.0**-20)


def test_one_nibble_changes_one_channel(gfx942):
    data = case("int8_int4", "gfx942", 3, 2, 64, 256)
    ids, weights = np.array([[0, 1], [1, 0], [0, 0]], np.int32), np.ones((3, 2), np.float32)
    order = moe_sort(ids, weights, 2, unit=16)

    def run(w):
        layer = prepare_experts(w, format="int8_int4", gated=True, scales=data.w_scales)
        found = moe_gemm1(data.x, layer, order, x_scales=data.x_scales, dtype="float32")
        return found.copy()

    before, w = run(data.w), data.w.copy()
    data.x[:, 77] = np.where(data.x[:, 77] == 0, 1, data.x[:, 77])
    before = run(w)
    w[1, 40, 77] ^= 5
    changed = run(w) != before
    here = np.zeros_like(changed)
    here[ids == 1, 40 - 32] = True
    assert np.array_equal(changed, here)


def test_refusals(gfx942):
    sizes = {"model_dim": 256, "inter_dim": 128, "experts": 4, "topk": 2, "tile_m": 32,
             "tile_n": 128}  # fmt: skip
    for bad in ({"tile_m": 24}, {"tile_n": 96}, {"in_dtype": "fp5"}, {"out_dtype": "i8"},
                {"model_dim": 200}):  # fmt: skip
        with pytest.raises(ConfigError):
            named.compile_moe_gemm1(**{**sizes, **bad})
    with pytest.raises(ConfigError):
        named.compile_moe_gemm2(**sizes, out_dtype="bf16")
    ids, weights = np.zeros((4, 2), np.int32), np.zeros((4, 2), np.float32)
    short = np.zeros(SortProblem(4, 2, 8, 32).capacity - 1, np.int32)
    with pytest.raises(ConfigError):
        named.moe_sorting_flydsl(ids, weights, short, weights, short, short, None, 8)
