"""The MODE register: rounding and denormal modes against exact arithmetic, and index mode."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.decode.instruction import M0
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.semantics.modes import DEFAULT_MODE, INDEX_MODE, flushes, rounding
from flydsl_emu.semantics.value_types import TYPES, U32
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
PRECISION = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
MODE, XCC_ID, APERTURES, STATUS = 1, 20, 15, 2


def hwreg(register: int, offset: int = 0, bits: int = 32) -> int:
    return register | offset << 6 | (bits - 1) << 11


def with_rounding(mode: int) -> int:
    return DEFAULT_MODE | mode | mode << 2


def rounded(exact: Fraction, kind: str, mode: int, negative_zero: bool) -> float:
    """The float of `kind` that rounding mode `mode` gives for an exact value."""
    precision, lowest, highest = PRECISION[kind]
    if exact == 0:
        return -0.0 if negative_zero else 0.0
    size = abs(exact)
    unit = Fraction(2) ** (max(_log2(size), lowest) - precision + 1)
    below = size // unit
    part = size / unit - below
    up = {
        0: part > Fraction(1, 2) or (part == Fraction(1, 2) and below % 2 == 1),
        1: part > 0 and exact > 0,
        2: part > 0 and exact < 0,
        3: False,
    }[mode]
    result = (below + up) * unit
    if result >= Fraction(2) ** (highest + 1):
        largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** highest
        infinite = {0: True, 1: exact > 0, 2: exact < 0, 3: False}[mode]
        value = math.inf if infinite else float(largest)
    else:
        value = float(result)
    return -value if exact < 0 else value


def _log2(size: Fraction) -> int:
    """The largest exponent whose power of two is not above `size`."""
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if Fraction(2) ** guess <= size else guess - 1


ARITHMETIC: dict[str, Callable[..., Fraction]] = {}
for _t in DTYPES:
    ARITHMETIC[f"v_add_{_t}"] = lambda a, b: a + b
    ARITHMETIC[f"v_mul_{_t}"] = lambda a, b: a * b
    ARITHMETIC[f"v_fma_{_t}"] = lambda a, b, c: a * b + c
    if _t != "f64":
        ARITHMETIC[f"v_sub_{_t}"] = lambda a, b: a - b
        ARITHMETIC[f"v_subrev_{_t}"] = lambda a, b: b - a
ARITHMETIC["v_fmac_f32"] = lambda a, b, c: a * b + c


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Floats of all sizes, halfway cases and denormals."""
    precision, lowest, highest = PRECISION[kind]
    mantissa = rng.integers(1 << (precision - 1), 1 << precision, shape).astype(np.float64)
    simple = rng.integers(1, 8, shape).astype(np.float64)
    mantissa = np.where(rng.random(shape) < 0.4, simple, mantissa)
    near = rng.integers(-3, 4, shape)
    far = rng.integers(lowest - precision, highest - precision, shape)
    exponent = np.where(rng.random(shape) < 0.6, near, far)
    x = np.ldexp(mantissa, exponent) * rng.choice([-1.0, 1.0], shape)
    with np.errstate(all="ignore"):
        return np.where(rng.random(shape) < 0.08, 0.0, x).astype(DTYPES[kind])


def same(got: float, want: float) -> bool:
    return got == want and math.copysign(1, got) == math.copysign(1, want)


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_directed_rounding(name: str, mode: int) -> None:
    kind = name[-3:]
    reference = ARITHMETIC[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()) + mode)
    count = reference.__code__.co_argcount
    columns = [numbers(rng, kind, (WAVES, 64)) for _ in range(count)]
    if kind == "f64" and "fma" in name:
        # The correction is exact where nothing underflows on the way.
        columns = [np.clip(np.abs(c), 1e-60, 1e60) * np.sign(c + 1e-300) for c in columns]
    old = columns.pop() if "fmac" in name else None
    bench = InstructionBench("gfx942", WAVES)
    (got,) = bench.evaluate(name, *columns, old=old, mode=with_rounding(mode))
    if old is not None:
        columns.append(old)
    for row in range(WAVES * 64):
        given = [float(c.flat[row]) for c in columns]
        exact = reference(*map(Fraction, given))
        zero = False
        if exact == 0:
            with np.errstate(all="ignore"):
                zero = math.copysign(1, _zero_sign(name, given, mode)) < 0
        want = rounded(exact, kind, mode, zero)
        assert same(float(got.flat[row]), want), (given, float(got.flat[row]), want)


