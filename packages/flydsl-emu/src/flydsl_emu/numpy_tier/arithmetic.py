"""The arithmetic of the vector API on numpy arrays.

A value is an array of shape ``(waves, lanes)``, ``(waves, 1)`` for a uniform one, or a numpy scalar
for a constant. Operations are ufunc calls, so integer overflow wraps silently.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from flydsl_emu.numpy_tier.fused import fused_multiply_add
from flydsl_emu.semantics import elementary
from flydsl_emu.semantics.value_types import Type

if TYPE_CHECKING:
    from flydsl_emu.semantics.api import VectorApi

__all__ = ["DTYPES", "Arithmetic", "Array"]

Array = Any

DTYPES: dict[str, np.dtype[Any]] = {
    "b1": np.dtype(np.bool_),
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16),
    "i16": np.dtype(np.int16),
    "u32": np.dtype(np.uint32),
    "i32": np.dtype(np.int32),
    "u64": np.dtype(np.uint64),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}


class Arithmetic:
    """Constants, conversions, arithmetic, bits and comparisons."""

    # Constants and types -------------------------------------------------------------------------
    def const(self, type: Type, value: float) -> Array:
        """Implement `VectorApi.const`."""
        dtype = DTYPES[type.name]
        if type.kind in "ui":
            mask = (1 << type.bits) - 1
            return np.asarray(int(value) & mask, _UNSIGNED.get(dtype.itemsize, np.uint8)).view(
                dtype
            )[()]
        return dtype.type(value)

    def cast(self, x: Array, type: Type) -> Array:
        """Implement `VectorApi.cast`."""
        return x.view(DTYPES[type.name])

    def convert(self, x: Array, type: Type) -> Array:
        """Implement `VectorApi.convert`."""
        dtype = DTYPES[type.name]
        return x if x.dtype == dtype else x.astype(dtype)

    def truncate(self, x: Array, type: Type) -> Array:
        """Implement `VectorApi.truncate`."""
        dtype = DTYPES[type.name]
        limits = np.iinfo(dtype)
        wide = np.trunc(np.asarray(x, np.float64))
        bounded = np.clip(np.where(np.isnan(wide), 0.0, wide), limits.min, limits.max)
        return bounded.astype(dtype)

    # Arithmetic ----------------------------------------------------------------------------------
    def add(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.add`."""
        return np.add(a, b)

    def sub(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.sub`."""
        return np.subtract(a, b)

    def mul(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.mul`."""
        return np.multiply(a, b)

    def mul_high(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.mul_high`."""
        signed = a.dtype.kind == "i"
        wide = np.int64 if signed else np.uint64
        product = np.multiply(np.asarray(a, wide), np.asarray(b, wide))
        return np.right_shift(product, wide(32)).astype(a.dtype)

    def div(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.div`."""
        return np.divide(a, b)

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        """Implement `VectorApi.fma`."""
        return fused_multiply_add(a, b, c)

    def neg(self, x: Array) -> Array:
        """Implement `VectorApi.neg`."""
        return np.negative(x)

    def abs(self, x: Array) -> Array:
        """Implement `VectorApi.abs`."""
        return np.absolute(x)

    def min(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.min`."""
        if getattr(a, "dtype", np.dtype(int)).kind != "f":
            return np.minimum(a, b)
        result = np.fmin(a, b)
        return result if result.all() else _signed_zero(result, a, b, np.bitwise_or)

    def max(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.max`."""
        if getattr(a, "dtype", np.dtype(int)).kind != "f":
            return np.maximum(a, b)
        result = np.fmax(a, b)
        return result if result.all() else _signed_zero(result, a, b, np.bitwise_and)

    def floor(self, x: Array) -> Array:
        """Implement `VectorApi.floor`."""
        return np.floor(x)

    def ceil(self, x: Array) -> Array:
        """Implement `VectorApi.ceil`."""
        return np.ceil(x)

    def trunc(self, x: Array) -> Array:
        """Implement `VectorApi.trunc`."""
        return np.trunc(x)

    def rint(self, x: Array) -> Array:
        """Implement `VectorApi.rint`."""
        return np.rint(x)

    def sqrt(self, x: Array) -> Array:
        """Implement `VectorApi.sqrt`."""
        return np.sqrt(x)

    def exp2(self, x: Array) -> Array:
        """Implement `VectorApi.exp2`."""
        return _exp2(np.asarray(x, np.float64)).astype(x.dtype)

    def log2(self, x: Array) -> Array:
        """Implement `VectorApi.log2`."""
        return elementary.log2(cast("VectorApi", self), np.asarray(x, np.float64)).astype(x.dtype)

    def sin(self, x: Array) -> Array:
        """Implement `VectorApi.sin`."""
        return elementary.sin(cast("VectorApi", self), np.asarray(x, np.float64)).astype(x.dtype)

    def cos(self, x: Array) -> Array:
        """Implement `VectorApi.cos`."""
        return elementary.cos(cast("VectorApi", self), np.asarray(x, np.float64)).astype(x.dtype)

    def ldexp(self, x: Array, exponent: Array) -> Array:
        """Implement `VectorApi.ldexp`."""
        # Beyond +-4096 the result is decided; the bound keeps the C library's int conversions safe.
        bounded = np.clip(exponent, -4096, 4096)
        if x.dtype == np.float64:
            return np.ldexp(x, bounded)
        return np.ldexp(np.asarray(x, np.float64), bounded).astype(x.dtype)

    # Bits ----------------------------------------------------------------------------------------
    def bit_and(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.bit_and`."""
        return np.bitwise_and(a, b)

    def bit_or(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.bit_or`."""
        return np.bitwise_or(a, b)

    def bit_xor(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.bit_xor`."""
        return np.bitwise_xor(a, b)

    def bit_not(self, x: Array) -> Array:
        """Implement `VectorApi.bit_not`."""
        return np.invert(x)

    def shl(self, x: Array, amount: Array) -> Array:
        """Implement `VectorApi.shl`."""
        return np.left_shift(x, _amount(x, amount))

    def shr(self, x: Array, amount: Array) -> Array:
        """Implement `VectorApi.shr`."""
        return np.right_shift(x, _amount(x, amount))

    def popcount(self, x: Array) -> Array:
        """Implement `VectorApi.popcount`."""
        return np.bitwise_count(x).astype(np.uint32)

    def leading_zeros(self, x: Array) -> Array:
        """Implement `VectorApi.leading_zeros`."""
        bits = x.dtype.itemsize * 8
        return np.subtract(np.uint32(bits), self.popcount(_smear(x)))

    def trailing_zeros(self, x: Array) -> Array:
        """Implement `VectorApi.trailing_zeros`."""
        below = np.bitwise_and(np.invert(x), np.subtract(x, x.dtype.type(1)))
        return self.popcount(below)

    def reverse_bits(self, x: Array) -> Array:
        """Implement `VectorApi.reverse_bits`."""
        kind = x.dtype.type
        width = x.dtype.itemsize * 8
        step, mask = width // 2, (1 << width) - 1
        pattern = mask
        while step:
            pattern ^= pattern << step & mask
            low = np.bitwise_and(np.right_shift(x, kind(step)), kind(pattern))
            high = np.left_shift(np.bitwise_and(x, kind(pattern)), kind(step))
            x = np.bitwise_or(low, high)
            step //= 2
        return x

    def lookup(self, table: tuple[int, ...], index: Array) -> Array:
        """Implement `VectorApi.lookup`."""
        return _table(table)[index]

    # Comparison and choice -----------------------------------------------------------------------
    def eq(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.eq`."""
        return np.equal(a, b)

    def ne(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.ne`."""
        return np.not_equal(a, b)

    def lt(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.lt`."""
        return np.less(a, b)

    def le(self, a: Array, b: Array) -> Array:
        """Implement `VectorApi.le`."""
        return np.less_equal(a, b)

    def is_nan(self, x: Array) -> Array:
        """Implement `VectorApi.is_nan`."""
        return np.isnan(x)

    def select(self, condition: Array, a: Array, b: Array) -> Array:
        """Implement `VectorApi.select`."""
        return np.where(condition, a, b)


def _amount(x: Array, amount: Array) -> Array:
    bits = x.dtype.itemsize * 8
    if isinstance(amount, int):
        return x.dtype.type(amount & (bits - 1))
    return np.bitwise_and(amount, x.dtype.type(bits - 1))


def _smear(x: Array) -> Array:
    step, bits = 1, x.dtype.itemsize * 8
    while step < bits:
        x = np.bitwise_or(x, np.right_shift(x, x.dtype.type(step)))
        step *= 2
    return x


def _signed_zero(result: Array, a: Array, b: Array, combine: Any) -> Array:
    """Give zeros of a minimum or maximum the sign that IEEE asks for."""
    unsigned = _UNSIGNED[result.dtype.itemsize]
    a, b = np.asarray(a, result.dtype), np.asarray(b, result.dtype)
    both = np.logical_and(np.equal(a, 0), np.equal(b, 0))
    if not both.any():
        return result
    bits = combine(a.view(unsigned), b.view(unsigned)).view(result.dtype)
    return np.where(both, bits, result)


def _exp2(x: Array) -> Array:
    """Return what `elementary.exp2` does, without a new array for each step."""
    y = np.clip(x, -200.0, 200.0)
    power = np.add(y, elementary.SHIFTER)
    np.subtract(y, np.subtract(power, elementary.SHIFTER), out=y)
    bits = power.view(np.int64)
    np.left_shift(bits, 52, out=bits)
    np.add(bits, 1023 << 52, out=bits)
    total = np.full_like(y, elementary.EXP2[-1])
    for c in reversed(elementary.EXP2[:-1]):
        np.multiply(total, y, out=total)
        np.add(total, c, out=total)
    np.multiply(total, power, out=total)
    return np.where(np.isnan(x), x, total)


@cache
def _table(entries: tuple[int, ...]) -> Array:
    return np.array(entries, np.uint32)
