"""Every shipped tile computes what it should, and its LDS accesses have no bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import After, check, fp8, operand, product

import flydsl_emu
from flydsl import config
from flydsl_kernels.gemm import GemmConfig, GemmProblem, gemm, plan_gemm
from flydsl_kernels.gemm.planning import TILES
from flydsl_kernels.gemm.problem import Operand


def run(tile, arch, layout="nt", row=128, name="bfloat16"):
    """Multiply with a tile, at extents that its last workgroups do not fill."""
    random = np.random.default_rng()
    tile_m, tile_n, waves_m, waves_n = tile
    chosen = GemmConfig(tile_m, tile_n, row // (2 if name == "bfloat16" else 1), waves_m, waves_n)
    m, n, k = tile_m + 3, tile_n + 8, 2 * chosen.tile_k + 8
    k = k if name == "bfloat16" else k + 8
    a, b = operand(random, (m, k), name), operand(random, (k, n), name)
    given = [a if layout[0] == "n" else a.T.copy(), b if layout[1] == "n" else b.T.copy()]
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.collect() as reports:
        got = gemm(*given, layout=layout, config=chosen, out_dtype="float32")
    check(got, *product(a, b, After(), "float32"))
    return reports[0]


@pytest.mark.parametrize(("layout", "extents", "tile"), [
    ("nt", (70, 136, 200), (64, 128, 64, 2, 2)), ("nn", (17, 74, 328), (16, 64, 64, 1, 4)),
    ("tt", (72, 136, 256), (64, 128, 64, 2, 2)), ("tn", (70, 132, 50), (64, 128, 32, 2, 2)),
])  # fmt: skip
def test_loads_into_local_data_share(layout, extents, tile):
    """Of operands whose k is contiguous, and of those that LDS reads transpose."""
    random = np.random.default_rng()
    m, n, k = extents
    a, b = operand(random, (m, k), "bfloat16"), operand(random, (k, n), "bfloat16")
    given = [a if layout[0] == "n" else a.T.copy(), b if layout[1] == "n" else b.T.copy()]
    with config.scope(FLYDSL_TARGET="gfx950"), flydsl_emu.sanitize():
        got = gemm(
            *given, layout=layout, config=GemmConfig(*tile, direct=True), out_dtype="float32"
        )
    check(got, *product(a, b, After(), "float32"))


def legal_tiles():
    """Return (architecture, tile) of shipped tiles with rows of 64 bytes, where that is legal."""
    for arch in ("gfx942", "gfx1201"):
        found = {
            (c.config.tile_m, c.config.tile_n)
            for c in plan_gemm(GemmProblem(999, 999, 999, out_dtype="float32"), arch).candidates
            if c.config.tile_k == 32
        }
        yield from ((arch, tile) for tile in TILES if tile[:2] in found)


@pytest.mark.parametrize(("arch", "tile"), list(legal_tiles()), ids=str)
def test_tiles(arch, tile):
    """Results are right, nothing spills, and registers were not estimated too low."""
    report = run(tile, arch, row=64)
    problem = GemmProblem(999, 999, 999, out_dtype="float32")
    candidates = plan_gemm(problem, arch, split_k=1).candidates
    (predicted,) = {
        c.registers
        for c in candidates
        if (c.config.tile_m, c.config.tile_n, c.config.tile_k, c.config.streams)
        == (*tile[:2], 32, 0)
    }
    assert report.resources.scratch_bytes == 0
    assert report.vgprs <= 1.1 * predicted


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("layout", ["nt", "tn", "nn"])
def test_tiles_of_every_layout(layout, tile, target):
    for row in (64, 128, 256):
        extents = tile[0] + 3, tile[1] + 8, 1000
        problem = GemmProblem(
            *extents, a=Operand(layout[0] == "n"), b=Operand(layout[1] == "t"),
            out_dtype="float32",
        )  # fmt: skip
        legal = {
            (c.config.tile_m, c.config.tile_n, c.config.tile_k)
            for c in plan_gemm(problem, target, split_k=1).candidates
        }
        if (tile[0], tile[1], row // 2) in legal:
            run(tile, target, layout, row)


@pytest.mark.parametrize(("arch", "layout", "name"), [
    ("gfx942", "nt", "bfloat16"), ("gfx942", "tn", "bfloat16"), ("gfx942", "nt", "fp8"),
    ("gfx950", "nt", "bfloat16"), ("gfx950", "nt", "fp8"), ("gfx950", "tn", "bfloat16"),
    ("gfx1201", "nt", "bfloat16"), ("gfx1100", "tn", "bfloat16"), ("gfx1250", "nt", "bfloat16"),
])  # fmt: skip
def test_local_data_share_has_no_bank_conflicts(arch, layout, name):
    report = run((64, 128, 2, 2), arch, layout, name=fp8(arch) if name == "fp8" else name)
    traffic = [t for t in report.traffic if t.space == "lds"]
    assert {t.direction for t in traffic} == {"read", "write"}
    assert [t.conflict_ratio for t in traffic] == [1.0, 1.0]


@pytest.mark.parametrize(("arch", "extents", "tile", "workers"), [
    ("gfx942", (70, 136, 200), (64, 64, 32, 2, 2), 14),
    ("gfx950", (33, 64, 648), (64, 64, 64, 2, 2), 5),
    ("gfx1201", (17, 200, 320), (16, 64, 64, 1, 4), 19),
])  # fmt: skip
def test_steps_shared_evenly_by_all_workgroups(arch, extents, tile, workers):
    """Tiles that end within a workgroup's steps, or take several, or none; in a fixed order."""
    random = np.random.default_rng()
    m, n, k = extents
    a, b = operand(random, (2, m, k), "bfloat16"), operand(random, (2, n, k), "bfloat16")
    bias = random.standard_normal(n).astype(np.float32)
    chosen = GemmConfig(*tile, direct=arch == "gfx950", streams=workers)
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        got, again = (
            gemm(a, b, bias=bias, activation="relu", config=chosen, out_dtype="float32")
            for _ in range(2)
        )
    after = After(bias=bias, activation="relu")
    check(got, *product(a, np.swapaxes(b, 1, 2), after, "float32", workers))
    assert np.array_equal(got, again)


@pytest.mark.parametrize("layout", ["nn", "tn"])
@pytest.mark.parametrize("out", ["float32", "float16"])
def test_reads_that_transpose(out, layout):
    """Rows of odd lengths, last columns that no load has whole, tiles of all widths of rows."""
    random = np.random.default_rng()
    for (m, n, k), tile in (
        ((17, 73, 50), (16, 64, 64, 1, 4)), ((33, 130, 96), (32, 128, 32, 1, 4)),
        ((70, 250, 72), (64, 256, 32, 1, 4)),
    ):  # fmt: skip
        a, b = operand(random, (m, k), "float16"), operand(random, (k, n), "float16")
        given = a if layout[0] == "n" else a.T.copy()
        with config.scope(FLYDSL_TARGET="gfx950"), flydsl_emu.sanitize():
            got = gemm(given, b, layout=layout, config=GemmConfig(*tile), out_dtype=out)
        check(got, *product(a, b, After(), out))