def _zero_sign(name: str, given: list[float], mode: int) -> float:
    """The sign of an exact zero result: of sums negative when rounding down, unless both are +0."""
    if "mul" in name:
        return math.copysign(1, given[0]) * math.copysign(1, given[1])
    parts = list(given)
    if "fma" in name:
        product = math.copysign(1, given[0]) * math.copysign(1, given[1])
        parts = [math.copysign(abs(given[0] * given[1]), product), given[2]]
    if "sub_" in name:
        parts[1] = -parts[1]
    if "subrev" in name:
        parts[0] = -parts[0]
    signs = [math.copysign(1, x) for x in parts]
    if signs[0] == signs[1]:
        return signs[0]
    return -1.0 if mode == 2 else 1.0


CONVERSIONS = {
    "v_cvt_f16_f32": ("f32", "f16"),
    "v_cvt_f32_f64": ("f64", "f32"),
    "v_cvt_f32_i32": ("i32", "f32"),
    "v_cvt_f32_u32": ("u32", "f32"),
    "v_cvt_f16_u16": ("u16", "f16"),
    "v_cvt_f16_i16": ("i16", "f16"),
}


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_directed_conversions(name: str, mode: int) -> None:
    source, target = CONVERSIONS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if source in DTYPES:
        x = numbers(rng, target, (WAVES, 64)).astype(DTYPES[source])
        x = (x * (1 + rng.integers(-3, 4, x.shape) * 2.0**-14)).astype(DTYPES[source])
    else:
        bits = int(source[1:])
        x = rng.integers(0, 1 << bits, (WAVES, 64)).astype(f"u{bits // 8}")
        x = x.view(f"{'i' if source[0] == 'i' else 'u'}{bits // 8}")
    bench = InstructionBench("gfx942", WAVES)
    (got,) = bench.evaluate(name, x, mode=with_rounding(mode))
    for row in range(WAVES * 64):
        value = float(x.flat[row])
        if not math.isfinite(value):
            continue
        want = rounded(Fraction(value), target, mode, math.copysign(1, value) < 0)
        result = float(got.flat[row])
        assert same(result, want), (value, result, want)


@pytest.mark.opcodes("v_pk_add_f16 v_pk_mul_f32")
def test_directed_packed_rounding() -> None:
    bench = InstructionBench("gfx942", 1)
    third = np.float32(1) / np.float32(3)
    bench.state.vector[10:12] = third.view(np.uint32)
    operands = (Operand("v", 20, 2), Operand("v", 10, 2), Operand("v", 10, 2))
    results = []
    for mode in (1, 2):
        i = Instruction(0, 8, "VOP3P", "v_pk_mul_f32", "", operands, {"op_sel_hi": 3})
        bench.execute(i, mode=with_rounding(mode))
        results.append(bench.state.vector[20, 0, 0])
    assert results[0] == results[1] + 1
    one, tiny = np.float16(1).view(np.uint16), np.float16(2**-12).view(np.uint16)
    bench.state.vector[10], bench.state.vector[11] = np.uint32(one) << 16 | one, tiny
    i = Instruction(
        0,
        8,
        "VOP3P",
        "v_pk_add_f16",
        "",
        (Operand("v", 20), Operand("v", 10), Operand("v", 11)),
        {"op_sel_hi": 3},
    )
    bench.execute(i, mode=with_rounding(1))
    assert bench.state.vector[20, 0, 0] == np.uint32(one) << 16 | one + 1


@pytest.mark.opcodes("v_ldexp_f32")
def test_directed_ldexp() -> None:
    x = np.full((1, 64), 1 + 2.0**-23, np.float32)
    n = np.full((1, 64), -127, np.int32)
    for mode, want in ((1, 2.0**-127 + 2.0**-149), (3, 2.0**-127)):
        (got,) = InstructionBench("gfx942", 1).evaluate(
            "v_ldexp_f32", x, n, mode=with_rounding(mode)
        )
        assert float(got[0, 0]) == want


def test_rounding_that_is_not_modelled_is_refused() -> None:
    bench = InstructionBench("gfx942", 1)
    x = np.ones((1, 64), np.float32)
    with pytest.raises(TargetError, match="nearest even"):
        bench.evaluate("v_div_fmas_f32", x, x, x, vcc=np.ones((1, 64)), mode=with_rounding(1))


FLUSHED = {
    "v_add_f32": lambda a, b: a + b,
    "v_mul_f32": lambda a, b: a * b,
    "v_max_f32": lambda a, b: np.where((a == 0) & (b == 0), a + b, np.fmax(a, b)),
    "v_add_f16": lambda a, b: a + b,
    "v_mul_f64": lambda a, b: a * b,
    "v_fmac_f32": lambda a, b, c: (a.astype(np.float64) * b + c).astype(np.float32),
}


