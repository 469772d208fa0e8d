"""Correctly rounded fused multiply-add for numpy arrays, which have none.

f16 and f32: the product is exact in double; the sum is rounded to odd where it is inexact, which
makes the final rounding to the narrow type the only one that counts (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008). f64: the same
with error-free products and sums; exponents that could overflow or underflow on the way are
computed with Python integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["fused_multiply_add"]

Array = Any

_SPLITTER = 134217729.0
_LOW_29 = np.uint64(0x1FFFFFFF)
_TIE_29 = np.uint64(0x10000000)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Return ``a * b + c`` rounded once, for arrays of one float type."""
    dtype = getattr(a, "dtype", None) or getattr(b, "dtype", None) or c.dtype
    if dtype == np.float64:
        return _double(np.asarray(a), np.asarray(b), np.asarray(c))
    product = np.multiply(np.asarray(a, np.float64), np.asarray(b, np.float64))
    addend = np.asarray(c, np.float64)
    total = np.add(product, addend)
    if _may_round_twice(total, dtype):
        total = _to_odd(product, addend, total)
    return total.astype(dtype)


def _may_round_twice(total: Array, dtype: np.dtype[Any]) -> bool:
    """Whether any sum sits where a second rounding could go the wrong way."""
    if dtype != np.float32:
        return True
    bits = total.view(np.uint64)
    if np.equal(np.bitwise_and(bits, _LOW_29), _TIE_29).any():
        return True
    size = np.absolute(total)
    return bool(np.less(size, 2.0**-125).any())


def _two_sum(a: Array, b: Array, total: Array) -> Array:
    """Return the exact error of ``total = a + b``."""
    part = np.subtract(total, a)
    return np.add(np.subtract(a, np.subtract(total, part)), np.subtract(b, part))


def _to_odd(a: Array, b: Array, total: Array) -> Array:
    """Return ``a + b`` rounded to odd."""
    error = _two_sum(a, b, total)
    inexact = np.logical_and(np.not_equal(error, 0), np.isfinite(error))
    if not inexact.any():
        return total
    bits = total.view(np.int64)
    even = np.equal(np.bitwise_and(bits, 1), 0)
    # One step away from zero where the error has the sign of the sum, else one step toward it.
    outward = np.equal(np.signbit(error), np.signbit(total))
    step = np.where(outward, np.int64(1), np.int64(-1))
    moved = np.where(np.logical_and(inexact, even), np.add(bits, step), bits)
    return moved.view(np.float64)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = np.multiply(a, b)
    high_a, low_a = _halves(a)
    high_b, low_b = _halves(b)
    error = np.subtract(np.multiply(high_a, high_b), product)
    error = np.add(np.add(error, np.multiply(high_a, low_b)), np.multiply(low_a, high_b))
    return product, np.add(error, np.multiply(low_a, low_b))


def _halves(x: Array) -> tuple[Array, Array]:
    big = np.multiply(x, _SPLITTER)
    high = np.subtract(big, np.subtract(big, x))
    return high, np.subtract(x, high)


def _double(a: Array, b: Array, c: Array) -> Array:
    a, b, c = np.broadcast_arrays(a, b, c)
    product, product_error = _two_product(a, b)
    low_sum = np.add(c, product_error)
    low_error = _two_sum(c, product_error, low_sum)
    high_sum = np.add(product, low_sum)
    high_error = _two_sum(product, low_sum, high_sum)
    rest = np.add(low_error, high_error)
    result = np.add(high_sum, _to_odd(low_error, high_error, rest))
    exact_zero = np.logical_or(np.equal(a, 0), np.equal(b, 0))
    result = np.asarray(np.where(exact_zero, np.add(product, c), result))
    unsafe = ~np.logical_or(exact_zero, _comfortable(a, b, c))
    if unsafe.any():
        result[unsafe] = [
            _exact(float(x), float(y), float(z))
            for x, y, z in zip(a[unsafe], b[unsafe], c[unsafe], strict=True)
        ]
    return result


def _comfortable(a: Array, b: Array, c: Array) -> Array:
    """Whether all exponents leave room for the error-free transformations."""
    sizes = [np.absolute(x) for x in (a, b, c)]
    inside = [np.logical_and(s > 1e-140, s < 1e140) for s in sizes]
    inside[2] = np.logical_or(inside[2], np.equal(sizes[2], 0))
    return np.logical_and(np.logical_and(inside[0], inside[1]), inside[2])


def _exact(a: float, b: float, c: float) -> float:
    if not math.isfinite(c) and math.isfinite(a) and math.isfinite(b):
        return c
    if not (math.isfinite(a) and math.isfinite(b)):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c if a * b == 0 else 0.0
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf
