"""References in float64 for matrix products, each with a bound on the error, and poisoned memory.

Notation: u = 2^-24 is the unit roundoff of f32. Products of two operands are exact in f32 (8 to 11
bits each). Their sum takes K - 1 additions in an order that the hardware does not say, and one more
for each part of K after the first: each errs by at most u times the sum of magnitudes, so a sum is
off by (K + parts) u sum|a b|. Sums of int8 are exact. What follows is computed in f32: a few
roundings of what it is applied to, and activations with slopes below 1.13 (gelu's largest) whose
own error is below 16 u (|x| + 1): an exponential, a division, and the polynomial before them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

U = 2.0**-24
BF16 = np.dtype(ml_dtypes.bfloat16)
# Unit roundoff and half the distance of subnormals of a result; int8 is apart.
ROUNDING = {
    "float32": (U, 2.0**-150),
    "float16": (2.0**-11, 2.0**-25),
    "bfloat16": (2.0**-8, 2.0**-134),
    "float8_e4m3fn": (2.0**-4, 2.0**-10),
    "float8_e4m3fnuz": (2.0**-4, 2.0**-11),
    "float8_e5m2": (2.0**-3, 2.0**-17),
    "float8_e5m2fnuz": (2.0**-3, 2.0**-18),
}
LARGEST = {
    "int8": 127.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
_erf = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(x / 2)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))),
    "gelu_erf": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
}


def dtype_of(name: str) -> np.dtype:
    """Return an element type by name."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def fp8(arch: str, kind: str = "e4m3") -> str:
    """Return the 8-bit float of an architecture, empty if it has none."""
    if arch.startswith("gfx11"):
        return ""
    suffix = "fnuz" if arch == "gfx942" else "fn" if kind == "e4m3" else ""
    return f"float8_{kind}{suffix}"


def operand(random, shape, dtype: str) -> np.ndarray:
    """Return random numbers of a type, over its useful range."""
    if dtype == "int8":
        return random.integers(-128, 128, shape).astype(np.int8)
    scale = np.exp2(random.integers(-3, 4, (*shape[:-1], 1)))
    return (scale * random.standard_normal(shape)).astype(dtype_of(dtype))


def poison(dtype: np.dtype) -> Any:
    """Return what memory around arrays is filled with: NaN, or a large integer."""
    return 99 if dtype.kind in "iu" else np.nan


def padded(array: np.ndarray, pads: tuple[int, int, int] = (3, 5, 0)) -> np.ndarray:
    """Return a copy whose rows lie apart among poison, at an offset.

    Args:
        array: The array.
        pads: Elements before the first one, elements after each row, rows after each matrix.
    """
    before, after, below = pads
    *outer, rows, columns = array.shape
    count = math.prod(outer)
    pitch = columns + after
    size = before + count * (rows + below) * pitch + 4
    memory = np.full(size, poison(array.dtype), array.dtype)
    inner = memory[before : before + count * (rows + below) * pitch]
    view = inner.reshape(count, rows + below, pitch)[:, :rows, :columns]
    view[...] = array.reshape(view.shape)
    return view[0] if not outer else view


def bits(array: np.ndarray) -> np.ndarray:
    """Return the bytes of an array's memory."""
    return np.ascontiguousarray(array).view(np.uint8)


@dataclass(frozen=True, slots=True)
class After:
    """What follows a product; arrays broadcast to (batch, M, N).

    Attributes:
        scale_a, scale_b: Factors of rows and columns.
        bias: Added to every row.
        activation: Its name.
        residual: Added last.
        scale_out: Divisor.
    """

    scale_a: Any = 1.0
    scale_b: Any = 1.0
    bias: Any = 0.0
    activation: str | None = None
    residual: Any = 0.0
    scale_out: Any = 1.0


def finished(total, magnitude, after: After, out: str, roundings: int):
    """Return the finished results and a bound.

    Args:
        total: Sums in float64.
        magnitude: Sums of the magnitudes of products.
        after: What follows.
        out: Element type of the result.
        roundings: Roundings that a sum has passed through.
    """
    factor = np.abs(np.float64(after.scale_a) * np.float64(after.scale_b))
    x = total * np.float64(after.scale_a) * np.float64(after.scale_b)
    error = (roundings + 3) * U * magnitude * factor
    y = x + np.float64(after.bias)
    error = error + U * (np.abs(x) + np.abs(y))
    z = ACTIVATIONS[after.activation](y)
    if after.activation:
        error = 1.13 * error + 16 * U * (np.abs(y) + 1)
    r = z + np.float64(after.residual)
    error = error + U * (np.abs(r) + error)
    q = r / np.float64(after.scale_out)
    error = error / np.float64(after.scale_out) + 3 * U * np.abs(q)
    if out in LARGEST:
        q = np.clip(q, -LARGEST[out], LARGEST[out])
    if out == "int8":
        return q, error + 0.5
    unit, least = ROUNDING[out]
    return q, error + unit * (np.abs(q) + error) + least


def product(a, b, after: After, out: str, parts: int = 1):
    """Return finished A B, and a bound, for a (…, M, K) and b (…, K, N)."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    magnitude = np.abs(wide_a) @ np.abs(wide_b)
    roundings = 0 if a.dtype == np.int8 else a.shape[-1] + parts
    return finished(wide_a @ wide_b, magnitude, after, out, roundings)


def check(got: np.ndarray, expected, bound) -> None:
    """Check a result against a reference and its bound, element by element."""
    got = got.astype(np.float64)
    assert got.shape == expected.shape
    assert not np.isnan(got).any(), "NaN in the result"
    worst = (np.abs(got - expected) / bound).max(initial=0.0)
    assert worst <= 1, f"{worst:.3g} times the bound"
