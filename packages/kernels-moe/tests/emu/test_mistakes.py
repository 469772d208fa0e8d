"""Options that mixtures of experts do not take."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl import config
from flydsl.errors import FlyDSLError, TargetError
from flydsl_kernels.moe import (
    Activation,
    fused_moe,
    moe_gemm2,
    moe_sort,
    prepare_experts,
    topk_gating,
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


@pytest.mark.parametrize("numbers", [
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
