"""References in float64 for the row operations, each with a bound on the error.

Notation: u = 2^-24 is the unit roundoff of f32, in which everything is computed; a result is
rounded once more to its own type, with unit roundoff 2^-24, 2^-11 (f16) or 2^-8 (bf16), or half the
distance of subnormals. A sum over a row passes through at most DEPTH roundings: up to 8 vectors or
16 passes of a thread (32 for f32), 3 levels within a vector, 10 over the lanes. (Of split rows: up
to 4 passes, 3 levels, 9 over the lanes, 4 over the parts.)
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

U = 2.0**-24
DEPTH = 45
BF16 = np.dtype(ml_dtypes.bfloat16)
# Unit roundoff and half the distance of subnormals. f32 results below the normal numbers may be
# flushed by the exponential.
ROUNDING = {
    np.dtype(np.float32): (U, 2.0**-126),
    np.dtype(np.float16): (2.0**-11, 2.0**-25),
    BF16: (2.0**-8, 2.0**-126),
}


def rounded(bound, expected, dtype):
    """Add the rounding of the result to a bound on the error in f32."""
    unit, least = ROUNDING[np.dtype(dtype)]
    return bound + unit * (np.abs(expected) + bound) + least


def rmsnorm(x, weight, eps, dtype):
    """Return x / sqrt(mean(x²) + eps) · weight and a bound.

    The sum of squares is off by (DEPTH + 1) u relative and the division by 5 u (two and a half
    units in the last place), half of which reaches the root; then come the addition, rsqrt (one
    unit, 2 u) and two products.
    """
    x, w = x.astype(np.float64), weight.astype(np.float64)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w
    return y, rounded((DEPTH / 2 + 8) * U * np.abs(y), y, dtype)


def layernorm(x, weight, bias, eps, dtype):
    """Return (x - mean) / sqrt(var + eps) · weight + bias and a bound.

    The first mean is off by at most DEPTH u mean|x|, in units of the deviation `off`. That error is
    summed and taken out again: what is left is its own rounding, and that of its square in the
    variance. The rest as for `rmsnorm`, twice for the two sums.
    """
    x, w, b = (a.astype(np.float64) for a in (x, weight, bias))
    mean = x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    unit = (x - mean) * scale
    off = DEPTH * U * np.abs(x).mean(-1, keepdims=True) * scale
    y = unit * w + b
    error = (DEPTH + 13) * (1 + np.abs(unit)) + 4 * off + (DEPTH + 13) * off * off * np.abs(unit)
    bound = U * (error * np.abs(w) + 2 * np.abs(unit * w) + 2 * np.abs(b) + np.abs(y))
    return y, rounded(bound, y, dtype)


def softmax(x, dtype):
    """Return softmax and a bound.

    With t = max - x: the difference, the factor log2(e) and their product are rounded, which the
    exponential turns into 3 t u relative; the exponential adds 2 u, the sum its own terms' error
    (3 t e^-t of each is below 2 u of the whole) and DEPTH u, the reciprocal (one unit in the last
    place) and the product 3 u.
    """
    t = x.astype(np.float64).max(-1, keepdims=True) - x.astype(np.float64)
    p = np.exp(-t) / np.exp(-t).sum(-1, keepdims=True)
    return p, rounded((3 * np.minimum(t, 200) + DEPTH + 8) * U * p, p, dtype)


def log_softmax(x, dtype):
    """Return log softmax and a bound: the sum as in `softmax`, its logarithm 2 u relative."""
    t = x.astype(np.float64).max(-1, keepdims=True) - x.astype(np.float64)
    log = np.log(np.exp(-t).sum(-1, keepdims=True))
    y = -t - log
    return y, rounded((t + DEPTH + 8 + 4 * log + np.abs(y)) * U, y, dtype)


def check(got, expected, bound):
    """Check a result against a reference and its bound, element by element."""
    got = got.astype(np.float64)
    assert np.array_equal(np.isnan(got), np.isnan(expected)), "NaN elsewhere"
    here = ~np.isnan(expected)
    error = np.abs(got - expected)[here]
    worst = (error / bound[here]).max(initial=0.0)
    assert worst <= 1, f"{worst:.3g} times the bound"
