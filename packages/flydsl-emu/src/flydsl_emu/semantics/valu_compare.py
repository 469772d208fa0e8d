"""v_cmp, v_cmpx, v_cmp_class and v_cndmask."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bits_of, is_signaling
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.value_types import F16, F32, F64, Type

__all__ = ["FLOAT_COMPARISONS"]

_Compare = Callable[[VectorApi, Value, Value], Value]


def _either_nan(v: VectorApi, a: Value, b: Value) -> Value:
    return v.bit_or(v.is_nan(a), v.is_nan(b))


def _never(v: VectorApi, a: Value, b: Value) -> Value:
    same = v.eq(a, b)
    return v.bit_and(same, v.bit_not(same))


def _always(v: VectorApi, a: Value, b: Value) -> Value:
    return v.bit_not(_never(v, a, b))


def _not(compare: _Compare) -> _Compare:
    return lambda v, a, b: v.bit_not(compare(v, a, b))


_EQ: _Compare = lambda v, a, b: v.eq(a, b)  # noqa: E731
_LT: _Compare = lambda v, a, b: v.lt(a, b)  # noqa: E731
_LE: _Compare = lambda v, a, b: v.le(a, b)  # noqa: E731
_GT: _Compare = lambda v, a, b: v.lt(b, a)  # noqa: E731
_GE: _Compare = lambda v, a, b: v.le(b, a)  # noqa: E731


def _unequal(v: VectorApi, a: Value, b: Value) -> Value:
    return v.bit_or(v.lt(a, b), v.lt(b, a))


FLOAT_COMPARISONS: dict[str, _Compare] = {
    "f": _never,
    "lt": _LT,
    "eq": _EQ,
    "le": _LE,
    "gt": _GT,
    "lg": _unequal,
    "ge": _GE,
    "o": _not(_either_nan),
    "u": _either_nan,
    "nge": _not(_GE),
    "nlg": _not(_unequal),
    "ngt": _not(_GT),
    "nle": _not(_LE),
    "neq": _not(_EQ),
    "nlt": _not(_LT),
    "tru": _always,
}
_INTEGER: dict[str, _Compare] = {
    "f": _never,
    "lt": _LT,
    "eq": _EQ,
    "le": _LE,
    "gt": _GT,
    "ne": _not(_EQ),
    "ge": _GE,
    "t": _always,
}

for _t in ("f16", "f32", "f64"):
    for _name, _compare in FLOAT_COMPARISONS.items():
        define(f"v_cmp_{_name}_{_t}", f"mask = {_t} {_t}", _compare)
        define(f"v_cmpx_{_name}_{_t}", f"optional.mask exec = {_t} {_t}", _compare)
for _t in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _name, _compare in _INTEGER.items():
        define(f"v_cmp_{_name}_{_t}", f"mask = {_t} {_t}", _compare)
        define(f"v_cmpx_{_name}_{_t}", f"optional.mask exec = {_t} {_t}", _compare)


def _class(type: Type) -> Callable[..., Value]:
    """Return the test of a float against a mask of ten classes."""
    smallest = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}[type.bits]

    def call(v: VectorApi, x: Value, classes: Value) -> Value:
        size = v.abs(x)
        bits = bits_of(v, x, type)
        negative = v.eq(v.shr(bits, type.bits - 1), 1)
        positive = v.bit_not(negative)
        nan, signaling = v.is_nan(x), is_signaling(v, x, type)
        infinite, zero = v.eq(size, float("inf")), v.eq(size, 0.0)
        denormal = v.bit_and(v.lt(size, smallest), v.bit_not(zero))
        normal = v.bit_and(v.le(smallest, size), v.lt(size, float("inf")))
        tests = (
            signaling,
            v.bit_and(nan, v.bit_not(signaling)),
            v.bit_and(negative, infinite),
            v.bit_and(negative, normal),
            v.bit_and(negative, denormal),
            v.bit_and(negative, zero),
            v.bit_and(positive, zero),
            v.bit_and(positive, denormal),
            v.bit_and(positive, normal),
            v.bit_and(positive, infinite),
        )
        found = None
        for bit, test in enumerate(tests):
            hit = v.bit_and(test, v.ne(v.bit_and(classes, 1 << bit), 0))
            found = hit if found is None else v.bit_or(found, hit)
        return found

    return call


# The classes of the f16 form may be either half of a register on gfx11 and later.
for _type, _t, _c in ((F16, "f16", "u16"), (F32, "f32", "u32"), (F64, "f64", "u32")):
    define(f"v_cmp_class_{_t}", f"mask = {_t} {_c}", _class(_type))
    define(f"v_cmpx_class_{_t}", f"optional.mask exec = {_t} {_c}", _class(_type))

define("v_cndmask_b32", "u32 = u32 u32 mask", lambda v, a, b, c: v.select(c, b, a))
