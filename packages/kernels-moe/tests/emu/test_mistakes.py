"""Options that mixtures of experts do not take."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl import config
from flydsl.errors import FlyDSLError, TargetError
from flydsl_kernels.moe import (
    Activation,
    ExpertWeights,
    fused_moe,
    moe_gemm1,
    moe_gemm2,
    moe_permute,
    moe_quantise,
    moe_reduce,
    moe_sort,
    moe_unpermute,
    prepare_experts,
    topk_gating,
)
from flydsl_kernels.moe.ops.builders import (
    build_topk_gating_softmax_module,
    compile_moe_gemm1,
    compile_moe_gemm2,
    compile_moe_reduction,
    moe_sorting_flydsl,
)

X = np.ones((5, 64), np.float16)
GATES, DOWN = np.ones((4, 64, 64), np.float16), np.ones((4, 64, 32), np.float16)
ROUTES, IDS = np.ones((5, 2), np.float32), np.zeros((5, 2), np.int32)


@pytest.fixture(autouse=True)
def _gfx942():
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


@pytest.fixture(scope="module")
def layers():
    """Return the weights of both products."""
    with config.scope(FLYDSL_TARGET="gfx942"):
        return (prepare_experts(GATES, format="f16", gated=True),
                prepare_experts(DOWN, format="f16"))  # fmt: skip


@pytest.mark.parametrize(("options", "code"), [
    ({"unit": 5}, "C974"), ({"unit": 0}, "C974"), ({"unit": "a"}, "C974"),
    ({"activation": "silu"}, "C975"), ({"w1": GATES}, "C975"), ({"w2": None}, "C975"),
    ({"topk_ids": IDS[:, :0], "topk_weights": ROUTES[:, :0]}, "C971"),
    ({"smooth": None}, "U549"), ({"smooth": ROUTES}, "U549"), ({"smooth": (1.0, None)}, "U540"),
    ({"atomic": 1}, "U549"), ({"early_weights": "no"}, "U549"), ({"unit": 16.0}, "C974"),
    ({"topk_ids": [0]}, "U540"), ({"topk_weights": None}, "U540"), ({"expert_mask": 3}, "U540"),
    ({"out": [1]}, "U540"),
])  # fmt: skip
def test_layers(options, code, layers):
    given = {"w1": layers[0], "w2": layers[1], "topk_weights": ROUTES, "topk_ids": IDS, **options}
    with pytest.raises(FlyDSLError) as caught:
        fused_moe(X, **given)
    assert caught.value.code == f"FLY-{code}"


def test_rows_of_the_second_product(layers):
    order = moe_sort(IDS, ROUTES, 4)
    for shape in ((9, 32), (2, 5, 32)):
        with pytest.raises(FlyDSLError, match="h has another shape"):
            moe_gemm2(np.ones(shape, np.float16), layers[1], order)


LOGITS = np.ones((5, 8), np.float32)
SIZES = {"model_dim": 128, "inter_dim": 128, "experts": 4, "topk": 2, "tile_m": 16, "tile_n": 64}


@pytest.mark.parametrize(("call", "code"), [
    (lambda w, _o: moe_gemm1(X, w, None), "U549"),
    (lambda _w, o: moe_gemm1(X, GATES, o), "U549"),
    (lambda w, o: moe_gemm1(None, w, o), "U540"),
    (lambda w, o: moe_gemm1(X, w, o, out=3), "U540"),
    (lambda w, o: moe_gemm1(X, w, o, activation="silu"), "U549"),
    (lambda w, o: moe_gemm1(X, w, o, weighted=1), "U549"),
    (lambda w, o: moe_gemm1(X, w, o, dtype=16), "U549"),
    (lambda w, o: moe_gemm1(X, w, o, dtype=np.float64), "C977"),
    (lambda w, o: moe_gemm1(X, w, o, x_scales=1.0), "U540"),
    (lambda w, o: moe_gemm2(X, w, o, reduce="no"), "U549"),
    (lambda w, o: moe_gemm2(X, w, o, atomic=None), "U549"),
    (lambda _w, _o: moe_permute(X, None), "U549"),
    (lambda _w, o: moe_permute([1], o), "U540"),
    (lambda _w, _o: moe_unpermute(X, IDS), "U549"),
    (lambda _w, _o: moe_reduce(None), "U540"),
    (lambda _w, _o: moe_reduce(GATES, weights=2.0), "U540"),
    (lambda _w, _o: moe_quantise([1], format="fp8"), "U540"),
    (lambda _w, _o: moe_quantise(X, format=8), "U549"),
    (lambda _w, _o: moe_quantise(X, format=["fp8"]), "U549"),
    (lambda _w, _o: moe_quantise(X, format="fp8", dtype=None), "U549"),
    (lambda _w, _o: moe_quantise(X, format="int8", smooth=ROUTES), "U540"),
    (lambda _w, _o: moe_quantise(X, format="int8", by_slot=1), "U549"),
    (lambda _w, _o: moe_sort([0], ROUTES, 4), "U540"),
    (lambda _w, _o: moe_sort(IDS, None, 4), "U540"),
    (lambda _w, _o: moe_sort(IDS, ROUTES, 0), "C971"),
    (lambda _w, _o: moe_sort(IDS, ROUTES, True), "U549"),
    (lambda _w, _o: moe_sort(IDS, ROUTES, 4, expert_mask=[1]), "U540"),
    (lambda _w, _o: topk_gating(LOGITS, 2, groups=2), "U549"),
    (lambda _w, _o: topk_gating(LOGITS, 2, groups=(2, 1, 1)), "U549"),
    (lambda _w, _o: topk_gating(LOGITS, 2, out=ROUTES), "U549"),
    (lambda _w, _o: topk_gating(LOGITS, 2, scoring=None), "U549"),
    (lambda _w, _o: topk_gating(LOGITS, 2, renormalise=1), "U549"),
    (lambda _w, _o: topk_gating([1], 2), "U540"),
    (lambda _w, _o: topk_gating(LOGITS, 2, bias=1), "U540"),
    (lambda _w, _o: prepare_experts([1], format="f16"), "U540"),
    (lambda _w, _o: prepare_experts(GATES, format=16), "U549"),
    (lambda _w, _o: prepare_experts(GATES, format=["f16"]), "U549"),
    (lambda _w, _o: prepare_experts(GATES, format="f16", gated=1), "U549"),
    (lambda _w, _o: prepare_experts(GATES, format="f16", dtype=3), "U549"),
    (lambda _w, _o: prepare_experts(GATES, format="int8", scales=[1]), "U540"),
    (lambda _w, _o: prepare_experts(GATES[:0], format="f16"), "C975"),
    (lambda _w, _o: ExpertWeights(GATES, None, "f16", 32, 64, True), "U549"),
    (lambda w, _o: ExpertWeights(w.weight, None, "f17", 32, 64, True), "C975"),
    (lambda _w, _o: build_topk_gating_softmax_module("8", 2), "U549"),
    (lambda _w, _o: build_topk_gating_softmax_module(8, 2, dtype_str=32), "U549"),
    (lambda _w, _o: compile_moe_gemm1(**{**SIZES, "model_dim": "64"}), "U549"),
    (lambda _w, _o: compile_moe_gemm1(**{**SIZES, "tile_n": 64.0}), "U549"),
    (lambda _w, _o: compile_moe_gemm2(**SIZES, in_dtype=None), "U549"),
    (lambda _w, _o: compile_moe_gemm1(**SIZES)(X, X, GATES), "U549"),
    (lambda _w, _o: compile_moe_gemm1(**SIZES)(X, None, GATES, *[None] * 7), "U540"),
    (lambda _w, _o: compile_moe_reduction(topk=2, model_dim=64)(None, X), "U540"),
    (lambda _w, _o: moe_sorting_flydsl(IDS, ROUTES, None, ROUTES, IDS, IDS, None, 4), "U540"),
])  # fmt: skip
def test_other_kinds(call, code, layers):
    with pytest.raises(FlyDSLError) as caught:
        call(layers[0], moe_sort(IDS, ROUTES, 4))
    assert caught.value.code == f"FLY-{code}"
    assert caught.value.location is None or caught.value.location.file == __file__


def test_results_that_share_memory(layers):
    memory = np.zeros(256, np.int32)
    weights, ids = memory[:10].view(np.float32).reshape(5, 2), memory[5:15].reshape(5, 2)
    with pytest.raises(FlyDSLError, match="FLY-U548"):
        topk_gating(LOGITS, 2, out=(weights, ids))
    with pytest.raises(FlyDSLError, match="FLY-U548"):
        moe_sorting_flydsl(
            IDS, ROUTES, memory, np.zeros(256, np.float32), memory, memory[:2], None, 4
        )
    # A result may lie over what it is of.
    expected = topk_gating(LOGITS, 2)
    logits = LOGITS.copy()
    out = (
        logits.reshape(-1)[:10].reshape(5, 2),
        logits.reshape(-1)[20:30].view(np.int32).reshape(5, 2),
    )
    for got, wanted in zip(topk_gating(logits, 2, out=out), expected, strict=True):
        assert np.array_equal(got, wanted)
    random = np.random.default_rng()
    x = random.standard_normal((5, 64)).astype(np.float16)
    expected = fused_moe(x, *layers, ROUTES, IDS)
    assert np.array_equal(fused_moe(x, *layers, ROUTES, IDS, out=x), expected)


def test_a_mask_counts_what_is_not_zero():
    """Also where the lower half of a 64-bit number is zero."""
    ids = np.array([[0, 1], [2, 3]], np.int32)
    routes = np.ones((2, 2), np.float32)
    plain = moe_sort(ids, routes, 4, unit=16, expert_mask=np.array([0, 1, 1, 0]))
    large = moe_sort(ids, routes, 4, unit=16, expert_mask=np.array([0, 1 << 32, -(1 << 40), 0]))
    assert (plain.local, large.local) == (2, 2)
    assert np.array_equal(plain.places, large.places)
    assert (plain.places >= 0).sum() == 2


def test_arrays_of_two_libraries_are_refused(layers):
    torch = pytest.importorskip("torch", reason="mixes arrays of two libraries")
    x, ids, routes = (
        torch.ones(5, 64).half(),
        torch.zeros(5, 2, dtype=torch.int32),
        torch.ones(5, 2),
    )
    order = moe_sort(ids, routes, 4)
    for call in (
        lambda: fused_moe(x, *layers, routes, ids), lambda: fused_moe(X, *layers, routes, ids),
        lambda: moe_gemm1(x, layers[0], order), lambda: moe_gemm1(X, layers[0], order),
        lambda: moe_permute(X, order), lambda: moe_sort(ids, ROUTES, 4),
    ):  # fmt: skip
        with pytest.raises(FlyDSLError, match="another array library") as caught:
            call()
        assert caught.value.code == "FLY-U541"


def test_torch_follows_shapes_and_refuses_transformations(layers):
    torch = pytest.importorskip("torch", reason="asks PyTorch to follow shapes")
    meta = torch.ones(5, 8, device="meta")
    assert [t.shape for t in topk_gating(meta, 2)] == [(5, 2), (5, 2)]
    assert moe_reduce(torch.ones(5, 2, 64, device="meta")).shape == (5, 64)
    ids, routes = torch.zeros(5, 2, dtype=torch.int32), torch.ones(5, 2)
    assert moe_sort(ids.to("meta"), routes.to("meta"), 4).places.shape == (5, 2)
    order, x = moe_sort(ids, routes, 4), torch.ones(5, 64).half()
    for call in (
        lambda: torch.vmap(lambda t: topk_gating(t[None], 2))(torch.ones(5, 8)),
        lambda: moe_permute(x.to_sparse(), order),
    ):  # fmt: skip
        with pytest.raises(FlyDSLError, match="FLY-U547"):
            call()
    wanted = x.clone().requires_grad_()
    for call in (
        lambda: moe_permute(wanted, order), lambda: moe_quantise(wanted, format="fp8"),
        lambda: moe_reduce(wanted[:, None]),
    ):  # fmt: skip
        with pytest.raises(FlyDSLError, match="no gradient") as caught:
            call()
        assert caught.value.code == "FLY-U972"
        with torch.no_grad():
            call()


def test_element_types_by_any_name(layers):
    order = moe_sort(IDS, ROUTES, 4)
    for kind in (np.float32, np.dtype("f4"), "float32"):
        assert moe_gemm1(X, layers[0], order, dtype=kind).dtype == np.float32


@pytest.mark.parametrize("numbers", [
    {"limit": True}, {"name": ["silu"]}, {"name": np.ones(2)},
    {"name": "foo"}, {"name": None}, {"limit": "x"}, {"limit": float("nan")}, {"alpha": None},
    {"offset": float("inf")},
])  # fmt: skip
def test_activations(numbers):
    with pytest.raises(FlyDSLError) as caught:
        Activation(**numbers)
    assert caught.value.code == "FLY-C975"


def test_sizes_are_integers():
    logits = np.ones((5, 8), np.float32)
    for options in ({"k": 2.0}, {"k": "2"}, {"k": 2, "groups": (2.0, 1)}, {"k": 2, "scale": "a"},
                    {"k": 2, "groups": (2, 1.0)}):  # fmt: skip
        with pytest.raises(FlyDSLError):
            topk_gating(logits, **options)
    for experts, unit in (("8", 32), (None, 32), (8, 2.5), (8, "a")):
        with pytest.raises(FlyDSLError):
            moe_sort(IDS, ROUTES, experts, unit=unit)


def test_errors_of_launches_are_at_the_line_of_the_caller():
    for call in (
        lambda: topk_gating(np.ones((5, 8), np.float32), 2), lambda: moe_sort(IDS, ROUTES, 4),
    ):  # fmt: skip
        with config.scope(FLYDSL_TARGET="nonsense"), pytest.raises(TargetError) as caught:
            call()
        assert caught.value.location.file == __file__
