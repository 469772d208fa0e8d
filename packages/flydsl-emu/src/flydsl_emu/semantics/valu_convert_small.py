"""Conversions to and from 8-bit, 6-bit and 4-bit floats."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import extract, f32_to_bf16, half_bits, pack16
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.small_floats import (
    BF8,
    BF8_FNUZ,
    FP4,
    FP8,
    FP8_FNUZ,
    Format,
    decode,
    encode,
)
from flydsl_emu.semantics.value_types import F32, I32, U32

__all__: list[str] = []


def _format(kind: str, arch: str) -> Format:
    if arch == "gfx942":
        return FP8_FNUZ if kind == "fp8" else BF8_FNUZ
    return FP8 if kind == "fp8" else BF8


def _placed_half(v: VectorApi, i: Instruction, old: Value, pair: Value) -> Value:
    """Put 16 bits into the half that the destination or op_sel[3] names."""
    half = i.operands[0].half
    if half == 2 or (not half and i.mod("op_sel") >> 3 & 1):
        return v.bit_or(v.bit_and(old, 0xFFFF), v.shl(pair, 16))
    return v.bit_or(v.bit_and(old, 0xFFFF0000), pair)


def _pack(kind: str) -> Callable[..., Value]:
    def call(v: VectorApi, i: Instruction, arch: str, old: Value, a: Value, b: Value) -> Value:
        form = _format(kind, arch)
        pair = v.bit_or(encode(v, form, a), v.shl(encode(v, form, b), 8))
        return _placed_half(v, i, old, pair)

    return call


def _stochastic(kind: str) -> Callable[..., Value]:
    def call(v: VectorApi, i: Instruction, arch: str, old: Value, x: Value, random: Value) -> Value:
        code = encode(v, _format(kind, arch), x, random)
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
    define(f"v_cvt_pk_{_kind}_f32", "u32 = inst arch old f32 f32", _pack(_kind))
    define(f"v_cvt_sr_{_kind}_f32", "u32 = inst arch old f32 u32", _stochastic(_kind))
    define(f"v_cvt_f32_{_kind}", "f32 = inst arch u32", _unpack(_kind))
    define(f"v_cvt_pk_f32_{_kind}", "regs = inst arch u32", _unpack_pair(_kind))


# Scaled conversions (gfx950) ----------------------------------------------------------------------
def _scale(v: VectorApi, scale: Value) -> Value:
    """Return the power of two whose biased exponent a scale operand's f32 exponent field is."""
    field = extract(v, v.cast(scale, U32), 23, 8)
    return v.ldexp(v.const(F32, 1.0), v.sub(v.cast(field, I32), 127))


def _narrow(v: VectorApi, x: Value, target: str) -> Value:
    return half_bits(v, x) if target == "f16" else f32_to_bf16(v, x)


def _scaled_unpack(form: Format, target: str) -> Callable[..., list[Value]]:
    """Return the conversion of two codes, scaled, to f32, f16 or bf16."""
    width = 2 * form.bits

    def call(v: VectorApi, i: Instruction, x: Value, scale: Value) -> list[Value]:
        at = (i.mod("op_sel") & (3 if form is FP4 else 1)) * width
        factor = _scale(v, scale)
        values = [
            v.mul(decode(v, form, extract(v, x, at + n * form.bits, form.bits)), factor)
            for n in (0, 1)
        ]
        if target == "f32":
            return [v.cast(y, U32) for y in values]
        return [pack16(v, _narrow(v, values[0], target), _narrow(v, values[1], target))]

    return call


for _kind, _form in (("fp8", FP8), ("bf8", BF8), ("fp4", FP4)):
    for _target in ("f32", "f16", "bf16"):
        define(
            f"v_cvt_scalef32_pk_{_target}_{_kind}",
            "regs = inst u32 f32",
            _scaled_unpack(_form, _target),
        )


def _scaled_pack(form: Format) -> Callable[..., Value]:
    """Return the conversion of two f32 values, divided by the scale, to codes."""

    def call(v: VectorApi, i: Instruction, old: Value, a: Value, b: Value, scale: Value) -> Value:
        factor = v.div(v.const(F32, 1.0), _scale(v, scale))
        codes = [encode(v, form, v.mul(x, factor), saturate=True) for x in (a, b)]
        pair = v.bit_or(codes[0], v.shl(codes[1], form.bits))
        width = 2 * form.bits
        slot = i.mod("op_sel") >> 2 & 3 if form is FP4 else i.mod("op_sel") >> 3 & 1
        shift = slot * width
        keep = ~(((1 << width) - 1) << shift) & 0xFFFFFFFF
        return v.bit_or(v.bit_and(old, keep), v.shl(pair, shift) if shift else pair)

    return call


for _kind, _form in (("fp8", FP8), ("bf8", BF8), ("fp4", FP4)):
    define(f"v_cvt_scalef32_pk_{_kind}_f32", "u32 = inst old f32 f32 f32", _scaled_pack(_form))
