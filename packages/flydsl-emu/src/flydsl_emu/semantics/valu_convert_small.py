"""Conversions to and from 8-bit floats, and stochastic rounding to 16 bits.

MODE.FP16_OVFL (bit 23) makes values too large for an 8-bit float saturate instead of becoming
infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import extract
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.small_floats import (
    BF8,
    BF8_FNUZ,
    FP8,
    FP8_FNUZ,
    HALF,
    Format,
    decode,
    encode,
)
from flydsl_emu.semantics.value_types import F32, U32

__all__ = ["next_random", "placed_half", "saturates"]


def saturates(mode: int) -> bool:
    """Return whether MODE makes conversions to 8-bit floats saturate."""
    return bool(mode >> 23 & 1)


def _format(kind: str, arch: str) -> Format:
    if arch == "gfx942":
        return FP8_FNUZ if kind == "fp8" else BF8_FNUZ
    return FP8 if kind == "fp8" else BF8


def placed_half(v: VectorApi, i: Instruction, old: Value, pair: Value) -> Value:
    """Put 16 bits into the half that the destination or op_sel[3] names."""
    half = i.operands[0].half
    if half == 2 or (not half and i.mod("op_sel") >> 3 & 1):
        return v.bit_or(v.bit_and(old, 0xFFFF), v.shl(pair, 16))
    return v.bit_or(v.bit_and(old, 0xFFFF0000), pair)


def _pack(kind: str) -> Callable[..., Value]:
    def call(
        v: VectorApi, i: Instruction, arch: str, mode: int, old: Value, a: Value, b: Value
    ) -> Value:
        form, limit = _format(kind, arch), saturates(mode)
        low, high = (encode(v, form, x, saturate=limit) for x in (a, b))
        pair = v.bit_or(low, v.shl(high, 8))
        return placed_half(v, i, old, pair)

    return call


def _stochastic(kind: str) -> Callable[..., Value]:
    def call(
        v: VectorApi, i: Instruction, arch: str, mode: int, old: Value, x: Value, random: Value
    ) -> Value:
        code = encode(v, _format(kind, arch), x, random, saturates(mode))
        shift = 8 * i.mod("byte_sel", i.mod("op_sel") >> 2 & 3)
        keep = ~(0xFF << shift) & 0xFFFFFFFF
        return v.bit_or(v.bit_and(old, keep), v.shl(code, shift) if shift else code)

    return call


def _unpack(kind: str) -> Callable[..., Value]:
    def call(v: VectorApi, i: Instruction, arch: str, x: Value) -> Value:
        # SDWA has moved its byte down already; VOP3 selects with byte_sel or op_sel.
        byte = i.mod("byte_sel", i.mod("op_sel") & 3 if i.encoding == "e64" else 0)
        return decode(v, _format(kind, arch), extract(v, x, 8 * byte, 8))

    return call


def _unpack_pair(kind: str) -> Callable[..., list[Value]]:
    def call(v: VectorApi, i: Instruction, arch: str, x: Value) -> list[Value]:
        half = i.operands[1].half
        selected = half == 2 or (not half and i.encoding == "e64" and i.mod("op_sel") & 1)
        base = 16 if selected else 0
        form = _format(kind, arch)
        return [v.cast(decode(v, form, extract(v, x, base + at, 8)), U32) for at in (0, 8)]

    return call


for _kind in ("fp8", "bf8"):
    define(f"v_cvt_pk_{_kind}_f32", "u32 = inst arch mode old f32 f32", _pack(_kind))
    define(f"v_cvt_sr_{_kind}_f32", "u32 = inst arch mode old f32 u32", _stochastic(_kind))
    define(f"v_cvt_f32_{_kind}", "f32 = inst arch u32", _unpack(_kind))
    define(f"v_cvt_pk_f32_{_kind}", "regs = inst arch u32", _unpack_pair(_kind))


# Stochastic rounding to 16 bits (gfx950) ----------------------------------------------------------
@opcode("v_cvt_sr_f16_f32", "u32 = inst old f32 u32")
def _stochastic_half(v: VectorApi, i: Instruction, old: Value, x: Value, random: Value) -> Value:
    return placed_half(v, i, old, encode(v, HALF, x, random))


@opcode("v_cvt_sr_bf16_f32", "u32 = inst old f32 u32")
def _stochastic_bfloat(v: VectorApi, i: Instruction, old: Value, x: Value, random: Value) -> Value:
    bits = v.cast(x, U32)
    rounded = v.shr(v.add(bits, v.shr(random, 16)), 16)
    special = v.le(v.const(U32, 0x7F800000), v.bit_and(bits, 0x7FFFFFFF))
    kept = v.bit_or(v.shr(bits, 16), v.select(v.is_nan(x), v.const(U32, 0x40), v.const(U32, 0)))
    return placed_half(v, i, old, v.select(special, kept, rounded))


@opcode("v_cvt_f32_bf16", "f32 = inst u32")
def _from_bfloat(v: VectorApi, i: Instruction, x: Value) -> Value:
    high = i.encoding == "e64" and i.mod("op_sel") & 1
    return v.cast(v.bit_and(x, 0xFFFF0000) if high else v.shl(x, 16), F32)


@opcode("v_prng_b32", "u32 = u32")
def next_random(v: VectorApi, x: Value) -> Value:
    """Return the next state of the linear-feedback shift register of ``v_prng_b32``."""
    feedback = v.select(v.eq(v.shr(x, 31), 1), v.const(U32, 197), v.const(U32, 0))
    return v.bit_xor(v.shl(x, 1), feedback)
