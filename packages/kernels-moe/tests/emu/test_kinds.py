"""Every argument of every public function, replaced by values that it does not take."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.testing.families import check_refusals
from flydsl_kernels import moe

pytestmark = [
    pytest.mark.usefixtures("gfx942"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]
X = np.ones((4, 64), np.float16)
IDS, ROUTES = np.zeros((4, 2), np.int32), np.ones((4, 2), np.float32)
GATES, DOWN = np.ones((4, 64, 64), np.float16), np.ones((4, 64, 32), np.float16)


def _calls():
    first = moe.prepare_experts(GATES, format="f16", gated=True)
    second = moe.prepare_experts(DOWN, format="f16")
    order = moe.moe_sort(IDS, ROUTES, 4, unit=16)
    yield moe.prepare_experts, {"w": GATES, "format": "f16", "gated": True, "scales": None,
                                "dtype": "float16"}  # fmt: skip
    yield moe.fused_moe, {
        "x": X, "w1": first, "w2": second, "topk_weights": ROUTES, "topk_ids": IDS,
        "activation": moe.Activation(), "expert_mask": np.ones(4, np.int32),
        "smooth": (None, None), "early_weights": False, "atomic": False, "unit": 16,
        "out": X.copy(),
    }  # fmt: skip
    yield moe.topk_gating, {
        "logits": np.ones((4, 8), np.float32), "k": 2, "scoring": "softmax", "renormalise": True,
        "bias": np.ones(8, np.float32), "groups": (2, 1), "scale": 1.0,
        "out": (ROUTES.copy(), IDS.copy()),
    }  # fmt: skip
    yield moe.moe_sort, {"ids": IDS, "weights": ROUTES, "experts": 4, "unit": 16,
                         "expert_mask": np.ones(4, np.int32),
                         "num_tokens": np.array([3], np.int32)}  # fmt: skip
    yield moe.moe_gemm1, {
        "x": X, "weights": first, "sorting": order, "x_scales": None,
        "activation": moe.Activation(), "weighted": False, "by_slot": False, "dtype": "float16",
        "out": np.ones((4, 2, 32), np.float16),
    }  # fmt: skip
    yield moe.moe_gemm2, {
        "h": np.ones((8, 32), np.float16), "weights": second, "sorting": order, "h_scales": None,
        "weighted": False, "atomic": False, "reduce": True, "dtype": "float16", "out": X.copy(),
    }  # fmt: skip
    entries = np.ones((int(order.ids.shape[0]), 64), np.float16)
    yield moe.moe_permute, {"x": X, "sorting": order, "out": entries}
    yield moe.moe_unpermute, {"rows": entries, "sorting": order, "weights": ROUTES,
                              "out": X.copy()}  # fmt: skip
    yield moe.moe_reduce, {"rows": np.ones((4, 2, 64), np.float16), "places": IDS,
                           "weights": ROUTES, "out": X.copy()}  # fmt: skip
    yield moe.moe_quantise, {"x": X, "format": "int8", "dtype": "float8_e4m3fn",
                             "ids": np.zeros((2, 2), np.int32), "by_slot": False,
                             "smooth": np.ones((4, 64), np.float32)}  # fmt: skip
    yield moe.Activation, {"name": "silu", "limit": None, "alpha": 1.0, "offset": 0.0}
    yield moe.ExpertWeights, {"weight": first.weight, "scales": None, "format": "f16",
                              "channels": 32, "k": 64, "gated": True, "group": 128}  # fmt: skip


@pytest.mark.parametrize("number", range(12))
def test_every_argument(number):
    function, good = list(_calls())[number]
    assert check_refusals(function, **good) > 10 * len(good)
