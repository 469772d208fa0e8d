"""WMMA and SWMMAC, the matrix instructions of gfx11 and later (they ignore EXEC).

Layout (AMD's ISA guides): row i of A and column j of B lie in lane ``i % 16``. On gfx11 a lane
holds all 16 k and both halves of the wave hold the same; on gfx12 lanes 0 to 15 hold the lower half
of k and lanes 16 to 31 the upper one. Row r of the result lies on gfx11 in register ``r // 2``
(``r // 4`` with 64 lanes), lanes ``16 * (r % 2)`` and up; on gfx12 in element ``r % 8``, lanes
``16 * (r // 8)`` and up. 16-bit results are one to a register on gfx11, in the half that op_sel
chooses, and two to a register on gfx12.

gfx1250 has larger k; which k a lane's elements are does not matter there, because A and B agree.

Sums are chains of fused multiply-adds in f32 where the result is f32 (`MatrixPlan.chained`); those
of products that have scales or whose formats are operands, and those of 16-bit results, are taken
in double and rounded once.

Integers: neg_lo says which of A and B are signed, clamp saturates. Floats: neg_lo and neg_hi negate
the low and high elements of A and B; for C they mean negation and absolute value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import (
    bf16_to_f32,
    extract,
    f64_to_bf16,
    half_to_f32,
    high16,
    low16,
    sign_extend,
)
from flydsl_emu.semantics.generation import generation
from flydsl_emu.semantics.matrix import unpacked_codes
from flydsl_emu.semantics.matrix_plan import MatrixPlan, Side
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.small_floats import BF6, BF8, FP4, FP6, FP8, decode
from flydsl_emu.semantics.value_types import B1, F16, F32, F64, I32, U16, U32

__all__: list[str] = []

_BITS = {"f32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "iu8": 8, "iu4": 4}
_BITS |= {"fp6": 6, "bf6": 6, "fp4": 4}
_SMALL = {"fp8": FP8, "bf8": BF8}
_ANY_SMALL = {**_SMALL, "fp6": FP6, "bf6": BF6, "fp4": FP4}
_F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")


@dataclass(frozen=True, slots=True)
class _Shape:
    """One mnemonic: result type, k, element types of A, B and (if another) of C."""

    result: str
    k: int
    a: str
    b: str
    c: str = ""


# Operands ----------------------------------------------------------------------------------------
def _element(v: VectorApi, code: Value, kind: str, signed: int) -> Value:
    """Return the ``F32`` value of the bits of one element."""
    if kind in _ANY_SMALL:
        return decode(v, _ANY_SMALL[kind], code)
    if kind == "f32":
        return v.cast(code, F32)
    if kind[0] == "i":
        whole = sign_extend(v, code, _BITS[kind]) if signed else v.cast(code, I32)
        return v.convert(whole, F32)
    return (half_to_f32 if kind == "f16" else bf16_to_f32)(v, code)


def _elements(
    v: VectorApi, i: Instruction, registers: Sequence[Value], kind: str, side: int
) -> list[Value]:
    """Return the elements of A (`side` 0) or B (1) that a lane holds, in order of k, as ``F32``."""
    bits = _BITS[kind]
    signed = i.mod("neg_lo") >> side & 1
    codes = registers if bits == 32 else unpacked_codes(v, registers, bits)
    values = [_element(v, code, kind, signed) for code in codes]
    if bits == 16:
        flips = (i.mod("neg_lo") >> side & 1, i.mod("neg_hi") >> side & 1)
        values = [v.neg(x) if flips[n % 2] else x for n, x in enumerate(values)]
    return values


def _factors(
    v: VectorApi, i: Instruction, registers: Sequence[Value], shape: _Shape, side: int
) -> tuple[str, list[Value]]:
    """Return A or B, and the format of it (of `Side`) that a product with `shape` takes."""
    kind = shape.b if side else shape.a
    if shape.result != "f32" or kind not in ("f16", "bf16", "f32"):
        return "singles", _elements(v, i, registers, kind, side)
    flips = 0
    if kind != "f32":
        flips = 0x8000 * (i.mod("neg_lo") >> side & 1) | 0x80000000 * (i.mod("neg_hi") >> side & 1)
    return kind, [v.bit_xor(x, flips) for x in registers] if flips else list(registers)


def _modified_addend(v: VectorApi, i: Instruction, x: Value) -> Value:
    if i.mod("neg_hi") >> 2 & 1:
        x = v.abs(x)
    return v.neg(x) if i.mod("neg_lo") >> 2 & 1 else x


def _spread(registers: Sequence[Value], count: int) -> list[Value]:
    """Return the accumulator's registers; an inline constant counts for all of them."""
    return list(registers) if len(registers) == count else [registers[0]] * count


