"""Matrix instructions: MFMA, scaled f8f6f4 MFMA and SMFMAC.

They ignore EXEC. Hardware leaves the order of sums and their intermediate rounding unspecified.
Here products of f32 and smaller elements are added to an f32 accumulator by a chain of fused
multiply-adds (`MatrixPlan.chained`); scaled ones, whose products can lie outside of f32's range,
and doubles are summed in double and rounded once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bf16_to_f32, extract, half_to_f32, sign_extend
from flydsl_emu.semantics.matrix_plan import LANES, MatrixPlan, Side
from flydsl_emu.semantics.modes import flushed, flushes
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.small_floats import (
    BF6,
    BF8,
    BF8_FNUZ,
    FP4,
    FP6,
    FP8,
    FP8_FNUZ,
    Format,
    decode,
)
from flydsl_emu.semantics.value_types import F32, F64, I32, U32

__all__ = ["unpacked_codes"]

_F8F6F4 = (FP8, BF8, FP6, BF6, FP4)
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(.+)$")


def _lane_swap(v: VectorApi, registers: Sequence[Value], lanes: Sequence[int]) -> list[Value]:
    return [v.shuffle(x, tuple(lanes)) for x in registers]


def _broadcast_blocks(
    v: VectorApi, i: Instruction, registers: list[Value], plan: MatrixPlan
) -> list[Value]:
    """Apply CBSZ and ABID: groups of A blocks all take one block of the group."""
    if not i.mod("cbsz") or plan.blocks == 1:
        return registers
    group = 1 << i.mod("cbsz")
    lanes = []
    for lane in range(LANES):
        slot, row = divmod(lane, plan.m)
        groups, block = divmod(slot, plan.blocks)
        source = block // group * group + i.mod("abid") % group
        lanes.append((groups * plan.blocks + source) * plan.m + row)
    return _lane_swap(v, registers, lanes)


def _swizzled(v: VectorApi, i: Instruction, registers: list[Value]) -> list[Value]:
    """Apply BLGP: B's lanes broadcast from a half or a quarter of the wave, or rotated."""
    pattern = i.mod("blgp")
    if not pattern:
        return registers
    if pattern == 3:
        return _lane_swap(v, registers, [(lane + 16) % LANES for lane in range(LANES)])
    if pattern in (1, 2):
        base, width = (pattern - 1) * 32, 32
    else:
        base, width = (pattern - 4) * 16, 16
    return _lane_swap(v, registers, [base + lane % width for lane in range(LANES)])


def _bytes(v: VectorApi, registers: Sequence[Value]) -> list[Value]:
    return [extract(v, x, at, 8) for x in registers for at in (0, 8, 16, 24)]


def _small(v: VectorApi, registers: Sequence[Value], form: Format) -> list[Value]:
    """Return packed small floats as ``F32`` elements."""
    return [decode(v, form, code) for code in unpacked_codes(v, registers, form.bits)]


def unpacked_codes(v: VectorApi, registers: Sequence[Value], bits: int) -> list[Value]:
    """Return the fields of `bits` bits packed in registers, in order."""
    codes = []
    for at in range(0, 32 * len(registers) - bits + 1, bits):
        word, shift = divmod(at, 32)
        code = v.shr(registers[word], shift) if shift else registers[word]
        if shift + bits > 32:
            code = v.bit_or(code, v.shl(registers[word + 1], 32 - shift))
        codes.append(v.bit_and(code, (1 << bits) - 1))
    return codes


# Plain MFMA --------------------------------------------------------------------------------------
def _small_formats(name: str, fnuz: bool) -> tuple[Format, Format] | None:
    table = {"fp8": FP8_FNUZ if fnuz else FP8, "bf8": BF8_FNUZ if fnuz else BF8}
    parts = name.split("_")
    if len(parts) == 2 and all(p in table for p in parts):
        return table[parts[0]], table[parts[1]]
    return None


def _reduced(v: VectorApi, registers: Sequence[Value]) -> list[Value]:
    """Return f32 registers rounded to xf32 (10 bits of mantissa, nearest even) as ``F32``."""
    out = []
    for x in registers:
        odd = v.bit_and(v.shr(x, 13), 1)
        rounded = v.bit_and(v.add(v.add(x, 0xFFF), odd), 0xFFFFE000)
        special = v.le(v.const(U32, 0x7F800000), v.bit_and(x, 0x7FFFFFFF))
        out.append(v.cast(v.select(special, x, rounded), F32))
    return out


