"""Rotations of heads against float64."""

from __future__ import annotations

import numpy as np
import pytest
import rotary_reference as reference
from rotary_reference import BF16, check, tables

from flydsl import config
from flydsl.errors import ConfigError, UserTypeError, UserValueError
from flydsl_kernels.attention import rope

pytest.importorskip("flydsl_emu", reason="runs kernels on the emulator")
TYPES = [np.dtype(np.float32), np.dtype(np.float16), BF16]


@pytest.fixture(params=["gfx942", "gfx1100"])
def arch(request):
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    ("dim", "rotary", "whole"),
    [(64, 64, False), (128, 128, True), (80, 64, False), (96, 6, True), (7, 2, False)],
)
def test_random_heads(dim, rotary, whole, dtype, style, gfx942):
    random = np.random.default_rng()
    x = random.standard_normal((5, 3, dim)).astype(dtype)
    cos, sin = tables(random, 11, rotary if whole else rotary // 2)
    at = random.integers(0, 11, 5)
    found = rope(x, cos, sin, at, style=style, rotary_dim=rotary)
    check(found, *reference.rotate(x, cos[at], sin[at], style, size=rotary))


def test_other_architectures_and_tables_of_16_bits(arch):
    random = np.random.default_rng()
    x = random.standard_normal((4, 9, 64)).astype(BF16)
    cos, sin = tables(random, 6, 32, BF16)
    check(rope(x, cos, sin), *reference.rotate(x, cos[:4], sin[:4], "neox"))


def test_strided_batches_and_outputs(gfx942):
    random = np.random.default_rng()
    big = random.standard_normal((2, 3, 10, 130)).astype(np.float32)
    x = big[:, :, ::2, 1:129]
    before = big.copy()
    cos, sin = tables(random, 6, 64)
    at = np.array([[5, 0, 3], [1, 1, 2]], np.int32)
    expected, bound = reference.rotate(
        x.reshape(6, 5, 128), cos[at.ravel()], sin[at.ravel()], "neox"
    )
    check(rope(x, cos, sin, at).reshape(6, 5, 128), expected, bound)
    assert rope(x, cos, sin, at, out=x) is x
    check(x.reshape(6, 5, 128), expected, bound)
    untouched = np.ones(big.shape, bool)
    untouched[:, :, ::2, 1:129] = False
    assert np.array_equal(big[untouched], before[untouched])


def test_positions_beyond_the_tables_show(gfx942):
    x = np.ones((4, 1, 8), np.float32)
    cos, sin = np.ones((3, 2), np.float32), np.zeros((3, 2), np.float32)
    y = rope(x, cos, sin, np.array([2, 3, -1, 2**40]))
    assert np.isnan(y[1:, :, :4]).all()
    assert (y[0] == 1).all()
    assert (y[:, :, 4:] == 1).all()


@pytest.mark.parametrize("shape", [(0, 4, 8), (3, 0, 8)])
def test_nothing_to_rotate(shape, gfx942):
    tables_of = np.ones((3, 4), np.float32)
    assert rope(np.ones(shape, np.float32), tables_of, tables_of).shape == shape


def test_special_values_stay_where_they_are(gfx942):
    x = np.zeros((1, 2, 8), np.float32)
    x[0, 0, 1], x[0, 1, 2] = np.nan, np.inf
    cos = np.full((1, 4), 0.5, np.float32)
    y = rope(x, cos, cos, style="gptj")
    assert np.isnan(y[0, 0, :2]).all()
    assert (y[0, 0, 2:] == 0).all()
    assert np.array_equal(y[0, 1], [0, 0, np.inf, np.inf, 0, 0, 0, 0])


def test_mistakes_are_named(gfx942):
    x, table = np.ones((3, 2, 8), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(ConfigError, match="style"):
        rope(x, table, table, style="llama")
    with pytest.raises(ConfigError, match="cannot be rotated"):
        rope(x, np.ones((3, 10), np.float32), np.ones((3, 10), np.float32))
    with pytest.raises(UserValueError, match=r"another shape than the rotation needs"):
        rope(x, table, table, rotary_dim=6)
    with pytest.raises(UserValueError, match="fewer positions"):
        rope(x, table[:2], table[:2])
    with pytest.raises(UserValueError, match="element type"):
        rope(x.astype(np.float64), table, table)
    with pytest.raises(UserValueError, match="positions has another shape"):
        rope(x, table, table, np.zeros(2, np.int32))
    with pytest.raises(UserValueError, match="positions has an element type"):
        rope(x, table, table, np.zeros(3, np.float32))
    with pytest.raises(UserValueError, match="cannot be written in place"):
        rope(x, table, table, out=np.ones((3, 2, 16), np.float32)[:, :, ::2])
    with pytest.raises(UserTypeError, match="neither"):
        rope([1.0], table, table)


@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("whole", [False, True])
def test_gradient_in_pytorch(style, whole, gfx942):
    torch = pytest.importorskip("torch", reason="tests the operator of PyTorch")
    random = np.random.default_rng()
    cos, sin = (torch.from_numpy(t) for t in tables(random, 4, 6 if whole else 3))
    x = torch.randn(4, 2, 8, requires_grad=True)
    weight = torch.randn(4, 2, 8)

    def exact(values):
        out, (c, s) = values.double().clone(), (cos.double()[:, None], sin.double()[:, None])
        part = slice(0, 3), slice(3, 6)
        if style == "gptj":
            part = slice(0, 6, 2), slice(1, 6, 2)
        a, b = (values.double()[..., p] for p in part)
        ca, cb = (c[..., p] for p in part) if whole else (c, c)
        sa, sb = (s[..., p] for p in part) if whole else (s, s)
        out[..., part[0]], out[..., part[1]] = a * ca - b * sa, b * cb + a * sb
        return out

    (rope(x, cos, sin, style=style, rotary_dim=6) * weight).sum().backward()
    other = x.detach().clone().requires_grad_()
    (exact(other) * weight).sum().backward()
    # Two products and a sum in f32 of numbers of about 1.
    assert torch.allclose(x.grad, other.grad, rtol=0, atol=4e-6)


def test_compiled_by_pytorch(gfx942):
    torch = pytest.importorskip("torch", reason="tests the operator of PyTorch")
    cos, sin = (torch.from_numpy(t) for t in tables(np.random.default_rng(), 4, 4))
    x = torch.randn(4, 2, 8)

    def step(v):
        return rope(v * 2, cos, sin) + 1

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), step(x))
