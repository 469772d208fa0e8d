"""Random numbers against published words, NumPy's own Philox and a plain Python version."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError
from flydsl.ext import philox as random

M32, M64 = 2**32 - 1, 2**64 - 1
SEEDS = [0, 7, 0x9E3779B9, -1, 2**63 + 12345]
OFFSETS = [0, 12345, 0xFFFFFFF0]


@pytest.fixture(params=["gfx942", "gfx1201"])
def target(request):
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


def python_philox(counter, key, rounds=10):
    """Philox 4x32, from the paper."""
    c, k = list(counter), list(key)
    for _ in range(rounds):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def python_words(seed, offset):
    seed, offset = seed & M64, offset & M64
    return python_philox((offset & M32, offset >> 32, 0, 0), (seed & M32, seed >> 32))


def test_published_words():
    words = random.philox((0, 0, 0, 0), (0, 0))
    assert [w.value for w in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    wide = random.philox((0, 0, 0, 0), (0, 0), width=64)
    assert [w.value for w in wide] == [
        0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_static_words(seed):
    for offset in [*OFFSETS, 2**40 + 3]:
        assert [w.value for w in random.randint4x(seed, offset)] == python_words(seed, offset)


@flyc.kernel
def words_kernel(Y: fx.Tensor, Z: fx.Tensor, seed: fx.Int64, start: fx.Uint32):
    t = fx.thread_idx.x
    words = fx.random.randint4x(seed, start + t.to(fx.Uint32))
    far = fx.random.randint4x(seed, start.to(fx.Int64) * 77777 + t.to(fx.Int64))
    for i in fx.range_constexpr(4):
        Y[0, i, t] = words[i]
        Y[1, i, t] = far[i]
    big = fx.random.philox((t.to(fx.Uint64), seed, 3, 5), (seed, 2**60 + 1), width=64)
    for i in fx.range_constexpr(4):
        Z[i, t] = big[i]


@flyc.jit
def words(Y: fx.Tensor, Z: fx.Tensor, seed: fx.Int64, start: fx.Uint32):
    words_kernel(Y, Z, seed, start).launch(grid=1, block=64)


@pytest.mark.parametrize("seed", [0, 7, 0x9E3779B9, -1, -(2**63) + 12345])
def test_words_on_the_device(target, seed):
    for start in OFFSETS[:2]:
        y, z = np.zeros((2, 4, 64), np.uint32), np.zeros((4, 64), np.uint64)
        words(y, z, seed, start)
        for t in range(0, 64, 7):
            assert y[0, :, t].tolist() == python_words(seed, start + t)
            assert y[1, :, t].tolist() == python_words(seed, start * 77777 + t)
            # NumPy's generator adds one to the counter, four words together, before it draws.
            whole = (t + ((seed & M64) << 64) + (3 << 128) + (5 << 192) - 1) % 2**256
            counter = np.array([whole >> shift & M64 for shift in (0, 64, 128, 192)], np.uint64)
            key = np.array([seed & M64, 2**60 + 1], np.uint64)
            own = np.random.Philox(counter=counter, key=key)
            assert z[:, t].tolist() == own.random_raw(4).tolist()


@flyc.kernel
def floats_kernel(Y: fx.Tensor, seed: fx.Int32):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    u = random.rand4x(seed, i)
    n = random.randn4x(seed, i)
    for k in fx.range_constexpr(4):
        Y[k, i] = u[k]
        Y[4 + k, i] = n[k]
    Y[8, i] = random.uniform(seed, i, -3.0, 5.0)
    Y[9, i] = random.normal(seed, i, 10.0, 0.5)
    Y[10, i] = random.rand(seed, i)
    Y[11, i] = random.randn(seed, i)


@flyc.jit
def floats(Y: fx.Tensor, seed: fx.Int32):
    floats_kernel(Y, seed).launch(grid=8, block=256)


def test_uniform_and_normal_numbers(target):
    count = 2048
    y = np.zeros((12, count), np.float32)
    floats(y, 42)
    bits = np.array([python_words(42, i) for i in range(count)], np.uint64).T
    signed = bits.astype(np.uint32).view(np.int32)
    folded = np.where(signed < 0, ~signed, signed)
    u = folded.astype(np.float32) * np.float32(4.6566127342e-10)
    np.testing.assert_array_equal(y[:4], u)
    assert y[:4].min() >= 0
    assert y[:4].max() < 1
    exact = u.astype(np.float64)
    radius = np.sqrt(-2 * np.log(np.maximum(exact[::2], 1e-7)))
    angle = 2 * np.pi * exact[1::2]
    want = np.stack([radius[0] * np.cos(angle[0]), radius[0] * np.sin(angle[0]),
                     radius[1] * np.cos(angle[1]), radius[1] * np.sin(angle[1])])  # fmt: skip
    np.testing.assert_allclose(y[4:8], want, atol=4e-6)
    np.testing.assert_array_equal(y[8], np.float32(-3) + np.float32(8) * u[0])
    np.testing.assert_allclose(y[9], 10 + 0.5 * want[0], atol=4e-6)
    np.testing.assert_array_equal(y[10:], y[[0, 4]])
    # Moments of 8,192 numbers: three standard errors.
    assert abs(y[:4].mean(dtype=np.float64) - 0.5) < 3 * (1 / 12 / 8192) ** 0.5
    assert abs(y[4:8].mean(dtype=np.float64)) < 3 / 8192**0.5
    assert abs(y[4:8].var(dtype=np.float64) - 1) < 3 * (2 / 8192) ** 0.5


def test_the_largest_word_stays_below_one():
    # The word 0x7fffffff and its fold are the largest.
    assert random._fraction(fx.Uint32(0x7FFFFFFF)).value < 1.0
    assert random._fraction(fx.Uint32(0x80000000)).value < 1.0
    assert random._fraction(fx.Uint32(0xFFFFFFFF)).value == 0.0


@pytest.mark.parametrize(
    "use",
    [
        lambda: random.randint(1.5, 0),
        lambda: random.randint(0, True),
        lambda: random.philox((0, 0, 0, 0), (0, 0), n_rounds=0),
        lambda: random.philox((0, 0, 0, 0), (0, 0), width=16),
    ],
)
def test_mistakes(use):
    with pytest.raises(UserError, match="FLY-U285"):
        use()


def test_the_names_of_the_public_api():
    import flydsl.ext.random as beside
    import flydsl.extension.random as legacy

    assert fx.random is random
    assert legacy is random
    assert beside is random