def _plan(name: str) -> tuple[MatrixPlan, str]:
    """Return the layout of an MFMA mnemonic and the name of its element formats."""
    found = _SHAPE.search(name)
    if found is None:
        raise ValueError(name)
    m, n, k = (int(found[at]) for at in (1, 2, 3))
    kind = found[5]
    accumulator = name.split("_")[2]
    form = kind if kind in ("f16", "bf16", "f32", "f64", "i8") else "singles"
    side = Side(form)
    return MatrixPlan(m, n, k, int(found[4] or 1), side, side, accumulator), kind


def _mfma(name: str) -> Callable[..., object]:
    plan, kind = _plan(name)

    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        mode: int,
        a: list[Value],
        b: list[Value],
        c: list[Value],
    ) -> object:
        a, c = list(a), list(c)
        if kind == "f64":
            negate = i.mod("blgp")
            return _double(v, plan, negate, a, b, c)
        a = _broadcast_blocks(v, i, a, plan)
        b = _swizzled(v, i, list(b))
        small = _small_formats(kind, arch == "gfx942")
        if kind == "f32" and flushes(mode, F32, False):
            # Smaller elements, accumulators and results keep their denormals.
            a, b = ([v.cast(flushed(v, v.cast(x, F32), F32), U32) for x in y] for y in (a, b))
        if small is not None:
            a, b = _small(v, a, small[0]), _small(v, b, small[1])
        elif kind == "xf32":
            a, b = _reduced(v, a), _reduced(v, b)
        return v.matrix_multiply(a, b, _accumulators(c, plan), plan)

    return call


def _accumulators(registers: Sequence[Value], plan: MatrixPlan) -> list[Value]:
    """Return the accumulator's registers; an inline constant counts for all of them."""
    count = plan.results * (2 if plan.accumulator == "f64" else 1)
    return list(registers) if len(registers) == count else [registers[0]] * count


def _double(
    v: VectorApi, plan: MatrixPlan, negate: int, a: list[Value], b: list[Value], c: list[Value]
) -> object:
    """Double-precision MFMA; BLGP negates the operands."""
    sides = []
    for bit, registers in enumerate((a, b, _accumulators(c, plan))):
        words = list(registers)
        if negate >> bit & 1:
            words[1::2] = [v.bit_xor(x, 0x80000000) for x in words[1::2]]
        sides.append(words)
    return v.matrix_multiply(sides[0], sides[1], sides[2], plan)


_MFMA = """
    f32_32x32x1_2b_f32 f32_16x16x1_4b_f32 f32_4x4x1_16b_f32 f32_32x32x2_f32 f32_16x16x4_f32
    f32_32x32x4_2b_f16 f32_16x16x4_4b_f16 f32_4x4x4_16b_f16 f32_32x32x8_f16 f32_16x16x16_f16
    f32_32x32x4_2b_bf16 f32_16x16x4_4b_bf16 f32_4x4x4_16b_bf16 f32_32x32x8_bf16 f32_16x16x16_bf16
    f32_32x32x16_f16 f32_16x16x32_f16 f32_32x32x16_bf16 f32_16x16x32_bf16
    i32_32x32x4_2b_i8 i32_16x16x4_4b_i8 i32_4x4x4_16b_i8 i32_32x32x16_i8 i32_16x16x32_i8
    i32_32x32x32_i8 i32_16x16x64_i8 f64_16x16x4_f64 f64_4x4x4_4b_f64
    f32_16x16x8_xf32 f32_32x32x4_xf32
""".split()
_MFMA += [
    f"f32_{shape}_{x}_{y}"
    for shape in ("16x16x32", "32x32x16")
    for x in ("fp8", "bf8")
    for y in ("fp8", "bf8")
]
for _name in _MFMA:
    define(
        f"v_mfma_{_name}", "unmasked.regs = inst arch mode regs regs regs", _mfma(f"v_mfma_{_name}")
    )


