"""Scaled conversions of gfx950 between floats and 8-, 6- and 4-bit floats.

The scale is the power of two whose biased exponent is the exponent field of an f32 operand; field
255 means NaN, as in E8M0. Values narrowed are divided by it, values widened multiplied. Results
beyond an 8-bit format become infinite or NaN, or saturate with MODE.FP16_OVFL; 6- and 4-bit formats
always saturate. Stochastic conversions of several elements take a new random number for each, the
one that ``v_prng_b32`` makes of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import (
    bf16_to_f32,
    extract,
    f32_to_bf16,
    half_bits,
    half_to_f32,
    high16,
    low16,
    pack16,
)
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.small_floats import BF6, BF8, FP4, FP6, FP8, Format, decode, encode
from flydsl_emu.semantics.valu_convert_small import next_random, placed_half, saturates
from flydsl_emu.semantics.value_types import F32, I32, U32

__all__: list[str] = []

_BYTES = {"fp8": FP8, "bf8": BF8}
_PAIRS = {**_BYTES, "fp4": FP4}
_SIXES = {"fp6": FP6, "bf6": BF6}


def _power(v: VectorApi, scale: Value, sign: int) -> Value:
    """Return the scale, or with `sign` -1 its inverse, as ``F32``."""
    field = extract(v, v.cast(scale, U32), 23, 8)
    exponent = v.sub(v.cast(field, I32), 127)
    power = v.ldexp(v.const(F32, 1.0), exponent if sign > 0 else v.neg(exponent))
    return v.select(v.eq(field, 255), v.const(F32, float("nan")), power)


def _narrow16(v: VectorApi, x: Value, target: str) -> Value:
    return half_bits(v, x) if target == "f16" else f32_to_bf16(v, x)


def _widen16(v: VectorApi, bits: Value, source: str) -> Value:
    return half_to_f32(v, bits) if source == "f16" else bf16_to_f32(v, bits)


def _floats(v: VectorApi, registers: Sequence[Value], source: str) -> list[Value]:
    """Return the elements of registers of f32, or of packed f16 or bf16, as ``F32``."""
    if source == "f32":
        return [v.cast(x, F32) for x in registers]
    return [_widen16(v, half(v, x), source) for x in registers for half in (low16, high16)]


def _registers(v: VectorApi, values: Sequence[Value], target: str) -> list[Value]:
    """Return ``F32`` elements as registers of f32, or of packed f16 or bf16."""
    if target == "f32":
        return [v.cast(x, U32) for x in values]
    codes = [_narrow16(v, x, target) for x in values]
    return [pack16(v, codes[k], codes[k + 1]) for k in range(0, len(codes), 2)]


def _insert(v: VectorApi, old: Value, code: Value, shift: int, width: int) -> Value:
    keep = ~(((1 << width) - 1) << shift) & 0xFFFFFFFF
    return v.bit_or(v.bit_and(old, keep), v.shl(code, shift) if shift else code)


# From small floats --------------------------------------------------------------------------------
def _unpack_pair(form: Format, target: str) -> Callable[..., list[Value]]:
    width = 2 * form.bits

    def call(v: VectorApi, i: Instruction, x: Value, scale: Value) -> list[Value]:
        at = (i.mod("op_sel") & (3 if form is FP4 else 1)) * width
        factor = _power(v, scale, 1)
        codes = (extract(v, x, at + n * form.bits, form.bits) for n in (0, 1))
        return _registers(v, [v.mul(decode(v, form, c), factor) for c in codes], target)

    return call


def _unpack_byte(form: Format, target: str) -> Callable[..., Value]:
    def call(v: VectorApi, i: Instruction, old: Value, x: Value, scale: Value) -> Value:
        code = extract(v, x, 8 * (i.mod("op_sel") & 3), 8)
        value = v.mul(decode(v, form, code), _power(v, scale, 1))
        if target == "f32":
            return v.cast(value, U32)
        return placed_half(v, i, old, half_bits(v, value))

    return call


def _unpack_sixes(form: Format, target: str) -> Callable[..., list[Value]]:
    def call(v: VectorApi, registers: list[Value], scale: Value) -> list[Value]:
        factor = _power(v, scale, 1)
        values = []
        for at in range(0, 192, 6):
            word, shift = divmod(at, 32)
            code = v.shr(registers[word], shift) if shift else registers[word]
            if shift > 26:
                code = v.bit_or(code, v.shl(registers[word + 1], 32 - shift))
            values.append(v.mul(decode(v, form, v.bit_and(code, 63)), factor))
        return _registers(v, values, target)

    return call


for _kind, _form in _PAIRS.items():
    for _wide in ("f32", "f16", "bf16"):
        define(
            f"v_cvt_scalef32_pk_{_wide}_{_kind}",
            "regs = inst u32 f32",
            _unpack_pair(_form, _wide),
        )
for _kind, _form in _BYTES.items():
    for _wide in ("f32", "f16"):
        define(
            f"v_cvt_scalef32_{_wide}_{_kind}", "u32 = inst old u32 f32", _unpack_byte(_form, _wide)
        )
for _kind, _form in _SIXES.items():
    for _wide in ("f32", "f16", "bf16"):
        define(
            f"v_cvt_scalef32_pk32_{_wide}_{_kind}", "regs = regs f32", _unpack_sixes(_form, _wide)
        )


# To small floats ----------------------------------------------------------------------------------
def _codes(
    v: VectorApi,
    form: Format,
    values: Sequence[Value],
    scale: Value,
    random: Value | None,
    mode: int,
) -> list[Value]:
    """Divide by the scale and round; each element after the first draws a new random number."""
    factor = _power(v, scale, -1)
    out = []
    for k, x in enumerate(values):
        if random is not None and k:
            random = next_random(v, random)
        out.append(encode(v, form, v.mul(x, factor), random, saturates(mode)))
    return out


def _placed_pair(
    v: VectorApi, i: Instruction, old: Value, form: Format, codes: Sequence[Value]
) -> Value:
    """Put two codes into the byte (4-bit) or half (8-bit) of the result that op_sel chooses."""
    pair = v.bit_or(codes[0], v.shl(codes[1], form.bits))
    width = 2 * form.bits
    slot = i.mod("op_sel") >> 2 & 3 if form is FP4 else i.mod("op_sel") >> 3 & 1
    return _insert(v, old, pair, slot * width, width)


def _pack_two(form: Format) -> Callable[..., Value]:
    def call(
        v: VectorApi, i: Instruction, mode: int, old: Value, a: Value, b: Value, scale: Value
    ) -> Value:
        return _placed_pair(v, i, old, form, _codes(v, form, (a, b), scale, None, mode))

    return call


def _pack_halves(form: Format, source: str) -> Callable[..., Value]:
    def call(
        v: VectorApi, i: Instruction, mode: int, old: Value, pair: Value, scale: Value
    ) -> Value:
        values = _floats(v, (pair,), source)
        return _placed_pair(v, i, old, form, _codes(v, form, values, scale, None, mode))

    return call


def _pack_random(form: Format, source: str) -> Callable[..., Value]:
    def call(
        v: VectorApi,
        i: Instruction,
        mode: int,
        old: Value,
        pair: list[Value],
        random: Value,
        scale: Value,
    ) -> Value:
        values = _floats(v, pair, source)
        return _placed_pair(v, i, old, form, _codes(v, form, values, scale, random, mode))

    return call


def _pack_byte(form: Format, source: str) -> Callable[..., Value]:
    def call(
        v: VectorApi,
        i: Instruction,
        mode: int,
        old: Value,
        x: Value,
        random: Value,
        scale: Value,
    ) -> Value:
        if source == "f32":
            value = v.cast(x, F32)
        else:
            value = _widen16(v, high16(v, x) if i.mod("op_sel") & 1 else low16(v, x), source)
        (code,) = _codes(v, form, (value,), scale, random, mode)
        return _insert(v, old, code, 8 * (i.mod("op_sel") >> 2 & 3), 8)

    return call


def _packed_sixes(v: VectorApi, codes: Sequence[Value]) -> list[Value]:
    """Return 32 codes of 6 bits as six registers, the first code in the lowest bits."""
    words: list[Value | None] = [None] * 6
    for k, code in enumerate(codes):
        word, shift = divmod(6 * k, 32)
        parts = [(word, v.shl(code, shift) if shift else code)]
        if shift > 26:
            parts.append((word + 1, v.shr(code, 32 - shift)))
        for at, part in parts:
            before = words[at]
            words[at] = part if before is None else v.bit_or(before, part)
    return list(words)


def _pack_interleaved(form: Format) -> Callable[..., list[Value]]:
    """Elements alternate between the two sources."""

    def call(
        v: VectorApi, mode: int, even: list[Value], odd: list[Value], scale: Value
    ) -> list[Value]:
        pairs = zip(_floats(v, even, "f32"), _floats(v, odd, "f32"), strict=True)
        values = [x for pair in pairs for x in pair]
        return _packed_sixes(v, _codes(v, form, values, scale, None, mode))

    return call


def _pack_sixes(form: Format, source: str) -> Callable[..., list[Value]]:
    def call(v: VectorApi, mode: int, registers: list[Value], *rest: Value) -> list[Value]:
        random = rest[0] if len(rest) == 2 else None
        values = _floats(v, registers, source)
        return _packed_sixes(v, _codes(v, form, values, rest[-1], random, mode))

    return call


_PACK = "u32 = inst mode old"
for _kind, _form in _PAIRS.items():
    define(f"v_cvt_scalef32_pk_{_kind}_f32", f"{_PACK} f32 f32 f32", _pack_two(_form))
    for _wide in ("f16", "bf16"):
        define(f"v_cvt_scalef32_pk_{_kind}_{_wide}", f"{_PACK} u32 f32", _pack_halves(_form, _wide))
for _wide in ("f32", "f16", "bf16"):
    define(f"v_cvt_scalef32_sr_pk_fp4_{_wide}", f"{_PACK} regs u32 f32", _pack_random(FP4, _wide))
    for _kind, _form in _BYTES.items():
        _source = "f32" if _wide == "f32" else "u32"
        define(
            f"v_cvt_scalef32_sr_{_kind}_{_wide}",
            f"{_PACK} {_source} u32 f32",
            _pack_byte(_form, _wide),
        )
    for _kind, _form in _SIXES.items():
        define(
            f"v_cvt_scalef32_sr_pk32_{_kind}_{_wide}",
            "regs = mode regs u32 f32",
            _pack_sixes(_form, _wide),
        )
        if _wide == "f32":
            define(
                f"v_cvt_scalef32_2xpk16_{_kind}_f32",
                "regs = mode regs regs f32",
                _pack_interleaved(_form),
            )
        else:
            define(
                f"v_cvt_scalef32_pk32_{_kind}_{_wide}",
                "regs = mode regs f32",
                _pack_sixes(_form, _wide),
            )
