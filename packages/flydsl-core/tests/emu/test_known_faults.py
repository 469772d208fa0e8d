"""Faults that kernel languages are known for, each by a small program with the right outcome.

The names hold the row of the project's list of known faults: tracing and control flow (B4 to B11),
numbers (B12 to B15). Arguments, caches and launches are in `test_known_faults_of_launches`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError

LANES = np.arange(64, dtype=np.int32)
BF16 = np.dtype(ml_dtypes.bfloat16)


def zeros(dtype=np.int32, count=64):
    return np.zeros(count, dtype)


def counted(n, step):
    total = fx.Int32(0)
    for i in range(n):
        total = total + i * step
    return total


# Tracing and control flow


def test_B4_return_in_a_dynamic_if(both):
    def body(i, out):
        if i > 3:
            return
        out[i] = 1

    def in_else(i, out):
        if i <= 3:
            out[i] = 2
        else:
            return
        out[i] = out[i] + 1

    def in_loop(i, out):
        for k in range(i):
            if k == 5:
                return
            out[i] = out[i] + 1
        out[i] = out[i] + 100

    both(body, [zeros()])
    both(in_else, [zeros()])
    both(in_loop, [zeros()])


def test_B5_mutation_by_a_helper_called_in_a_dynamic_if(both):
    def body(i, out):
        items = [0 * i]

        def write(x):
            x[0] = 4

        if i > 3:
            write(items)
        out[i] = items[0]

    def accumulator(i, out):
        total = 0 * i

        def bump():
            nonlocal total
            total = total + 4

        if i > 3:
            bump()
        out[i] = total

    both(body, [zeros()])
    both(accumulator, [zeros()])


def test_B5_state_of_an_object_set_in_a_dynamic_if(both):
    class State:
        def __init__(self):
            self.value = 1

    def body(i, out):
        state = State()
        state.value = 0 * i
        if i % 2 == 0:
            state.value = i
        out[i] = state.value

    both(body, [zeros()])


def test_B7_lists_are_carried_and_do_not_grow(both, device):
    def reassigned(i, out):
        pair = [i, 2 * i]
        if i > 10:
            pair = [pair[1], pair[0] + 1]
        for k in range(3):
            pair[0] = pair[0] + k
        out[i] = pair[0] * 1000 + pair[1]

    def growing(i, out):
        items = [i]
        if i > 10:
            items.append(i)
        out[i] = items[0]

    def growing_in_a_loop(i, out):
        items = [i]
        for k in range(i):
            items.append(k)
        out[i] = items[0]

    both(reassigned, [zeros()])
    for body in (growing, growing_in_a_loop):
        with pytest.raises(UserError) as caught:
            device(body, [zeros()])
        assert "items" in str(caught.value)
        assert caught.value.location.file == __file__


def test_B8_a_loop_in_an_undecorated_helper(device):
    def body(i, out):
        out[i] = counted(i, 3)

    out = zeros()
    device(body, [out])
    np.testing.assert_array_equal(out, [3 * n * (n - 1) // 2 for n in range(64)])


def test_B10_break_and_continue(both):
    def while_break(i, out):
        n = 0
        while n < i:
            if n * n > 40:
                break
            n += 1
        out[i] = n

    def for_continue(i, out):
        for k in range(i):
            if k % 3 == 1:
                continue
            out[i] = out[i] + k

    both(while_break, [zeros()])
    both(for_continue, [zeros()])


def test_B11_a_guarded_load_is_not_made_by_other_lanes(device):
    def body(i, x, out):
        if i < 4 and x[i] > 2:
            out[i] = 1

    x, out = np.array([1, 3, 2, 9], np.int32), zeros()
    # The emulator refuses accesses outside of the array's memory.
    device(body, [x, out])
    np.testing.assert_array_equal(np.flatnonzero(out), [1, 3])


# Numbers


def test_B12_constants_are_rounded_to_their_type(device):
    def body(i, out):
        out[0] = fx.Float32(3.9).to(fx.Float8E4M3FN).to(fx.Float32)
        out[1] = fx.Float8E4M3FN(1.3).to(fx.Float32)
        out[2] = fx.BFloat16(3.9).to(fx.Float32)
        out[3] = fx.Float16(70000.0).to(fx.Float32)
        out[4] = fx.Float8E4M3FN(500.0).to(fx.Float32)

    out = zeros(np.float32)
    device(body, [out], block=1)
    assert out[:4].tolist() == [4.0, 1.25, 3.90625, np.inf]
    assert out[4] == 448.0 or np.isnan(out[4])


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_B12_folding_equals_the_conversion_at_run_time(device, arch):
    random = np.random.default_rng().standard_normal(12).astype(np.float32) * 100
    values = np.array([3.9, 1.3, 500.0, 448.0, 464.0, 0.001, -0.0, -7.3, *random], np.float32)
    literals = values.tolist()

    def body(i, x, folded, computed):
        for k in fx.range_constexpr(len(literals)):
            folded[k] = fx.Float32(literals[k]).to(fx.Float8E4M3FN).to(fx.Float32)
            computed[k] = x[k].to(fx.Float8E4M3FN).to(fx.Float32)

    folded, computed = zeros(np.float32, len(values)), zeros(np.float32, len(values))
    with config.scope(FLYDSL_TARGET=arch):
        device(body, [values, folded, computed], block=1)
    nan = np.isnan(folded)
    np.testing.assert_array_equal(nan, np.isnan(computed))
    np.testing.assert_array_equal(folded[~nan].view(np.uint32), computed[~nan].view(np.uint32))


def test_B14_floor_division_and_remainder_static_and_dynamic(device):
    def body(i, a, b, quotient, rest):
        quotient[i], rest[i] = a[i] // b[i], a[i] % b[i]
        quotient[i + 64], rest[i + 64] = fx.Int32(-7) // 2, fx.Int32(-7) % 2

    random = np.random.default_rng()
    a = random.integers(-(2**31) + 1, 2**31, 64).astype(np.int32)
    b = random.integers(1, 100, 64).astype(np.int32) * random.choice([-1, 1], 64).astype(np.int32)
    a[:4], b[:4] = [-7, 7, -7, 7], [2, -2, -2, 2]
    quotient, rest = zeros(count=128), zeros(count=128)
    device(body, [a, b, quotient, rest])
    np.testing.assert_array_equal(quotient[:64], a // b)
    np.testing.assert_array_equal(rest[:64], a % b)
    assert set(zip(quotient[64:].tolist(), rest[64:].tolist(), strict=True)) == {(-4, 1)}


def bf16_products(count):
    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        i = fx.block_idx.x * 256 + fx.thread_idx.x
        out[i] = a[i] * b[i]

    @flyc.jit
    def launch(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        kernel(a, b, out).launch(grid=count // 256, block=256)

    random = np.random.default_rng()
    a, b = (random.integers(0, 2**16, count, dtype=np.uint16).view(BF16) for _ in range(2))
    out = np.zeros(count, BF16)
    launch(a, b, out)
    with np.errstate(all="ignore"):
        want = (a.astype(np.float32) * b.astype(np.float32)).astype(BF16)
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(nan, np.isnan(out.astype(np.float32)))
    np.testing.assert_array_equal(out.view(np.uint16)[~nan], want.view(np.uint16)[~nan])


def test_B15_bfloat16_products_round_to_nearest_even():
    bf16_products(1 << 14)


@pytest.mark.nightly
def test_B15_a_million_bfloat16_products():
    bf16_products(1 << 20)
