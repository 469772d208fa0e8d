"""References in float64 for rotations, each with a bound on the error.

u = 2^-24 is the unit roundoff of f32. A rotated element a·cos - b·sin has one rounded product and
one fused multiply-add: its error is at most u (|b·sin| + |result|) and terms in u².
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

U = 2.0**-24
BF16 = np.dtype(ml_dtypes.bfloat16)
ROUNDING = {np.dtype(np.float32): U, np.dtype(np.float16): 2.0**-11, BF16: 2.0**-8}
# Half the distance of the subnormals of f16; f32 and bf16 do not get there.
LEAST = {np.dtype(np.float32): 0.0, np.dtype(np.float16): 2.0**-25, BF16: 0.0}


def pairs(x, first, size, style):
    """Return views of the first and of the second elements of the rotated pairs."""
    half = size // 2
    if style == "neox":
        return x[..., first : first + half], x[..., first + half : first + size]
    return x[..., first : first + size : 2], x[..., first + 1 : first + size : 2]


def rotate(x, cos, sin, style, first=0, size=None):
    """Rotate heads [tokens, heads, dim] in float64; cos and sin are [tokens, columns].

    Returns:
        The result, and the bound on the error of computing it in f32.
    """
    columns = cos.shape[-1]
    size = 2 * columns if size is None else size
    y, bound = x.astype(np.float64), np.zeros(x.shape)
    a, b = pairs(x.astype(np.float64), first, size, style)
    c, s = cos.astype(np.float64)[:, None], sin.astype(np.float64)[:, None]
    if columns == size:
        (ca, cb), (sa, sb) = pairs(c, 0, size, style), pairs(s, 0, size, style)
    else:
        ca, cb, sa, sb = c, c, s, s
    results = (a * ca - b * sa, b * sa), (b * cb + a * sb, a * sb)
    for half, (value, product) in enumerate(results):
        pairs(y, first, size, style)[half][...] = value
        error = U * 1.001 * (np.abs(product) + np.abs(value))
        pairs(bound, first, size, style)[half][...] = error
    return y, bound


def check(found, expected, bound):
    """Compare with a reference, one rounding to the result's type added to the bound."""
    kind = np.dtype(found.dtype)
    limit = bound + ROUNDING[kind] * (np.abs(expected) + bound) + LEAST[kind]
    error = np.abs(found.astype(np.float64) - expected)
    assert found.shape == expected.shape
    assert (error <= limit).all(), (error - limit).max()


def tables(random, positions, columns, dtype=np.float32):
    """Return cosines and sines of random angles."""
    angles = random.uniform(-7, 7, (positions, columns))
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
