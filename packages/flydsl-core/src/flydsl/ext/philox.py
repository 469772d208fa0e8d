"""Random numbers from counters: Philox (``fx.random``).

A generator has no state: the numbers are a function of a seed and an offset, so every thread can
draw its own without communication, and a backward pass can draw the same again. Integer results are
bit-equal to those of Triton's functions of the same names.

Philox 4x32-10 and 4x64-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011); both pass the statistical tests named there with 10 rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import math_ops
from flydsl.expr.extremes import maximumf
from flydsl.expr.numeric import (
    Float32,
    Int32,
    Numeric,
    Uint32,
    Uint64,
    Uint128,
    as_numeric,
)

__all__ = [
    "normal",
    "philox",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "uniform",
]


@dataclass(frozen=True, slots=True)
class _Form:
    """Constants of a word width.

    Attributes:
        word: Class of the words.
        double: Class twice as wide.
        multipliers: What the even counter words are multiplied with.
        steps: What the key words grow by in every round.
    """

    word: type[Numeric]
    double: type[Numeric]
    multipliers: tuple[int, int]
    steps: tuple[int, int]


_FORMS = {
    32: _Form(Uint32, Uint64, (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: _Form(
        Uint64,
        Uint128,
        (0xD2E7470EE14C6C93, 0xCA5A826395121157),
        (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
    ),
}

_SCALE = 4.6566127342e-10
"""Just below 2**-31, so that the largest product stays below one in `Float32`."""


def _integer(value: Any, what: str) -> Numeric:
    number = as_numeric(value)
    if number is None or not number.is_integer or number.is_index or number.width == 1:
        raise UserTypeError(f"{what} is an integer", code="FLY-U285", value=value)
    return number


def _word(value: Any, form: _Form, what: str) -> Numeric:
    """Return a word: a Python number modulo the word size, other integers with the same bits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return form.word(value % (1 << form.word.width))
    number = _integer(value, what)
    if number.is_static():
        return form.word(int(number.value) % (1 << form.word.width))
    return number.to(form.word)


def _product(a: Numeric, constant: int, form: _Form) -> tuple[Numeric, Numeric]:
    """Return the high and the low word of a product."""
    wide = a.to(form.double) * form.double(constant)
    return (wide >> form.word.width).to(form.word), wide.to(form.word)


def philox(
    counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any], n_rounds: int = 10, width: int = 32
) -> tuple[Any, Any, Any, Any]:
    """Return the four words that Philox makes of a counter and a key.

    Args:
        counter: Four integers, taken modulo two to the width.
        key: Two integers.
        n_rounds: Rounds; fewer than 10 are faster and of less quality.
        width: Bits of a word: 32 (`Uint32` results) or 64 (`Uint64`).

    Raises:
        UserTypeError: A word is no integer.
        UserValueError: No such width, or a number of rounds that is no positive int.
    """
    form = _FORMS.get(width)
    if form is None:
        raise UserValueError(
            "Philox has no such words", code="FLY-U285", value=width, allowed="32, 64"
        )
    if n_rounds < 1:
        raise UserValueError(
            "the number of rounds is a positive int", code="FLY-U285", value=n_rounds
        )
    c0, c1, c2, c3 = (_word(item, form, "a counter word") for item in counter)
    k0, k1 = (_word(item, form, "a key word") for item in key)
    for _ in range(n_rounds):
        high0, low0 = _product(c0, form.multipliers[0], form)
        high1, low1 = _product(c2, form.multipliers[1], form)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0  # type: ignore[operator]
        k0, k1 = k0 + form.word(form.steps[0]), k1 + form.word(form.steps[1])
    return c0, c1, c2, c3


def _halves(value: Any, what: str) -> tuple[Any, Any]:
    """Return the low and high 32 bits of an integer; the high ones of a narrow one are zero."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value % (1 << 32), (value >> 32) % (1 << 32)
    number = _integer(value, what)
    if number.is_static():
        return _halves(int(number.value) % (1 << number.width), what)
    if number.width <= 32:
        return number.to(Uint32), 0
    wide = number.to(Uint64)
    return wide.to(Uint32), (wide >> 32).to(Uint32)


def randint4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Return four random `Uint32` of a seed and an offset, both integers of up to 64 bits.

    The seed's halves are the key. The offset's low half is the first counter word; the second one
    is the high half of an offset wider than 32 bits, else zero.

    Raises:
        UserTypeError: The seed or offset is no integer.
    """
    low, high = _halves(offset, "an offset")
    return philox((low, high, 0, 0), _halves(seed, "a seed"), n_rounds)


def randint(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
    """Return a random `Uint32` of a seed and an offset: the first of `randint4x`."""
    return randint4x(seed, offset, n_rounds)[0]


def _fraction(word: Any) -> Any:
    """Return a `Float32` in [0, 1): the word as a signed number, folded, times about 2**-31."""
    signed = word.to(Int32)
    return (signed ^ (signed >> 31)).to(Float32) * Float32(_SCALE)


def rand4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Return four random `Float32`, uniform in [0, 1).

    They are whole multiples of about 2**-31, rounded to `Float32` (24 bits).
    """
    a, b, c, d = randint4x(seed, offset, n_rounds)
    return _fraction(a), _fraction(b), _fraction(c), _fraction(d)


def rand(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
    """Return a random `Float32`, uniform in [0, 1): the first of `rand4x`."""
    return _fraction(randint(seed, offset, n_rounds))


def _normal_pair(u1: Any, u2: Any) -> tuple[Any, Any]:
    """Return two independent normal numbers of two uniform ones (Box and Muller 1958)."""
    angle = u2 * Float32(2 * math.pi)
    radius = math_ops.sqrt(Float32(-2.0) * math_ops.log(maximumf(u1, Float32(1.0e-7))))
    return radius * math_ops.cos(angle), radius * math_ops.sin(angle)


def randn4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Any, Any, Any, Any]:
    """Return four random `Float32` of the standard normal distribution.

    Their magnitude is at most 5.68 (uniform numbers below 1e-7 count as 1e-7).
    """
    a, b, c, d = rand4x(seed, offset, n_rounds)
    return *_normal_pair(a, b), *_normal_pair(c, d)


def randn(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
    """Return a random `Float32` of the standard normal distribution: the first of `randn4x`."""
    a, b, _, _ = rand4x(seed, offset, n_rounds)
    return _normal_pair(a, b)[0]


def uniform(seed: Any, offset: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Return ``low + (high - low) * rand(seed, offset)`` in `Float32`, rounded in every step.

    By rounding it may equal `high`.
    """
    low, high = Float32(low), Float32(high)
    return low + (high - low) * rand(seed, offset)


def normal(seed: Any, offset: Any, mean: Any = 0.0, deviation: Any = 1.0) -> Any:
    """Return ``mean + deviation * randn(seed, offset)`` in `Float32`, rounded in every step."""
    return Float32(mean) + Float32(deviation) * randn(seed, offset)
