"""Packed and mixed arithmetic, dot products, and conversions of 8-, 6- and 4-bit floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction, Operand
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
    encode,
)
from flydsl_emu.semantics.value_types import F32, U32
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2

PACKED: dict[str, tuple[str, int, Callable[..., Any]]] = {
    "v_pk_add_f16": ("f16", 2, lambda a, b: a + b),
    "v_pk_mul_f16": ("f16", 2, lambda a, b: a * b),
    "v_pk_max_f16": ("f16", 2, np.fmax),
    "v_pk_min_f16": ("f16", 2, np.fmin),
    "v_pk_maximum3_f16": ("f16", 3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_pk_minimum3_f16": ("f16", 3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_pk_fma_f16": (
        "f16",
        3,
        lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(np.float16),
    ),
    "v_pk_mul_lo_u16": ("u16", 2, lambda a, b: a * b),
    "v_pk_lshlrev_b16": ("u16", 2, lambda a, b: b << (a & np.uint16(15))),
    "v_pk_lshrrev_b16": ("u16", 2, lambda a, b: b >> (a & np.uint16(15))),
    "v_pk_ashrrev_i16": ("i16", 2, lambda a, b: b >> (a & np.int16(15))),
}
for _t in ("u16", "i16"):
    PACKED[f"v_pk_add_{_t}"] = (_t, 2, lambda a, b: a + b)
    PACKED[f"v_pk_sub_{_t}"] = (_t, 2, lambda a, b: a - b)
    PACKED[f"v_pk_max_{_t}"] = (_t, 2, np.maximum)
    PACKED[f"v_pk_min_{_t}"] = (_t, 2, np.minimum)
    PACKED[f"v_pk_mad_{_t}"] = (_t, 3, lambda a, b, c: a * b + c)
WIDE: dict[str, tuple[int, Callable[..., Any]]] = {
    "v_pk_add_f32": (2, lambda a, b: a + b),
    "v_pk_mul_f32": (2, lambda a, b: a * b),
    "v_pk_fma_f32": (3, lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(np.float32)),
}
MIXED = ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
DOTS = ("v_dot2_f32_f16", "v_dot2_f32_bf16", "v_dot2c_f32_f16", "v_dot2c_f32_bf16")
DOTS += ("v_dot2acc_f32_f16", "v_dot2acc_f32_bf16")
INTEGER_DOTS = ("v_dot2c_i32_i16", "v_dot4c_i32_i8", "v_dot8c_i32_i4")
SMALL = [f"v_cvt_{form}_{k}" for k in ("fp8", "bf8") for form in ("pk_f32", "f32")]
SMALL += [f"v_cvt_{form}_{k}_f32" for k in ("fp8", "bf8") for form in ("pk", "sr")]
SCALED = [
    f"v_cvt_scalef32_pk_{t}_{k}" for k in ("fp8", "bf8", "fp4") for t in ("f32", "f16", "bf16")
]
SCALED_PACK = [f"v_cvt_scalef32_pk_{k}_f32" for k in ("fp8", "bf8", "fp4")]
CASES = [
    *PACKED,
    *WIDE,
    *MIXED,
    *DOTS,
    *INTEGER_DOTS,
    "v_pk_fmac_f16",
    *SMALL,
    *SCALED,
    *SCALED_PACK,
]

TYPES = {"f16": np.float16, "u16": np.uint16, "i16": np.int16}


def execute(bench: InstructionBench, name: str, *operands: Operand, **mods: int) -> None:
    form = "VOP3P" if ("_pk_" in name and "cvt" not in name) or "mix" in name else "VOP3"
    encoding = "e64" if "cvt" in name else ""
    bench.execute(Instruction(0, 8, form, name, encoding, operands, mods))


def halves(kind: str, rng: np.random.Generator) -> Array:
    if kind == "f16":
        return (rng.standard_normal((WAVES, 128)) * 4).astype(np.float16)
    return rng.integers(0, 65536, (WAVES, 128)).astype(np.uint16).view(TYPES[kind])


@pytest.mark.parametrize("selection", [(0, 7), (3, 4), (1, 2), (7, 0)])
@pytest.mark.parametrize("name", PACKED)
def test_packed_halves(name: str, selection: tuple[int, int]) -> None:
    kind, count, reference = PACKED[name]
    rng = np.random.default_rng(len(name))
    bench = InstructionBench("gfx950", WAVES)
    sources = [halves(kind, rng) for _ in range(count)]
    for k, x in enumerate(sources):
        bench.state.vector[10 + k] = x.view(np.uint32)
    negate = 2 if kind == "f16" else 0
    mods = {"op_sel": selection[0], "op_sel_hi": selection[1], "neg_lo": negate}
    execute(bench, name, Operand("v", 20), *(Operand("v", 10 + k) for k in range(count)), **mods)
    got = bench.state.vector[20].view(TYPES[kind])
    for half in (0, 1):
        chosen = [x[:, selection[half] >> k & 1 :: 2] for k, x in enumerate(sources)]
        if negate and not half:
            chosen[1] = -chosen[1]
        with np.errstate(all="ignore"):
            want = reference(*chosen).astype(TYPES[kind])
        assert np.array_equal(got[:, half::2], want)


@pytest.mark.parametrize("sign", ["u16", "i16"])
@pytest.mark.parametrize("verb", ["add", "sub"])
def test_packed_clamp_saturates(sign: str, verb: str) -> None:
    rng = np.random.default_rng(1)
    bench = InstructionBench("gfx942", WAVES)
    a, b = halves(sign, rng), halves(sign, rng)
    bench.state.vector[10], bench.state.vector[11] = a.view(np.uint32), b.view(np.uint32)
    operands = (Operand("v", 20), Operand("v", 10), Operand("v", 11))
    execute(bench, f"v_pk_{verb}_{sign}", *operands, op_sel_hi=3, clamp=1)
    exact = a.astype(int) + b if verb == "add" else a.astype(int) - b
    info = np.iinfo(TYPES[sign])
    got = bench.state.vector[20].view(TYPES[sign])
    assert np.array_equal(got, np.clip(exact, info.min, info.max))


@pytest.mark.parametrize("selection", [(0, 7), (3, 4), (7, 0)])
@pytest.mark.parametrize("name", WIDE)
def test_packed_singles(name: str, selection: tuple[int, int]) -> None:
    count, reference = WIDE[name]
    rng = np.random.default_rng(2)
    bench = InstructionBench("gfx942", WAVES)
    sources = rng.standard_normal((count, 2, WAVES, 64)).astype(np.float32)
    bench.state.vector[10 : 10 + 2 * count] = sources.reshape(2 * count, WAVES, 64).view(np.uint32)
    operands = (Operand("v", 10 + 2 * k, 2) for k in range(count))
    mods = {"op_sel": selection[0], "op_sel_hi": selection[1], "neg_hi": 1}
    execute(bench, name, Operand("v", 20, 2), *operands, **mods)
    for half in (0, 1):
        chosen = [sources[k, selection[half] >> k & 1] for k in range(count)]
        if half:
            chosen[0] = -chosen[0]
        got = bench.state.vector[20 + half].view(np.float32)
        assert np.array_equal(got, reference(*chosen))


def test_packed_singles_take_scalar_pairs_and_constants() -> None:
    bench = InstructionBench("gfx942", WAVES)
    bench.state.scalar[10:12, :, 0] = np.array([[1.5], [2.5]], np.float32).view(np.uint32)
    operands = (Operand("v", 20, 2), Operand("s", 10, 2), Operand("f", 0, 2, 2.0))
    execute(bench, "v_pk_mul_f32", *operands, op_sel_hi=3)
    got = bench.state.vector[20:22].view(np.float32)
    assert (got[0] == 3.0).all()
    assert (got[1] == 5.0).all()


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("clamp", [0, 1])
def test_mixed_fma(name: str, clamp: int) -> None:
    rng = np.random.default_rng(3)
    bench = InstructionBench("gfx942", WAVES)
    packed = halves("f16", rng)
    single = rng.standard_normal((WAVES, 64)).astype(np.float32)
    bench.state.vector[10] = packed.view(np.uint32)
    bench.state.vector[11] = single.view(np.uint32)
    bench.state.vector[20] = 0xAAAABBBB
    operands = (
        Operand("v", 20),
        Operand("v", 10),
        Operand("v", 11, 1, 0, True),
        Operand("v", 10, 1, 0, False, True),
    )
    mods = {"op_sel": 0b001, "op_sel_hi": 0b101, **({"clamp": 1} if clamp else {})}
    execute(bench, name, *operands, **mods)
    a, c = packed[:, 1::2].astype(np.longdouble), np.abs(packed[:, 0::2]).astype(np.longdouble)
    total = a * -single.astype(np.longdouble) + c
    if clamp:
        total = np.clip(total, 0, 1)
    word = bench.state.vector[20]
    if name == "v_fma_mix_f32":
        assert np.array_equal(word.view(np.float32), total.astype(np.float32))
        return
    half = total.astype(np.float16).view(np.uint16).astype(np.uint32)
    want = half | 0xAAAA0000 if name.endswith("lo_f16") else half << 16 | 0xBBBB
    assert np.array_equal(word, want)


@pytest.mark.parametrize("name", DOTS)
def test_float_dot(name: str) -> None:
    rng = np.random.default_rng(4)
    bench = InstructionBench("gfx950", WAVES)
    dtype = ml_dtypes.bfloat16 if name.endswith("bf16") else np.float16
    a, b = (rng.standard_normal((WAVES, 128)).astype(dtype) for _ in range(2))
    c = rng.standard_normal((WAVES, 64)).astype(np.float32)
    bench.state.vector[10], bench.state.vector[11] = a.view(np.uint32), b.view(np.uint32)
    bench.state.vector[12] = c.view(np.uint32)
    accumulates = name.startswith(("v_dot2c", "v_dot2acc"))
    target = Operand("v", 12 if accumulates else 20)
    tail = () if accumulates else (Operand("v", 12),)
    bench.execute(
        Instruction(0, 8, "VOP2", name, "", (target, Operand("v", 10), Operand("v", 11), *tail))
    )
    x, y = a.astype(np.float64), b.astype(np.float64)
    want = (x[:, 0::2] * y[:, 0::2] + x[:, 1::2] * y[:, 1::2] + c).astype(np.float32)
    got = bench.state.vector[target.index].view(np.float32)
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["v_dot2_f32_f16", "v_dot2_f32_bf16", "v_dot2_i32_i16"])
@pytest.mark.parametrize("select", [(0, 3), (1, 3), (3, 0), (2, 1)])
@pytest.mark.parametrize("negate", [(0, 0), (1, 2), (4, 4), (7, 3)])
def test_dot_modifiers(name: str, select: tuple[int, int], negate: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    bench = InstructionBench("gfx950", WAVES)
    whole = "i16" in name
    if whole and negate != (0, 0):
        negate = (0, 0)
    dtype = ml_dtypes.bfloat16 if name.endswith("bf16") else np.float16
    if whole:
        a, b = (rng.integers(-(2**15), 2**15, (WAVES, 128)).astype(np.int16) for _ in range(2))
        c = rng.integers(-100, 100, (WAVES, 64)).astype(np.int32)
    else:
        a, b = (rng.integers(-8, 8, (WAVES, 128)).astype(dtype) for _ in range(2))
        c = rng.integers(-8, 8, (WAVES, 64)).astype(np.float32)
    for k, x in enumerate((a, b, c)):
        bench.state.vector[10 + k] = x.view(np.uint32)
    mods = {"op_sel": select[0], "op_sel_hi": select[1], "neg_lo": negate[0], "neg_hi": negate[1]}
    operands = tuple(Operand("v", k) for k in (20, 10, 11, 12))
    bench.execute(Instruction(0, 8, "VOP3P", name, "", operands, mods))
    want = c.astype(np.float64) * (-1 if negate[0] >> 2 & 1 else 1)
    for half in (0, 1):
        x, y = (q[:, select[half] >> k & 1 :: 2].astype(np.float64) for k, q in enumerate((a, b)))
        sign = (-1) ** (negate[half] & 1) * (-1) ** (negate[half] >> 1 & 1)
        want = want + sign * x * y
    got = bench.state.vector[20]
    if whole:
        assert np.array_equal(got, want.astype(np.int64).astype(np.uint32))
    else:
        assert np.array_equal(got.view(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("name", INTEGER_DOTS)
def test_accumulating_integer_dot(name: str) -> None:
    rng = np.random.default_rng(5)
    bits = int(name.rpartition("i")[2])
    bench = InstructionBench("gfx942", WAVES)
    a, b, c = (rng.integers(0, 2**32, (WAVES, 64), dtype=np.uint32) for _ in range(3))
    (got,) = bench.evaluate(name, a, b, old=c.view(np.int32))
    total = c.view(np.int32).astype(np.int64)
    for at in range(0, 32, bits):
        x, y = ((v.astype(np.int64) >> at & (1 << bits) - 1) for v in (a, b))
        half = 1 << bits - 1
        total += ((x ^ half) - half) * ((y ^ half) - half)
    assert np.array_equal(got, total.astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("sign", ["i", "u"])
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_integer_dot_clamp_saturates(sign: str, bits: int) -> None:
    name = f"v_dot{32 // bits}_{sign}32_{sign}{bits}"
    rng = np.random.default_rng(bits)
    a, b = (rng.integers(0, 2**32, (WAVES, 64), dtype=np.uint32) for _ in range(2))
    edges = [0, 5, 2**31 - 1, -(2**31)] if sign == "i" else [0, 5, 2**32 - 1, 2**32 - 9]
    c = rng.choice(edges, (WAVES, 64)).astype(f"{sign}4" if sign == "u" else "i4")
    (got,) = InstructionBench("gfx942", WAVES).evaluate(name, a, b, c, mods={"clamp": 1})
    low = -(2**31) if sign == "i" else 0
    for lane in range(64):
        total = int(c[1, lane])
        for at in range(0, 32, bits):
            x, y = (int(v[1, lane]) >> at & (1 << bits) - 1 for v in (a, b))
            if sign == "i":
                x, y = ((q ^ 1 << bits - 1) - (1 << bits - 1) for q in (x, y))
            total += x * y
        assert int(got[1, lane]) == min(max(total, low), low + 2**32 - 1)


def test_clamp_that_is_not_modelled_is_refused() -> None:
    bench = InstructionBench("gfx942", WAVES)
    with pytest.raises(TargetError, match="clamp"):
        execute(bench, "v_pk_mul_lo_u16", *(Operand("v", k) for k in (20, 10, 11)), clamp=1)


@pytest.mark.opcodes("v_pk_fmac_f16")
def test_packed_fmac() -> None:
    rng = np.random.default_rng(6)
    bench = InstructionBench("gfx942", WAVES)
    a, b, c = (halves("f16", rng) for _ in range(3))
    for k, x in enumerate((a, b, c)):
        bench.state.vector[10 + k] = x.view(np.uint32)
    operands = (Operand("v", 12), Operand("v", 10), Operand("v", 11))
    bench.execute(Instruction(0, 4, "VOP2", "v_pk_fmac_f16", "", operands))
    want = (a.astype(np.longdouble) * b + c).astype(np.float16)
    assert np.array_equal(bench.state.vector[12].view(np.float16), want)


# Small floats ------------------------------------------------------------------------------------
FORMATS: dict[str, tuple[Format, Any]] = {
    "fp8": (FP8, ml_dtypes.float8_e4m3fn),
    "bf8": (BF8, ml_dtypes.float8_e5m2),
    "fp8 fnuz": (FP8_FNUZ, ml_dtypes.float8_e4m3fnuz),
    "bf8 fnuz": (BF8_FNUZ, ml_dtypes.float8_e5m2fnuz),
    "fp6": (FP6, ml_dtypes.float6_e2m3fn),
    "bf6": (BF6, ml_dtypes.float6_e3m2fn),
    "fp4": (FP4, ml_dtypes.float4_e2m1fn),
}


def codes_as_floats(form: Format, dtype: Any) -> Array:
    return np.arange(1 << form.bits, dtype=np.uint8).view(dtype).astype(np.float32)


@pytest.mark.parametrize("name", FORMATS)
def test_codes_decode_as_in_ml_dtypes(name: str) -> None:
    form, dtype = FORMATS[name]
    machine = InstructionBench("gfx942", WAVES).machine
    codes = np.arange(1 << form.bits, dtype=np.uint32)
    got = decode(machine, form, codes)
    assert np.array_equal(got, codes_as_floats(form, dtype), equal_nan=True)
    values = codes_as_floats(form, dtype)
    assert np.array_equal(np.signbit(got), np.signbit(values)) or np.isnan(values).any()


@pytest.mark.parametrize("name", FORMATS)
def test_encoding_rounds_to_the_nearest_code(name: str) -> None:
    form, dtype = FORMATS[name]
    machine = InstructionBench("gfx942", WAVES).machine
    table = codes_as_floats(form, dtype)
    finite = np.unique(table[np.isfinite(table)])
    middles = (finite[1:] + finite[:-1]) / 2
    rng = np.random.default_rng(1)
    samples = rng.standard_normal(2000).astype(np.float32) * finite.max() / 3
    x = np.concatenate([finite, middles, samples, np.array([np.inf, -np.inf, np.nan, -0.0])])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        codes = encode(machine, form, x)
    for value, code in zip(x.tolist(), codes.tolist(), strict=True):
        check_code(form, table, value, code)


def check_code(form: Format, table: Array, value: float, code: int) -> None:
    got = float(table[code])
    largest = float(np.nanmax(np.where(np.isinf(table), np.nan, table)))
    has_nan = form.nan is not None
    if value != value:
        assert got != got if has_nan else abs(got) == largest
        return
    step = largest - float(np.sort(table[np.isfinite(table)])[-2])
    if abs(value) >= largest + step / 2:
        if form.infinity is not None:
            assert got == math.copysign(math.inf, value)
        elif has_nan:
            assert got != got
        else:
            assert got == math.copysign(largest, value)
        return
    finite = table[np.isfinite(table)].astype(np.float64)
    nearest = np.abs(finite - value).min()
    assert abs(got - value) == nearest
    if value == 0 and not form.fnuz:
        assert math.copysign(1, got) == math.copysign(1, value)
    ties = [c for c in range(len(table)) if abs(float(table[c]) - value) == nearest]
    distinct = {float(table[c]) for c in ties}
    if len(distinct) == 2:
        assert code & 1 == 0


@pytest.mark.opcodes("v_cvt_f32_{kind} v_cvt_pk_f32_{kind} v_cvt_pk_{kind}_f32")
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_conversion_instructions(arch: str, kind: str) -> None:
    form, dtype = FORMATS[kind + (" fnuz" if arch == "gfx942" else "")]
    table = codes_as_floats(form, dtype)
    rng = np.random.default_rng(2)
    bench = InstructionBench(arch, WAVES)
    words = rng.integers(0, 2**32, (WAVES, 64), dtype=np.uint32)
    bench.state.vector[10] = words
    for byte in range(4):
        execute(bench, f"v_cvt_f32_{kind}", Operand("v", 20), Operand("v", 10), op_sel=byte)
        got = bench.state.vector[20].view(np.float32)
        assert np.array_equal(got, table[words >> 8 * byte & 255], equal_nan=True)
    for half in (0, 1):
        execute(bench, f"v_cvt_pk_f32_{kind}", Operand("v", 20, 2), Operand("v", 10), op_sel=half)
        for k in (0, 1):
            got = bench.state.vector[20 + k].view(np.float32)
            assert np.array_equal(got, table[words >> 8 * (2 * half + k) & 255], equal_nan=True)
    x, y = (rng.standard_normal((WAVES, 64)).astype(np.float32) for _ in range(2))
    bench.write(Operand("v", 11), x, F32)
    bench.write(Operand("v", 12), y, F32)
    bench.state.vector[20] = 0x12345678
    pack = (Operand("v", 20), Operand("v", 11), Operand("v", 12))
    execute(bench, f"v_cvt_pk_{kind}_f32", *pack, op_sel=8)
    codes = [v.astype(dtype).view(np.uint8).astype(np.uint32) for v in (x, y)]
    assert np.array_equal(bench.state.vector[20], 0x5678 | codes[0] << 16 | codes[1] << 24)
    execute(bench, f"v_cvt_pk_{kind}_f32", *pack)
    assert np.array_equal(bench.state.vector[20] & 0xFFFF, codes[0] | codes[1] << 8)


@pytest.mark.opcodes("v_cvt_sr_{kind}_f32")
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_stochastic_rounding(kind: str) -> None:
    form, dtype = FORMATS[kind + " fnuz"]
    table = codes_as_floats(form, dtype)
    finite = np.unique(np.abs(table[np.isfinite(table)]))
    bench = InstructionBench("gfx942", WAVES)
    low, high = finite[40], finite[41]
    bench.write(Operand("v", 11), np.full((WAVES, 64), low + (high - low) / 4), F32)
    seeds = (np.arange(WAVES * 64, dtype=np.uint64) * 2**32 // (WAVES * 64)).reshape(WAVES, 64)
    bench.write(Operand("v", 12), seeds, U32)
    operands = (Operand("v", 20), Operand("v", 11), Operand("v", 12))
    for byte in range(4):
        bench.state.vector[20] = 0x55555555
        execute(bench, f"v_cvt_sr_{kind}_f32", *operands, op_sel=byte << 2)
        word = bench.state.vector[20]
        values = table[word >> 8 * byte & 255]
        assert set(values.reshape(-1).tolist()) == {low, high}
        assert (values == high).mean() == pytest.approx(0.25, abs=0.02)
        rest = ~np.uint32(255 << 8 * byte)
        assert ((word & rest) == (np.uint32(0x55555555) & rest)).all()


@pytest.mark.parametrize("name", SCALED)
def test_scaled_unpacking(name: str) -> None:
    target, kind = name.split("_")[-2:]
    form, dtype = FORMATS[kind]
    table = codes_as_floats(form, dtype).astype(np.float64)
    rng = np.random.default_rng(3)
    bench = InstructionBench("gfx950", WAVES)
    words = rng.integers(0, 2**32, (WAVES, 64), dtype=np.uint32)
    bench.state.vector[10] = words
    scale = 2.0 ** rng.integers(-3, 3, (WAVES, 64)).astype(np.float32)
    bench.write(Operand("v", 11), scale * np.float32(1.25), F32)
    positions = range(4 if kind == "fp4" else 2)
    result = Operand("v", 20, 2 if target == "f32" else 1)
    for at in positions:
        execute(bench, name, result, Operand("v", 10), Operand("v", 11), op_sel=at)
        for k in (0, 1):
            shift = (2 * at + k) * form.bits
            want = table[words >> shift & (1 << form.bits) - 1] * scale
            if target == "f32":
                got = bench.state.vector[20 + k].view(np.float32)
                want = want.astype(np.float32)
            else:
                narrow = np.float16 if target == "f16" else ml_dtypes.bfloat16
                got = bench.state.vector[20].view(np.uint16)[:, k::2].copy().view(narrow)
                with np.errstate(all="ignore"):
                    want = want.astype(narrow)
            assert np.array_equal(got.astype(np.float64), want.astype(np.float64), equal_nan=True)


@pytest.mark.parametrize("name", SCALED_PACK)
def test_scaled_packing(name: str) -> None:
    kind = name.split("_")[-2]
    form, dtype = FORMATS[kind]
    table = codes_as_floats(form, dtype)
    rng = np.random.default_rng(4)
    bench = InstructionBench("gfx950", WAVES)
    x, y = (rng.standard_normal((WAVES, 64)).astype(np.float32) * 4 for _ in range(2))
    bench.write(Operand("v", 11), x, F32)
    bench.write(Operand("v", 12), y, F32)
    bench.write(Operand("v", 13), np.full((WAVES, 64), 4.0), F32)
    operands = tuple(Operand("v", n) for n in (20, 11, 12, 13))
    positions = range(4 if kind == "fp4" else 2)
    for at in positions:
        bench.state.vector[20] = 0xC3C3C3C3
        execute(bench, name, *operands, op_sel=at << (2 if kind == "fp4" else 3))
        width = 2 * form.bits
        pair = bench.state.vector[20] >> np.uint32(at * width) & np.uint32((1 << width) - 1)
        for k, v in enumerate((x, y)):
            codes = pair >> np.uint32(k * form.bits) & np.uint32((1 << form.bits) - 1)
            want = (v / 4).astype(dtype).astype(np.float32)
            assert np.array_equal(table[codes], want)
