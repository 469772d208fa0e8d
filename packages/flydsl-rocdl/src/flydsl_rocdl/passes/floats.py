"""Conversions that LLVM lacks: floats of 8, 6 and 4 bits, rounding modes, exact bf16 of integers.

``arith.extf`` and ``arith.truncf`` with a small float use the conversion instructions where the
architecture has them for that format, `flydsl_rocdl.passes.small_floats` elsewhere; both round
once, from f64 too. Where no instruction narrows f32 to bf16 and NaNs need no care (``nnan``), two
integer operations do instead of LLVM's five. Other conversions are left to the upstream one.
"""

from __future__ import annotations

from typing import Any

from flydsl.expr.numeric.formats import FORMATS
from flydsl_rocdl.passes import small_floats
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.hardware_floats import narrow, widen
from flydsl_rocdl.passes.lowering import Lowering, rule
from flydsl_rocdl.passes.memtypes import bit_width, element_of
from flydsl_rocdl.passes.small_floats import AWAY, DOWN, EVEN, ZERO, is_small
from flydsl_rocdl.passes.words import EQ, NE, Words, vector_of

__all__: list[str] = []

# Predicates of arith.cmpf, ordered.
_OEQ, _OGT, _OLT, _ONE = 1, 2, 4, 6


@rule("arith.extf")
def extend(low: Lowering, op: Any) -> list[Value] | None:
    """Widen a float; from a small one to f32 and from there on."""
    count, source = element_of(str(op.operands[0].type))
    if not is_small(source):
        return None
    _, target = element_of(str(op.result.type))
    w = Words(low, count)
    single = _to_single(w, op.operands[0], source)
    return [_from_single(w, single, target, EVEN)]


@rule("arith.truncf")
def truncate(low: Lowering, op: Any) -> list[Value] | None:
    """Narrow a float, to nearest even or in the stated rounding mode."""
    count, source = element_of(str(op.operands[0].type))
    _, target = element_of(str(op.result.type))
    mode = EVEN
    if "roundingmode" in op.attributes:
        mode = int(op.attributes["roundingmode"])
    w = Words(low, count)
    if is_small(target) or is_small(source):
        single = _to_single(w, op.operands[0], source)
        return [_from_single(w, single, target, mode)]
    if mode == EVEN:
        flags = str(op.attributes["fastmath"]) if "fastmath" in op.attributes else ""
        short = "nnan" in flags or "<fast>" in flags
        if short and (source, target) == ("f32", "bf16") and "bf16-cvt" not in low.facts.has:
            return [_to_bf16(w, op.operands[0])]
        # With LLVM's nnan a NaN would become anything at all.
        return [w.unary("truncf", target, op.operands[0])] if flags else None
    return [_directed(w, op.operands[0], source, target, mode)]


@rule("arith.sitofp", "arith.uitofp")
def from_integer(low: Lowering, op: Any) -> list[Value] | None:
    """Convert an integer to a float that is rounded once.

    LLVM rounds to f32 and then to bf16, and fails on some vectors of short integers.
    """
    value = op.operands[0]
    count, source = element_of(str(value.type))
    _, target = element_of(str(op.result.type))
    if not is_small(target) and target != "bf16":
        return None
    signed = op.name == "arith.sitofp"
    w = Words(low, count)
    if bit_width(source) < 25:
        single = w.unary(op.name.removeprefix("arith."), "f32", value)
    else:
        single = _odd_single(w, value, source, signed)
    return [_from_single(w, single, target, EVEN)]


@rule("vector.bitcast")
def reinterpret(low: Lowering, op: Any) -> list[Value] | None:
    """See numbers of 4 bits as bytes or wider numbers.

    LLVM's selection fails when it puts together numbers that were bytes before, unless they are
    widened while they are still a vector.
    """
    count, source = element_of(str(op.operands[0].type))
    _, target = element_of(str(op.result.type))
    if bit_width(source) != 4 or bit_width(target) < 8 or (count > 8 and count % 8):
        return None
    b = low.b
    w = Words(low, count)
    codes = w.elements(w.unary("extui", "i32", w.bits(op.operands[0], "i4")))
    words = [_packed(low, codes[at : at + 8]) for at in range(0, count, 8)]
    if count < 8:
        whole = b.value("arith.trunci", b.type(f"i{4 * count}"), (words[0],))
    else:
        whole = vector_of(low, words)
    length = 4 * count // bit_width(target)
    stored = b.bitcast(whole, b.type(f"vector<{length}xi{bit_width(target)}>"))
    return [Words(low, length).bits(stored, target)]


def _packed(low: Lowering, codes: list[Value]) -> Value:
    """Return up to eight codes of four bits, each in an i32, in one i32, the first lowest."""
    b = low.b
    word = codes[0]
    for at, code in enumerate(codes[1:], 1):
        word = b.binary("arith.ori", word, b.binary("arith.shli", code, b.constant(4 * at)))
    return word


