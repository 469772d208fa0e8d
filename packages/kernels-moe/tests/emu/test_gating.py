"""`topk_gating` against float64: which experts exactly, their weights within f32's error.

A weight is a quotient of exponentials (or a logistic function) of an f32 difference d. The error of
e^d is that of d log2(e), rounded once: |d| 2^-24, plus two units in the last place of the hardware
function; sums of k or E such terms and the quotient add less than log2(1024) + 3 units. With logits
in +-20 the sum stays below 64 units, 64 * 2^-24 relative.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import routing_reference as reference

from flydsl import config
from flydsl.errors import ConfigError, UserValueError
from flydsl_kernels.moe import topk_gating

BF16 = np.dtype(ml_dtypes.bfloat16)
BOUND = 64 * 2.0**-24


def check(logits, k, **options):
    weights, ids = topk_gating(logits, k, **options)
    expected, chosen = reference.gating(logits, k, **options)
    assert np.array_equal(ids, chosen)
    assert np.all(np.abs(weights - expected) <= BOUND * np.abs(expected) + 1e-38)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize(
    ("tokens", "experts", "k", "dtype"),
    [(129, 8, 2, np.float32), (17, 64, 6, BF16), (3, 128, 8, np.float16), (2, 1024, 16, BF16),
     (5, 7, 7, np.float32), (1, 1, 1, np.float32), (3, 100, 5, BF16)],
)  # fmt: skip
def test_random_logits(tokens, experts, k, dtype, scoring, gfx942):
    random = np.random.default_rng()
    logits = (4 * random.standard_normal((tokens, experts))).astype(dtype)
    check(logits, k, scoring=scoring)


@pytest.mark.parametrize(("experts", "k"), [(8, 2), (100, 5), (1024, 16)])
def test_on_other_architectures(experts, k, target):
    logits = np.random.default_rng().standard_normal((5, experts)).astype(BF16)
    check(logits, k)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_without_renormalising_and_with_a_factor(scoring, gfx942):
    logits = np.random.default_rng().standard_normal((9, 60)).astype(np.float32)
    check(logits, 4, scoring=scoring, renormalise=False, scale=2.5)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize(("experts", "groups"), [(256, (8, 4)), (64, (32, 3)), (60, (5, 2))])
@pytest.mark.parametrize("biased", [False, True])
def test_groups_and_bias(experts, groups, biased, scoring, gfx942):
    random = np.random.default_rng()
    logits = random.standard_normal((6, experts)).astype(np.float32)
    bias = random.standard_normal(experts).astype(np.float32) if biased else None
    check(logits, 6, scoring=scoring, bias=bias, groups=groups, scale=1.5)


def test_equal_logits_choose_the_first(wide_and_narrow):
    logits = np.random.default_rng().integers(0, 3, (21, 96)).astype(np.float32)
    logits[0] = 0.0
    logits[0, ::2] = -0.0
    check(logits, 8)


def test_nan_and_infinities(gfx942):
    logits = np.random.default_rng().standard_normal((6, 40)).astype(np.float32)
    logits[0, [3, 9]] = np.nan
    logits[1] = np.nan
    logits[2, [5, 30]] = np.inf
    logits[3] = -np.inf
    logits[4, 4:] = np.nan
    logits[5, 7:] = -np.inf
    for scoring in ("softmax", "sigmoid"):
        for renormalise in (True, False):
            check(logits, 6, scoring=scoring, renormalise=renormalise)
    bias = np.zeros(40, np.float32)
    bias[3] = 100
    _, ids = topk_gating(logits[:1], 4, bias=bias)
    assert 3 not in ids


def test_rows_apart_and_outputs_given(gfx942):
    random = np.random.default_rng()
    wide = random.standard_normal((5, 100)).astype(np.float32)
    logits = wide[:, 10:42]
    out = np.full((7, 3), np.nan, np.float32), np.full((7, 3), -7, np.int32)
    topk_gating(logits, 3, out=(out[0][1:6], out[1][1:6]))
    expected, chosen = reference.gating(logits, 3)
    assert np.array_equal(out[1][1:6], chosen)
    assert np.allclose(out[0][1:6], expected, rtol=BOUND)
    assert (out[1][[0, 6]] == -7).all()
    assert np.isnan(out[0][[0, 6]]).all()
    assert topk_gating(logits[:0], 3)[0].shape == (0, 3)


def test_refusals(gfx942):
    x = np.zeros((2, 32), np.float32)
    for options in ({"k": 17}, {"k": 0}, {"k": 4, "groups": (5, 1)}, {"k": 9, "groups": (8, 2)},
                    {"k": 2, "scoring": "relu"}, {"k": 2, "scale": float("nan")}):  # fmt: skip
        with pytest.raises(ConfigError):
            topk_gating(x, **options)
    with pytest.raises(ConfigError):
        topk_gating(np.zeros((2, 1025), np.float32), 2)
    with pytest.raises(ConfigError):
        topk_gating(x.astype(np.float64), 2)
    with pytest.raises(UserValueError):
        topk_gating(x[0], 2)
    with pytest.raises(UserValueError):
        topk_gating(x, 2, bias=np.zeros(31, np.float32))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_random_logits_of_many_sizes(target):
    random = np.random.default_rng()
    for experts in (2, 4, 15, 16, 17, 33, 63, 65, 255, 257, 384, 511, 896, 1023):
        for k in (1, 2, min(experts, 13), min(experts, 16)):
            with config.scope(FLYDSL_TARGET=target):
                check((3 * random.standard_normal((19, experts))).astype(BF16), k)
