"""Arrays of all kinds of shapes and strides, outputs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import row_reference as reference
from row_reference import check

from flydsl.errors import ConfigError, UserError
from flydsl_kernels.norm import (
    QuantFormat,
    fused_add_layernorm,
    fused_add_rmsnorm,
    layernorm,
    layernorm_quantised,
    log_softmax,
    rmsnorm,
    rmsnorm_quantised,
    softmax,
)

pytestmark = pytest.mark.usefixtures("gfx942")


def _bytes(array):
    return array.view(np.int8)


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


def test_B22_slices_whose_outer_stride_needs_more_than_31_bits():
    """Rows of a slice of QKV, (2, 139811, 15360): the second batch begins 4.3 GB after the first.

    Only the pages that are touched exist.
    """
    rows, columns = 139811, 15360
    base = np.zeros(2 * rows * columns, np.float16)
    qkv = base.reshape(2, rows, columns)[:, :, :5120]
    assert qkv.strides[0] // 2 > 2**31 - 1
    w = matrix(5120)
    for row in (0, rows - 1):
        x = qkv[:, row]
        x[:] = matrix(2, 5120)
        out = rmsnorm(x, w)
        check(out, *reference.rmsnorm(x, w, 1e-6, np.dtype(np.float16)))
        assert rmsnorm(x, w, out=x) is x
        np.testing.assert_array_equal(x, out)


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
        (lambda x: fused_add_rmsnorm(x, None), "FLY-U540"),
        (lambda x: softmax(x, "last"), "FLY-U549"),
        (lambda x: softmax(x, None), "FLY-U549"),
        (lambda _: log_softmax(3.0), "FLY-U540"),
        (lambda x: rmsnorm(x, eps=True), "FLY-U906"),
        (lambda x: layernorm(x, eps=np.ones(2)), "FLY-U906"),
        (lambda x: rmsnorm(x.astype(">f4")), "FLY-U547"),
        (lambda x: rmsnorm(np.ma.masked_array(x)), "FLY-U547"),
        (lambda x: rmsnorm_quantised(x, dtype=8), "FLY-U549"),
        (lambda x: rmsnorm_quantised(x, smooth=2.0), "FLY-U540"),
        (lambda _: QuantFormat(group="128"), "FLY-U549"),
        (lambda _: QuantFormat(group=False), "FLY-U549"),
        (lambda _: QuantFormat(scale_dtype=None), "FLY-U549"),
        (lambda x: fused_add_rmsnorm(x, x, out=x, residual_out=x), "FLY-U548"),
        (lambda x: fused_add_layernorm(x[:2], x[2:], out=x[:2], residual_out=x[1:3]), "FLY-U548"),
        (lambda x: layernorm_quantised(x, out=(_bytes(x)[:, :8], _bytes(x)[0, :4])), "FLY-U543"),
    ],
)
def test_mistakes_are_refused(call, code):
    with pytest.raises(UserError) as error:
        call(np.ones((4, 8), np.float32))
    assert error.value.code == code
    assert error.value.location is None or error.value.location.file == __file__


@pytest.mark.parametrize(
    "array", [np.ones((4, 8)), np.ones((4, 8), np.int32), np.ones((4, 0), "f")]
)
def test_unsupported_configurations_are_refused(array):
    with pytest.raises(ConfigError, match="FLY-C90"):
        softmax(array)
    with pytest.raises(ConfigError, match="FLY-C902"):
        rmsnorm(np.ones((4, 8), np.float32), np.ones(8))


def test_quantised_results_may_lie_in_what_they_are_of():
    x, w = matrix(4, 256), matrix(256)
    expected = rmsnorm_quantised(x, w)
    memory = x.copy()
    out = _bytes(memory).reshape(16, 256)[::4], memory.reshape(-1)[200:204]
    with pytest.raises(UserError, match="FLY-U548"):
        rmsnorm_quantised(memory, w, out=(out[0], memory.reshape(-1)[:4]))
    found = rmsnorm_quantised(memory, w, out=out)
    for got, wanted in zip(found, expected, strict=True):
        assert np.array_equal(got, wanted)


def test_element_types_by_any_name():
    x = matrix(3, 64)
    for kind in (np.int8, np.dtype("int8")):
        assert np.array_equal(rmsnorm_quantised(x, dtype=kind)[0], rmsnorm_quantised(x)[0])


def test_results_beside_each_other():
    """Columns of one matrix interleave in memory, and share nothing."""
    x, other = matrix(5, 64), matrix(5, 64)
    expected = fused_add_rmsnorm(x, other)
    both = np.zeros((5, 128), np.float32)
    fused_add_rmsnorm(x, other, out=both[:, :64], residual_out=both[:, 64:])
    assert np.array_equal(both, np.concatenate(expected, 1))


def test_torch_follows_shapes_and_refuses_transformations():
    torch = pytest.importorskip("torch", reason="asks PyTorch to follow shapes")
    meta = torch.empty(3, 64, device="meta")
    assert rmsnorm(meta, meta[0]).shape == meta.shape
    assert [t.dtype for t in rmsnorm_quantised(meta)] == [torch.int8, torch.float32]
    x = torch.ones(3, 64)
    for call in (
        lambda: rmsnorm(meta, out=meta), lambda: torch.vmap(softmax)(x),
        lambda: torch.func.grad(lambda t: layernorm(t).sum())(x), lambda: softmax(x.to_sparse()),
    ):  # fmt: skip
        with pytest.raises(UserError, match="FLY-U547"):
            call()
