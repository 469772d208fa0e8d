"""Normalised, rotated and quantised heads against float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import rotary_reference as reference
from rotary_reference import BF16, U, check, tables

from flydsl import config
from flydsl.errors import ConfigError, UserValueError
from flydsl_kernels.attention import qk_norm_rope_quant

pytest.importorskip("flydsl_emu", reason="runs kernels on the emulator")
FN, FNUZ = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e4m3fnuz)
LIMITS = {FN: 448.0, FNUZ: 240.0}


def exact(x, weight, cos, sin, size, eps=1e-6):
    """Return the result and a bound on the error of computing it in f32.

    The mean of squares passes through at most 8 + 5 + 3 sums, a product and a rounding of eps; half
    of that reaches the root. Then come rsqrt (2 u) and two products. The rotation moves these
    relative errors of both elements of a pair, and adds its own.
    """
    x = x.astype(np.float64)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    if weight is not None:
        y = y * weight.astype(np.float64)
    first = x.shape[-1] - size
    result, bound = reference.rotate(y, cos, sin, "gptj", first, size)
    moved, _ = reference.rotate(np.abs(y), np.abs(cos), -np.abs(sin), "gptj", first, size)
    other, _ = reference.rotate(np.abs(y), np.abs(cos), np.abs(sin), "gptj", first, size)
    return result, bound + 14 * U * np.maximum(np.abs(moved), np.abs(other))


def operands(random, heads, dim, size):
    q, kv = ((2 * random.standard_normal((5, count, dim))).astype(BF16) for count in heads)
    cos, sin = tables(random, 9, size // 2)
    return q, kv, cos, sin, random.integers(0, 9, 5)


@pytest.mark.parametrize(
    ("arch", "dim", "size"),
    [("gfx942", 512, 64), ("gfx942", 128, 128), ("gfx942", 80, 20), ("gfx1100", 512, 64)],
)
def test_unquantised(arch, dim, size):
    random = np.random.default_rng()
    q, kv, cos, sin, at = operands(random, (3, 1), dim, size)
    weight = random.standard_normal(dim).astype(np.float32)
    with config.scope(FLYDSL_TARGET=arch):
        found = qk_norm_rope_quant(q, kv, cos, sin, at, kv_weight=weight)
    check(found[0], *exact(q, None, cos[at], sin[at], size))
    check(found[1], *exact(kv, weight, cos[at], sin[at], size))


@pytest.mark.parametrize("power", [False, True], ids=["f32", "e8m0"])
@pytest.mark.parametrize(
    ("arch", "kind", "dim", "group"),
    [
        ("gfx942", FNUZ, 512, 32),
        ("gfx942", FNUZ, 512, 128),
        ("gfx942", FNUZ, 512, None),
        ("gfx942", FN, 128, 64),
        ("gfx950", FN, 192, 32),
    ],
)
def test_quantised(arch, kind, dim, group, power):
    random = np.random.default_rng()
    q, kv, cos, sin, at = operands(random, (3, 1), dim, 64)
    q[1, 1] = 0
    weight = random.standard_normal(dim).astype(BF16)
    with config.scope(FLYDSL_TARGET=arch):
        found = qk_norm_rope_quant(
            q, kv, cos, sin, at, q_weight=weight, quant=kind.name, group=group,
            scale_dtype="e8m0" if power else "float32",
        )  # fmt: skip
    for source, factor, small, kept in zip(
        (q, kv), (weight, None), found[:2], found[2:], strict=True
    ):
        expected, bound = exact(source, factor, cos[at], sin[at], 64)
        scales = 2.0 ** (kept.astype(np.float64) - 127) if power else kept.astype(np.float64)
        size = dim // kept.shape[-1]
        assert size == (group or dim)
        largest = np.abs(expected).reshape(*kept.shape, size).max(-1)
        slack = 1 + 20 * U
        least = np.maximum(largest / LIMITS[kind], 2.0**-126)
        assert (scales >= least / slack).all()
        assert (scales <= least * (2 if power else 1) * slack).all()
        wide = np.repeat(scales, size, -1)
        error = np.abs(small.astype(np.float64) * wide - expected)
        # Half a unit in the last of 3 bits, or half the distance of subnormals, of the quotient.
        half = np.maximum(np.abs(expected) * 2.0**-4, wide * 2.0**-10)
        assert (error <= half * 1.001 + 2 * bound).all()
        assert (small.astype(np.float64)[source.astype(np.float64) == 0] == 0).all()


def test_not_a_number_marks_its_group(gfx942):
    q = np.ones((2, 1, 64), np.float32)
    q[0, 0, 3] = np.nan
    table = np.ones((2, 4), np.float32)
    out = qk_norm_rope_quant(q, q, table, table * 0, quant="float8_e4m3fnuz", scale_dtype="e8m0")
    assert out[2].ravel()[0] == 255
    assert out[2].ravel()[1] < 255
    assert np.isnan(out[0][0].astype(np.float32)).all()


def test_mistakes_are_named(gfx942):
    q, table = np.ones((2, 1, 64), np.float32), np.ones((2, 4), np.float32)
    with pytest.raises(ConfigError, match="share a scale"):
        qk_norm_rope_quant(q, q, table, table, quant="float8_e4m3fn", group=24)
    with pytest.raises(ConfigError, match="quantised to this element type"):
        qk_norm_rope_quant(q, q, table, table, quant="int4")
    with pytest.raises(ConfigError, match="scales are not kept"):
        qk_norm_rope_quant(q, q, table, table, quant="float8_e4m3fn", scale_dtype="float16")
    with pytest.raises(UserValueError, match="epsilon"):
        qk_norm_rope_quant(q, q, table, table, eps=-1.0)
    with pytest.raises(UserValueError, match="q_weight has another shape"):
        qk_norm_rope_quant(q, q, table, table, q_weight=np.ones(63, np.float32))
    with pytest.raises(ConfigError, match="not normalised and rotated"):
        qk_norm_rope_quant(q[..., :63], q[..., :63], table, table)


def test_operator_of_pytorch(gfx942):
    torch = pytest.importorskip("torch", reason="tests the operator of PyTorch")
    cos, sin = (torch.from_numpy(t) for t in tables(np.random.default_rng(), 3, 4))
    q, k = torch.randn(3, 2, 64), torch.randn(3, 1, 64)

    def step(q, k):
        return qk_norm_rope_quant(q, k, cos, sin, quant="float8_e4m3fnuz", group=32)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(q, k)
    for found, wanted in zip(compiled, step(q, k), strict=True):
        assert torch.equal(found.view(torch.uint8), wanted.view(torch.uint8))
