"""Attention in float64 with a bound on the error of a result computed in f32 and a narrow type.

Notation: u = 2^-24 for f32. Weights are rounded to the element type with unit roundoff w: 2^-8 for
bf16, or 1.3 * 2^-8 where they are enlarged and cut instead, 2^-11 for f16, 2^-4 for e4m3 with 2^-10
of the largest one where they are subnormal. Scores are sums of d products of
exact factors, each addition off by u of the magnitudes; then come the factor, the difference with
the reference and the exponential. An error e of a score changes its weight by e relative.
Logarithms are of sums of weights that are not rounded to the type.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

U = 2.0**-24
BF16 = np.dtype(ml_dtypes.bfloat16)
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
FNUZ = np.dtype(ml_dtypes.float8_e4m3fnuz)
# Unit roundoff of a type and half the distance of its subnormals.
ROUNDING = {
    np.dtype(np.float32): (U, 2.0**-126),
    np.dtype(np.float16): (2.0**-11, 2.0**-25),
    BF16: (2.0**-8, 2.0**-126),
    FP8: (2.0**-4, 2.0**-10),
    FNUZ: (2.0**-4, 2.0**-11),
}


@dataclass
class Case:
    """One sequence's arguments: q [Sq, H, D], k [Sk, Hkv, D], v [Sk, Hkv, Dv], and what changes.

    With `narrow_sums` the denominator is the sum of rounded weights.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scale: float | None = None
    left: int | None = None
    right: int | None = None
    bias: np.ndarray | None = None
    slopes: np.ndarray | None = None
    sink: np.ndarray | None = None
    units: tuple[float, float, float] = (1.0, 1.0, 1.0)
    narrow_sums: bool = False


def mask(rows, keys, left, right):
    """Return which keys each row sees."""
    at = np.arange(rows)[:, None] + keys - rows
    j = np.arange(keys)[None]
    seen = np.ones((rows, keys), bool)
    if left is not None:
        seen &= j >= at - left
    if right is not None:
        seen &= j <= at + right
    return seen


def attention(case, out):
    """Return (result, its bound, logarithms [H, Sq], their bound) of one sequence in float64.

    Args:
        case: The arguments.
        out: Element type of the result.
    """
    q, k, v = (x.astype(np.float64) for x in (case.q, case.k, case.v))
    (rows, heads, d), keys = q.shape, k.shape[0]
    group = heads // k.shape[1]
    q, k, v = q * case.units[0], np.repeat(k, group, 1) * case.units[1], np.repeat(v, group, 1)
    v = v * case.units[2]
    scale = d**-0.5 if case.scale is None else case.scale
    seen = mask(rows, keys, case.left, case.right)
    k = np.where(np.isnan(k), 0.0, k)
    s = np.einsum("ihd,jhd->hij", q, k) * scale
    size = np.einsum("ihd,jhd->hij", np.abs(q), np.abs(k)) * scale
    if case.bias is not None:
        s, size = s + case.bias, size + np.abs(case.bias)
    if case.slopes is not None:
        at = np.arange(rows)[:, None] + keys - rows
        fall = np.abs(at - np.arange(keys)[None]) * case.slopes[:, None, None]
        s, size = s - fall, size + fall
    s = np.where(seen, s, -np.inf)
    sink = np.full(heads, -np.inf) if case.sink is None else case.sink.astype(np.float64)
    top = np.maximum(s.max(-1, initial=-np.inf), sink[:, None])
    safe = np.where(np.isinf(top), 0.0, top)
    p = np.exp(s - safe[..., None])
    total = p.sum(-1) + np.exp(sink[:, None] - safe)
    with np.errstate(divide="ignore"):
        lse = np.log(total) + safe
    p = p / np.where(total > 0, total, 1.0)[..., None]
    v = np.where(np.isnan(v), 0.0, v)
    y = np.einsum("hij,jhe->ihe", p, v)
    # Weights: sums of d products, then six roundings of magnitudes, then the type's.
    unit, least = ROUNDING[case.q.dtype]
    unit *= 1.3 if case.q.dtype == BF16 else 1
    relative = (d + 8) * U * (np.where(seen, size, 0.0) + np.abs(safe)[..., None]) + 4 * U
    worst = relative.max(-1, initial=0.0)
    weight = p * (relative + worst[..., None] + unit + (keys + 64) * U)
    if case.q.dtype in (FP8, FNUZ):
        # The sum is of rounded weights.
        weight = weight + p * unit + (2.0 * least / 8.0) * p.max(-1, initial=0.0)[..., None]
    elif case.narrow_sums:
        weight = weight + p * unit + least * p.max(-1, initial=0.0)[..., None]
    elif case.q.dtype == np.float16:
        weight = weight + least * p.max(-1, initial=0.0)[..., None]
    weight = np.where(seen, weight, 0.0)
    bound = np.einsum("hij,jhe->ihe", weight, np.abs(v))
    final, smallest = ROUNDING[np.dtype(out)]
    bound = bound + final * (np.abs(y) + bound) + smallest
    off = worst + (keys + 64) * U
    return y, bound, lse, off + 4 * U * np.abs(safe) + 4 * U


def check(got, expected, bound, what="the result"):
    """Check an array against a reference and its bound, element by element."""
    got = np.asarray(got).astype(np.float64)
    assert got.shape == expected.shape
    same = got == expected
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - expected))
    worst = (error / np.maximum(bound, 1e-300)).max(initial=0.0)
    assert worst <= 1, f"{what}: {worst:.3g} times the bound"
