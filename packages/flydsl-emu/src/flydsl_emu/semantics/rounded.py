"""A vector API whose float arithmetic rounds as MODE says."""

from __future__ import annotations

from typing import Any

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bits_of
from flydsl_emu.semantics.modes import rounding
from flydsl_emu.semantics.value_types import F16, F32, F64, U16, U32, U64, Type

__all__ = ["Rounded"]

_UNSIGNED = {F16.name: U16, F32.name: U32, F64.name: U64}


class Rounded:
    """Sums, products and conversions in a rounding mode; everything else as in `api`.

    Narrow results are rounded from double, where a product of two is exact and a sum has an exact
    error; doubles are rounded to nearest first and corrected by the sign of their error. Products
    of doubles keep that sign in the denormal range as well.

    Args:
        api: Vector API that rounds to nearest.
        mode: MODE register.
        type: Float type of the operands of sums and products.
    """

    def __init__(self, api: VectorApi, mode: int, type: Type) -> None:
        self._api = api
        self._mode = mode
        self._type = type

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    # Steps ---------------------------------------------------------------------------------------
    def _step(self, x: Value, type: Type, up: bool) -> Value:
        """Return the next float above or below."""
        v, unsigned = self._api, _UNSIGNED[type.name]
        bits = bits_of(v, x, type)
        sign = 1 << (type.bits - 1)
        negative = v.ne(v.bit_and(bits, sign), 0)
        outward = v.bit_xor(negative, v.eq(bits, bits)) if up else negative
        moved = v.select(outward, v.add(bits, 1), v.sub(bits, 1))
        smallest = v.const(unsigned, 1 if up else sign | 1)
        return v.cast(v.select(v.eq(x, 0.0), smallest, moved), type)

    def _directed(self, x: Value, type: Type, above: Value, below: Value) -> Value:
        """Correct a nearest result, given whether the exact value is above or below it."""
        v, mode = self._api, rounding(self._mode, type)
        if mode == 1:
            return v.select(above, self._step(x, type, True), x)
        if mode == 2:
            return v.select(below, self._step(x, type, False), x)
        if mode == 3:
            down = v.bit_and(below, v.lt(0.0, x))
            up = v.bit_and(above, v.lt(x, 0.0))
            x = v.select(down, self._step(x, type, False), x)
            return v.select(up, self._step(x, type, True), x)
        return x

    def _narrow(self, total: Value, error: Value | None, type: Type) -> Value:
        """Round ``total + error``, doubles of which the second is far below the first's ulp."""
        v = self._api
        nearest = v.convert(total, type)
        rest = v.sub(total, v.convert(nearest, F64))
        above, below = v.lt(0.0, rest), v.lt(rest, 0.0)
        if error is not None:
            equal = v.eq(rest, 0.0)
            above = v.bit_or(above, v.bit_and(equal, v.lt(0.0, error)))
            below = v.bit_or(below, v.bit_and(equal, v.lt(error, 0.0)))
        return self._directed(nearest, type, above, below)

    def _wide(self, total: Value, error: Value, operands: tuple[Value, ...]) -> Value:
        """Correct a double; an infinite sum of finite operands lies beyond all of them."""
        v = self._api
        finite = None
        for x in operands:
            test = v.lt(v.abs(x), float("inf"))
            finite = test if finite is None else v.bit_and(finite, test)
        over = v.bit_and(finite, v.eq(v.abs(total), float("inf")))
        above = v.bit_or(v.lt(0.0, error), v.bit_and(over, v.lt(total, 0.0)))
        below = v.bit_or(v.lt(error, 0.0), v.bit_and(over, v.lt(0.0, total)))
        return self._directed(total, F64, above, below)

    def _sum_error(self, a: Value, b: Value, total: Value) -> Value:
        v = self._api
        part = v.sub(total, a)
        return v.add(v.sub(a, v.sub(total, part)), v.sub(b, part))

    def _zero_sum(self, result: Value, a: Value, b: Value, type: Type) -> Value:
        """An exact zero sum is negative when rounding down, unless both operands are +0."""
        v = self._api
        if rounding(self._mode, type) != 2:
            return result
        wide = _UNSIGNED[F64.name]
        either = v.bit_or(v.cast(a, wide), v.cast(b, wide))
        exact = v.eq(v.add(a, b), 0.0)
        negative = v.bit_and(exact, v.eq(v.shr(either, 63), 1))
        negative = v.bit_and(negative, v.eq(result, 0.0))
        return v.select(negative, v.const(type, -0.0), result)

    # Vector API ----------------------------------------------------------------------------------
    def convert(self, x: Value, type: Type) -> Value:
        """Implement `VectorApi.convert`."""
        if type.kind != "f" or type is F64:
            return self._api.convert(x, type)
        return self._narrow(self._api.convert(x, F64), None, type)

    def ldexp(self, x: Value, exponent: Value) -> Value:
        """Implement `VectorApi.ldexp`."""
        v = self._api
        bounded = v.max(v.min(exponent, 600), -600)
        return self._narrow(v.ldexp(v.convert(x, F64), bounded), None, self._type)

    def add(self, a: Value, b: Value) -> Value:
        """Implement `VectorApi.add`."""
        v, kind = self._api, self._type
        x, y = v.convert(a, F64), v.convert(b, F64)
        total = v.add(x, y)
        error = self._sum_error(x, y, total)
        if kind is F64:
            return self._zero_sum(self._wide(total, error, (x, y)), x, y, kind)
        return self._zero_sum(self._narrow(total, error, kind), x, y, kind)

    def sub(self, a: Value, b: Value) -> Value:
        """Implement `VectorApi.sub`."""
        return self.add(a, self._api.neg(b))

    def mul(self, a: Value, b: Value) -> Value:
        """Implement `VectorApi.mul`."""
        v = self._api
        x, y = v.convert(a, F64), v.convert(b, F64)
        total = v.mul(x, y)
        if self._type is not F64:
            return self._narrow(total, None, self._type)
        error = v.fma(x, y, v.neg(total))
        # A tiny product's error is found among larger numbers.
        tiny = v.lt(v.abs(total), 2.0**-900)
        swap = v.lt(v.abs(y), v.abs(x))
        small, large = v.select(swap, y, x), v.select(swap, x, y)
        raised = v.mul(v.mul(small, 2.0**600), 2.0**600)
        product = v.mul(v.mul(total, 2.0**600), 2.0**600)
        return self._wide(
            total, v.select(tiny, v.fma(raised, large, v.neg(product)), error), (x, y)
        )

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Implement `VectorApi.fma`."""
        v, kind = self._api, self._type
        x, y, z = (v.convert(q, F64) for q in (a, b, c))
        if kind is not F64:
            product = v.mul(x, y)
            total = v.add(product, z)
            error = self._sum_error(product, z, total)
            return self._zero_sum(self._narrow(total, error, kind), product, z, kind)
        # The error of a fused multiply-add (Boldo and Muller, "Exact and approximated error of the
        # FMA", 2011), exact where nothing underflows or overflows.
        total = v.fma(x, y, z)
        first = v.mul(x, y)
        second = v.fma(x, y, v.neg(first))
        alpha = v.add(z, second)
        alpha_error = self._sum_error(z, second, alpha)
        beta = v.add(first, alpha)
        beta_error = self._sum_error(first, alpha, beta)
        gamma = v.add(v.sub(beta, total), beta_error)
        error = v.add(gamma, alpha_error)
        return self._zero_sum(self._wide(total, error, (x, y, z)), first, z, kind)
