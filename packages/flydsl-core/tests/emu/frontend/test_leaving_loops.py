"""Values that are the same in all lanes of a loop, taken out of it at different times."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl import config

X = ((np.arange(64, dtype=np.int32) * 7919) % 23 - 7).astype(np.int32)


def counter(i, x, out):
    k = 0
    while k < x[i]:
        k = k + 1
    out[i] = k * 3


def broken(i, x, out):
    total = 0
    for k in range(40):
        if k * k > x[i]:
            break
        total = total + k
    out[i] = total


def replaced(i, x, out):
    """The value begins in a vector register and becomes a scalar one."""
    value = x[i]
    k = 0
    while k < 6 and value != x[i] - 1:
        k = k + 1
        value = (k * 5) % 7
        if k > x[i]:
            break
    out[i] = value


def in_an_arm(i, x, out):
    value, k = -1, 0
    while k < x[i] % 9:
        k = k + 1
        if k % 2 == 0:
            value = k * k
    out[i] = value + k


def nested(i, x, out):
    last = 0
    for a in range(5):
        b = 0
        while b < 4:
            b = b + 1
            if a * b > x[i]:
                break
        last = last * 3 + b
        if last > 100:
            break
    out[i] = last


def returned(i, x, out):
    out[i] = found(x[i])


def found(v):
    for k in range(30):
        if k * 3 >= v:
            return k
    return -1


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("body", [counter, broken, replaced, in_an_arm, nested, returned])
def test_values_leave_with_their_lanes(both, body, arch):
    with config.scope(FLYDSL_TARGET=arch):
        both(body, [X, np.zeros(64, np.int32)])


@pytest.mark.parametrize("kind", [fx.Int8, fx.Int64, fx.Float16, fx.Float32, fx.Float64, fx.Uint16])
def test_every_width(device, kind):
    def body(i, x, out):
        value = kind(0)
        k = 0
        while k < x[i] % 11:
            k = k + 1
            value = fx.Int32(k * 3).to(kind)
        out[i] = value.to(fx.Int32)

    out = np.zeros(64, np.int32)
    device(body, [X, out])
    np.testing.assert_array_equal(out, X % 11 * 3)


def test_pointers(device):
    def body(i, x, out):
        place = x.iter
        k = 0
        while k < x[i] % 11:
            k = k + 1
            place = place + 4  # keeps the alignment of 16 bytes
        out[i] = place.load()

    out = np.zeros(64, np.int32)
    device(body, [X, out])
    np.testing.assert_array_equal(out, X[X % 11 * 4])