# f8f6f4 ------------------------------------------------------------------------------------------
def _scales(v: VectorApi, register: Value, select: int, rows: int, splits: int) -> list[Value]:
    """Return, for each element run of a lane, the scale of its K block as ``F64``.

    The scale of block kb (32 columns) and row i is a byte of lane ``rows * kb + i``.
    """
    exponent = extract(v, register, 8 * select, 8)
    power = v.ldexp(v.const(F64, 1.0), v.sub(v.cast(exponent, I32), 127))
    value = v.select(v.eq(exponent, 255), v.const(F64, float("nan")), power)
    groups = LANES // rows
    out = []
    for split in range(splits):
        width = 32 // splits
        lanes = []
        for lane in range(LANES):
            group, row = divmod(lane, rows)
            column = split * groups * width + group * width
            lanes.append(column // 32 * rows + row)
        out.append(v.shuffle(value, tuple(lanes)))
    return out


def _scaled(name: str) -> Callable[..., object]:
    found = _SHAPE.search(name)
    if found is None:
        raise ValueError(name)
    m, n, k = (int(found[at]) for at in (1, 2, 3))

    def call(
        v: VectorApi,
        i: Instruction,
        a: list[Value],
        b: list[Value],
        c: list[Value],
        *scale: Value,
    ) -> object:
        sides = []
        for at, (registers, form) in enumerate(
            ((a, _F8F6F4[i.mod("cbsz")]), (b, _F8F6F4[i.mod("blgp")]))
        ):
            splits = 2 if form.bits == 8 else 1
            elements = [v.convert(x, F64) for x in _small(v, registers, form)]
            if scale:
                select = (i.mod("op_sel") >> at & 1) | (i.mod("op_sel_hi") >> at & 1) << 1
                factors = _scales(v, scale[at], select, m, splits)
                run = len(elements) // splits
                elements = [v.mul(x, factors[at // run]) for at, x in enumerate(elements)]
            sides.append((elements, Side("values", splits)))
        plan = MatrixPlan(m, n, k, 1, sides[0][1], sides[1][1], "f32")
        return v.matrix_multiply(sides[0][0], sides[1][0], _accumulators(c, plan), plan)

    return call


for _shape in ("16x16x128", "32x32x64"):
    _tail = f"f32_{_shape}_f8f6f4"
    define(f"v_mfma_{_tail}", "unmasked.regs = inst regs regs regs", _scaled(_tail))
    define(f"v_mfma_scale_{_tail}", "unmasked.regs = inst regs regs regs u32 u32", _scaled(_tail))


# Sparse ------------------------------------------------------------------------------------------
def _elements(
    v: VectorApi, registers: Sequence[Value], kind: str, fnuz: bool, second: bool
) -> list[Value]:
    """Return packed elements as ``F32``."""
    small = _small_formats(kind, fnuz)
    if small is not None:
        return _small(v, registers, small[second])
    if kind == "i8":
        fields = (sign_extend(v, x, 8) for x in _bytes(v, registers))
        return [v.convert(x, F32) for x in fields]
    to_float = half_to_f32 if kind == "f16" else bf16_to_f32
    return [to_float(v, x) for x in unpacked_codes(v, registers, 16)]


def _smfmac(name: str) -> Callable[..., object]:
    plan, kind = _plan(name)
    # As in f8f6f4, a lane's 32 bytes of B are two runs of 16; A's are one run once spread out.
    width = 16 if kind in ("f16", "bf16") else 8
    runs = max(1, plan.n * plan.k * width // (8 * LANES * 16))
    sides = Side("singles"), Side("singles", runs)
    plan = MatrixPlan(plan.m, plan.n, plan.k, 1, *sides, plan.accumulator)

    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        old: list[Value],
        a: list[Value],
        b: list[Value],
        index: Value,
    ) -> object:
        kept = _elements(v, a, kind, arch == "gfx942", False)
        dense = _elements(v, b, kind, arch == "gfx942", True)
        bits = 2 * len(kept)
        sets = 32 // bits
        at = i.mod("abid") % sets if not i.mod("cbsz") else 0
        positions = extract(v, index, at * bits, bits)
        zero = v.const(F32, 0.0)
        spread = []
        for column in range(2 * len(kept)):
            total = zero
            for which in (0, 1):
                source = column // 4 * 2 + which
                hit = v.eq(extract(v, positions, 2 * source, 2), column % 4)
                # Of two elements for one place the second counts: a sum could need more bits.
                total = v.select(hit, kept[source], total)
            spread.append(total)
        return v.matrix_multiply(spread, dense, list(old), plan)

    return call


_SMFMAC = """
    f32_16x16x32_f16 f32_32x32x16_f16 f32_16x16x32_bf16 f32_32x32x16_bf16 i32_16x16x64_i8
    i32_32x32x32_i8 f32_16x16x64_f16 f32_32x32x32_f16 f32_16x16x64_bf16 f32_32x32x32_bf16
    i32_16x16x128_i8 i32_32x32x64_i8
""".split()
_SMFMAC += [
    f"f32_{shape}_{x}_{y}"
    for shape in ("16x16x64", "32x32x32", "16x16x128", "32x32x64")
    for x in ("fp8", "bf8")
    for y in ("fp8", "bf8")
]
for _name in _SMFMAC:
    define(
        f"v_smfmac_{_name}",
        "unmasked.regs = inst arch oldregs regs regs u32",
        _smfmac(f"v_smfmac_{_name}"),
    )
