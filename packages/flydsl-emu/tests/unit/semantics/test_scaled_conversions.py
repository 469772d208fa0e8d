"""Scaled conversions of gfx950 against exact arithmetic on the codes' values."""

from __future__ import annotations

import math
import re
import zlib
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.numpy_tier.binding import Binder
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.modes import DEFAULT_MODE
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 1
OVERFLOW_SATURATES = 1 << 23

# Element type, bits, and whether codes beyond the largest finite one exist.
FORMATS: dict[str, tuple[Any, int]] = {
    "fp8": (ml_dtypes.float8_e4m3fn, 8),
    "bf8": (ml_dtypes.float8_e5m2, 8),
    "fp6": (ml_dtypes.float6_e2m3fn, 6),
    "bf6": (ml_dtypes.float6_e3m2fn, 6),
    "fp4": (ml_dtypes.float4_e2m1fn, 4),
}
MANTISSA = {"fp8": 3, "bf8": 2, "fp6": 3, "bf6": 2, "fp4": 1}
VALUES = {
    name: [float(x) for x in np.arange(1 << bits, dtype=np.uint8).view(kind).astype(np.float64)]
    for name, (kind, bits) in FORMATS.items()
}
PACK = [f"v_cvt_scalef32_pk_{k}_{w}" for k in ("fp8", "bf8", "fp4") for w in ("f32", "f16", "bf16")]
UNPACK = [
    f"v_cvt_scalef32_pk_{w}_{k}" for k in ("fp8", "bf8", "fp4") for w in ("f32", "f16", "bf16")
]
UNPACK_ONE = [f"v_cvt_scalef32_{w}_{k}" for k in ("fp8", "bf8") for w in ("f32", "f16")]
SIXES = [
    f"v_cvt_scalef32_{form}_{k}_{w}"
    for k in ("fp6", "bf6")
    for form, w in (
        ("2xpk16", "f32"),
        ("pk32", "f16"),
        ("pk32", "bf16"),
        ("sr_pk32", "f32"),
        ("sr_pk32", "f16"),
        ("sr_pk32", "bf16"),
    )
]
UNPACK_SIXES = [
    f"v_cvt_scalef32_pk32_{w}_{k}" for k in ("fp6", "bf6") for w in ("f32", "f16", "bf16")
]
STOCHASTIC = [f"v_cvt_scalef32_sr_{k}_{w}" for k in ("fp8", "bf8") for w in ("f32", "f16", "bf16")]
STOCHASTIC += [f"v_cvt_scalef32_sr_pk_fp4_{w}" for w in ("f32", "f16", "bf16")]

V = {n: Operand("v", n) for n in range(10, 14)}


def encoded(kind: str, y: float, random: int | None, saturate: bool) -> int:
    """Round `y` to a code of `kind`: nearest even, or up by the odds that `random` gives."""
    finite = [x for x in VALUES[kind][: len(VALUES[kind]) // 2] if math.isfinite(x)]
    largest, bits = len(finite) - 1, FORMATS[kind][1]
    sign = 1 << (bits - 1) if math.copysign(1, y) < 0 else 0
    small = kind not in ("fp8", "bf8")
    if math.isnan(y):
        return largest | sign if small else 0x7F
    beyond = largest if small or saturate else {"fp8": 0x7F, "bf8": 0x7C}[kind]
    size = abs(y)
    if math.isinf(size):
        return beyond | sign
    steps = [Fraction(x) for x in finite]
    steps.append(steps[-1] + (steps[-1] - steps[-2]))
    exact = Fraction(size)
    if exact >= steps[-1]:
        code = largest + 1
    else:
        below = max(k for k, x in enumerate(steps) if x <= exact)
        part = (exact - steps[below]) / (steps[below + 1] - steps[below])
        if random is None:
            up = part > Fraction(1, 2) or (part == Fraction(1, 2) and below % 2 == 1)
        else:
            drop = 23 - MANTISSA[kind]
            up = math.floor(part * 2**drop) + (random >> (32 - drop)) >= 2**drop
        code = below + up
    if code > largest:
        return beyond | sign
    return code | sign


def next_random(x: int) -> int:
    return (x << 1 ^ (197 if x >> 31 else 0)) & 0xFFFFFFFF


def floats(rng: np.random.Generator, shape: tuple[int, ...], kind: str, width: str) -> Array:
    """Values near the codes of `kind`, halfway between them, beyond them, and specials."""
    finite = np.array([x for x in VALUES[kind] if math.isfinite(x)])
    pick = rng.choice(finite, shape)
    other = rng.choice(finite, shape)
    x = np.where(
        rng.random(shape) < 0.5, (pick + other) / 2, pick * (1 + rng.normal(0, 0.2, shape))
    )
    x = np.where(rng.random(shape) < 0.1, x * 3, x)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-9, -3e-5], shape)
    x = np.where(rng.random(shape) < 0.1, special, x)
    types = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    with np.errstate(all="ignore"):
        return x.astype(types[width])


def as_registers(x: Array, width: str) -> Array:
    """``[register, lane]`` of elements ``[element, lane]``."""
    if width == "f32":
        return x.view(np.uint32)
    bits = x.view(np.uint16).astype(np.uint32)
    return bits[0::2] | bits[1::2] << 16


def scales(rng: np.random.Generator) -> tuple[Array, Array]:
    exponent = rng.integers(-3, 4, 64)
    exponent[0] = 0
    # Only the exponent counts: the mantissa and sign are noise.
    bits = (exponent + 127).astype(np.uint32) << 23 | rng.integers(0, 1 << 23, 64).astype(np.uint32)
    return bits | rng.integers(0, 2, 64).astype(np.uint32) << 31, exponent


def run(name: str, operands: list[Operand], registers: dict[int, Array], **mods: int) -> Any:
    mode = mods.pop("mode", DEFAULT_MODE)
    bench = InstructionBench("gfx950", WAVES)
    for n, x in registers.items():
        bench.state.vector[n] = x
    bench.execute(Instruction(0, 8, "VOP3", name, "e64", tuple(operands), mods), mode=mode)
    return bench.state.vector[:, 0, :]


def parsed(name: str) -> tuple[str, str, np.random.Generator]:
    kind = re.search("fp8|bf8|fp6|bf6|fp4", name)
    width = re.search("f32$|bf16|f16", name.replace("scalef32_", ""))
    assert kind is not None
    return kind[0], width[0] if width else "f32", np.random.default_rng(zlib.crc32(name.encode()))


@pytest.mark.parametrize("mode", [DEFAULT_MODE, DEFAULT_MODE | OVERFLOW_SATURATES])
@pytest.mark.parametrize("name", PACK)
def test_packs_two(name: str, mode: int) -> None:
    kind, width, rng = parsed(name)
    scale, exponent = scales(rng)
    x = floats(rng, (2, 64), kind, width)
    old = rng.integers(0, 2**32, 64, dtype=np.uint32)
    slots = 4 if kind == "fp4" else 2
    bits = 2 * FORMATS[kind][1]
    for slot in range(slots):
        given = {20: old, 12: scale}
        words = as_registers(x, width)
        given |= {10 + k: w for k, w in enumerate(words)}
        sources = [V[10], V[11], V[12]] if width == "f32" else [V[10], V[12]]
        select = slot << 2 if kind == "fp4" else slot << 3
        got = run(name, [Operand("v", 20), *sources], given, op_sel=select, mode=mode)[20]
        for lane in range(64):
            pair = 0
            for k in (0, 1):
                y = math.ldexp(float(x[k, lane]), -int(exponent[lane]))
                code = encoded(kind, y, None, bool(mode & OVERFLOW_SATURATES))
                pair |= code << k * FORMATS[kind][1]
            keep = int(old[lane]) & ~(((1 << bits) - 1) << slot * bits)
            assert got[lane] == keep | pair << slot * bits, (lane, x[:, lane], exponent[lane])


@pytest.mark.parametrize("name", STOCHASTIC)
def test_rounds_stochastically(name: str) -> None:
    kind, width, rng = parsed(name)
    scale, exponent = scales(rng)
    old = rng.integers(0, 2**32, 64, dtype=np.uint32)
    random = rng.integers(0, 2**32, 64, dtype=np.uint32)
    two = kind == "fp4"
    x = floats(rng, (2, 64), kind, width)
    for slot in range(4):
        words = as_registers(x, width)
        given = {20: old, 12: random, 13: scale, 10: words[0]}
        source = V[10]
        if two and width == "f32":
            given[11] = words[1]
            source = Operand("v", 10, 2)
        half = slot & 1 if not two and width != "f32" else 0
        operands = [Operand("v", 20), source, V[12], V[13]]
        got = run(name, operands, given, op_sel=slot << 2 | half)[20]
        for lane in range(64):
            code, seed = 0, int(random[lane])
            for k in range(2 if two else 1):
                value = float(x[k if two else half, lane])
                y = math.ldexp(value, -int(exponent[lane]))
                code |= encoded(kind, y, seed, False) << 4 * k
                seed = next_random(seed)
            want = int(old[lane]) & ~(0xFF << 8 * slot) | code << 8 * slot
            assert got[lane] == want, (lane, x[:, lane], exponent[lane], random[lane])