# Accumulators ------------------------------------------------------------------------------------
def _narrow(v: VectorApi, x: Value, kind: str) -> Value:
    """Return an ``F64`` rounded once to a 16-bit float, as bits in a ``U32``."""
    if kind == "bf16":
        return f64_to_bf16(v, x)
    return v.convert(v.cast(v.convert(x, F16), U16), U32)


def _accumulators(
    v: VectorApi, i: Instruction, c: Sequence[Value], kind: str, count: int, paired: bool
) -> list[Value]:
    """Return accumulator elements as ``F64``; `paired`: two 16-bit elements to a register."""
    if kind in ("f16", "bf16"):
        to_float = half_to_f32 if kind == "f16" else bf16_to_f32
        if paired:
            words = _spread(c, count // 2)
            bits = [half(v, w) for w in words for half in (low16, high16)]
        else:
            half = high16 if i.mod("op_sel") >> 2 & 1 else low16
            bits = [half(v, w) for w in _spread(c, count)]
        values = [v.convert(to_float(v, b), F64) for b in bits]
    else:
        words = _spread(c, count)
        values = [v.convert(v.cast(w, I32 if kind == "i32" else F32), F64) for w in words]
    return values if kind == "i32" else [_modified_addend(v, i, x) for x in values]


def _results(
    v: VectorApi,
    i: Instruction,
    sums: Sequence[Value],
    kind: str,
    old: Sequence[Value],
    paired: bool,
) -> list[Value]:
    """Return result registers from ``F64`` sums."""
    if kind == "f32":
        return [v.cast(v.convert(x, F32), U32) for x in sums]
    if kind == "i32":
        return [v.cast(v.truncate(x, I32), U32) for x in sums]
    bits = [_narrow(v, x, kind) for x in sums]
    if paired:
        return [v.bit_or(low, v.shl(high, 16)) for low, high in zip(*[iter(bits)] * 2, strict=True)]
    if i.mod("op_sel") >> 2 & 1:
        return [v.bit_or(low16(v, was), v.shl(x, 16)) for was, x in zip(old, bits, strict=True)]
    return [v.bit_or(v.bit_and(was, 0xFFFF0000), x) for was, x in zip(old, bits, strict=True)]


# Instructions ------------------------------------------------------------------------------------
def _multiply(
    v: VectorApi,
    i: Instruction,
    shape: _Shape,
    factors: Sequence[tuple[str, list[Value]]],
    c: Sequence[Value],
    old: Sequence[Value],
    copied: bool,
) -> list[Value]:
    """Return the result's registers; f32 and i32 are summed in their registers, others as F64."""
    summed = shape.result == "f32" or (shape.result == "i32" and not i.mod("clamp"))
    a, b = (Side(form if summed else "values", replicated=copied) for form, _ in factors)
    accumulator = shape.result if summed else "values"
    lanes = v.lane_count
    plan = MatrixPlan(16, 16, shape.k, 1, a, b, accumulator, lanes, 1 if copied else 256 // lanes)
    left, right = (values for _, values in factors)
    if summed:
        words = _spread(c, plan.results)
        if shape.result == "f32" and (i.mod("neg_lo") | i.mod("neg_hi")) >> 2 & 1:
            words = [v.cast(_modified_addend(v, i, v.cast(x, F32)), U32) for x in words]
        return v.matrix_multiply(left, right, words, plan)
    addends = _accumulators(v, i, c, shape.c or shape.result, plan.results, not copied)
    wide = [[v.convert(x, F64) for x in values] for values in (left, right)]
    sums = v.matrix_multiply(wide[0], wide[1], addends, plan)
    return _results(v, i, sums, shape.result, old, not copied)


def _wmma(shape: _Shape) -> Callable[..., object]:
    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        old: list[Value],
        a: list[Value],
        b: list[Value],
        c: list[Value],
    ) -> object:
        copied = not generation(arch).ids_in_traps
        if not copied and v.lane_count == 64:
            v.require(v.const(B1, 0), "WMMA of gfx12 in waves of 64 lanes")
        factors = (_factors(v, i, a, shape, 0), _factors(v, i, b, shape, 1))
        return _multiply(v, i, shape, factors, c, old, copied)

    return call


def _swmmac(shape: _Shape) -> Callable[..., object]:
    """Return the product of a sparse A: of each four k, two elements and their two-bit places.

    A lane's places lie in the part of the index register that index_key chooses.
    """

    def call(
        v: VectorApi,
        i: Instruction,
        old: list[Value],
        a: list[Value],
        b: list[Value],
        index: Value,
    ) -> object:
        if v.lane_count == 64:
            v.require(v.const(B1, 0), "SWMMAC in waves of 64 lanes")
        kept = _elements(v, i, a, shape.a, 0)
        bits = 2 * len(kept)
        places = extract(v, index, bits * i.mod("index_key", i.mod("op_sel")) % 32, bits)
        zero = v.const(F32, 0.0)
        dense = []
        for column in range(2 * len(kept)):
            total = zero
            for which in (0, 1):
                source = column // 4 * 2 + which
                hit = v.eq(extract(v, places, 2 * source, 2), column % 4)
                total = v.select(hit, kept[source], total)
            dense.append(total)
        factors = ("singles", dense), _factors(v, i, b, shape, 1)
        return _multiply(v, i, shape, factors, old, old, False)

    return call


def _shapes(k: int, integers: Sequence[tuple[int, str]]) -> list[_Shape]:
    found = [
        _Shape(result, k, kind, kind)
        for result, kind in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("bf16", "bf16"))
    ]
    found += [_Shape("f32", k, x, y) for x in _SMALL for y in _SMALL]
    return found + [_Shape("i32", n, kind, kind) for n, kind in integers]


