"""Searching for the fastest configuration of a product."""

from __future__ import annotations

import numpy as np
from product_reference import After, check, operand, product

from flydsl import config
from flydsl.plugins.manager import plugin_manager
from flydsl_kernels.gemm import GemmConfig, GemmProblem, choices, plan_gemm
from flydsl_kernels.gemm.choices import plan_of, text_of
from flydsl_kernels.gemm.rules import derive
from flydsl_kernels.gemm.tuning import tuned_gemm
from flydsl_rocdl.arch import lookup


def test_the_hook_lists_what_the_plan_predicts():
    problem = GemmProblem(64, 256, 512)
    ask = plugin_manager().hook.flydsl_tuning_space
    found = ask(kernel="gemm", problem=problem, target="gfx942")
    best = plan_gemm(problem, "gfx942").candidates
    assert [GemmConfig(**dict(c.values)) for c in found] == [c.config for c in best[: len(found)]]
    assert ask(kernel="other", problem=problem, target="gfx942") is None
    assert ask(kernel="gemm", problem="64 x 256", target="gfx942") is None


def test_a_configuration_survives_as_text():
    problem = GemmProblem(64, 256, 500, activation="relu")
    chosen = plan_gemm(problem, "gfx942").best.config
    text = text_of(problem, "gfx942", chosen)
    assert plan_of(text) == derive(problem, lookup("gfx942"), chosen)


def test_the_winner_computes_the_product(gfx942, tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "_MOST", 3)
    random = np.random.default_rng()
    a, b = operand(random, (1, 16, 64), "float16"), operand(random, (1, 64, 64), "float16")
    c = np.zeros((1, 16, 64), np.float32)
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=tmp_path):
        tuned_gemm(a, b, c, None)
        chosen = tuned_gemm.resolve_config(a, b, c, None)
    check(c, *product(a, b.transpose(0, 2, 1), After(), "float32"))
    assert plan_of(chosen.values["choice"]).config.tile_m >= 16
