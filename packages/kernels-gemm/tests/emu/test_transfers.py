"""Products whose tiles the tensor data mover brings to LDS, against float64, sanitized."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import After, check, operand, padded, product

import flydsl.compiler as flyc
import flydsl_emu
from flydsl import config
from flydsl.errors import ConfigError
from flydsl_kernels.gemm import GemmConfig, GemmProblem, Operand, gemm, grouped_gemm, plan_gemm
from flydsl_kernels.gemm.device.dense import launch_dense
from flydsl_kernels.gemm.device.epilogue import Extras
from flydsl_kernels.gemm.rules import derive
from flydsl_rocdl.arch import KNOWN

ARCH = "gfx1250"
CASES = [
    ("nt", (70, 136, 200), (64, 128, 64, 2, 2), "bfloat16", {}),
    ("nt", (17, 33, 75), (16, 64, 32, 1, 4), "float16", {}),
    ("nn", (17, 74, 328), (16, 64, 64, 1, 4), "float16", {}),
    ("tt", (40, 66, 24), (32, 64, 32, 2, 2), "bfloat16", {}),
    ("nt", (1, 1, 1), (32, 64, 32, 2, 2), "bfloat16", {}),
    ("nt", (33, 65, 330), (32, 64, 64, 2, 2), "bfloat16", {"split_k": 3}),
    ("nt", (40, 70, 300), (32, 64, 64, 2, 2), "float16", {"streams": 7}),
    ("nt", (20, 70, 200), (16, 64, 128, 1, 2), "float8_e4m3fn", {}),
]


@pytest.fixture(autouse=True)
def _gfx1250():
    with config.scope(FLYDSL_TARGET=ARCH):
        yield


@pytest.mark.parametrize(("layout", "extents", "tile", "name", "more"), CASES, ids=str)
def test_products(layout, extents, tile, name, more):
    random = np.random.default_rng()
    m, n, k = extents
    a, b = operand(random, (m, k), name), operand(random, (k, n), name)
    given = [padded(x) for x in (a if layout[0] == "n" else a.T.copy(),
                                 b if layout[1] == "n" else b.T.copy())]  # fmt: skip
    chosen = GemmConfig(*tile, direct=True, **more)
    with flydsl_emu.sanitize():
        got = gemm(*given, layout=layout, config=chosen, out_dtype="float32")
    check(got, *product(a, b, After(), "float32", chosen.split_k + bool(chosen.streams)))


def test_batches_and_groups():
    random = np.random.default_rng()
    a, b = operand(random, (2, 19, 72), "bfloat16"), operand(random, (2, 72, 40), "bfloat16")
    given = padded(a, (3, 5, 2)), padded(b.transpose(0, 2, 1), (1, 7, 3))
    got = gemm(*given, config=GemmConfig(32, 64, 32, 2, 2, direct=True), out_dtype="float32")
    check(got, *product(a, b, After(), "float32"))
    ends = np.array([7, 7, 38], np.int32)
    rows = a.reshape(38, 72)
    weights = operand(random, (3, 40, 72), "bfloat16")
    chosen = GemmConfig(32, 64, 32, 2, 2, direct=True)
    got = grouped_gemm(rows, weights, ends, config=chosen, out_dtype="float32")
    for group, (first, last) in enumerate(zip((0, 7, 7), ends, strict=True)):
        part = product(rows[first:last], weights[group].T, After(), "float32")
        check(got[first:last], *part)


def test_the_instructions_and_the_banks():
    chosen = plan_gemm(GemmProblem(4096, 4096, 4096), ARCH).best.config
    assert chosen.direct
    random = np.random.default_rng()
    m, n, k = chosen.tile_m, chosen.tile_n, 2 * chosen.tile_k
    a, b = operand(random, (m, k), "bfloat16"), operand(random, (n, k), "bfloat16")
    with flydsl_emu.collect() as reports:
        got = gemm(a, b, config=chosen, out_dtype="float32")
    check(got, *product(a, b.T, After(), "float32"))
    assert all(t.conflict_ratio == 1.0 for t in reports[0].traffic if t.space == "lds")
    plan = derive(GemmProblem(m, n, k, out_dtype="float32"), KNOWN[ARCH], chosen)
    c = got[None]
    given = a[None], b[None], c, Extras(c, c, c, c, c), plan, None
    text = flyc.compile(launch_dense, *given).isa
    assert text.count("tensor_load_to_lds") == 4
    assert "s_wait_tensorcnt" in text
    assert "ds_store" not in text
    assert "buffer_load" not in text
    assert "saveexec" not in text


@pytest.mark.parametrize(("values", "tile", "rule"), [
    ({"a": Operand(False), "b": Operand(False)}, (64, 64, 64, 2, 2), "k is contiguous"),
    ({}, (16, 512, 64, 1, 32), "share the tensor transfers"),
    ({}, (512, 640, 128, 4, 4), "fit the LDS"),
])  # fmt: skip
def test_what_transfers_need(values, tile, rule):
    with pytest.raises(ConfigError, match=rule):
        derive(GemmProblem(300, 300, 320, **values), KNOWN[ARCH], GemmConfig(*tile, direct=True))
