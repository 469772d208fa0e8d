"""Arrays of all kinds of shapes and strides, outputs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import row_reference as reference
from row_reference import check

from flydsl.errors import ConfigError, UserError
from flydsl_kernels.norm import fused_add_rmsnorm, layernorm, log_softmax, rmsnorm, softmax

pytestmark = pytest.mark.usefixtures("gfx942")


def matrix(*shape, dtype=np.float32):
    return np.random.default_rng().standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("columns", [5, 300, 2100])
def test_rows_any_distance_apart_and_not_aligned(columns):
    wide, w = matrix(5, columns + 37, dtype=np.float16), matrix(columns)
    x = wide[:, 3 : 3 + columns]
    check(rmsnorm(x, w), *reference.rmsnorm(x, w, 1e-6, x.dtype))
    out = np.full((5, columns + 11), 7, np.float16)
    assert rmsnorm(x, w, out=out[:, 5:-6]).base is out
    check(out[:, 5:-6], *reference.rmsnorm(x, w, 1e-6, x.dtype))
    assert (out[:, :5] == 7).all()
    assert (out[:, -6:] == 7).all()


def test_more_axes_fewer_axes_and_columns_first():
    x = matrix(2, 3, 4, 50)
    for view in (x, x[0, 0, 0], x[:, :2], x[..., ::2], x.transpose(0, 1, 3, 2), x[:, :, ::2]):
        check(softmax(view), *reference.softmax(view, view.dtype))


@pytest.mark.parametrize("shape", [(0, 64), (3, 0, 7), (0, 1)])
def test_no_rows(shape):
    x = np.zeros(shape, np.float32)
    for operation in (softmax, log_softmax, rmsnorm, layernorm):
        assert operation(x).shape == shape


@pytest.mark.parametrize("columns", [100, 4100, 40000])
def test_in_place(columns):
    x, w = matrix(2, columns), matrix(columns)
    expected = rmsnorm(x, w)
    assert rmsnorm(x, w, out=x) is x
    assert np.array_equal(x, expected)
    expected = softmax(x)
    assert np.array_equal(softmax(x, out=x), expected)
    other = matrix(2, columns)
    total, (y, _) = x + other, fused_add_rmsnorm(x, other, w)
    fused_add_rmsnorm(x, other, w, out=x, residual_out=other)
    assert np.array_equal(x, y)
    assert np.array_equal(other, total)


def test_results_are_the_same_in_every_run():
    x, w = matrix(3, 5000), matrix(5000)
    assert np.array_equal(layernorm(x, w), layernorm(x.copy(), w.copy()))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda _: rmsnorm([1.0]), "FLY-U540"),
        (lambda _: rmsnorm(np.ones((), np.float32)), "FLY-U900"),
        (lambda x: rmsnorm(x, np.ones(9, np.float32)), "FLY-U542"),
        (lambda x: rmsnorm(x, out=np.empty((8, 4), np.float32)), "FLY-U542"),
        (lambda x: rmsnorm(x, out=np.empty((4, 8), np.float16)), "FLY-U543"),
        (lambda x: rmsnorm(x, out=np.empty((8, 4), np.float32).T), "FLY-U903"),
        (lambda x: softmax(x, 0), "FLY-U905"),
        (lambda x: rmsnorm(x, eps=-1.0), "FLY-U906"),
        (lambda x: layernorm(x, eps=float("nan")), "FLY-U906"),
        (lambda x: fused_add_rmsnorm(x, x[:2]), "FLY-U542"),
    ],
)
def test_mistakes_are_refused(call, code):
    with pytest.raises(UserError) as error:
        call(np.ones((4, 8), np.float32))
    assert error.value.code == code


@pytest.mark.parametrize(
    "array", [np.ones((4, 8)), np.ones((4, 8), np.int32), np.ones((4, 0), "f")]
)
def test_unsupported_configurations_are_refused(array):
    with pytest.raises(ConfigError, match="FLY-C90"):
        softmax(array)
    with pytest.raises(ConfigError, match="FLY-C902"):
        rmsnorm(np.ones((4, 8), np.float32), np.ones(8))
