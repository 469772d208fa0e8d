"""Packed arithmetic (VOP3P), mixed-precision FMA and dot products."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import (
    bf16_to_f32,
    extract,
    half_to_f32,
    high16,
    low16,
    pack16,
    sign_extend,
)
from flydsl_emu.semantics.modes import clamps_nan, flushed, flushes
from flydsl_emu.semantics.modifiers import clamp
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.valu_integer import saturating_add, saturating_sub
from flydsl_emu.semantics.value_types import F16, F32, F64, I16, I32, I64, U16, U32, Type

__all__: list[str] = []


def _swapped(name: str) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value) -> Value:
        return getattr(v, name)(b, a)

    return call


define("v_pk_fma_f32", "pk.f32 = pk.f32 pk.f32 pk.f32", lambda v, a, b, c: v.fma(a, b, c))
define("v_pk_mul_f32", "pk.f32 = pk.f32 pk.f32", lambda v, a, b: v.mul(a, b))
define("v_pk_add_f32", "pk.f32 = pk.f32 pk.f32", lambda v, a, b: v.add(a, b))
define("v_pk_fma_f16", "pk.f16 = pk.f16 pk.f16 pk.f16", lambda v, a, b, c: v.fma(a, b, c))
define("v_pk_add_f16", "pk.f16 = pk.f16 pk.f16", lambda v, a, b: v.add(a, b))
define("v_pk_mul_f16", "pk.f16 = pk.f16 pk.f16", lambda v, a, b: v.mul(a, b))
define("v_pk_max_f16", "pk.f16 = pk.f16 pk.f16", lambda v, a, b: v.max(a, b))
define("v_pk_min_f16", "pk.f16 = pk.f16 pk.f16", lambda v, a, b: v.min(a, b))
for _t, _type in (("u16", U16), ("i16", I16)):
    _sig = f"pk.{_t} = pk.{_t} pk.{_t}"
    define(f"v_pk_add_{_t}", _sig, lambda v, a, b: v.add(a, b), saturating=saturating_add(_type))
    define(f"v_pk_sub_{_t}", _sig, lambda v, a, b: v.sub(a, b), saturating=saturating_sub(_type))
    define(f"v_pk_max_{_t}", _sig, lambda v, a, b: v.max(a, b))
    define(f"v_pk_min_{_t}", _sig, lambda v, a, b: v.min(a, b))
    define(
        f"v_pk_mad_{_t}",
        f"pk.{_t} = pk.{_t} pk.{_t} pk.{_t}",
        lambda v, a, b, c: v.add(v.mul(a, b), c),
    )
define("v_pk_mul_lo_u16", "pk.u16 = pk.u16 pk.u16", lambda v, a, b: v.mul(a, b))
define("v_pk_lshlrev_b16", "pk.u16 = pk.u16 pk.u16", _swapped("shl"))
define("v_pk_lshrrev_b16", "pk.u16 = pk.u16 pk.u16", _swapped("shr"))
define("v_pk_ashrrev_i16", "pk.i16 = pk.i16 pk.i16", _swapped("shr"))


@opcode("v_pk_mov_b32", "regs = inst regs regs")
def _move(_v: VectorApi, i: Instruction, a: list[Value], b: list[Value]) -> list[Value]:
    """The low result comes from the first source, the high one from the second."""
    select = i.mod("op_sel")
    return [a[select & 1 if len(a) > 1 else 0], b[select >> 1 & 1 if len(b) > 1 else 0]]


# Mixed precision ---------------------------------------------------------------------------------
def _mixed(
    v: VectorApi, i: Instruction, mode: int, sources: tuple[list[Value], ...]
) -> list[Value]:
    """Return the three sources as ``F32``: each is an f32 register or half of one."""
    out = []
    for at, registers in enumerate(sources):
        operand = i.operands[1 + at]
        x = registers[0]
        if i.mod("op_sel_hi") >> at & 1:
            bits = high16(v, x) if i.mod("op_sel") >> at & 1 else low16(v, x)
            value = half_to_f32(v, bits)
            if flushes(mode, F16, False):
                value = v.select(v.lt(v.abs(value), 2.0**-14), v.mul(value, 0.0), value)
        else:
            value = v.cast(x, F32)
            if flushes(mode, F32, False):
                value = flushed(v, value, F32)
        if operand.absolute:
            value = v.abs(value)
        out.append(v.neg(value) if operand.negate else value)
    return out


def _finished(v: VectorApi, i: Instruction, mode: int, x: Value, type: Type) -> Value:
    """Apply clamp and the denormal mode to a result."""
    if flushes(mode, type, True):
        x = flushed(v, x, type)
    return clamp(v, x, type, clamps_nan(mode)) if i.mod("clamp") else x


@opcode("v_fma_mix_f32", "regs = inst mode regs regs regs")
def _mix(v: VectorApi, i: Instruction, mode: int, *sources: list[Value]) -> list[Value]:
    return [v.cast(_finished(v, i, mode, v.fma(*_mixed(v, i, mode, sources)), F32), U32)]


def _mix_half(high: bool) -> Callable[..., list[Value]]:
    def call(
        v: VectorApi, i: Instruction, mode: int, old: list[Value], *sources: list[Value]
    ) -> list[Value]:
        # One rounding: the product is exact in double, and so is what the sum loses there.
        wide = [v.convert(x, F64) for x in _mixed(v, i, mode, sources)]
        total = _finished(v, i, mode, v.convert(v.fma(*wide), F16), F16)
        bits = v.convert(v.cast(total, U16), U32)
        if high:
            return [v.bit_or(v.bit_and(old[0], 0xFFFF), v.shl(bits, 16))]
        return [v.bit_or(v.bit_and(old[0], 0xFFFF0000), bits)]

    return call


define("v_fma_mixlo_f16", "regs = inst mode oldregs regs regs regs", _mix_half(False))
define("v_fma_mixhi_f16", "regs = inst mode oldregs regs regs regs", _mix_half(True))


# Dot products ------------------------------------------------------------------------------------
def _signed_fields(v: VectorApi, x: Value, bits: int) -> list[Value]:
    return [sign_extend(v, v.shr(x, at) if at else x, bits) for at in range(0, 32, bits)]


def _unsigned_fields(v: VectorApi, x: Value, bits: int) -> list[Value]:
    return [extract(v, x, at, bits) for at in range(0, 32, bits)]


def _chosen_halves(v: VectorApi, i: Instruction, k: int, x: Value, bits: int) -> Value:
    """Return a source of a dot product; of 16-bit elements op_sel chooses the halves."""
    select = (i.mod("op_sel") >> k & 1, i.mod("op_sel_hi", 3) >> k & 1)
    if bits != 16 or select == (0, 1):
        return x
    low, high = (high16(v, x) if s else low16(v, x) for s in select)
    return pack16(v, low, high)


def _dot(fields: Callable[..., list[Value]], bits: int) -> Callable[..., Value]:
    def call(v: VectorApi, i: Instruction, a: Value, b: Value, c: Value) -> Value:
        a, b = (_chosen_halves(v, i, k, x, bits) for k, x in enumerate((a, b)))
        for x, y in zip(fields(v, a, bits), fields(v, b, bits), strict=True):
            c = v.add(c, v.mul(x, y))
        return c

    return call


def _saturating_dot(
    fields: Callable[..., list[Value]], bits: int, type: Type
) -> Callable[..., Value]:
    bottom = 0 if type is U32 else -(1 << 31)

    def call(v: VectorApi, i: Instruction, a: Value, b: Value, c: Value) -> Value:
        a, b = (_chosen_halves(v, i, k, x, bits) for k, x in enumerate((a, b)))
        total = v.convert(c, I64)
        for x, y in zip(fields(v, a, bits), fields(v, b, bits), strict=True):
            total = v.add(total, v.mul(v.convert(x, I64), v.convert(y, I64)))
        bounded = v.max(v.min(total, v.const(I64, bottom + (1 << 32) - 1)), v.const(I64, bottom))
        return v.convert(bounded, type)

    return call


for _bits, _count in ((16, 2), (8, 4), (4, 8)):
    for _fields, _type, _letter in ((_signed_fields, I32, "i"), (_unsigned_fields, U32, "u")):
        _t = _type.name
        _exact = _saturating_dot(_fields, _bits, _type)
        define(
            f"v_dot{_count}_{_t}_{_letter}{_bits}",
            f"{_t} = inst u32 u32 {_t}",
            _dot(_fields, _bits),
            saturating=_exact,
        )
        if _type is I32:
            define(
                f"v_dot{_count}c_i32_i{_bits}",
                "i32 = inst u32 u32 old",
                _dot(_fields, _bits),
                saturating=_exact,
            )


def _float_dot(to_float: Callable[..., Value]) -> Callable[..., Value]:
    def call(v: VectorApi, i: Instruction, a: Value, b: Value, c: Value) -> Value:
        # The products are exact in f32; they are added to the accumulator in double.
        total = v.convert(v.neg(c) if i.mod("neg_lo") >> 2 & 1 else c, F64)
        selects = (i.mod("op_sel"), i.mod("op_sel_hi", 3))
        negates = (i.mod("neg_lo"), i.mod("neg_hi"))
        for select, negate in zip(selects, negates, strict=True):
            factors = []
            for k, x in enumerate((a, b)):
                factor = to_float(v, high16(v, x) if select >> k & 1 else low16(v, x))
                factors.append(v.neg(factor) if negate >> k & 1 else factor)
            total = v.add(total, v.convert(v.mul(*factors), F64))
        return v.convert(total, F32)

    return call


define("v_dot2_f32_f16", "f32 = inst u32 u32 f32", _float_dot(half_to_f32))
define("v_dot2c_f32_f16", "f32 = inst u32 u32 old", _float_dot(half_to_f32))
define("v_dot2_f32_bf16", "f32 = inst u32 u32 f32", _float_dot(bf16_to_f32))
define("v_dot2c_f32_bf16", "f32 = inst u32 u32 old", _float_dot(bf16_to_f32))


@opcode("v_pk_fmac_f16", "regs = oldregs regs regs")
def _packed_fmac(v: VectorApi, old: list[Value], a: list[Value], b: list[Value]) -> list[Value]:
    parts = []
    for half in (low16, high16):
        halves = (v.cast(v.convert(half(v, x[0]), U16), F16) for x in (a, b, old))
        parts.append(v.convert(v.cast(v.fma(*halves), U16), U32))
    return [v.bit_or(parts[0], v.shl(parts[1], 16))]
