"""What is kept between calls says nothing about arguments that are only equal to earlier ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from flydsl import config
from flydsl.errors import ConfigError, UserError
from flydsl_kernels.moe import Activation, moe_gemm1, moe_sort, prepare_experts, topk_gating
from flydsl_kernels.moe.device import gating, grouped, sorting
from flydsl_kernels.moe.plans import GemmPlan, gemm_plan
from flydsl_kernels.moe.problem import gating_problem

LOGITS = np.ones((6, 64), np.float32)


@pytest.fixture(autouse=True)
def _gfx942():
    with config.scope(FLYDSL_TARGET="gfx942", FLYDSL_DEVICE="emu"):
        yield


@pytest.fixture
def chosen(monkeypatch):
    """Return a function that calls `topk_gating` and returns the plan of the launch."""
    plans = []
    monkeypatch.setattr(gating, "launch_gating", lambda *given: plans.append(given[5]))

    def plan_of(logits=LOGITS, k=4, **options):
        topk_gating(logits, k, **options)
        return plans.pop()

    return plan_of


def test_plans_of_gating_are_of_the_call(chosen):
    bias, half = np.ones(64, np.float32), LOGITS.astype(np.float16)
    for _ in range(2):
        assert math.copysign(1, chosen(scale=0.0).scale) == 1
        assert math.copysign(1, chosen(scale=-0.0).scale) == -1
        assert repr(chosen(scale=1)) == repr(chosen(scale=1.0)) == repr(chosen(k=np.int64(4)))
        assert chosen(k=3).chosen == 3
        assert chosen(scoring="sigmoid").scoring == "sigmoid"
        assert chosen(renormalise=False).renormalise is False
        assert chosen(renormalise=np.True_).renormalise is True
        assert chosen(bias=bias).biased
        assert chosen(groups=(8, 2)).groups == 8
        assert chosen(groups=[4, 2]).top_groups == 2
        assert chosen(LOGITS[:, :32]).experts == 32
        assert chosen(half) is chosen(torch.from_numpy(half)) is chosen(LOGITS[:2])


def test_gating_refuses_what_equals_an_earlier_argument(chosen):
    assert chosen(k=1).chosen == 1
    for wrong in ({"k": True}, {"k": 1.0}, {"k": [1]}, {"scale": True}, {"scale": "1.0"},
                  {"renormalise": 1}, {"groups": (True, 1)}, {"groups": (1.0, 1)},
                  {"scoring": ["softmax"]}):  # fmt: skip
        with pytest.raises(UserError):
            chosen(**{"k": 1, **wrong})
    for wrong in ({"k": 17}, {"scale": math.nan}, {"scale": math.inf}, {"scoring": "tanh"}):
        for _ in range(2):
            with pytest.raises(ConfigError):
                chosen(**wrong)
    with pytest.raises(ConfigError):
        chosen(LOGITS.astype(np.float64))
    assert gating_problem(1, 8, 2, "float32", "softmax", True, False, 1, 1, 1.0) is gating_problem(
        1, 8, 2, "float32", "softmax", True, False, 1, 1, 1.0
    )


@pytest.mark.parametrize("out", ["weights", "ids"])
def test_results_that_are_given_are_checked_beside_new_ones(out, chosen):
    chosen()
    weights, ids = np.zeros((6, 4), np.float32), np.zeros((6, 4), np.int32)
    chosen(out=(weights, ids))
    wrong = (weights.T.copy().T, ids) if out == "weights" else (weights, ids[:, ::-1])
    with pytest.raises(UserError):
        chosen(out=wrong)


def test_plans_of_products_tell_numbers_apart_that_are_equal():
    more = "bf16", 16, 2, "token", True
    activations = [
        None,
        *(Activation(offset=offset) for offset in (0.0, -0.0, 0)),
        *(Activation(alpha=alpha) for alpha in (1, 1.0, np.float32(1), np.float64(1))),
        *(Activation(limit=limit) for limit in (None, 0, 0.0)),
        Activation("gelu"),
    ]
    for _ in range(2):
        for activation in activations:
            plan = gemm_plan(activation, *more)
            assert repr(plan) == repr(GemmPlan(*more[:4], activation, True))
            assert plan is gemm_plan(activation, *more)
    assert gemm_plan(None, *more[:4], False).weighted is False
    assert gemm_plan(None, *more[:4], 0).weighted == 0


def test_sizes_and_plans_of_products_are_of_the_call(monkeypatch):
    """Rows, weights and orders of other sizes and types one after the other."""
    found = []
    monkeypatch.setattr(grouped, "launch_grouped", lambda *given: found.append(given[2:4]))
    monkeypatch.setattr(sorting, "launch_sort", lambda *_: None)
    for _ in range(2):
        for tokens, slots, k in ((5, 2, 64), (6, 2, 64), (5, 3, 64), (5, 2, 128)):
            weights = np.ones((tokens, slots), np.float32)
            order = moe_sort(np.zeros((tokens, slots), np.int32), weights, 4, unit=16)
            w = prepare_experts(np.ones((4, 64, k), np.float16), format="f16", gated=True)
            for by_slot in (False, True):
                rows = tokens * slots if by_slot else tokens
                moe_gemm1(np.ones((rows, k), np.float16), w, order, by_slot=by_slot)
                sizes, plan = found.pop()
                assert (sizes.tokens.value, sizes.slots.value) == (tokens, slots)
                assert (sizes.row_bytes.value, sizes.a_bytes.value) == (2 * k, 2 * k * rows)
                assert sizes.expert_bytes.value == w.weight.n * w.weight.k * 2
                assert (plan.source, plan.tile_m) == ("slot" if by_slot else "token", 16)
                assert plan.ragged_k == (k * 2 % w.numbers.row_bytes != 0)


def test_what_a_product_is_not_written_in_is_refused_for_new_results_too():
    """Nothing was given for the result, whose type is that of the activations."""
    from flydsl_kernels.moe.arguments import written

    with pytest.raises(UserError) as caught:
        written(None, (2, 2), "float64", LOGITS, dtypes=("float32",))
    assert caught.value.code == "FLY-U543"
    assert written(None, (2, 2), "float32", LOGITS).shape == (2, 2)
