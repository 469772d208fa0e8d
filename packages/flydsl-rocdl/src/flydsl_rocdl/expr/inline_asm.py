"""Conversions that older builds wrote as assembly; here the compiler chooses the instructions."""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError
from flydsl.expr.emit import emit
from flydsl.expr.numeric import BFloat16, Float32, Int32
from flydsl_rocdl.expr.access import amd_facts, immediate, intrinsic

__all__ = ["cvt_off_f32_i4", "cvt_pk_bf16_f32"]


def cvt_off_f32_i4(src_i32: Any, byte_sel: int | None = None) -> Float32:
    """Return the signed low nibble of a word, or of its byte `byte_sel` (0 to 3), divided by 16."""
    amd_facts("cvt_off_f32_i4")
    word = Int32(src_i32)
    if byte_sel is not None:
        word = Int32(word >> 8 * immediate("the byte", byte_sel, 0, 3))
    return Float32.wrap(intrinsic("amdgcn.cvt.off.f32.i4", Float32.ir_type, (word.ir_value(),)))


def cvt_pk_bf16_f32(a: Any, b: Any) -> Int32:
    """Return two f32 rounded to bf16 (nearest even), `a` in the low half of a word.

    Raises:
        TargetError: The architecture has no bf16.
    """
    facts = amd_facts("cvt_pk_bf16_f32")
    if not facts.matrix:
        raise TargetError(f"{facts.name} has no bf16", code="FLY-T642", value="cvt_pk_bf16_f32")
    from flydsl.expr.vector import Vector

    pair = Vector([BFloat16(Float32(a)), BFloat16(Float32(b))])
    return Int32.wrap(emit("llvm.bitcast", Int32.ir_type, (pair.ir_value(),)))