@pytest.mark.parametrize("denormals", range(16))
@pytest.mark.parametrize("name", FLUSHED)
def test_denormal_modes(name: str, denormals: int) -> None:
    kind = name[-3:]
    dtype = DTYPES[kind]
    smallest = dtype(2.0 ** PRECISION[kind][1])
    mode = DEFAULT_MODE & ~0xF0 | denormals << 4
    field = denormals & 3 if kind == "f32" else denormals >> 2
    rng = np.random.default_rng(denormals)
    count = 3 if "fmac" in name else 2
    scale = rng.choice([2.0**-4, 1.0, 4.0], (count, WAVES, 64))
    if "mul" in name:
        scale[1] *= 1 / float(smallest) * 2.0**-3
    x = (rng.standard_normal((count, WAVES, 64)) * scale * float(smallest)).astype(dtype)

    def flush(v: Array, keep: int) -> Array:
        return v if keep else np.where(np.abs(v) < smallest, np.copysign(dtype(0), v), v)

    bench = InstructionBench("gfx942", WAVES)
    old = x[2] if count == 3 else None
    (got,) = bench.evaluate(name, x[0], x[1], old=old, mode=mode)
    with np.errstate(all="ignore"):
        want = flush(FLUSHED[name](*(flush(v, field & 1) for v in x)).astype(dtype), field >> 1)
    raw = f"u{dtype().itemsize}"
    assert np.array_equal(got.view(raw), np.ascontiguousarray(want.astype(dtype)).view(raw))


@pytest.mark.opcodes("v_cmp_lt_f32 v_cmp_class_f32 v_fma_mix_f32 v_mov_b32")
def test_what_denormal_modes_touch() -> None:
    flush = DEFAULT_MODE & ~0x30
    tiny = np.full((1, 64), 1e-40, np.float32)
    zero = np.zeros((1, 64), np.float32)
    bench = InstructionBench("gfx942", 1)
    assert not bench.evaluate("v_cmp_lt_f32", zero, tiny, mode=flush)[0].any()
    assert bench.evaluate("v_cmp_lt_f32", zero, tiny)[0].all()
    positive_denormal = np.full((1, 64), 1 << 7, np.uint32)
    assert bench.evaluate("v_cmp_class_f32", tiny, positive_denormal, mode=flush)[0].all()
    bits = tiny.view(np.uint32)
    assert np.array_equal(bench.evaluate("v_mov_b32", bits, mode=flush)[0], bits)
    bench.state.vector[10] = bits
    one = Operand("f", 0, 1, 1.0)
    operands = (Operand("v", 20), Operand("v", 10), one, Operand("i", 0, 1, 0))
    i = Instruction(0, 8, "VOP3P", "v_fma_mix_f32", "", operands)
    bench.execute(i, mode=flush)
    assert not bench.state.vector[20].any()
    bench.execute(i)
    assert np.array_equal(bench.state.vector[20], bits)


@pytest.mark.opcodes("v_add_f32")
def test_clamp_keeps_nan_without_dx10_clamp() -> None:
    nan = np.full((1, 64), np.nan, np.float32)
    bench = InstructionBench("gfx942", 1)
    mods = {"clamp": 1}
    assert not bench.evaluate("v_add_f32", nan, nan, mods=mods)[0].any()
    kept = bench.evaluate("v_add_f32", nan, nan, mods=mods, mode=DEFAULT_MODE & ~0x100)[0]
    assert np.isnan(kept).all()


def test_fields_of_the_register() -> None:
    mode = 0b11_01_10_01
    assert rounding(mode, TYPES["f32"]) == 1
    assert rounding(mode, TYPES["f64"]) == 2
    assert [flushes(mode, TYPES["f32"], r) for r in (False, True)] == [False, True]
    assert [flushes(mode, TYPES["f16"], r) for r in (False, True)] == [False, False]


# Reading and writing -----------------------------------------------------------------------------
def scalar(name: str, operands: tuple[Operand, ...], **mods: int) -> Instruction:
    return Instruction(0, 4, "SOPK", name, "", operands, mods)


@pytest.mark.parametrize("name", ["s_setreg_b32", "s_setreg_imm32_b32"])
def test_writes_fields(name: str) -> None:
    bench = InstructionBench("gfx942", WAVES)
    bench.state.modes[:, 0] = (0x3F0, 0xFFFFFFFF)
    source = Operand("l", 0, 1, 0xABCDE) if "imm" in name else Operand("s", 8)
    bench.state.scalar[8] = 0xABCDE
    bench.execute(scalar(name, (source,), hwreg=hwreg(MODE, 4, 8)))
    assert bench.state.modes[:, 0].tolist() == [0xDE0, 0xFFFFFDEF]
    with pytest.raises(KernelFault, match="hardware register 2"):
        bench.execute(scalar(name, (source,), hwreg=hwreg(STATUS)))


