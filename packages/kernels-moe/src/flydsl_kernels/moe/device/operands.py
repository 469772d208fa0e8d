"""Loads of both operands of a grouped product, and what a matrix instruction takes of them.

Weights are operand A of the instruction, so that a lane ends up with four neighbouring channels of
one entry; activations are operand B.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.moe.plans import GemmPlan
from flydsl_rocdl.kernels.unpacking import unpacker

__all__ = ["load_words", "multiply", "unit_scale", "weight_operand", "zero_sums"]

UNIT = 0x7F7F7F7F
"""Four scales of 1."""


def load_words(descriptor: Any, offset: Any, base: Any, size: int = 16) -> Any:
    """Load 4, 8 or 16 bytes per lane through a descriptor; zero past its end.

    Args:
        descriptor: The descriptor.
        offset: The lane's byte offset.
        base: Uniform byte offset.
        size: Bytes.

    Returns:
        A vector of `Int32`, or for 4 bytes a number.
    """
    kind = {4: fx.Int32, 8: fx.Int32x2, 16: fx.Int32x4}[size]
    return fx.rocdl.raw_ptr_buffer_load(kind, descriptor, offset, base, 0)


def unit_scale() -> Any:
    """Return the scales of unscaled operands."""
    return fx.Int32(UNIT)


def zero_sums(plan: GemmPlan) -> Any:
    """Return four sums of a lane that are zero."""
    return fx.Vector.filled((4,), 0, fx.Int32 if plan.numbers.integer else fx.Float32)


def _half(words: Any, number: int) -> Any:
    return words.shuffle(words, (2 * number, 2 * number + 1))


def _joined(first: Any, second: Any) -> Any:
    return first.shuffle(second, tuple(range(8)))


def scaled_int4(word: Any, scale: Any, modern: bool) -> Any:
    """Return eight bf16 numbers as four words for a word of 4-bit integers and their scale.

    With u = n + 8 in a byte, u * scale - 8 * scale in one rounding is n * scale rounded once.
    """
    moved = word.bitcast(fx.Uint32) ^ fx.Uint32(0x88888888)
    offset = scale * -8.0
    numbers = []
    # In each word the even nibbles are the first four numbers.
    for shift in (0, 4):
        four = (moved >> shift) & fx.Uint32(0x0F0F0F0F)
        for byte in range(4):
            number = ((four >> (8 * byte)) & fx.Uint32(0xFF)).to(fx.Float32)
            numbers.append(fx.math.fma(number, scale, offset))
    if modern:
        return fx.Vector.from_elements(numbers).to(fx.BFloat16).bitcast(fx.Int32)
    return fx.Vector.from_elements(
        [_bf16_pair(numbers[i], numbers[i + 1]) for i in range(0, 8, 2)]
    )  # fmt: skip


def _bf16_pair(low: Any, high: Any) -> Any:
    """Return two numbers as bf16 in a word, to nearest even; for infinities and usual NaN too."""
    words = []
    for number in (low, high):
        bits = number.bitcast(fx.Uint32)
        words.append(bits + ((bits >> 16) & fx.Uint32(1)) + fx.Uint32(0x7FFF))
    return ((words[0] >> 16) | (words[1] & fx.Uint32(0xFFFF0000))).bitcast(fx.Int32)


def from_fp4(word: Any, scale: Any) -> Any:
    """Return eight bf16 numbers as four words for a word of eight fp4 codes and their scale."""
    out = []
    for pair in range(4):
        two = fx.rocdl.cvt_scalef32_pk_bf16_fp4(fx.BFloat16x2, word, scale, pair)
        out.append(two.bitcast(fx.Int32)[0])
    return fx.Vector.from_elements(out)


def weight_operand(pieces: list[Any], chunk: int, scale: Any, plan: GemmPlan) -> Any:
    """Return a chunk of weights as the matrix instruction takes it.

    Args:
        pieces: What a lane loaded of 16 rows.
        chunk: Number of the chunk.
        scale: Scale of the chunk where the weights are widened before they are multiplied.
        plan: What is compiled.
    """
    name = plan.format
    if plan.whole_eight:
        return _joined(pieces[0], pieces[1])
    if name == "int8_int4":
        return unpacker("int4")(pieces[chunk])
    if name == "bf16_int4":
        return scaled_int4(pieces[0][chunk], scale, plan.modern)
    if name == "bf16_mxfp4":
        return from_fp4(pieces[0][chunk], scale)
    return pieces[chunk]


def _scaled(sums: Any, w: Any, a: Any, codes: tuple[int, int], scales: tuple[Any, ...]) -> Any:
    scale_w, byte, scale_a = scales
    return fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(
        None, [w, a, sums], cbsz=codes[0], blgp=codes[1], opselA=byte, scaleA=scale_w, opselB=0,
        scaleB=scale_a,
    )  # fmt: skip


def multiply(sums: Any, w: Any, a: list[Any], scales: tuple[Any, ...], plan: GemmPlan) -> Any:
    """Return sums plus the product of a chunk.

    Args:
        sums: Four sums of a lane.
        w: What `weight_operand` returned.
        a: Pieces of the activations.
        scales: For scaled operands: scales of the weights, which byte of them, scales of the
            activations.
        plan: What is compiled.
    """
    numbers, modern = plan.numbers, plan.modern
    if numbers.a_scale == "mx":
        if numbers.bits == 8:
            return _scaled(sums, w, _joined(*a), (4, 0), scales)
        return _scaled(sums, w, a[0], (4, 4), scales)
    if numbers.integer:
        if modern:
            return fx.rocdl.mfma_i32_16x16x64_i8(None, [w, a[0], sums, 0, 0, 0])
        return _by_halves(fx.rocdl.mfma_i32_16x16x32_i8, sums, w, a[0], fx.Int64)
    if plan.whole_eight:
        return _scaled(sums, w, _joined(*a), (0, 0), (unit_scale(), 0, unit_scale()))
    if numbers.bits == 8:
        return _by_halves(fx.rocdl.mfma_f32_16x16x32_fp8_fp8, sums, w, a[0], fx.Int64)
    kind = fx.Float16 if plan.format == "f16" else fx.BFloat16
    if modern:
        step = fx.rocdl.mfma_f32_16x16x32_f16 if kind is fx.Float16 else (
            fx.rocdl.mfma_f32_16x16x32_bf16)  # fmt: skip
        return step(None, [w.bitcast(kind), a[0].bitcast(kind), sums, 0, 0, 0])
    step = fx.rocdl.mfma_f32_16x16x16f16 if kind is fx.Float16 else (
        fx.rocdl.mfma_f32_16x16x16bf16_1k)  # fmt: skip
    return _by_halves(step, sums, w, a[0], kind)


def _by_halves(step: Any, sums: Any, w: Any, a: Any, kind: Any) -> Any:
    """Multiply the two halves of 16 bytes one after the other."""
    for number in (0, 1):
        left, right = _half(w, number).bitcast(kind), _half(a, number).bitcast(kind)
        if kind is fx.Int64:
            left, right = left[0], right[0]
        sums = step(None, [left, right, sums, 0, 0, 0])
    return sums