def _powers(v: VectorApi, registers: Sequence[Value], row: int) -> list[Value]:
    """Return the scale of each run of k of a lane's row: of E8M0, lowest k in the lowest byte.

    The scales of the 16 rows lie in lanes 0 to 15, or with `row` 1 in lanes 16 to 31.
    """
    lanes = tuple(lane % 16 + 16 * row for lane in range(v.lane_count))
    powers = []
    for register in registers:
        word = v.shuffle(register, lanes)
        for at in range(0, 32, 8):
            exponent = extract(v, word, at, 8)
            power = v.ldexp(v.const(F64, 1.0), v.sub(v.cast(exponent, I32), 127))
            powers.append(v.select(v.eq(exponent, 255), v.const(F64, float("nan")), power))
    return powers


def _scaled(v: VectorApi, elements: Sequence[Value], run: int, powers: list[Value]) -> list[Value]:
    """Return elements times their scales; the halves of the wave take turns every `run` k."""
    block = 2 * len(elements) // len(powers)
    upper = v.ne(v.bit_and(v.lane_id(), 16), 0)
    found = []
    for at, x in enumerate(elements):
        k = at // run * 2 * run + at % run
        low, high = powers[k // block], powers[(k + run) // block]
        found.append(v.mul(x, low if low is high else v.select(upper, high, low)))
    return found


def _any_small(
    v: VectorApi,
    i: Instruction,
    a: list[Value],
    b: list[Value],
    c: list[Value],
    *scales: list[Value],
) -> object:
    """Multiply elements of up to 8 bits, whose formats the instruction names.

    Lanes hold runs of 16 bytes, so 16 k of 8 bits and 32 k of 4 bits (Triton's operand layouts of
    gfx1250, and its `chooseScaledWmmaScaleLayout` for the scales).
    """
    kinds = [_F8F6F4[i.mod(name) % len(_F8F6F4)] for name in ("a_fmt", "b_fmt")]
    # Elements of one width meet their partners wherever their k lie; public sources do not tell
    # where elements of 6 bits lie.
    alike = _BITS[kinds[0]] == _BITS[kinds[1]] and not scales
    known = all(_BITS[kind] != 6 for kind in kinds)
    v.require(v.const(B1, alike or known), f"the product of {kinds[0]} and {kinds[1]}")
    v.require(
        v.const(B1, not i.mod("a_scale_fmt") and not i.mod("b_scale_fmt")),
        "scales of other formats than E8M0",
    )
    sides, layouts = [], []
    for n, (registers, kind) in enumerate(zip((a, b), kinds, strict=True)):
        elements = [v.convert(x, F64) for x in _elements(v, i, registers, kind, n)[:64]]
        run = 128 // _BITS[kind] if known else 64
        if scales:
            row = i.mod("b_scale" if n else "a_scale")
            elements = _scaled(v, elements, run, _powers(v, scales[n], row))
        sides.append(elements)
        layouts.append(Side("values", len(elements) // run))
    plan = MatrixPlan(16, 16, 128, 1, layouts[0], layouts[1], "values", v.lane_count, 8)
    sums = v.matrix_multiply(
        sides[0], sides[1], _accumulators(v, i, c, "f32", plan.results, True), plan
    )
    return _results(v, i, sums, "f32", c, True)


def _tall(v: VectorApi, i: Instruction, a: list[Value], b: list[Value], c: list[Value]) -> object:
    """Multiply 32 rows of FP4: a lane's second half of A and C belongs to the rows from 16 on."""
    side = Side("values")
    plan = MatrixPlan(16, 16, 128, 1, side, side, "values", v.lane_count, 8)
    right = [v.convert(x, F64) for x in _elements(v, i, b, "fp4", 1)]
    found: list[Value] = []
    addends = _accumulators(v, i, _spread(c, 16), "f32", 16, True)
    for half in (0, 8):
        left = [v.convert(x, F64) for x in _elements(v, i, a[half : half + 8], "fp4", 0)]
        sums = v.matrix_multiply(left, right, addends[half : half + 8], plan)
        found += _results(v, i, sums, "f32", (), True)
    return found


def _gfx1250_shapes() -> list[_Shape]:
    found = [_Shape("f32", 4, "f32", "f32"), _Shape("i32", 64, "iu8", "iu8")]
    for kind in ("f16", "bf16"):
        found += [_Shape("f32", 32, kind, kind), _Shape(kind, 32, kind, kind)]
    found.append(_Shape("bf16", 32, "bf16", "bf16", "f32"))
    found += [
        _Shape(result, k, x, y)
        for result in ("f32", "f16")
        for k in (64, 128)
        for x in _SMALL
        for y in _SMALL
    ]
    return found


def _define() -> None:
    for shape in _gfx1250_shapes():
        kinds = shape.a if shape.a not in _SMALL else f"{shape.a}_{shape.b}"
        result = "bf16f32" if shape.c else shape.result
        define(
            f"v_wmma_{result}_16x16x{shape.k}_{kinds}",
            "unmasked.regs = inst arch oldregs regs regs regs",
            _wmma(shape),
        )
    square = "f32_16x16x128_f8f6f4"
    define(f"v_wmma_{square}", "unmasked.regs = inst regs regs regs", _any_small)
    for prefix in ("scale", "scale16"):
        form = "unmasked.regs = inst regs regs regs regs regs"
        define(f"v_wmma_{prefix}_{square}", form, _any_small)
    define("v_wmma_f32_32x16x128_f4", "unmasked.regs = inst regs regs regs", _tall)
    for shape in _shapes(16, ((16, "iu8"), (16, "iu4"), (32, "iu4"))):
        kinds = shape.a if shape.a not in _SMALL else f"{shape.a}_{shape.b}"
        define(
            f"v_wmma_{shape.result}_16x16x{shape.k}_{kinds}",
            "unmasked.regs = inst arch oldregs regs regs regs",
            _wmma(shape),
        )
    for shape in _shapes(32, ((32, "iu8"), (32, "iu4"), (64, "iu4"))):
        kinds = shape.a if shape.a not in _SMALL else f"{shape.a}_{shape.b}"
        define(
            f"v_swmmac_{shape.result}_16x16x{shape.k}_{kinds}",
            "unmasked.regs = inst oldregs regs regs u32",
            _swmmac(shape),
        )


_define()