@pytest.mark.opcodes("s_getreg_b32")
def test_reads_fields() -> None:
    bench = InstructionBench("gfx942", WAVES)
    bench.state.modes[:, 0] = (0x12345678, 0x3F0)
    target = Operand("s", 8)
    for register, offset, bits, want in (
        (MODE, 0, 32, [0x12345678, 0x3F0]),
        (MODE, 4, 4, [7, 15]),
        (XCC_ID, 0, 4, [0, 0]),
        (APERTURES, 16, 16, [1, 1]),
        (APERTURES, 0, 16, [2, 2]),
    ):
        where = hwreg(register, offset, bits)
        bench.execute(scalar("s_getreg_b32", (target,), hwreg=where))
        assert bench.read(target, U32).tolist() == want
    with pytest.raises(KernelFault, match="hardware register 2"):
        bench.execute(scalar("s_getreg_b32", (target,), hwreg=hwreg(STATUS)))


# Index mode --------------------------------------------------------------------------------------
INDEXING = "s_set_gpr_idx_on s_set_gpr_idx_off s_set_gpr_idx_idx s_set_gpr_idx_mode"


@pytest.mark.opcodes(INDEXING)
def test_index_registers() -> None:
    bench = InstructionBench("gfx942", WAVES)
    state = bench.state
    state.scalar[M0], state.scalar[8] = 0x12345678, np.array([[3], [0x1FF]], np.uint32)
    on = Instruction(0, 4, "SOPC", "s_set_gpr_idx_on", "", (Operand("s", 8), Operand("k", 8, 1, 9)))
    bench.execute(on)
    assert state.scalar[M0, :, 0].tolist() == [0x12349603, 0x123496FF]
    assert (state.modes == DEFAULT_MODE | INDEX_MODE).all()
    bench.execute(Instruction(0, 4, "SOP1", "s_set_gpr_idx_idx", "", (Operand("i", 0, 1, 5),)))
    assert state.scalar[M0, :, 0].tolist() == [0x12349605, 0x12349605]
    bench.execute(Instruction(0, 4, "SOPP", "s_set_gpr_idx_mode", "", (), {"simm16": 3}))
    assert state.scalar[M0, :, 0].tolist() == [0x12343605, 0x12343605]
    bench.execute(Instruction(0, 4, "SOPP", "s_set_gpr_idx_off", "", (), {"simm16": 0}))
    assert (state.modes == DEFAULT_MODE).all()


@pytest.mark.parametrize("chosen", [1, 2, 4, 8, 9, 15])
@pytest.mark.opcodes("v_mad_u32_u24")
def test_indexed_operands(chosen: int) -> None:
    bench = InstructionBench("gfx942", WAVES)
    rng = np.random.default_rng(chosen)
    state = bench.state
    values = rng.integers(0, 1 << 10, (80, WAVES, 64)).astype(np.uint32)
    state.vector[:80] = values
    mask = rng.random((WAVES, 64)) < 0.7
    bench.set_exec(mask)
    index = [3, 11]
    state.scalar[M0, :, 0] = index
    operands = (Operand("v", 40), Operand("v", 4), Operand("v", 20), Operand("v", 30))
    i = Instruction(0, 8, "VOP3", "v_mad_u32_u24", "", operands)
    bench.execute(i, mode=DEFAULT_MODE | INDEX_MODE | chosen << 32)
    want = values.copy()
    for w in range(WAVES):
        at = [o.index for o in operands]
        moved = [
            n + index[w] * (chosen >> bit & 1) for n, bit in zip(at, (3, 0, 1, 2), strict=True)
        ]
        result = values[moved[1], w] * values[moved[2], w] + values[moved[3], w]
        want[moved[0], w] = np.where(mask[w], result, values[moved[0], w])
    assert np.array_equal(state.vector[:80], want)


@pytest.mark.opcodes("v_mov_b32")
def test_index_beyond_the_registers_is_a_fault() -> None:
    bench = InstructionBench("gfx942", WAVES)
    bench.state.scalar[M0] = 200
    i = Instruction(0, 4, "VOP1", "v_mov_b32", "", (Operand("v", 4), Operand("v", 100)))
    with pytest.raises(KernelFault) as caught:
        bench.execute(i, mode=DEFAULT_MODE | INDEX_MODE | 1 << 32)
    assert caught.value.code == "FLY-U728"