def _to_single(w: Words, value: Value, source: str) -> Value:
    """Return a float as f32: exactly, or rounded to odd so that rounding again rounds once."""
    if source == "f32":
        return value
    if source == "f64":
        return _odd(w, value)
    if not is_small(source):
        return w.unary("extf", "f32", value)
    form = FORMATS[source]
    found = widen(w, form, w.bits(value, f"i{form.width}"))
    if found is None:
        code = w.unary("extui", "i32", w.bits(value, f"i{form.width}"))
        found = small_floats.decode(w, form, code)
    return found


def _from_single(w: Words, value: Value, target: str, mode: int) -> Value:
    if target == "f32":
        return value
    if target == "f64":
        return w.unary("extf", target, value)
    if not is_small(target):
        if mode != EVEN:
            return _directed(w, value, "f32", target, mode)
        return w.unary("truncf", target, value)
    form = FORMATS[target]
    code = narrow(w, form, value) if mode == EVEN else None
    if code is None:
        code = w.unary("trunci", f"i{form.width}", small_floats.encode(w, form, value, mode))
    return w.bits(code, target)


def _to_bf16(w: Words, value: Value) -> Value:
    """Return f32 values as bf16, to nearest even, without a look at NaNs.

    Still a quiet NaN stays a NaN, unless the fifteen bits after its sign are all ones and those
    below, which rounding then carries away, are at least half of what they can be.
    """
    bits = w.bits(value, "i32")
    odd = w.binary("andi", w.binary("shrui", bits, 16), 1)
    near = w.binary("addi", w.binary("addi", odd, bits), 0x7FFF)
    return w.bits(w.unary("trunci", "i16", w.binary("shrui", near, 16)), "bf16")


def _odd(w: Words, value: Value) -> Value:
    """Return f64 values as f32 rounded to odd: the last bit of an inexact result is set.

    A result so rounded and rounded again to at most 22 digits is as if rounded once.
    """
    near = w.unary("truncf", "f32", value)
    back = w.unary("extf", "f64", near)
    bits = w.bits(near, "i32")
    size, size_back = (w.call("fabs", v) for v in (value, back))
    too_far = w.compare_floats(_OGT, size_back, size)
    lower = w.select(too_far, w.binary("subi", bits, 1), bits)
    inexact = w.compare_floats(_ONE, back, value)
    odd = w.select(inexact, w.binary("ori", lower, 1), bits)
    return w.bits(odd, "f32")


def _odd_single(w: Words, value: Value, source: str, signed: bool) -> Value:
    """Return integers of any width as f32 rounded to odd."""
    width = bit_width(source)
    size = w.call("abs", value, w.low.b.constant(0, "i1")) if signed else value
    zeros = w.call("ctlz", size, w.low.b.constant(0, "i1"))
    drop = w.binary("subi", w.constant(width - 24, source), zeros)
    drop = w.binary("maxsi", drop, 0)
    top = w.binary("shrui", size, drop)
    lost = w.compare(NE, w.binary("shli", top, drop), size)
    top = w.binary("ori", top, w.unary("extui", source, lost))
    digits = w.unary("uitofp", "f32", _as_i32(w, top))
    power = w.binary("shli", w.binary("addi", _as_i32(w, drop), 127), 23)
    result = w.binary("mulf", digits, w.bits(power, "f32"))
    if not signed:
        return result
    sign = w.binary("shli", _as_i32(w, w.binary("shrui", value, width - 1)), 31)
    return w.bits(w.binary("ori", w.bits(result, "i32"), sign), "f32")


def _as_i32(w: Words, value: Value) -> Value:
    return w.unary("trunci", "i32", value)


def _directed(w: Words, value: Value, source: str, target: str, mode: int) -> Value:
    """Narrow by another mode than to nearest even: round so and move to the neighbour if wrong."""
    integer = f"i{bit_width(target)}"
    near = w.unary("truncf", target, value)
    back = w.unary("extf", source, near)
    bits = w.bits(near, integer)
    away, closer = w.binary("addi", bits, 1), w.binary("subi", bits, 1)
    size, size_back = (w.call("fabs", v) for v in (value, back))
    above = w.compare_floats(_OGT, size_back, size)
    below = w.compare_floats(_OLT, size_back, size)
    if mode == ZERO:
        return w.bits(w.select(above, closer, bits), target)
    if mode == AWAY:
        # In a tie the next value is as far away as the one that was chosen.
        farther = w.unary("extf", source, w.bits(away, target))
        gap = w.binary("subf", size, size_back)
        other = w.binary("subf", w.call("fabs", farther), size)
        tie = w.binary("andi", below, w.compare_floats(_OEQ, gap, other))
        return w.bits(w.select(tie, away, bits), target)
    sign = w.binary("shrui", w.bits(value, f"i{bit_width(source)}"), bit_width(source) - 1)
    outward = w.compare(EQ, sign, 1 if mode == DOWN else 0)
    moved = w.select(outward, w.select(below, away, bits), w.select(above, closer, bits))
    return w.bits(moved, target)
