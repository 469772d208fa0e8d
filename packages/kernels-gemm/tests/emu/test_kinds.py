"""Every argument of every public function, replaced by values that it does not take."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.testing.families import check_refusals
from flydsl_kernels import gemm

pytestmark = [
    pytest.mark.usefixtures("gfx942"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]
X = np.ones((4, 64), np.float16)
ROW = np.ones(64, np.float32)


def _calls():
    b, rows = np.ones((32, 64), np.float16), np.ones(32, np.float32)
    options = {
        "out": np.ones((4, 32), np.float16), "bias": rows, "activation": "relu",
        "residual": np.ones((4, 32), np.float32), "scale_a": 1.0, "scale_b": rows,
        "out_dtype": "float16", "layout": "nt", "config": None, "stream": None,
    }  # fmt: skip
    yield gemm.gemm, {"a": X, "b": b, **options, "scale_out": None, "split_k": 1}
    yield gemm.gemm, {"a": X, "b": gemm.preshuffle_b(b), **options}
    grouped = {**options, "bias": rows[None], "scale_b": rows[None]}
    ends = np.array([4], np.int32)
    yield gemm.grouped_gemm, {"a": X, "b": b[None], "ends": ends, **grouped}
    kinds = {"dtype": "float16", "b_dtype": "float16", "out_dtype": "float32"}
    where = dict.fromkeys("abc", gemm.Operand())
    flags = {"activation": "", "bias": False, "residual": False, "scaling": gemm.Scaling()}
    yield gemm.GemmProblem, {"m": 4, "n": 8, "k": 16, "batch": 1, **kinds, **where, **flags}
    problem = gemm.GemmProblem(4, 8, 16)
    yield gemm.plan_gemm, {"problem": problem, "target": "gfx942", "split_k": 1}
    yield gemm.Operand, {"k_major": True, "leading": 0, "alignment": 4, "order": ""}
    yield gemm.Scaling, {"a": "row", "b": "tensor", "out": ""}
    tile = {"tile_m": 16, "tile_n": 64, "tile_k": 64, "waves_m": 1, "waves_n": 4, "direct": False}
    yield gemm.GemmConfig, tile
    yield gemm.preshuffle_b, {"b": b, "layout": "16x16", "dtype": "float16", "scales": None,
                              "arch": "gfx942"}  # fmt: skip
    yield gemm.PreshuffledWeight, {"layout": "16x16", "dtype": "float16", "n": 32, "k": 64,
                                   "data": b, "batch": None, "scales": None, "arch": None,
                                   "scale_layout": ""}  # fmt: skip
    sizes = {"N": 64, "K": 256, "tile_m": 32, "tile_n": 64, "tile_k": 64}
    how = {
        "in_dtype": "bf16", "out_dtype": "bf16", "epilogue": "none", "waves_per_eu": 2,
        "enable_scheduler": True, "use_async_copy": False, "xcd_swizzle": 0, "lds_stage": 2,
        "preload": None,
    }  # fmt: skip
    yield gemm.compile_preshuffle_gemm, {**sizes, **how}
    yield gemm.compile_mx_gemm, {"N": 128, "K": 256, "tile": (64, 128, 256), "a_dtype": "fp4",
                                 "b_dtype": "fp4", "out_dtype": "bf16", "waves_per_eu": None,
                                 "xcd_swizzle": 0}  # fmt: skip
    yield gemm.compile_fp8_gemm, {"M": 4, "N": 64, "K": 64, "tile_m": 32, "tile_n": 64,
                                  "tile_k": 32, "k_unroll": 2, "group_m": 8}  # fmt: skip


@pytest.mark.parametrize("number", range(13))
def test_every_argument(number):
    function, good = list(_calls())[number]
    assert check_refusals(function, **good) > 10 * len(good)
