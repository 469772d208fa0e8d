"""Byte arithmetic, cube maps, 2 / pi segments and unfused f16 multiply-add."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2


def octets(x: int, count: int = 4) -> list[int]:
    return list(x.to_bytes(count, "little"))


def sad(a: int, b: int, masked: bool = False) -> int:
    pairs = zip(octets(a), octets(b), strict=True)
    return sum(abs(x - y) for x, y in pairs if y or not masked)


def quad(a: int, b: int, c: int, masked: bool) -> int:
    total = 0
    for k in range(4):
        window = a >> 8 * k & 0xFFFFFFFF
        total |= (sad(window, b, masked) + (c >> 16 * k & 0xFFFF) & 0xFFFF) << 16 * k
    return total


def lerp(a: int, b: int, c: int) -> int:
    parts = zip(octets(a), octets(b), octets(c), strict=True)
    return int.from_bytes(bytes((x + y + (z & 1)) >> 1 for x, y, z in parts), "little")


def saturated(x: int, amount: int, low: int, high: int) -> int:
    signed = (x ^ 0x80000000) - 0x80000000
    return min(max(signed >> (amount & 31), low), high) & 0xFF


def pair(low: int, high: int) -> Callable[..., int]:
    def want(old: int, a: int, b: int, n: int) -> int:
        both = saturated(a, n, low, high) | saturated(b, n, low, high) << 8
        return old & 0xFFFF0000 | both

    return want


INTEGER: dict[str, tuple[str, Callable[..., int]]] = {
    "v_lerp_u8": ("u32 u32 u32", lerp),
    "v_sad_hi_u8": ("u32 u32 u32", lambda a, b, c: (sad(a, b) << 16) + c & 0xFFFFFFFF),
    "v_msad_u8": ("u32 u32 u32", lambda a, b, c: sad(a, b, True) + c & 0xFFFFFFFF),
    "v_qsad_pk_u16_u8": ("u64 u32 u64", lambda a, b, c: quad(a, b, c, False)),
    "v_mqsad_pk_u16_u8": ("u64 u32 u64", lambda a, b, c: quad(a, b, c, True)),
    "v_ashr_pk_i8_i32": ("old u32 u32 u32", pair(-128, 127)),
    "v_ashr_pk_u8_i32": ("old u32 u32 u32", pair(0, 255)),
}


def words(rng: np.random.Generator, bits: int) -> Array:
    """Random words with many zero and full bytes."""
    raw = rng.integers(0, 256, (WAVES, 64, bits // 8)).astype(np.uint8)
    raw = np.where(rng.random(raw.shape) < 0.25, rng.choice([0, 255, 1, 128], raw.shape), raw)
    return np.ascontiguousarray(raw.astype(np.uint8)).view(f"u{bits // 8}")[..., 0]


@pytest.mark.parametrize("name", INTEGER)
def test_byte_arithmetic(name: str) -> None:
    signature, reference = INTEGER[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    columns = [words(rng, 64 if t == "u64" else 32) for t in signature.split()]
    old = columns[0] if signature.startswith("old") else None
    if old is not None:
        columns[1] = (columns[1].view(np.int32) >> np.int32(18)).view(np.uint32)
    given = columns[1:] if old is not None else columns
    (got,) = InstructionBench("gfx950", WAVES).evaluate(name, *given, old=old)
    for w in range(WAVES):
        for lane in range(64):
            assert int(got[w, lane]) == reference(*(int(c[w, lane]) for c in columns))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("name", ["v_mqsad_u32_u8"])
def test_four_masked_sums(name: str, constant: bool) -> None:
    rng = np.random.default_rng(5)
    bench = InstructionBench("gfx942", WAVES)
    a, b = words(rng, 64), words(rng, 32)
    addends = [words(rng, 32) for _ in range(4)]
    bench.state.vector[8], bench.state.vector[9] = a.astype(np.uint32), (a >> np.uint64(32))
    bench.state.vector[10] = b
    for k, x in enumerate(addends):
        bench.state.vector[12 + k] = x
    third = Operand("i", 0, 1, 7) if constant else Operand("v", 12, 4)
    operands = (Operand("v", 20, 4), Operand("v", 8, 2), Operand("v", 10), third)
    bench.execute(Instruction(0, 8, "VOP3", name, "", operands))
    for k in range(4):
        for lane in range(64):
            window = int(a[1, lane]) >> 8 * k & 0xFFFFFFFF
            start = 7 if constant else int(addends[k][1, lane])
            want = sad(window, int(b[1, lane]), True) + start & 0xFFFFFFFF
            assert bench.state.vector[20 + k, 1, lane] == want


@pytest.mark.parametrize("name", ["v_cvt_pkaccum_u8_f32"])
def test_inserts_a_byte(name: str) -> None:
    rng = np.random.default_rng(6)
    x = (rng.standard_normal((WAVES, 64)) * 200).astype(np.float32)
    x[0, :6] = [np.nan, np.inf, -np.inf, 254.5, 255.5, 0.5]
    at, old = words(rng, 32), words(rng, 32)
    (got,) = InstructionBench("gfx942", WAVES).evaluate(name, x, at, old=old)
    for lane in range(64):
        value = float(x[0, lane])
        byte = 0 if math.isnan(value) else int(min(max(np.rint(value), 0), 255))
        shift = 8 * (int(at[0, lane]) & 3)
        assert got[0, lane] == int(old[0, lane]) & ~(255 << shift) | byte << shift


def cube(x: float, y: float, z: float) -> tuple[float, float, float, float]:
    """Face, s, t and twice the major axis, from the table of cube-map faces."""
    sizes = {"z": abs(z), "y": abs(y), "x": abs(x)}
    major = max(sizes, key=lambda k: sizes[k])
    if major == "z":
        return (5.0, -x, -y, 2 * z) if z < 0 else (4.0, x, -y, 2 * z)
    if major == "y":
        return (3.0, x, -z, 2 * y) if y < 0 else (2.0, x, z, 2 * y)
    return (1.0, z, -y, 2 * x) if x < 0 else (0.0, -z, -y, 2 * x)


CUBE = ("v_cubeid_f32", "v_cubesc_f32", "v_cubetc_f32", "v_cubema_f32")


@pytest.mark.parametrize("name", CUBE)
def test_cube_maps(name: str) -> None:
    rng = np.random.default_rng(7)
    columns = [rng.choice([-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 0.3], (WAVES, 64)) for _ in range(3)]
    columns = [
        np.where(rng.random(c.shape) < 0.5, rng.standard_normal(c.shape), c) for c in columns
    ]
    columns = [c.astype(np.float32) for c in columns]
    (got,) = InstructionBench("gfx942", WAVES).evaluate(name, *columns)
    for lane in range(64):
        want = cube(*(float(c[0, lane]) for c in columns))[CUBE.index(name)]
        assert float(got[0, lane]) == want


def two_over_pi() -> int:
    """``floor(2 / pi * 2**1201)``, pi by the Gauss-Legendre iteration."""
    getcontext().prec = 500
    a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
    for _ in range(10):
        a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
    pi = (a + b) ** 2 / (4 * t)
    return int(2 / pi * (Decimal(2) ** 1201))


@pytest.mark.parametrize("name", ["v_trig_preop_f64"])
def test_segments_of_two_over_pi(name: str) -> None:
    rng = np.random.default_rng(8)
    exponent = np.where(rng.random(128) < 0.5, rng.integers(0, 2046, 128), rng.integers(1070, 1090))
    exponent[:4] = [1077, 1078, 1967, 1968]
    bits = exponent.astype(np.uint64) << np.uint64(52) | rng.integers(0, 2**52, 128).astype(
        np.uint64
    )
    x = bits.view(np.float64).reshape(WAVES, 64)
    which = rng.integers(0, 64, (WAVES, 64)).astype(np.uint32)
    which[0, :32] %= 3
    (got,) = InstructionBench("gfx942", WAVES).evaluate(name, x, which)
    fraction = two_over_pi()
    for lane in range(128):
        segment, power = int(which.flat[lane]) & 31, int(exponent[lane])
        shift = 53 * segment + max(power - 1077, 0)
        window = (fraction << 53 + shift >> 1201) & (1 << 53) - 1
        scale = -53 - shift + (128 if power >= 1968 else 0)
        assert float(got.flat[lane]) == math.ldexp(window, scale)


UNFUSED = ("v_mad_f16", "v_mac_f16", "v_madak_f16", "v_madmk_f16", "v_mad_legacy_f16")


@pytest.mark.parametrize("name", UNFUSED)
def test_unfused_multiply_add(name: str) -> None:
    rng = np.random.default_rng(9)
    a, b, c = (rng.standard_normal((WAVES, 64)).astype(np.float16) for _ in range(3))
    a[0, :4], b[0, :4] = [np.inf, np.nan, 65504, 6e-8], [0, 1, 2, 0.5]
    if name == "v_mac_f16":
        (got,) = InstructionBench("gfx942", WAVES).evaluate(name, a, b, old=c)
    elif name == "v_madmk_f16":
        (got,) = InstructionBench("gfx942", WAVES).evaluate(name, a, c, b)
        b, c = c, b
    else:
        (got,) = InstructionBench("gfx942", WAVES).evaluate(name, a, b, c)
    with np.errstate(all="ignore"):
        want = (a * b).astype(np.float16) + c
        fused = (a.astype(np.float64) * b + c).astype(np.float16)
    assert np.array_equal(got.view(np.float16).reshape(a.shape), want, equal_nan=True)
    assert not np.array_equal(want, fused, equal_nan=True)
