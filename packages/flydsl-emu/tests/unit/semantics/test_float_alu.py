"""Float VALU opcodes against exact rational arithmetic, rounded once."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from flydsl_emu.numpy_tier.arithmetic import DTYPES
from flydsl_emu.semantics import find
from flydsl_emu.semantics.value_types import TYPES
from flydsl_emu.testing import InstructionBench

WAVES = 2
FORMATS = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
INF, NAN = math.inf, math.nan


def rounded(x: Fraction, form: str) -> float:
    """Round to nearest even in the format."""
    precision, low, high = FORMATS[form]
    if x == 0:
        return 0.0
    size = abs(x)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    while Fraction(2) ** e > size:
        e -= 1
    while Fraction(2) ** (e + 1) <= size:
        e += 1
    quantum = Fraction(2) ** (max(e, low) - precision + 1)
    steps = round(size / quantum)  # Python rounds halves to even
    if steps * quantum >= Fraction(2) ** (high + 1):
        return INF if x > 0 else -INF
    return float(steps * quantum) if x > 0 else -float(steps * quantum)


def special(operation: Callable[..., Any], *x: float) -> float:
    with np.errstate(all="ignore"):
        return float(operation(*(np.float64(v) for v in x)))


def add(a: float, b: float, form: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or (a == 0 and b == 0) or a == -b:
        return special(np.add, a, b)
    return rounded(Fraction(a) + Fraction(b), form)


def mul(a: float, b: float, form: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return special(np.multiply, a, b)
    r = rounded(Fraction(a) * Fraction(b), form)
    return math.copysign(r, math.copysign(1, a) * math.copysign(1, b))


def fma(a: float, b: float, c: float, form: str) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return special(
            lambda x, y, z: x * y + z if not (math.isfinite(x) and math.isfinite(y)) else z, a, b, c
        )
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        product_sign = math.copysign(1, a) * math.copysign(1, b)
        if a == 0 or b == 0:
            return -0.0 if product_sign < 0 and math.copysign(1, c) < 0 and c == 0 else 0.0
        return 0.0
    return rounded(exact, form)


def key(x: float) -> tuple[float, float]:
    return (x, math.copysign(1, x))


def fmax(*xs: float) -> float:
    numbers = [x for x in xs if x == x]
    return max(numbers, key=key) if numbers else NAN


def fmin(*xs: float) -> float:
    numbers = [x for x in xs if x == x]
    return min(numbers, key=key) if numbers else NAN


def med3(a: float, b: float, c: float) -> float:
    if any(x != x for x in (a, b, c)):
        return fmin(a, b, c)
    return sorted((a, b, c), key=key)[1]


def through_double(f: Callable[[float], float], form: str) -> Callable[[float], float]:
    def call(x: float) -> float:
        value = f(x)
        with np.errstate(all="ignore"):
            return float(DTYPES[form].type(value)) if form != "f64" else value

    return call


def quotient(a: float, b: float, form: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or b == 0:
        return special(np.divide, a, b)
    r = rounded(Fraction(a) / Fraction(b), form)
    return math.copysign(r, math.copysign(1, a) * math.copysign(1, b))


def root(x: float, form: str) -> float:
    if not x > 0 or math.isinf(x):
        return special(np.sqrt, x)
    scale = 4**600
    r = math.isqrt(Fraction(x).numerator * scale // Fraction(x).denominator)
    return rounded(Fraction(2 * r + 1, 2 * 2**600), form)


def exp2(x: float) -> float:
    try:
        return 2.0**x
    except OverflowError:
        return INF


def log2(x: float) -> float:
    return NAN if x < 0 or x != x else -INF if x == 0 else math.log2(x)


def turn(f: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: f(2 * math.pi * (x - math.floor(x))) if math.isfinite(x) else NAN


def integral(f: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(f(x), x) if math.isfinite(x) else x


def fract(form: str) -> Callable[[float], float]:
    below = 1 - 2.0 ** -FORMATS[form][0]
    return lambda x: min(add(x, -math.floor(x), form), below) if math.isfinite(x) else NAN


def ldexp(form: str) -> Callable[[float, int], float]:
    def call(x: float, n: int) -> float:
        if not math.isfinite(x) or x == 0:
            return x
        return rounded(Fraction(x) * Fraction(2) ** max(min(n, 5000), -5000), form)

    return call


def frexp_exp(x: float) -> int:
    return math.frexp(x)[1] if math.isfinite(x) and x else 0


def frexp_mant(x: float) -> float:
    return math.frexp(x)[0] if math.isfinite(x) and x else x


def saturated(
    low: int, high: int, f: Callable[[float], Any] = math.trunc
) -> Callable[[float], int]:
    def call(x: float) -> int:
        if x != x:
            return 0
        if math.isinf(x):
            return low if x < 0 else high
        return min(max(int(f(x)), low), high)

    return call


I32, U32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)


def toward_zero(x: float) -> int:
    if x != x:
        return 0x7E00
    sign = 0x8000 if math.copysign(1, x) < 0 else 0
    size = abs(x)
    if math.isinf(size):
        return sign | 0x7C00
    codes = [c for c in range(0x7C00) if HALF[c] <= size]
    return sign | codes[-1]


HALF = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(float).tolist()


def half_code(x: float) -> int:
    with np.errstate(all="ignore"):
        return int(np.float16(x).view(np.uint16))


def bf16_code(x: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    if x != x:
        return bits >> 16 | 0x40
    low = bits & 0xFFFF
    up = low > 0x8000 or (low == 0x8000 and bits >> 16 & 1)
    return (bits >> 16) + up


def clamp(x: float, low: float, high: float) -> float:
    return low if x != x else min(max(x, low), high)


R: dict[str, Callable[..., Any]] = {}
for _f in ("f16", "f32", "f64"):
    R[f"v_add_{_f}"] = lambda a, b, f=_f: add(a, b, f)
    R[f"v_mul_{_f}"] = lambda a, b, f=_f: mul(a, b, f)
    R[f"v_fma_{_f}"] = lambda a, b, c, f=_f: fma(a, b, c, f)
    R[f"v_fmac_{_f}"] = lambda a, b, c, f=_f: fma(a, b, c, f)
    R[f"v_max_{_f}"] = fmax
    R[f"v_min_{_f}"] = fmin
    R[f"v_trunc_{_f}"] = integral(math.trunc)
    R[f"v_ceil_{_f}"] = integral(math.ceil)
    R[f"v_floor_{_f}"] = integral(math.floor)
    R[f"v_rndne_{_f}"] = integral(round)
    R[f"v_sqrt_{_f}"] = lambda x, f=_f: root(x, f)
    R[f"v_rcp_{_f}"] = lambda x, f=_f: quotient(1.0, x, f)
    R[f"v_fract_{_f}"] = fract(_f)
    R[f"v_ldexp_{_f}"] = ldexp(_f)
    R[f"v_frexp_mant_{_f}"] = frexp_mant
    if _f != "f64":
        R[f"v_sub_{_f}"] = lambda a, b, f=_f: add(a, -b, f)
        R[f"v_subrev_{_f}"] = lambda a, b, f=_f: add(b, -a, f)
        R[f"v_exp_{_f}"] = through_double(exp2, _f)
        R[f"v_log_{_f}"] = through_double(log2, _f)
        R[f"v_sin_{_f}"] = through_double(turn(math.sin), _f)
        R[f"v_cos_{_f}"] = through_double(turn(math.cos), _f)
        R[f"v_max3_{_f}"] = fmax
        R[f"v_min3_{_f}"] = fmin
        R[f"v_med3_{_f}"] = med3
    R[f"v_rsq_{_f}"] = through_double(lambda x: special(lambda y: 1 / np.sqrt(y), x), _f)
R |= {
    "v_rcp_iflag_f32": R["v_rcp_f32"],
    "v_exp_legacy_f32": R["v_exp_f32"],
    "v_log_legacy_f32": R["v_log_f32"],
    "v_fmaak_f32": R["v_fma_f32"],
    "v_fmamk_f32": R["v_fma_f32"],
    "v_fma_legacy_f16": R["v_fma_f16"],
    "v_mul_legacy_f32": lambda a, b: 0.0 if a == 0 or b == 0 else mul(a, b, "f32"),
    "v_maximum3_f32": lambda *x: NAN if any(y != y for y in x) else max(x, key=key),
    "v_minimum3_f32": lambda *x: NAN if any(y != y for y in x) else min(x, key=key),
    "v_frexp_exp_i32_f32": frexp_exp,
    "v_frexp_exp_i32_f64": frexp_exp,
    "v_frexp_exp_i16_f16": lambda x: frexp_exp(x) & 0xFFFF,
    "v_cvt_f32_i32": lambda x: rounded(Fraction(x), "f32"),
    "v_cvt_f32_u32": lambda x: rounded(Fraction(x), "f32"),
    "v_cvt_f64_i32": float,
    "v_cvt_f64_u32": float,
    "v_cvt_f16_u16": lambda x: rounded(Fraction(x), "f16"),
    "v_cvt_f16_i16": lambda x: rounded(Fraction(x), "f16"),
    "v_cvt_f32_f64": lambda x: (
        math.copysign(rounded(Fraction(x), "f32"), x) if math.isfinite(x) else x
    ),
    "v_cvt_f16_f32": lambda x: (
        math.copysign(rounded(Fraction(x), "f16"), x) if math.isfinite(x) else x
    ),
    "v_cvt_f64_f32": lambda x: x,
    "v_cvt_f32_f16": lambda x: x,
    "v_cvt_u32_f32": saturated(*U32),
    "v_cvt_i32_f32": saturated(*I32),
    "v_cvt_u32_f64": saturated(*U32),
    "v_cvt_i32_f64": saturated(*I32),
    "v_cvt_u16_f16": saturated(0, 65535),
    "v_cvt_i16_f16": saturated(-32768, 32767),
    "v_cvt_rpi_i32_f32": saturated(*I32, lambda x: math.floor(Fraction(x) + Fraction(1, 2))),
    "v_cvt_flr_i32_f32": saturated(*I32, math.floor),
    "v_cvt_off_f32_i4": lambda x: ((x & 15 ^ 8) - 8) / 16,
    "v_cvt_f32_ubyte0": lambda x: float(x & 255),
    "v_cvt_f32_ubyte1": lambda x: float(x >> 8 & 255),
    "v_cvt_f32_ubyte2": lambda x: float(x >> 16 & 255),
    "v_cvt_f32_ubyte3": lambda x: float(x >> 24),
    "v_cvt_pkrtz_f16_f32": lambda a, b: toward_zero(a) | toward_zero(b) << 16,
    "v_cvt_pk_f16_f32": lambda a, b: half_code(a) | half_code(b) << 16,
    "v_cvt_pk_bf16_f32": lambda a, b: bf16_code(a) | bf16_code(b) << 16,
    "v_cvt_pk_u8_f32": lambda x, at, rest: (
        rest & ~(255 << 8 * (at & 3)) | saturated(0, 255, round)(x) << 8 * (at & 3)
    ),
}
for _s, _low, _scale, _kind in (("i16", -1.0, 32767, "i"), ("u16", 0.0, 65535, "u")):

    def _norm(x: float, low: float = _low, scale: int = _scale) -> int:
        product = rounded(Fraction(clamp(x, low, 1.0) if x == x else 0.0) * scale, "f32")
        return round(product) & 0xFFFF

    R[f"v_cvt_norm_{_s}_f16"] = _norm
    for _f in ("f32", "f16"):
        R[f"v_cvt_pknorm_{_s}_{_f}"] = lambda a, b, n=_norm: n(a) | n(b) << 16

COMPARE = {
    "f": lambda _a, _b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b,
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b,
    "nlg": lambda a, b: not (a < b or a > b),
    "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: not a == b,  # noqa: SIM201
    "nlt": lambda a, b: not a < b,
    "tru": lambda _a, _b: True,
}
for _f in ("f16", "f32", "f64"):
    for _name, _c in COMPARE.items():
        R[f"v_cmp_{_name}_{_f}"] = _c
        R[f"v_cmpx_{_name}_{_f}"] = lambda a, b, c=_c: (c(a, b), c(a, b))


def class_of(form: str) -> Callable[[float, int], bool]:
    smallest = 2.0 ** FORMATS[form][1]

    def call(x: float, mask: int) -> bool:
        if x != x:
            return bool(mask & 2)
        order = 6 if math.copysign(1, x) > 0 else 5
        step = 1 if order == 6 else -1
        size = abs(x)
        rank = 0 if size == 0 else 1 if size < smallest else 2 if size < INF else 3
        return bool(mask >> (order + step * rank) & 1)

    return call


for _f in ("f16", "f32", "f64"):
    _class = class_of(_f)
    R[f"v_cmp_class_{_f}"] = _class
    R[f"v_cmpx_class_{_f}"] = lambda x, m, c=_class: (c(x, m), c(x, m))


# What gfx11 and gfx12 name otherwise or add -------------------------------------------------------
def ieee(which: Callable[..., float]) -> Callable[..., float]:
    return lambda *xs: NAN if any(x != x for x in xs) else which(xs, key=key)


def fma_zero(a: float, b: float, c: float) -> float:
    return add(0.0, c, "f32") if a == 0 or b == 0 else fma(a, b, c, "f32")


def saturated_pair(low: int, high: int) -> Callable[[float, float], int]:
    one = saturated(low, high)
    return lambda a, b: (one(a) & 0xFFFF) | (one(b) & 0xFFFF) << 16


ieee_min, ieee_max = ieee(min), ieee(max)
N: dict[str, Callable[..., Any]] = {
    "v_mul_dx9_zero_f32": R["v_mul_legacy_f32"],
    "v_fma_dx9_zero_f32": fma_zero,
    "v_fmac_dx9_zero_f32": fma_zero,
    "v_fmaak_f16": R["v_fma_f16"],
    "v_fmamk_f16": R["v_fma_f16"],
    "v_fmaak_f64": R["v_fma_f64"],
    "v_fmamk_f64": R["v_fma_f64"],
    "v_cvt_floor_i32_f32": R["v_cvt_flr_i32_f32"],
    "v_cvt_nearest_i32_f32": R["v_cvt_rpi_i32_f32"],
    "v_cvt_pk_rtz_f16_f32": R["v_cvt_pkrtz_f16_f32"],
    "v_cvt_pk_i16_f32": saturated_pair(-32768, 32767),
    "v_cvt_pk_u16_f32": saturated_pair(0, 65535),
    "v_maximum3_f16": ieee_max,
    "v_minimum3_f16": ieee_min,
    "s_fmaak_f32": R["v_fma_f32"],
    "s_fmamk_f32": R["v_fma_f32"],
    "s_cvt_f32_i32": R["v_cvt_f32_i32"],
    "s_cvt_f32_u32": R["v_cvt_f32_u32"],
    "s_cvt_i32_f32": R["v_cvt_i32_f32"],
    "s_cvt_u32_f32": R["v_cvt_u32_f32"],
    "s_cvt_f16_f32": R["v_cvt_f16_f32"],
    "s_cvt_f32_f16": lambda x: x,
    "s_cvt_hi_f32_f16": lambda x: struct.unpack("<e", struct.pack("<I", x)[2:])[0],
    "s_cvt_pk_rtz_f16_f32": R["v_cvt_pkrtz_f16_f32"],
}
for _f in ("f16", "f32", "f64"):
    N[f"v_max_num_{_f}"] = fmax
    N[f"v_min_num_{_f}"] = fmin
    N[f"v_maximum_{_f}"] = ieee_max
    N[f"v_minimum_{_f}"] = ieee_min
    N[f"v_cmp_t_{_f}"] = R[f"v_cmp_tru_{_f}"]
    N[f"v_cmpx_t_{_f}"] = R[f"v_cmpx_tru_{_f}"]
for _f in ("f16", "f32"):
    for _name in ("max3", "min3", "med3"):
        N[f"v_{_name}_num_{_f}"] = R[f"v_{_name}_{_f}"]
    for _name in ("", "num_"):
        N[f"v_minmax_{_name}{_f}"] = lambda a, b, c: fmax(fmin(a, b), c)
        N[f"v_maxmin_{_name}{_f}"] = lambda a, b, c: fmin(fmax(a, b), c)
    N[f"v_minimummaximum_{_f}"] = lambda a, b, c: ieee_max(ieee_min(a, b), c)
    N[f"v_maximumminimum_{_f}"] = lambda a, b, c: ieee_min(ieee_max(a, b), c)
    for _name in ("add", "sub", "mul", "fmac", "ceil", "floor", "trunc", "rndne"):
        N[f"s_{_name}_{_f}"] = R[f"v_{_name}_{_f}"]
    N |= {f"s_max_{n}{_f}": fmax for n in ("", "num_")}
    N |= {f"s_min_{n}{_f}": fmin for n in ("", "num_")}
    N |= {f"s_maximum_{_f}": ieee_max, f"s_minimum_{_f}": ieee_min}
    for _name in ("exp", "log", "rcp", "rsq", "sqrt"):
        N[f"v_s_{_name}_{_f}"] = R[f"v_{_name}_{_f}"]
    for _name, _c in COMPARE.items():
        if _name not in ("f", "tru"):
            N[f"s_cmp_{_name}_{_f}"] = _c
    for _s in ("i16", "u16"):
        N[f"v_cvt_pk_norm_{_s}_{_f}"] = R[f"v_cvt_pknorm_{_s}_{_f}"]

CASES = {**R, **N}


def samples(token: str, rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Edge and random values of a type; NaNs are quiet."""
    dtype = DTYPES[token]
    bits = dtype.itemsize * 8
    if TYPES[token].kind != "f":
        raw = rng.integers(0, 1 << 32, count, dtype=np.uint64)
        small = rng.integers(0, 40, count, dtype=np.uint64)
        chosen = np.where(rng.random(count) < 0.5, raw, small)
        out = chosen.astype(f"u{dtype.itemsize}").view(dtype)
        return np.where(rng.random(count) < 0.3, -out if dtype.kind == "i" else out, out).astype(
            dtype
        )
    _, low, high = FORMATS[token]
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        INF,
        -INF,
        NAN,
        2.0**low,
        2.0 ** (low - 5),
    ]
    edges += [
        2.0**high,
        -(2.0**high),
        2.0 ** (high // 2),
        1 + 2.0 ** -(FORMATS[token][0] - 1),
        0.1,
        255.5,
    ]
    random_bits = np.frombuffer(rng.bytes(count * dtype.itemsize), f"u{dtype.itemsize}").view(dtype)
    usual = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)
    pick = rng.random(count)
    out = np.where(pick < 0.35, np.array(edges, dtype)[rng.integers(0, len(edges), count)], usual)
    out = np.where(pick > 0.7, random_bits, out)
    del bits
    return np.where(np.isnan(out), dtype.type(NAN), out).astype(dtype)


