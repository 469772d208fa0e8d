"""Every argument of every public function, replaced by values that it does not take."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.testing.families import check_refusals
from flydsl_kernels import norm

pytestmark = [
    pytest.mark.usefixtures("gfx942"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]
X = np.ones((4, 64), np.float16)
ROW = np.ones(64, np.float32)


def _calls():
    more = {"weight": ROW, "eps": 1e-6}
    small = np.ones((4, 64), np.int8), np.ones(4, np.float32)
    yield norm.rmsnorm, {"x": X, **more, "out": X.copy(), "stream": None}
    yield norm.layernorm, {"x": X, **more, "bias": ROW, "out": X.copy()}
    yield norm.softmax, {"x": X, "axis": -1, "out": X.copy()}
    yield norm.log_softmax, {"x": X, "axis": 1}
    both = {"out": X.copy(), "residual_out": X.copy()}
    yield norm.fused_add_rmsnorm, {"x": X, "residual": X, **more, **both}
    yield norm.fused_add_layernorm, {"x": X, "residual": X, **more, "bias": ROW}
    yield norm.rmsnorm_quantised, {"x": X, **more, "dtype": "int8", "smooth": ROW, "out": small}
    yield norm.layernorm_quantised, {"x": X, **more, "bias": ROW, "dtype": norm.QuantFormat()}
    yield norm.fused_add_rmsnorm_quantised, {"x": X, "residual": X, **more, "dtype": "int8"}
    yield norm.fused_add_layernorm_quantised, {"x": X, "residual": X, "bias": ROW, "smooth": ROW}
    yield norm.QuantFormat, {"dtype": "int8", "group": 0, "scale_dtype": "float32"}


@pytest.mark.parametrize("number", range(11))
def test_every_argument(number):
    function, good = list(_calls())[number]
    assert check_refusals(function, **good) > 10 * len(good)