@pytest.mark.parametrize("name", SIXES)
def test_packs_thirty_two(name: str) -> None:
    kind, width, rng = parsed(name)
    scale, exponent = scales(rng)
    random = rng.integers(0, 2**32, 64, dtype=np.uint32)
    x = floats(rng, (32, 64), kind, width)
    stochastic = "_sr_" in name
    if "2xpk16" in name:
        words = as_registers(np.concatenate([x[0::2], x[1::2]]), width)
        sources = [Operand("v", 60, 16), Operand("v", 76, 16)]
    else:
        words = as_registers(x, width)
        sources = [Operand("v", 60, len(words))]
    given = {60 + k: w for k, w in enumerate(words)} | {12: random, 13: scale}
    sources += [V[12], V[13]] if stochastic else [V[13]]
    got = run(name, [Operand("v", 20, 6), *sources], given)
    for lane in range(64):
        total, seed = 0, int(random[lane])
        for k in range(32):
            y = math.ldexp(float(x[k, lane]), -int(exponent[lane]))
            total |= encoded(kind, y, seed if stochastic else None, False) << 6 * k
            seed = next_random(seed)
        words = [int(got[20 + k, lane]) for k in range(6)]
        assert sum(w << 32 * k for k, w in enumerate(words)) == total


def narrowed(values: Array, width: str) -> Array:
    types = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    with np.errstate(all="ignore"):
        return values.astype(types[width])


@pytest.mark.parametrize("name", UNPACK)
def test_unpacks_two(name: str) -> None:
    kind, _, rng = parsed(name)
    width = name.removeprefix("v_cvt_scalef32_pk_").split("_")[0]
    scale, exponent = scales(rng)
    word = rng.integers(0, 2**32, 64, dtype=np.uint32)
    bits = FORMATS[kind][1]
    count = 2 if width == "f32" else 1
    for slot in range(4 if kind == "fp4" else 2):
        out = run(
            name,
            [Operand("v", 20, count), V[10], V[12]],
            {10: word, 12: scale},
            op_sel=slot,
        )
        for k in (0, 1):
            codes = word >> np.uint32(slot * 2 * bits + k * bits) & np.uint32((1 << bits) - 1)
            values = np.array([VALUES[kind][c] for c in codes]) * 2.0**exponent
            want = narrowed(values.astype(np.float32), width)
            if width == "f32":
                got = out[20 + k].view(np.float32)
            else:
                got = (out[20] >> np.uint32(16 * k)).astype(np.uint16).view(want.dtype)
            assert np.array_equal(
                got.astype(np.float64), want.astype(np.float64), equal_nan=True
            ), slot


@pytest.mark.parametrize("name", UNPACK_ONE)
def test_unpacks_one(name: str) -> None:
    kind, _, rng = parsed(name)
    width = name.removeprefix("v_cvt_scalef32_").split("_")[0]
    scale, exponent = scales(rng)
    word = rng.integers(0, 2**32, 64, dtype=np.uint32)
    old = rng.integers(0, 2**32, 64, dtype=np.uint32)
    for select in range(16 if width == "f16" else 4):
        out = run(
            name, [Operand("v", 20), V[10], V[12]], {10: word, 12: scale, 20: old}, op_sel=select
        )[20]
        codes = word >> np.uint32(8 * (select & 3)) & np.uint32(0xFF)
        values = np.array([VALUES[kind][c] for c in codes]) * 2.0**exponent
        want = narrowed(values, width).astype(np.float64)
        if width == "f32":
            got = out.view(np.float32)
        else:
            high = select >> 3 & 1
            got = (out >> np.uint32(16 * high)).astype(np.uint16).view(np.float16)
            kept = np.uint32(0xFFFF if high else 0xFFFF0000)
            assert np.array_equal(out & kept, old & kept)
        assert np.array_equal(got.astype(np.float64), want, equal_nan=True)


