"""Results in 8 bits with scales, against float64."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import row_reference as reference

from flydsl import config
from flydsl.errors import ConfigError, UserError
from flydsl_kernels.norm import (
    QuantFormat,
    fused_add_layernorm_quantised,
    fused_add_rmsnorm_quantised,
    layernorm_quantised,
    rmsnorm_quantised,
)

# Largest number, distance of numbers at 1 (integers: everywhere) and of the smallest ones.
FORMATS = {
    "int8": (127.0, 0.0, 1.0),
    "float8_e4m3fn": (448.0, 2.0**-3, 2.0**-9),
    "float8_e4m3fnuz": (240.0, 2.0**-3, 2.0**-10),
}
BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = list(itertools.product(FORMATS, (0, 128), ("float32", "float8_e8m0fnu")))


def check(found, expected, bound, form):
    """Check a result: the scales, that results use their range, and every element.

    A scale is that of the largest magnitude, which is off by the bound on the elements and the
    rounding of a quotient. An element is within half a step of the reference, plus its error in
    f32; the step is that of the format's numbers at the element's size, times the scale.
    """
    small, scales = found[:2]
    limit, relative, least = FORMATS[form.dtype]
    rows, columns = expected.shape
    size = form.group or columns
    groups = -(-columns // size)
    assert scales.shape == ((rows, groups) if form.group else (rows,))
    padded = np.zeros((2, rows, groups * size))
    padded[:, :, :columns] = np.abs(expected), bound
    tops, slack = (a.reshape(rows, groups, size).max(-1) for a in padded)
    slack = slack + 4 * reference.U * tops
    got = scales.astype(np.float64).reshape(rows, groups)
    if form.power:
        low, high = (2.0 ** np.ceil(np.log2((tops + s) / limit)) for s in (-slack, slack))
        assert ((low <= got) & (got <= high)).all()
    else:
        assert (np.abs(got * limit - tops) <= slack + 2.0**-119).all()
        whole = np.pad(np.abs(small.astype(np.float64)), ((0, 0), (0, groups * size - columns)))
        assert (whole.reshape(rows, groups, size).max(-1) == limit).all()
    scale = np.repeat(got, size, axis=1)[:, :columns]
    step = np.maximum(relative * np.abs(expected), least * scale)
    error = np.abs(small.astype(np.float64) * scale - expected)
    slack = np.repeat(slack, size, axis=1)[:, :columns]
    assert (error <= step / 2 * 1.0001 + slack).all()


def run(columns, form, dtype=np.float32, rows=3):
    """Run every operation on fresh random matrices and check it."""
    random = np.random.default_rng()
    x, other = (random.standard_normal((rows, columns)).astype(dtype) for _ in range(2))
    w, b, f = (random.standard_normal(columns).astype(np.float32) for _ in range(3))
    y, bound = reference.rmsnorm(x, w, 1e-6, np.float32)
    check(rmsnorm_quantised(x, w, dtype=form), y, bound, form)
    y, bound = reference.layernorm(x, w, b, 1e-5, np.float32)
    smooth, smooth_bound = y * f, (bound + 2 * reference.U * np.abs(y)) * np.abs(f)
    check(layernorm_quantised(x, w, b, dtype=form, smooth=f), smooth, smooth_bound, form)
    total = (x.astype(np.float32) + other.astype(np.float32)).astype(dtype)
    found = fused_add_rmsnorm_quantised(x, other, w, dtype=form)
    check(found, *reference.rmsnorm(total, w, 1e-6, np.float32), form)
    assert np.array_equal(found[2].view(np.uint8), total.view(np.uint8))
    found = fused_add_layernorm_quantised(x, other, w, b, dtype=form)
    check(found, *reference.layernorm(total, w, b, 1e-5, np.float32), form)
    assert np.array_equal(found[2].view(np.uint8), total.view(np.uint8))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind(kind, gfx942):
    run(1000 + np.random.default_rng().integers(30), QuantFormat(*kind))


@pytest.mark.parametrize("columns", [7, 5001, 65603])
def test_some_kinds_in_every_regime(columns, gfx942):
    """In part of a wave, in a workgroup, split among workgroups."""
    for kind in np.random.default_rng().permutation(len(KINDS))[:4]:
        run(columns, QuantFormat(*KINDS[kind]), BF16)


@pytest.mark.parametrize("columns", [128, 129, 256, 384, 2048, 2200, 8192, 10368 + 2])
@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["float32", "bfloat16"])
def test_groups_that_end_with_rows_vectors_and_waves(columns, dtype, gfx942):
    random = np.random.default_rng()
    x = random.standard_normal((5, columns)).astype(dtype)
    w = random.standard_normal(columns).astype(np.float32)
    form = QuantFormat("int8", 128)
    check(rmsnorm_quantised(x, w, dtype=form), *reference.rmsnorm(x, w, 1e-6, np.float32), form)


@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("columns", [999, 65603])
def test_other_architectures(arch, columns):
    with config.scope(FLYDSL_TARGET=arch):
        run(columns, QuantFormat("float8_e4m3fn", 128, "float8_e8m0fnu"), BF16)
        run(columns, QuantFormat("int8"), BF16)


def test_long_rows_that_are_not_split(gfx942):
    for group in (0, 128):
        run(32801, QuantFormat("int8", group), rows=17)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_sizes(kind, target):
    for columns in (1, 63, 64, 65, 255, 257, 2047, 4104, 8192, 20000, 33000, 131072):
        for dtype in (np.float32, np.float16, BF16):
            run(columns, QuantFormat(*kind), dtype)


@pytest.mark.parametrize(
    ("arch", "own"), [("gfx942", "float8_e4m3fnuz"), ("gfx950", "float8_e4m3fn")]
)
def test_the_float_of_the_target(arch, own):
    x = np.random.default_rng().standard_normal((2, 300)).astype(np.float32)
    with config.scope(FLYDSL_TARGET=arch):
        small, scales = rmsnorm_quantised(x, dtype="float8_e4m3")
        assert str(small.dtype) == own
        expected = reference.rmsnorm(x, np.ones(300), 1e-6, np.float32)
        check((small, scales), *expected, QuantFormat(own))


def test_powers_of_two_are_the_least_that_suffice(gfx942):
    """Rows whose largest magnitude divided by 448 is a power of two, and just above one."""
    x = np.zeros((3, 16), np.float32)
    bias = np.zeros(16, np.float32)
    for top, scale in ((448.0, 1.0), (np.nextafter(np.float32(448), np.float32(512)), 2.0)):
        bias[3] = top
        form = QuantFormat("float8_e4m3fn", 0, "float8_e8m0fnu")
        small, scales = layernorm_quantised(x, None, bias, dtype=form)
        assert (scales.astype(np.float32) == scale).all()
        assert (small[:, 3].astype(np.float32) == 448 / scale).all()


@pytest.mark.parametrize("group", [0, 128])
@pytest.mark.parametrize("power", ["float32", "float8_e8m0fnu"])
@pytest.mark.parametrize("columns", [40, 3000])
def test_zeros_nan_infinities_and_no_rows(group, power, columns, gfx942):
    form = QuantFormat("int8", group, power)
    x = np.ones((4, columns), np.float32)
    x[0] = 0
    x[1, 7] = np.nan
    bias = np.zeros(columns, np.float32)
    small, scales = rmsnorm_quantised(x, dtype=form)
    scales = scales.astype(np.float32).reshape(4, -1)
    assert (small[0] == 0).all()
    assert (scales[0] <= 2.0**-126).all()
    assert np.isnan(scales[1]).all()
    ones = 127 if power == "float32" else 64
    assert (small[2:] == ones).all()
    small, scales = rmsnorm_quantised(x[:0], dtype=form)
    assert small.shape == (0, columns)
    assert scales.shape[0] == 0
    bias[7] = np.inf
    _, scales = layernorm_quantised(x[2:], None, bias, dtype=form)
    first = scales.astype(np.float32).reshape(2, -1)[:, 0]
    assert (np.isinf(first) if power == "float32" else np.isnan(first)).all()


def test_outputs(gfx942):
    x = np.random.default_rng().standard_normal((3, 300)).astype(np.float32)
    form = QuantFormat("int8", 128)
    small, scales = rmsnorm_quantised(x, dtype=form)
    wide, out = np.zeros((3, 310), np.int8), np.zeros((3, 3), np.float32)
    found = rmsnorm_quantised(x, dtype=form, out=(wide[:, 5:-5], out))
    assert found[1] is out
    assert np.array_equal(wide[:, 5:-5], small)
    assert np.array_equal(out, scales)
    assert not wide[:, :5].any()
    assert not wide[:, -5:].any()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("int4",), "FLY-C903"),
        (("float32",), "FLY-C903"),
        (("int8", 64), "FLY-C904"),
        (("int8", 0, "bfloat16"), "FLY-C904"),
    ],
)
def test_formats_that_are_refused(arguments, code):
    with pytest.raises(ConfigError, match=code) as error:
        QuantFormat(*arguments)
    assert error.value.allowed


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"dtype": "int4"}, "FLY-C903"),
        ({"out": np.zeros((1, 8), np.int8)}, "FLY-U907"),
        ({"out": (np.zeros((1, 8), np.uint8), np.zeros(1, np.float32))}, "FLY-U543"),
        ({"out": (np.zeros((1, 8), np.int8), np.zeros((1, 1), np.float32))}, "FLY-U542"),
        ({"smooth": np.zeros(7, np.float32)}, "FLY-U542"),
    ],
)
def test_mistakes_are_refused(options, code, gfx942):
    with pytest.raises((ConfigError, UserError), match=code):
        rmsnorm_quantised(np.ones((1, 8), np.float32), **options)


def test_tensors(gfx942):
    torch = pytest.importorskip("torch", reason="these are tensors of PyTorch")
    x = torch.randn(2, 3, 64)
    small, scales = layernorm_quantised(x)
    assert (small.dtype, small.shape, scales.shape) == (torch.int8, x.shape, (2, 3))
    wanted = torch.nn.functional.layer_norm(x.double(), (64,), eps=1e-5)
    error = (small.double() * scales[..., None] - wanted).abs()
    assert bool((error <= scales[..., None] * 0.501).all())
    form = QuantFormat("float8_e4m3fnuz", 128, "float8_e8m0fnu")
    small, scales, total = fused_add_rmsnorm_quantised(x, x, dtype=form)
    assert (small.dtype, scales.dtype) == (torch.float8_e4m3fnuz, torch.float8_e8m0fnu)
    assert (scales.shape, total.shape) == ((2, 3, 1), x.shape)
