"""Float arithmetic of the vector ALU: f16, f32 and f64.

Results are correctly rounded; the transcendentals are evaluated in double and rounded once, where
hardware is allowed one ULP and more. Minimum and maximum follow IEEE mode (signalling NaNs come out
quiet), which is how kernels run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bits_of, exponent
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import F16, F32, F64, I32, U16, U32, Type

__all__ = ["propagating"]

_FLOATS = ((F16, "f16"), (F32, "f32"), (F64, "f64"))


def _swapped(name: str) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value) -> Value:
        return getattr(v, name)(b, a)

    return call


for _type, _t in _FLOATS:
    define(f"v_add_{_t}", f"{_t} = {_t} {_t}", "add")
    define(f"v_mul_{_t}", f"{_t} = {_t} {_t}", "mul")
    define(f"v_fma_{_t}", f"{_t} = {_t} {_t} {_t}", "fma", keeps_high=_t == "f16")
    define(f"v_trunc_{_t}", f"{_t} = {_t}", "trunc")
    define(f"v_ceil_{_t}", f"{_t} = {_t}", "ceil")
    define(f"v_floor_{_t}", f"{_t} = {_t}", "floor")
    define(f"v_rndne_{_t}", f"{_t} = {_t}", "rint")
    define(f"v_sqrt_{_t}", f"{_t} = {_t}", "sqrt")
    if _t != "f64":
        define(f"v_sub_{_t}", f"{_t} = {_t} {_t}", "sub")
        define(f"v_subrev_{_t}", f"{_t} = {_t} {_t}", _swapped("sub"))
        define(f"v_exp_{_t}", f"{_t} = {_t}", "exp2")
        define(f"v_log_{_t}", f"{_t} = {_t}", "log2")
    define(f"v_max_{_t}", f"{_t} = {_t} {_t}", lambda v, a, b: v.max(a, b))
    define(f"v_min_{_t}", f"{_t} = {_t} {_t}", lambda v, a, b: v.min(a, b))


@opcode("v_mul_legacy_f32", "f32 = f32 f32")
def _mul_legacy(v: VectorApi, a: Value, b: Value) -> Value:
    zero = v.bit_or(v.eq(a, 0.0), v.eq(b, 0.0))
    return v.select(zero, v.const(F32, 0.0), v.mul(a, b))


@opcode("v_fmac_f32", "f32 = f32 f32 old")
@opcode("v_fmac_f16", "f16 = f16 f16 old")
@opcode("v_fmac_f64", "f64 = f64 f64 old")
@opcode("v_fmaak_f32", "f32 = f32 f32 f32")
def _fmac(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.fma(a, b, c)


@opcode("v_fmamk_f32", "f32 = f32 f32 f32")
def _fmamk(v: VectorApi, a: Value, k: Value, c: Value) -> Value:
    return v.fma(a, k, c)


@opcode("v_fma_legacy_f16", "f16 = f16 f16 f16")
def _fma_legacy(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.fma(a, b, c)


@opcode("v_max3_f32", "f32 = f32 f32 f32")
@opcode("v_max3_f16", "f16 = f16 f16 f16", keeps_high=True)
def _max3(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.max(v.max(a, b), c)


@opcode("v_min3_f32", "f32 = f32 f32 f32")
@opcode("v_min3_f16", "f16 = f16 f16 f16", keeps_high=True)
def _min3(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.min(v.min(a, b), c)


@opcode("v_med3_f32", "f32 = f32 f32 f32")
@opcode("v_med3_f16", "f16 = f16 f16 f16", keeps_high=True)
def _med3(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    nan = v.bit_or(v.bit_or(v.is_nan(a), v.is_nan(b)), v.is_nan(c))
    low = v.min(v.min(a, b), c)
    middle = v.max(v.min(a, b), v.min(v.max(a, b), c))
    return v.select(nan, low, middle)


def propagating(v: VectorApi, name: str, a: Value, b: Value) -> Value:
    """IEEE-754 2019 minimum or maximum: any NaN gives NaN."""
    both = v.add(a, b)
    nan = v.bit_or(v.is_nan(a), v.is_nan(b))
    return v.select(nan, both, getattr(v, name)(a, b))


@opcode("v_minimum3_f32", "f32 = f32 f32 f32")
@opcode("v_pk_minimum3_f16", "pk.f16 = pk.f16 pk.f16 pk.f16")
def _minimum3(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return propagating(v, "min", propagating(v, "min", a, b), c)


@opcode("v_maximum3_f32", "f32 = f32 f32 f32")
@opcode("v_pk_maximum3_f16", "pk.f16 = pk.f16 pk.f16 pk.f16")
def _maximum3(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return propagating(v, "max", propagating(v, "max", a, b), c)


def _reciprocal(type: Type) -> Callable[..., Value]:
    def call(v: VectorApi, x: Value) -> Value:
        return v.div(v.const(type, 1.0), x)

    return call


def _rsqrt(type: Type) -> Callable[..., Value]:
    # 1/sqrt in double has an error far below half an f32 ULP; f64 rounds twice.
    def call(v: VectorApi, x: Value) -> Value:
        wide = v.convert(x, F64)
        return v.convert(v.div(v.const(F64, 1.0), v.sqrt(wide)), type)

    return call


for _type, _t in _FLOATS:
    define(f"v_rcp_{_t}", f"{_t} = {_t}", _reciprocal(_type))
    define(f"v_rsq_{_t}", f"{_t} = {_t}", _rsqrt(_type))
define("v_rcp_iflag_f32", "f32 = f32", _reciprocal(F32))
define("v_exp_legacy_f32", "f32 = f32", "exp2")
define("v_log_legacy_f32", "f32 = f32", "log2")


def _turn(name: str, type: Type) -> Callable[..., Value]:
    # The hardware's argument is in turns; reducing to one turn first keeps large arguments exact.
    def call(v: VectorApi, x: Value) -> Value:
        wide = v.convert(x, F64)
        part = v.sub(wide, v.floor(wide))
        result = v.convert(getattr(v, name)(v.mul(part, 2.0 * math.pi)), type)
        return v.select(v.eq(x, 0.0), x, result) if name == "sin" else result

    return call


for _type, _t in _FLOATS[:2]:
    define(f"v_sin_{_t}", f"{_t} = {_t}", _turn("sin", _type))
    define(f"v_cos_{_t}", f"{_t} = {_t}", _turn("cos", _type))


def _fract(type: Type, below_one: float) -> Callable[..., Value]:
    def call(v: VectorApi, x: Value) -> Value:
        part = v.sub(x, v.floor(x))
        kept = v.min(part, v.const(type, below_one))
        return v.select(v.is_nan(part), part, kept)

    return call


define("v_fract_f32", "f32 = f32", _fract(F32, 1.0 - 2.0**-24))
define("v_fract_f16", "f16 = f16", _fract(F16, 1.0 - 2.0**-11))
define("v_fract_f64", "f64 = f64", _fract(F64, 1.0 - 2.0**-53))


@opcode("v_ldexp_f32", "f32 = f32 i32")
@opcode("v_ldexp_f64", "f64 = f64 i32")
def _ldexp(v: VectorApi, x: Value, n: Value) -> Value:
    return v.ldexp(x, n)


@opcode("v_ldexp_f16", "f16 = f16 i16")
def _ldexp_half(v: VectorApi, x: Value, n: Value) -> Value:
    return v.ldexp(x, v.convert(n, I32))


def _split(
    type: Type, mantissa: int, bias: int
) -> tuple[Callable[..., Value], Callable[..., Value]]:
    """Return frexp's mantissa and exponent for one type."""
    scale = mantissa + 1
    special = (1 << (type.bits - 1 - mantissa)) - 1

    def exponent_of(v: VectorApi, x: Value) -> Value:
        field = exponent(v, x, type)
        small = v.eq(field, 0)
        scaled = exponent(v, v.mul(x, 2.0**scale), type)
        value = v.select(small, v.sub(scaled, bias + scale - 1), v.sub(field, bias - 1))
        none = v.bit_or(v.eq(x, 0.0), v.eq(field, special))
        return v.select(none, v.const(I32, 0), value)

    def mantissa_of(v: VectorApi, x: Value) -> Value:
        field = exponent(v, x, type)
        scaled = v.select(v.eq(field, 0), v.mul(x, 2.0**scale), x)
        keep = (1 << (type.bits - 1)) | ((1 << mantissa) - 1)
        bits = v.bit_and(bits_of(v, scaled, type), keep)
        half = v.cast(v.bit_or(bits, (bias - 1) << mantissa), type)
        none = v.bit_or(v.eq(x, 0.0), v.eq(field, special))
        return v.select(none, x, half)

    return mantissa_of, exponent_of


for _type, _t, _mantissa, _bias in (
    (F32, "f32", 23, 127),
    (F64, "f64", 52, 1023),
    (F16, "f16", 10, 15),
):
    _mantissa_of, _exponent_of = _split(_type, _mantissa, _bias)
    define(f"v_frexp_mant_{_t}", f"{_t} = {_t}", _mantissa_of)
    if _t == "f16":
        define(
            "v_frexp_exp_i16_f16",
            "u16 = f16",
            lambda v, x, f=_exponent_of: v.convert(v.cast(f(v, x), U32), U16),
        )
    else:
        define(f"v_frexp_exp_i32_{_t}", f"i32 = {_t}", _exponent_of)