@pytest.mark.parametrize("name", UNPACK_SIXES)
def test_unpacks_thirty_two(name: str) -> None:
    kind, _, rng = parsed(name)
    width = name.removeprefix("v_cvt_scalef32_pk32_").split("_")[0]
    scale, exponent = scales(rng)
    words = rng.integers(0, 2**32, (6, 64), dtype=np.uint32)
    count = 32 if width == "f32" else 16
    given = {60 + k: w for k, w in enumerate(words)} | {12: scale}
    out = run(name, [Operand("v", 20, count), Operand("v", 60, 6), V[12]], given)
    for lane in range(64):
        packed = sum(int(w) << 32 * k for k, w in enumerate(words[:, lane]))
        codes = [packed >> 6 * k & 63 for k in range(32)]
        values = np.array([VALUES[kind][c] for c in codes]) * 2.0 ** exponent[lane]
        want = narrowed(values, width).astype(np.float64)
        raw = np.ascontiguousarray(out[20 : 20 + count, lane])
        types = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
        assert np.array_equal(raw.view(types[width]).astype(np.float64), want)


@pytest.mark.opcodes("v_cvt_scalef32_pk_f32_fp8")
def test_scale_of_all_ones_is_nan() -> None:
    out = run(
        "v_cvt_scalef32_pk_f32_fp8",
        [Operand("v", 20, 2), V[10], V[12]],
        {10: np.uint32(0x38383838), 12: np.uint32(0x7F800000)},
    )
    assert np.isnan(out[20:22].view(np.float32)).all()


@pytest.mark.parametrize("name", ["v_cvt_sr_f16_f32", "v_cvt_sr_bf16_f32"])
def test_rounds_stochastically_to_sixteen_bits(name: str) -> None:
    rng = np.random.default_rng(3)
    half = "bf16" not in name
    x = (rng.standard_normal(64) * 10.0 ** rng.integers(-6, 4, 64)).astype(np.float32)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0]
    x[6:9] = np.array([0x7F801234, 0xFF7FFFFF, 1], np.uint32).view(np.float32)
    random = rng.integers(0, 2**32, 64, dtype=np.uint32)
    old = rng.integers(0, 2**32, 64, dtype=np.uint32)
    kind = np.float16 if half else ml_dtypes.bfloat16
    drop = 13 if half else 16
    finite = np.arange(0x7C00 if half else 0x7F80, dtype=np.uint16).view(kind).astype(np.float64)
    for high in (0, 1):
        given = {10: x.view(np.uint32), 12: random, 20: old}
        out = run(name, [Operand("v", 20), V[10], V[12]], given, op_sel=high << 3)[20]
        kept = np.uint32(0xFFFF if high else 0xFFFF0000)
        assert np.array_equal(out & kept, old & kept)
        codes = (out >> np.uint32(16 * high)).astype(np.uint16)
        for lane in range(64):
            value, code = float(x[lane]), int(codes[lane])
            if math.isnan(value):
                assert math.isnan(float(np.uint16(code).view(kind)))
                continue
            sign = 0x8000 if math.copysign(1, value) < 0 else 0
            size = abs(value)
            if math.isinf(size):
                assert code == len(finite) | sign
                continue
            below = int(np.searchsorted(finite, size, "right")) - 1
            top = Fraction(float(finite[below + 1])) if below + 1 < len(finite) else None
            low = Fraction(float(finite[below]))
            step = top - low if top is not None else low - Fraction(float(finite[below - 1]))
            part = (Fraction(size) - low) / step
            up = math.floor(part * 2**drop) + (int(random[lane]) >> (32 - drop)) >= 2**drop
            assert code == min(below + up, len(finite)) | sign, (value, random[lane])


@pytest.mark.parametrize("name", ["v_prng_b32"])
def test_pseudo_random_numbers(name: str) -> None:
    x = np.array([0, 1, 0x80000000, 0xFFFFFFFF, *range(1 << 20, (1 << 20) + 60)], np.uint32)
    out = run(name, [Operand("v", 20), V[10]], {10: x})[20]
    assert out.tolist() == [next_random(int(n)) for n in x]


@pytest.mark.parametrize("name", ["v_cvt_f32_bf16"])
def test_widens_bfloat(name: str) -> None:
    x = np.random.default_rng(1).integers(0, 2**32, 64, dtype=np.uint32)
    for high in (0, 1):
        out = run(name, [Operand("v", 20), V[10]], {10: x}, op_sel=high)[20]
        want = (x >> np.uint32(16 * high)) << np.uint32(16)
        assert np.array_equal(out, want)


def test_binds_under_a_mode() -> None:
    bench = InstructionBench("gfx950")
    assert Binder(bench.machine, "k", "gfx950", 5).mode == 5
    assert find("v_cvt_pk_fp8_f32") is not None
