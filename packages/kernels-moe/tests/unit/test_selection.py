"""Problems, plans and the orders of weights, without a compiler."""

from __future__ import annotations

import random

import numpy as np
import pytest

from flydsl.errors import ConfigError
from flydsl_kernels.moe import prepare_experts
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.ops.layer import tokens_at_once, unit_for
from flydsl_kernels.moe.ops.parts import blocks_of_channels
from flydsl_kernels.moe.plans import GemmPlan
from flydsl_kernels.moe.problem import GatingProblem, SortProblem
from flydsl_kernels.moe.selection import select_gating, select_sort


def test_the_capacity_is_what_the_worst_routing_needs():
    for _ in range(300):
        tokens, slots, experts = (random.randint(1, 12) for _ in range(3))
        unit = random.choice((1, 3, 8, 32))
        problem = SortProblem(tokens, slots, experts, unit)
        counts = [0] * experts
        for _ in range(problem.pairs):
            counts[random.randrange(experts)] += 1
        needed = sum(-(-count // unit) * unit for count in counts)
        assert needed <= problem.capacity
        assert needed // unit <= problem.blocks
    worst = SortProblem(4, 1, 8, 16)  # four experts with one pair each
    assert worst.capacity == 64


def test_counts_of_sorting_fit_local_data_share():
    for experts in (1, 2, 8, 100, 256, 257, 512, 513, 1024):
        for tokens in (1, 100, 5000):
            plan = select_sort(SortProblem(tokens, 8, experts, 32))
            assert plan.block % 64 == 0
            assert plan.block // 32 * experts * 4 <= 32768


def test_every_expert_of_gating_has_a_lane():
    for experts in range(1, 1025):
        plan = select_gating(GatingProblem(1, experts, 1, "float32"))
        assert plan.lanes * plan.each >= experts
        assert plan.lanes in (16, 32)


@pytest.mark.parametrize("name", FORMATS)
def test_lanes_multiply_every_column_once(name):
    """The pieces of all chunks and quarters of a wave are the whole row of a step."""
    for modern in (False, True):
        plan = GemmPlan(name, 16, 1, "token", modern=modern)
        pieces = [p for c in range(plan.chunks) for g in range(4) for p in plan.pieces(c, g)]
        assert sorted(pieces) == list(range(FORMATS[name].pieces))
        for chunk in range(plan.chunks):  # the address of a piece is linear in the quarter
            zero, one = plan.pieces(chunk, 0), plan.pieces(chunk, 1)
            for quarter in range(4):
                steps = [p + quarter * (q - p) for p, q in zip(zero, one, strict=True)]
                assert tuple(steps) == plan.pieces(chunk, quarter)


def test_heights_of_tiles_and_launches():
    assert [unit_for(pairs, 8) for pairs in (1, 128, 129, 256, 512, 513)] == [
        16, 16, 32, 32, 64, 128,
    ]  # fmt: skip
    one = prepare_experts(np.zeros((2, 256, 64), np.float16), format="f16", gated=True)
    two = prepare_experts(np.zeros((2, 64, 128), np.float16), format="f16")
    assert [blocks_of_channels(one, unit) for unit in (16, 32, 64, 128)] == [2, 2, 2, 1]
    assert [blocks_of_channels(two, unit) for unit in (16, 64, 128)] == [1, 1, 1]
    tokens = tokens_at_once((one, two), 8)
    assert tokens * 8 * 128 * 2 < 1 << 32 < 2 * tokens * 8 * (128 * 2 + 16)


def test_padding_keeps_gates_and_gated_rows_apart():
    w = np.arange(1, 2 * 20 * 24 + 1, dtype=np.float16).reshape(1, 40, 24) % 512
    layer = prepare_experts(w, format="f16", gated=True)
    plain = layer.weight.unshuffled()[0]
    assert plain.shape == (64, 64)
    assert np.array_equal(plain[:20, :24], w[0, :20])
    assert np.array_equal(plain[32:52, :24], w[0, 20:])
    assert not plain[20:32].any()
    assert not plain[:, 24:].any()


def test_refusals():
    for bad in ((1 << 24, 1, 8, 32), (4, 128, 8, 32), (4, 2, 0, 32), (4, 2, 8, 2000)):
        with pytest.raises(ConfigError):
            SortProblem(*bad)
    with pytest.raises(ConfigError):
        GatingProblem(1, 64, 4, "float32", groups=64)
    with pytest.raises(ConfigError):
        prepare_experts(np.zeros((2, 130, 128), np.int8), format="bf16_int4",
                        scales=np.zeros((2, 130, 3), np.float32))  # fmt: skip