def same(got: Any, want: Any, approximate: bool) -> bool:
    if isinstance(want, float):
        if want != want:
            return bool(got != got)
        if approximate:
            return abs(float(got) - want) <= abs(want) * 2**-10 * 2 + 1e-30 or float(got) == want
        return float(got) == want and math.copysign(1, float(got)) == math.copysign(1, want)
    return bool(int(got) == int(want))


@pytest.mark.parametrize("name", sorted(CASES))
def test_float_opcode(name: str) -> None:
    semantics = find(name)
    assert semantics is not None
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    scalar = name.startswith(("s_", "v_s_"))
    bench = InstructionBench("gfx1201" if name in N else "gfx942", 60 if scalar else WAVES)
    shape = (60,) if scalar else (WAVES, bench.lane_count)
    count = int(np.prod(shape))
    columns: list[np.ndarray[Any, Any]] = []
    given: dict[str, Any] = {}
    for token in semantics.sources:
        kind = semantics.results[0] if token == "old" else token
        column = samples(kind, rng, count)
        columns.append(column)
        if token == "old":
            given["old"] = column.reshape(shape)
    explicit = [
        c.reshape(shape) for t, c in zip(semantics.sources, columns, strict=True) if t != "old"
    ]
    results = bench.evaluate(name, *explicit, **given)
    for row in range(count):
        arguments = [float(c[row]) if c.dtype.kind == "f" else int(c[row]) for c in columns]
        want = CASES[name](*arguments)
        want = want if isinstance(want, tuple) else (want,)
        for k, result in enumerate(results):
            got = result.reshape(-1)[row]
            assert same(got, want[k], False), (arguments, got, want[k])
