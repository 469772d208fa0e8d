"""Vector ALU opcodes that gfx11 and gfx12 add: 16-bit logic, min-max pairs, row permutations."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import (
    bf16_to_f32,
    extract,
    f64_to_bf16,
    half_to_f32,
    join64,
    low16,
    pack16,
    sign_extend,
)
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.small_floats import BF8, FP8, decode
from flydsl_emu.semantics.valu_float import propagating
from flydsl_emu.semantics.value_types import F16, F32, F64, I32, U16, U32, U64

__all__: list[str] = []

# 16-bit registers --------------------------------------------------------------------------------
define("v_and_b16", "u16 = u16 u16", "bit_and")
define("v_or_b16", "u16 = u16 u16", "bit_or")
define("v_xor_b16", "u16 = u16 u16", "bit_xor")
define("v_not_b16", "u16 = u16", "bit_not")
define("v_mov_b16", "u16 = u16", lambda _v, x: x)
define("v_cndmask_b16", "u16 = u16 u16 mask", lambda v, a, b, c: v.select(c, b, a))
define("v_swap_b16", "u16 both.u16 = old u16", lambda _v, a, b: (b, a))
define("v_cvt_i32_i16", "i32 = i16", lambda v, x: v.convert(x, I32))
define("v_cvt_u32_u16", "u32 = u16", lambda v, x: v.convert(x, U32))
define("v_fmaak_f16", "f16 = f16 f16 f16", lambda v, a, b, k: v.fma(a, b, k))
define("v_fmamk_f16", "f16 = f16 f16 f16", lambda v, a, k, c: v.fma(a, k, c))

define("v_xor3_b32", "u32 = u32 u32 u32", lambda v, a, b, c: v.bit_xor(v.bit_xor(a, b), c))


# Minimum and maximum -----------------------------------------------------------------------------
def _pair(inner: str, outer: str, ieee: bool = False) -> Callable[..., Value]:
    """Return ``outer(inner(a, b), c)``, of numbers or (`ieee`) letting NaN through."""

    def call(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
        if ieee:
            return propagating(v, outer, propagating(v, inner, a, b), c)
        return getattr(v, outer)(getattr(v, inner)(a, b), c)

    return call


for _t in ("i32", "u32", "f32", "f16"):
    _signature = f"{_t} = {_t} {_t} {_t}"
    define(f"v_minmax_{_t}", _signature, _pair("min", "max"))
    define(f"v_maxmin_{_t}", _signature, _pair("max", "min"))
    if _t[0] == "f":
        define(f"v_minmax_num_{_t}", _signature, _pair("min", "max"))
        define(f"v_maxmin_num_{_t}", _signature, _pair("max", "min"))
        define(f"v_minimummaximum_{_t}", _signature, _pair("min", "max", True))
        define(f"v_maximumminimum_{_t}", _signature, _pair("max", "min", True))


def _ieee(name: str) -> Callable[..., Value]:
    return lambda v, a, b: propagating(v, name, a, b)


for _t in ("f16", "f32", "f64"):
    define(f"v_minimum_{_t}", f"{_t} = {_t} {_t}", _ieee("min"))
    define(f"v_maximum_{_t}", f"{_t} = {_t} {_t}", _ieee("max"))
define("v_pk_minimum_f16", "pk.f16 = pk.f16 pk.f16", _ieee("min"))
define("v_pk_maximum_f16", "pk.f16 = pk.f16 pk.f16", _ieee("max"))
define("v_minimum3_f16", "f16 = f16 f16 f16", _pair("min", "min", True))
define("v_maximum3_f16", "f16 = f16 f16 f16", _pair("max", "max", True))


# Legacy products: zero times anything is zero -----------------------------------------------------
def _fma_zero(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    zero = v.bit_or(v.eq(a, 0.0), v.eq(b, 0.0))
    return v.select(zero, v.add(v.const(F32, 0.0), c), v.fma(a, b, c))


define("v_fma_dx9_zero_f32", "f32 = f32 f32 f32", _fma_zero)
define("v_fmac_dx9_zero_f32", "f32 = f32 f32 old", _fma_zero)


# Conversions -------------------------------------------------------------------------------------
def _pack_integers(bottom: int, top: int) -> Callable[..., Value]:
    """Return the conversion of two f32 to 16-bit integers, toward zero and saturating."""

    def call(v: VectorApi, a: Value, b: Value) -> Value:
        halves = []
        for x in (a, b):
            whole = v.truncate(x, I32)
            bounded = v.max(v.min(whole, v.const(I32, top)), v.const(I32, bottom))
            halves.append(low16(v, v.cast(bounded, U32)))
        return pack16(v, *halves)

    return call


define("v_cvt_pk_i16_f32", "u32 = f32 f32", _pack_integers(-32768, 32767))
define("v_cvt_pk_u16_f32", "u32 = f32 f32", _pack_integers(0, 65535))


# Row permutations --------------------------------------------------------------------------------
def _permuted(
    v: VectorApi, i: Instruction, active: Value, old: Value, x: Value, source: Value
) -> Value:
    """Read `x` from lane `source`; op_sel[0] reads idle lanes too, op_sel[1] makes them zero."""
    moved = v.shuffle(x, source)
    select = i.mod("op_sel")
    if select & 1 or i.mod("fi"):
        return moved
    reachable = v.ne(v.shuffle(v.convert(active, U32), source), 0)
    lost = v.const(U32, 0) if select & 2 or i.mod("bound_ctrl") else old
    return v.select(reachable, moved, lost)


def _permute_row(flip: int) -> Callable[..., Value]:
    """Return a permutation of each 16 lanes by a 64-bit table; `flip` 16 reads the other row."""

    def call(
        v: VectorApi,
        i: Instruction,
        active: Value,
        old: Value,
        x: Value,
        low: Value,
        high: Value,
    ) -> Value:
        lane = v.lane_id()
        at = v.convert(v.shl(v.bit_and(lane, 15), 2), U64)
        chosen = v.bit_and(v.convert(v.shr(join64(v, low, high), at), U32), 15)
        row = v.bit_xor(v.bit_and(lane, 0xFFFFFFF0), flip)
        return _permuted(v, i, active, old, x, v.bit_or(row, chosen))

    return call


def _permute_row_by_lane(flip: int) -> Callable[..., Value]:
    """Return the same with the lane numbers in a vector register."""

    def call(
        v: VectorApi, i: Instruction, active: Value, old: Value, x: Value, lanes: Value
    ) -> Value:
        row = v.bit_xor(v.bit_and(v.lane_id(), 0xFFFFFFF0), flip)
        source = v.bit_or(row, v.bit_and(lanes, 15))
        return _permuted(v, i, active, old, x, source)

    return call


for _name, _flip in (("v_permlane16", 0), ("v_permlanex16", 16)):
    define(f"{_name}_b32", "u32 = inst exec old u32 u32 u32", _permute_row(_flip))
    define(f"{_name}_var_b32", "u32 = inst exec old u32 u32", _permute_row_by_lane(_flip))


@opcode("v_permlane64_b32", "u32 = old u32")
def _swap_halves(v: VectorApi, old: Value, x: Value) -> Value:
    """Swap the halves of a 64-lane wave; with 32 lanes there is nothing to swap."""
    if v.lane_count == 32:
        return old
    return v.shuffle(x, tuple(lane ^ 32 for lane in range(64)))


# Registers chosen by M0 --------------------------------------------------------------------------
def _chosen(v: VectorApi, index: Value, registers: list[Value]) -> Value:
    v.require(v.lt(index, len(registers)), "an indexed register beyond those of the kernel")
    result = registers[0]
    for k, register in enumerate(registers[1:], 1):
        result = v.select(v.eq(index, k), register, result)
    return result


def _replaced(v: VectorApi, index: Value, registers: list[Value], x: Value) -> list[Value]:
    v.require(v.lt(index, len(registers)), "an indexed register beyond those of the kernel")
    return [v.select(v.eq(index, k), x, was) for k, was in enumerate(registers)]


define("v_movrels_b32", "u32 = m0 window", _chosen)
define("v_movreld_b32", "window = m0 oldwindow u32", _replaced)


@opcode("v_movrelsd_b32", "window = m0 oldwindow window")
def _move_between(v: VectorApi, index: Value, old: list[Value], source: list[Value]) -> list[Value]:
    return _replaced(v, index, old, _chosen(v, index, source))


@opcode("v_movrelsd_2_b32", "window = m0 oldwindow window")
def _move_between_two(
    v: VectorApi, index: Value, old: list[Value], source: list[Value]
) -> list[Value]:
    """The source's index is in the low bits of M0, the destination's in bits 16 and up."""
    x = _chosen(v, extract(v, index, 0, 10), source)
    return _replaced(v, extract(v, index, 16, 10), old, x)


# Dot products ------------------------------------------------------------------------------------
def _mixed_sign_dot(bits: int, saturate: bool) -> Callable[..., Value]:
    """Return the integer dot product whose neg_lo bits say which sides are signed."""
    # Sums in double are exact, so that saturation sees the true total.
    total_type = F64 if saturate else I32

    def field(v: VectorApi, x: Value, at: int, signed: int) -> Value:
        if signed:
            return sign_extend(v, v.shr(x, at) if at else x, bits)
        return v.cast(extract(v, x, at, bits), I32)

    def call(v: VectorApi, i: Instruction, a: Value, b: Value, c: Value) -> Value:
        signs = i.mod("neg_lo")
        total = v.convert(c, total_type)
        for at in range(0, 32, bits):
            product = v.mul(field(v, a, at, signs & 1), field(v, b, at, signs >> 1 & 1))
            total = v.add(total, v.convert(product, total_type))
        return v.truncate(total, I32) if saturate else total

    return call


for _count, _bits in ((4, 8), (8, 4)):
    define(
        f"v_dot{_count}_i32_iu{_bits}",
        "i32 = inst u32 u32 i32",
        _mixed_sign_dot(_bits, False),
        saturating=_mixed_sign_dot(_bits, True),
    )


def _narrow_dot(
    to_float: Callable[..., Value], finish: Callable[..., Value]
) -> Callable[..., Value]:
    """Return ``a0 * b0 + a1 * b1 + c`` of 16-bit floats, summed in double and rounded once."""

    def call(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
        total = v.convert(to_float(v, v.convert(c, U32)), F64)
        for at in (0, 16):
            x, y = (v.convert(to_float(v, extract(v, side, at, 16)), F64) for side in (a, b))
            total = v.add(total, v.mul(x, y))
        return finish(v, total)

    return call


define(
    "v_dot2_f16_f16",
    "f16 = u32 u32 u16",
    _narrow_dot(half_to_f32, lambda v, x: v.convert(x, F16)),
)
define(
    "v_dot2_bf16_bf16",
    "u16 = u32 u32 u16",
    _narrow_dot(bf16_to_f32, lambda v, x: v.convert(f64_to_bf16(v, x), U16)),
)
_SMALL = {"fp8": FP8, "bf8": BF8}


def _small_dot(first: str, second: str) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
        total = v.convert(c, F64)
        for at in range(0, 32, 8):
            x = decode(v, _SMALL[first], extract(v, a, at, 8))
            y = decode(v, _SMALL[second], extract(v, b, at, 8))
            # Products of two small floats are exact in single precision.
            total = v.add(total, v.convert(v.mul(x, y), F64))
        return v.convert(total, F32)

    return call


for _first in _SMALL:
    for _second in _SMALL:
        define(f"v_dot4_f32_{_first}_{_second}", "f32 = u32 u32 f32", _small_dot(_first, _second))
