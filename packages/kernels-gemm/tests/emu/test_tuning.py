"""Searching for the fastest configuration of a product."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from product_reference import After, check, operand, product

from flydsl import config
from flydsl.plugins.manager import plugin_manager
from flydsl_kernels.gemm import GemmConfig, GemmProblem, choices, plan_gemm, preshuffle_b
from flydsl_kernels.gemm.choices import plan_of, text_of
from flydsl_kernels.gemm.rules import derive
from flydsl_kernels.gemm.tuning import tuned_gemm, tuned_mx_gemm, tuned_weighted_gemm
from flydsl_rocdl.arch import lookup
from flydsl_rocdl.kernels.preshuffle import preshuffle_scales


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


def test_weights_are_searched_for(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "_MOST", 2)
    random = np.random.default_rng()
    a, b = operand(random, (1, 16, 64), "float16"), operand(random, (1, 64, 64), "float16")
    data = preshuffle_b(b).data
    c = np.zeros((1, 16, 64), np.float32)
    with config.scope(FLYDSL_TARGET="gfx1201", FLYDSL_RUNTIME_CACHE_DIR=tmp_path):
        tuned_weighted_gemm(a, data, c, None)
        chosen = tuned_weighted_gemm.resolve_config(a, data, c, None)
    check(c, *product(a, b.transpose(0, 2, 1), After(), "float32"))
    assert plan_of(chosen.values["choice"]).b.order == "16x16"


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_products_with_shared_exponents_are_searched_for(arch, tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "_MOST", 2)
    random = np.random.default_rng()
    codes = [random.integers(0, 256, (1, rows, 128)).astype(np.uint8) for rows in (32, 64)]
    scales = [random.integers(120, 134, (1, rows, 8)).astype(np.uint8) for rows in (32, 64)]
    wide = []
    for packed, powers in zip(codes, scales, strict=True):
        both = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], 256)
        values = both.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        wide.append(values * np.repeat(np.exp2(powers - 127.0), 32, -1))
    given = [*codes, *scales]
    if arch == "gfx950":
        weight = preshuffle_b(codes[1], layout="fp4_16lane", dtype="float4_e2m1fn",
                              scales=scales[1])  # fmt: skip
        given = [codes[0], weight.data, preshuffle_scales(scales[0]), weight.scales]
    c = np.zeros((1, 32, 64), np.float32)
    with config.scope(FLYDSL_TARGET=arch, FLYDSL_RUNTIME_CACHE_DIR=tmp_path):
        tuned_mx_gemm(*given, c, None)
        chosen = tuned_mx_gemm.resolve_config(*given, c, None)
    check(c, *product(wide[0], wide[1].transpose(0, 2, 1), After(), "float32"))
    assert "shared" in chosen.values["choice"]
