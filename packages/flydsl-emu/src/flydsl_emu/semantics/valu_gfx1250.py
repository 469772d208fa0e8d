"""Vector ALU opcodes that gfx1250 adds: 64-bit integers, bf16 arithmetic, two-operand logic."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bf16_to_f32, f64_to_bf16, high16, low16, pack16
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.valu_integer import bit_table
from flydsl_emu.semantics.value_types import F32, F64, I64, U32, U64

__all__: list[str] = []

for _name in ("add", "sub"):
    define(f"v_{_name}_nc_u64", "u64 = u64 u64", _name)
define("v_mul_u64", "u64 = u64 u64", "mul")
for _t in ("u64", "i64"):
    for _name in ("min", "max"):
        define(f"v_{_name}_{_t}", f"{_t} = {_t} {_t}", _name)
define("v_mad_u32", "u32 = u32 u32 u32", lambda v, a, b, c: v.add(v.mul(a, b), c))


define("v_fmaak_f64", "f64 = f64 f64 f64", "fma")
define("v_fmamk_f64", "f64 = f64 f64 f64", "fma")


@opcode("v_mad_nc_u64_u32", "u64 = u32 u32 u64")
def _mad_unsigned(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.mul(v.convert(a, U64), v.convert(b, U64)), c)


@opcode("v_mad_nc_i64_i32", "i64 = i32 i32 i64")
def _mad_signed(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.mul(v.convert(a, I64), v.convert(b, I64)), c)


@opcode("v_bitop2_b32", "u32 = inst u32 u32")
def _bitop2(v: VectorApi, i: Instruction, a: Value, b: Value) -> Value:
    """Apply the part of a three-operand table whose third operand is 0."""
    return bit_table(v, i, a, b, v.const(U32, 0))


# bf16 --------------------------------------------------------------------------------------------
def _rounded_to_odd(v: VectorApi, a: Value, b: Value) -> Value:
    """Return ``a + b`` of ``F64``, rounded to odd so that rounding again does no harm."""
    total = v.add(a, b)
    part = v.sub(total, a)
    error = v.add(v.sub(a, v.sub(total, part)), v.sub(b, part))
    bits = v.cast(total, U64)
    inexact = v.bit_and(v.ne(error, 0.0), v.lt(v.abs(total), float("inf")))
    even = v.eq(v.bit_and(bits, 1), 0)
    outward = v.eq(v.lt(error, 0.0), v.lt(total, 0.0))
    moved = v.select(outward, v.add(bits, 1), v.sub(bits, 1))
    return v.cast(v.select(v.bit_and(inexact, even), moved, bits), F64)


def _wide(v: VectorApi, bits: Value) -> Value:
    return v.convert(bf16_to_f32(v, bits), F64)


def _halves(
    v: VectorApi, i: Instruction, sources: tuple[list[Value], ...], high: int
) -> list[Value]:
    """Return what the sources give the low or the high half of a packed result, as ``F64``."""
    selects = i.mod("op_sel_hi" if high else "op_sel")
    negates = i.mod("neg_hi" if high else "neg_lo")
    out = []
    for at, registers in enumerate(sources):
        word = registers[0]
        x = _wide(v, high16(v, word) if selects >> at & 1 else low16(v, word))
        out.append(v.neg(x) if negates >> at & 1 else x)
    return out


def _packed(compute: Callable[..., Value]) -> Callable[..., list[Value]]:
    """Return an operation on packed bf16; `compute` is exact or rounds doubles to odd."""

    def call(v: VectorApi, i: Instruction, *sources: list[Value]) -> list[Value]:
        parts = []
        for high in (0, 1):
            x = compute(v, *_halves(v, i, sources, high))
            parts.append(f64_to_bf16(v, _clamped(v, i, x)))
        return [pack16(v, *parts)]

    return call


for _name, _count, _compute in (
    ("add", 2, _rounded_to_odd),
    ("mul", 2, lambda v, a, b: v.mul(a, b)),
    ("fma", 3, lambda v, a, b, c: _rounded_to_odd(v, v.mul(a, b), c)),
    ("min_num", 2, lambda v, a, b: v.min(a, b)),
    ("max_num", 2, lambda v, a, b: v.max(a, b)),
):
    define(f"v_pk_{_name}_bf16", "regs = inst" + " regs" * _count, _packed(_compute))


# Mixed precision ---------------------------------------------------------------------------------
def _mixed(v: VectorApi, i: Instruction, sources: tuple[list[Value], ...]) -> list[Value]:
    """Return the three sources as ``F64``: each is an f32 register or a bf16 half of one."""
    out = []
    for at, registers in enumerate(sources):
        operand, word = i.operands[1 + at], registers[0]
        if i.mod("op_sel_hi") >> at & 1:
            x = _wide(v, high16(v, word) if i.mod("op_sel") >> at & 1 else low16(v, word))
        else:
            x = v.convert(v.cast(word, F32), F64)
        if operand.absolute:
            x = v.abs(x)
        out.append(v.neg(x) if operand.negate else x)
    return out


def _clamped(v: VectorApi, i: Instruction, x: Value) -> Value:
    if not i.mod("clamp"):
        return x
    zero, one = v.const(F64, 0.0), v.const(F64, 1.0)
    return v.select(v.is_nan(x), zero, v.min(v.max(x, zero), one))


@opcode("v_fma_mix_f32_bf16", "regs = inst regs regs regs")
def _mix(v: VectorApi, i: Instruction, *sources: list[Value]) -> list[Value]:
    a, b, c = _mixed(v, i, sources)
    total = _clamped(v, i, _rounded_to_odd(v, v.mul(a, b), c))
    return [v.cast(v.convert(total, F32), U32)]


def _mix_half(high: bool) -> Callable[..., list[Value]]:
    def call(v: VectorApi, i: Instruction, old: list[Value], *sources: list[Value]) -> list[Value]:
        a, b, c = _mixed(v, i, sources)
        bits = f64_to_bf16(v, _clamped(v, i, _rounded_to_odd(v, v.mul(a, b), c)))
        if high:
            return [pack16(v, low16(v, old[0]), bits)]
        return [v.bit_or(v.bit_and(old[0], 0xFFFF0000), bits)]

    return call


define("v_fma_mixlo_bf16", "regs = inst oldregs regs regs regs", _mix_half(False))
define("v_fma_mixhi_bf16", "regs = inst oldregs regs regs regs", _mix_half(True))
