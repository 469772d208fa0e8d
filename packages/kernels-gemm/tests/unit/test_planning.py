"""Problems, legal configurations and predictions."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from flydsl.errors import ConfigError, TargetError, UserTypeError
from flydsl_kernels.gemm import GemmConfig, GemmProblem, Operand, Scaling, plan_gemm
from flydsl_kernels.gemm.device_figures import FIGURES
from flydsl_kernels.gemm.planning import TILES
from flydsl_kernels.gemm.rules import derive
from flydsl_rocdl.arch import KNOWN

GOOD = GemmConfig(64, 64, 64, 2, 2)


@pytest.mark.parametrize("arch", KNOWN)
def test_every_architecture_has_configurations_best_first(arch):
    choice = plan_gemm(GemmProblem(4096, 4096, 4096), arch)
    times = [c.seconds for c in choice.candidates]
    assert times == sorted(times)
    assert choice.best is choice.candidates[0]
    for item in choice.candidates:
        assert item.seconds >= item.roofline > 0
        assert 0 < item.lds_bytes <= KNOWN[arch].lds.capacity
        assert 1 <= item.waves_per_simd <= KNOWN[arch].max_waves_per_simd
        derive(choice.problem, KNOWN[arch], item.config)
    lines = str(choice).splitlines()
    assert len(lines) == len(times) + 1
    assert KNOWN[arch].family in FIGURES


def test_the_shipped_tiles_are_all_legal_somewhere():
    found = {
        (c.config.tile_m, c.config.tile_n, c.config.waves_m, c.config.waves_n)
        for arch in KNOWN
        for c in plan_gemm(GemmProblem(512, 512, 512), arch).candidates
    }
    assert found == set(TILES)


def test_few_rows_get_small_tiles_and_long_k_is_split():
    few = plan_gemm(GemmProblem(1, 4096, 4096), "gfx942").best
    assert few.config.tile_m == 16
    long = plan_gemm(GemmProblem(64, 64, 65536), "gfx942").best
    assert long.config.split_k > 1
    many = plan_gemm(GemmProblem(8192, 8192, 8192), "gfx942").best
    assert many.config.tile_m * many.config.tile_n >= 128 * 128
    assert many.config.split_k == 1
    uneven = plan_gemm(GemmProblem(1000, 1000, 4096), "gfx942").candidates
    assert any(c.config.streams == c.workgroups == 304 for c in uneven)
    fixed = plan_gemm(GemmProblem(64, 64, 65536), "gfx942", split_k=5)
    assert {c.config.split_k for c in fixed.candidates} == {5}


@pytest.mark.parametrize(("arch", "changes", "code", "rule"), [
    ("gfx942", {"tile_m": 24}, "C920", "waves divide tile_m"),
    ("gfx942", {"waves_n": 3}, "C920", "waves divide tile_n"),
    ("gfx942", {"split_k": 0}, "C920", "split_k is at least 1"),
    ("gfx942", {"split_k": 999}, "C920", "split in few parts"),
    ("gfx942", {"tile_m": 512, "waves_m": 16, "tile_n": 512, "waves_n": 16}, "C920", "workgroup"),
    ("gfx942", {"streams": 24}, "C920", "as many as tiles"),
    ("gfx942", {"streams": 25, "split_k": 2}, "C920", "not split"),
    ("gfx942", {"tile_k": 48}, "C921", "power of two"),
    ("gfx942", {"tile_k": 16}, "C921", "power of two"),
    ("gfx942", {"tile_m": 96, "tile_k": 32}, "C922", "tile of A"),
    ("gfx942", {"tile_n": 96, "tile_k": 32}, "C922", "tile of B"),
    ("gfx942", {"tile_m": 256, "tile_k": 128}, "C923", "LDS of gfx942"),
    ("gfx1201", {"tile_m": 256, "tile_n": 256, "tile_k": 32}, "C924", "registers"),
])  # fmt: skip
def test_a_broken_rule_is_named(arch, changes, code, rule):
    values = {name: getattr(GOOD, name) for name in GOOD.__slots__}
    with pytest.raises(ConfigError, match=re.escape(rule)) as caught:
        derive(GemmProblem(300, 300, 300), KNOWN[arch], GemmConfig(**{**values, **changes}))
    assert caught.value.code == f"FLY-{code}"
    assert caught.value.allowed


def test_tiles_that_span_too_much_are_refused():
    far = Operand(True, 1 << 26)
    with pytest.raises(ConfigError, match="spans less than 2 GiB") as caught:
        derive(GemmProblem(64, 64, 64, a=far), KNOWN["gfx942"], GOOD)
    assert caught.value.code == "FLY-C925"
    # Fewer rows of a tile reach less far: 16 rows are 2 GiB too, 8 rows are not.
    with pytest.raises(ConfigError, match="no configuration is legal"):
        plan_gemm(GemmProblem(64, 64, 64, a=far), "gfx942")
    assert plan_gemm(GemmProblem(8, 64, 64, a=far), "gfx942").best


@pytest.mark.parametrize(("arch", "problem", "rule"), [
    ("gfx942", {}, "an architecture that has them"),
    ("gfx950", {"k": 300}, "rows of A of whole 16 bytes"),
    ("gfx950", {"a": Operand(False), "b": Operand(False), "dtype": "int8"}, "k is contiguous"),
])  # fmt: skip
def test_loads_into_lds_need_what_they_need(arch, problem, rule):
    values = {"m": 300, "n": 300, "k": 320, **problem}
    with pytest.raises(ConfigError, match=rule) as caught:
        derive(GemmProblem(**values), KNOWN[arch], replace(GOOD, direct=True))
    assert caught.value.code == "FLY-C927"


def test_blocks_of_scales_bound_tiles():
    scaling = Scaling("block", "block")
    problem = GemmProblem(64, 384, 256, "float8_e4m3fnuz", scaling=scaling)
    with pytest.raises(ConfigError) as caught:
        derive(problem, KNOWN["gfx942"], GemmConfig(64, 64, 256, 2, 2))
    assert caught.value.code == "FLY-C926"
    assert all(c.config.tile_k <= 128 for c in plan_gemm(problem, "gfx942").candidates)


@pytest.mark.parametrize(("change", "code"), [
    ({"m": -1}, "C910"), ({"k": 1 << 31}, "C910"), ({"activation": "tanh"}, "C912"),
    ({"dtype": "float64"}, "C915"), ({"b_dtype": "int8"}, "C915"), ({"out_dtype": "int16"}, "C916"),
    ({"out_dtype": "int32"}, "C916"), ({"scaling": Scaling("", "", "row")}, "C916"),
    ({"scaling": Scaling("block", "block", "")}, "C914"),
])  # fmt: skip
def test_problems_that_do_not_exist(change, code):
    with pytest.raises(ConfigError) as caught:
        GemmProblem(**{"m": 8, "n": 8, "k": 72, **change})
    assert caught.value.code == f"FLY-{code}"


@pytest.mark.parametrize(("kinds", "code"), [
    (("block", "row"), "C913"), (("rows", ""), "C911"), (("", "", "block"), "C911"),
])  # fmt: skip
def test_scales_that_do_not_exist(kinds, code):
    with pytest.raises(ConfigError) as caught:
        Scaling(*kinds)
    assert caught.value.code == f"FLY-{code}"


def test_alignments_are_powers_of_two():
    with pytest.raises(ConfigError) as caught:
        Operand(alignment=3)
    assert caught.value.code == "FLY-C911"


@pytest.mark.parametrize(("arch", "dtype"), [
    ("gfx1100", "float8_e4m3fn"), ("gfx942", "float8_e4m3fn"), ("gfx950", "float8_e4m3fnuz"),
])  # fmt: skip
def test_architectures_without_a_type_are_refused(arch, dtype):
    with pytest.raises(TargetError, match="no matrix instruction") as caught:
        plan_gemm(GemmProblem(8, 8, 8, dtype), arch)
    assert caught.value.code == "FLY-T910"
    assert "bfloat16" in str(caught.value.allowed)


def test_a_target_is_a_name_or_a_target():
    with pytest.raises(TargetError):
        plan_gemm(GemmProblem(8, 8, 8), "gfx000")
    with pytest.raises(UserTypeError):
        plan_gemm(GemmProblem(8, 8, 8), 942)


def test_orders_of_weights_are_planned_for_architectures_that_read_them():
    weights = Operand(order="rdna4_fp8")
    problem = GemmProblem(64, 64, 64, "float8_e4m3fn", b=weights)
    assert plan_gemm(problem, "gfx1201").best
    for arch in ("gfx950", "gfx1250"):
        with pytest.raises(ConfigError, match="an order that it reads") as caught:
            plan_gemm(problem, arch)
        assert "16x16" in str(caught.value.allowed)


@pytest.mark.parametrize(("change", "match"), [
    ({"a": Operand(order="16x16")}, "only B"),
    ({"n": 24, "b": Operand(order="16x16")}, "blocks of 16"),
    ({"dtype": "int8", "b": Operand(order="rdna4_fp8")}, "element type"),
])  # fmt: skip
def test_orders_of_weights_that_do_not_fit(change, match):
    with pytest.raises(ConfigError, match=match) as caught:
        GemmProblem(**{"m": 8, "n": 32, "k": 64, **change})
    assert caught.value.allowed


def test_an_unknown_order_of_weights():
    with pytest.raises(ConfigError, match="such order") as caught:
        Operand(order="32x32")
    assert "16x16" in str(caught.value.allowed)


def test_only_a_is_in_local_data_share_where_weights_are_rearranged():
    problem = GemmProblem(128, 128, 256, b=Operand(order="16x16"))
    plan = derive(problem, KNOWN["gfx1201"], GemmConfig(64, 128, 32, 2, 2))
    assert plan.lds_bytes == 2 * 64 * 64
    assert plan.b.pieces == 0
