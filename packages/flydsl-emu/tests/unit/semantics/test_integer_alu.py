"""Integer VALU and SALU opcodes against formulas on Python integers."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl_emu.numpy_tier.arithmetic import DTYPES
from flydsl_emu.semantics import find
from flydsl_emu.semantics.value_types import TYPES
from flydsl_emu.testing import InstructionBench

WAVES = 2
EDGES = (0, 1, 2, 3, 5, 7, 15, 16, 31, 32, 33, 63, 64, 255, 256)


def values(token: str, rng: np.random.Generator, shape: tuple[int, ...]) -> list[int]:
    """Edge and random integers of a type, as Python ints."""
    kind = TYPES[token]
    bits = kind.bits
    size = int(np.prod(shape))
    low, high = (0, 1 << bits) if kind.kind == "u" else (-(1 << (bits - 1)), 1 << (bits - 1))
    edges = [e for e in EDGES if e < high]
    edges += [high - 1, high - 2, low, low + 1, high >> 1, (high >> 1) - 1]
    if kind.kind == "i":
        edges += [-e for e in EDGES if -e >= low]
    out: list[int] = []
    for _ in range(size):
        if rng.random() < 0.5:
            out.append(int(edges[rng.integers(len(edges))]))
        else:
            out.append(int.from_bytes(rng.bytes(8), "little") % (high - low) + low)
    return out


def wrap(x: int, token: str) -> int:
    kind = TYPES[token]
    x &= (1 << kind.bits) - 1
    if kind.kind == "i" and x >> (kind.bits - 1):
        x -= 1 << kind.bits
    return x


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def rev(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def clz(x: int, bits: int) -> int:
    return bits - x.bit_length() if x else 0xFFFFFFFF


def ctz(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else 0xFFFFFFFF


def sign_run(x: int, bits: int) -> int:
    y = x ^ (x >> bits - 1)
    return clz(y & ((1 << bits) - 1), bits)


def bfe(x: int, offset: int, width: int, bits: int, is_signed: bool) -> int:
    if width == 0:
        return 0
    field = x >> offset
    width = min(width, bits)
    field &= (1 << width) - 1
    if offset + width > bits and not is_signed:
        return field
    return signed(field, width) if is_signed else field


def perm(high: int, low: int, selector: int) -> int:
    data = (high << 32 | low).to_bytes(8, "little")
    out = 0
    for k in range(4):
        s = selector >> 8 * k & 255
        if s < 8:
            b = data[s]
        elif s < 12:
            b = 0xFF if data[2 * (s - 8) + 1] & 0x80 else 0
        else:
            b = 0 if s == 12 else 0xFF
        out |= b << 8 * k
    return out


def median(*x: int) -> int:
    return sorted(x)[1]


Reference = Callable[..., Any]
V: dict[str, Reference] = {
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_not_b32": lambda a: ~a,
    "v_mov_b32": lambda a: a,
    "v_mov_b64": lambda a: a,
    "v_accvgpr_read_b32": lambda a: a,
    "v_accvgpr_write_b32": lambda a: a,
    "v_accvgpr_mov_b32": lambda a: a,
    "v_bfrev_b32": lambda a: rev(a, 32),
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: b >> (a & 31),
    "v_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_ashrrev_i16": lambda a, b: b >> (a & 15),
    "v_lshlrev_b64": lambda a, b: b << (a & 63),
    "v_lshrrev_b64": lambda a, b: b >> (a & 63),
    "v_ashrrev_i64": lambda a, b: b >> (a & 63),
    "v_lshl_add_u64": lambda a, s, c: (a << (s & 7)) + c,
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: a * b >> 32,
    "v_mul_lo_u16": lambda a, b: a * b,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_hi_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32,
    "v_mul_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24),
    "v_mul_hi_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24) >> 32,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_mad_i32_i24": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
    "v_mad_u32_u16": lambda a, b, c: a * b + c,
    "v_mad_i32_i16": lambda a, b, c: a * b + c,
    "v_mad_u64_u32": lambda a, b, c: (a * b + c, a * b + c >> 64),
    "v_mad_i64_i32": lambda a, b, c: (a * b + c, not -(1 << 63) <= a * b + c < 1 << 63),
    "v_add_co_u32": lambda a, b: (a + b, a + b >> 32),
    "v_sub_co_u32": lambda a, b: (a - b, a < b),
    "v_subrev_co_u32": lambda a, b: (b - a, b < a),
    "v_addc_co_u32": lambda a, b, c: (a + b + c, a + b + c >> 32),
    "v_subb_co_u32": lambda a, b, c: (a - b - c, a < b + c),
    "v_subbrev_co_u32": lambda a, b, c: (b - a - c, b < a + c),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: a + b << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfi_b32": lambda m, a, b: m & a | ~m & b,
    "v_bfm_b32": lambda w, o: ((1 << (w & 31)) - 1) << (o & 31),
    "v_bfe_u32": lambda x, o, w: bfe(x, o & 31, w & 31, 32, False),
    "v_bfe_i32": lambda x, o, w: bfe(x, o & 31, w & 31, 32, True),
    "v_alignbit_b32": lambda a, b, s: (a << 32 | b) >> (s & 31),
    "v_alignbyte_b32": lambda a, b, s: (a << 32 | b) >> 8 * (s & 3),
    "v_perm_b32": perm,
    "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
    "v_ffbh_u32": lambda a: clz(a, 32),
    "v_ffbl_b32": ctz,
    "v_ffbh_i32": lambda a: sign_run(a, 32),
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_sad_u16": lambda a, b, c: sum(abs((a >> s & 65535) - (b >> s & 65535)) for s in (0, 16)) + c,
    "v_sad_u8": lambda a, b, c: (
        sum(abs((a >> s & 255) - (b >> s & 255)) for s in range(0, 32, 8)) + c
    ),
    "v_sat_pk_u8_i16": lambda a: (
        min(max(signed(a, 16), 0), 255) | min(max(signed(a >> 16, 16), 0), 255) << 8
    ),
    "v_cndmask_b32": lambda a, b, c: b if c else a,
    "v_pack_b32_f16": lambda a, b: a | b << 16,
    "v_cvt_pk_u16_u32": lambda a, b: min(a, 65535) | min(b, 65535) << 16,
    "v_cvt_pk_i16_i32": lambda a, b: (
        (min(max(a, -32768), 32767) & 65535) | (min(max(b, -32768), 32767) & 65535) << 16
    ),
    "v_dot2_i32_i16": lambda a, b, c: dot(a, b, c, 16, True),
    "v_dot2_u32_u16": lambda a, b, c: dot(a, b, c, 16, False),
    "v_dot4_i32_i8": lambda a, b, c: dot(a, b, c, 8, True),
    "v_dot4_u32_u8": lambda a, b, c: dot(a, b, c, 8, False),
    "v_dot8_i32_i4": lambda a, b, c: dot(a, b, c, 4, True),
    "v_dot8_u32_u4": lambda a, b, c: dot(a, b, c, 4, False),
    "v_mad_legacy_u16": lambda a, b, c: a * b + c,
    "v_mad_legacy_i16": lambda a, b, c: a * b + c,
    "v_mad_u16": lambda a, b, c: a * b + c,
    "v_mad_i16": lambda a, b, c: a * b + c,
}


def dot(a: int, b: int, c: int, bits: int, is_signed: bool) -> int:
    for at in range(0, 32, bits):
        x, y = a >> at & (1 << bits) - 1, b >> at & (1 << bits) - 1
        c += signed(x, bits) * signed(y, bits) if is_signed else x * y
    return c


for _t in ("u32", "i32", "u16", "i16"):
    V[f"v_add_{_t}"] = lambda a, b: a + b
    V[f"v_sub_{_t}"] = lambda a, b: a - b
    V[f"v_max_{_t}"] = max
    V[f"v_min_{_t}"] = min
    V[f"v_max3_{_t}"] = max
    V[f"v_min3_{_t}"] = min
    V[f"v_med3_{_t}"] = median
for _t in ("u32", "u16"):
    V[f"v_subrev_{_t}"] = lambda a, b: b - a
COMPARE = {
    "f": lambda _a, _b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "t": lambda _a, _b: True,
}
for _t in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _name, _f in COMPARE.items():
        V[f"v_cmp_{_name}_{_t}"] = _f
        V[f"v_cmpx_{_name}_{_t}"] = lambda a, b, f=_f: (f(a, b), f(a, b))

S: dict[str, Reference] = {
    "s_mov_b32": lambda a: a,
    "s_mov_b64": lambda a: a,
    "s_cselect_b32": lambda scc, a, b: a if scc else b,
    "s_cselect_b64": lambda scc, a, b: a if scc else b,
    "s_cmov_b32": lambda scc, old, a: a if scc else old,
    "s_cmov_b64": lambda scc, old, a: a if scc else old,
    "s_add_u32": lambda a, b: (a + b, a + b >> 32),
    "s_sub_u32": lambda a, b: (a - b, a < b),
    "s_addc_u32": lambda a, b, c: (a + b + c, a + b + c >> 32),
    "s_subb_u32": lambda a, b, c: (a - b - c, a < b + c),
    "s_add_i32": lambda a, b: (a + b, wrap(a + b, "i32") != a + b),
    "s_sub_i32": lambda a, b: (a - b, wrap(a - b, "i32") != a - b),
    "s_mul_i32": lambda a, b: a * b,
    "s_mul_hi_u32": lambda a, b: a * b >> 32,
    "s_mul_hi_i32": lambda a, b: a * b >> 32,
    "s_min_u32": lambda a, b: (min(a, b), a < b),
    "s_min_i32": lambda a, b: (min(a, b), a < b),
    "s_max_u32": lambda a, b: (max(a, b), a > b),
    "s_max_i32": lambda a, b: (max(a, b), a > b),
    "s_abs_i32": lambda a: (abs(a), a != 0),
    "s_absdiff_i32": lambda a, b: (abs(wrap(a - b, "i32")), wrap(a - b, "i32") != 0),
    "s_sext_i32_i8": lambda a: signed(a, 8),
    "s_sext_i32_i16": lambda a: signed(a, 16),
    "s_bfm_b32": lambda w, o: ((1 << (w & 31)) - 1) << (o & 31),
    "s_bfm_b64": lambda w, o: ((1 << (w & 63)) - 1) << (o & 63),
    "s_brev_b32": lambda a: rev(a, 32),
    "s_brev_b64": lambda a: rev(a, 64),
    "s_ff1_i32_b32": ctz,
    "s_ff1_i32_b64": ctz,
    "s_ff0_i32_b32": lambda a: ctz(~a & 0xFFFFFFFF),
    "s_ff0_i32_b64": lambda a: ctz(~a & 0xFFFFFFFFFFFFFFFF),
    "s_flbit_i32_b32": lambda a: clz(a, 32),
    "s_flbit_i32_b64": lambda a: clz(a, 64),
    "s_flbit_i32": lambda a: sign_run(a, 32),
    "s_flbit_i32_i64": lambda a: sign_run(a, 64),
    "s_pack_ll_b32_b16": lambda a, b: a & 65535 | (b & 65535) << 16,
    "s_pack_lh_b32_b16": lambda a, b: a & 65535 | b >> 16 << 16,
    "s_pack_hh_b32_b16": lambda a, b: a >> 16 | b >> 16 << 16,
    "s_bitreplicate_b64_b32": lambda a: sum((a >> n & 1) * 3 << 2 * n for n in range(32)),
    "s_cmovk_i32": lambda scc, old, k: k if scc else old,
    "s_movk_i32": lambda k: k,
    "s_addk_i32": lambda old, k: (old + k, wrap(old + k, "i32") != old + k),
    "s_mulk_i32": lambda old, k: old * k,
}


def flag(x: int, bits: int = 64) -> tuple[int, bool]:
    return x, x & (1 << bits) - 1 != 0


LOGIC = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _bits in (32, 64):
    for _name, _f in LOGIC.items():
        S[f"s_{_name}_b{_bits}"] = lambda a, b, f=_f, n=_bits: flag(f(a, b), n)
    S[f"s_wqm_b{_bits}"] = lambda a: flag(sum(15 << q for q in range(0, 64, 4) if a >> q & 15))
    S[f"s_quadmask_b{_bits}"] = lambda a: flag(sum(1 << q for q in range(16) if a >> 4 * q & 15))
    S[f"s_not_b{_bits}"] = lambda a, n=_bits: flag(~a, n)
    S[f"s_lshl_b{_bits}"] = lambda a, s, n=_bits: flag(a << (s & n - 1), n)
    S[f"s_lshr_b{_bits}"] = lambda a, s, n=_bits: flag(a >> (s & n - 1), n)
    S[f"s_ashr_i{_bits}"] = lambda a, s, n=_bits: flag(a >> (s & n - 1), n)
    for _k in ("u", "i"):
        S[f"s_bfe_{_k}{_bits}"] = lambda a, w, n=_bits, k=_k: flag(
            bfe(a, w & n - 1, w >> 16 & 127, n, k == "i"), n
        )
    S[f"s_bcnt1_i32_b{_bits}"] = lambda a: flag(a.bit_count())
    S[f"s_bcnt0_i32_b{_bits}"] = lambda a, n=_bits: flag(n - a.bit_count())
    S[f"s_bitset0_b{_bits}"] = lambda old, at, n=_bits: old & ~(1 << (at & n - 1))
    S[f"s_bitset1_b{_bits}"] = lambda old, at, n=_bits: old | 1 << (at & n - 1)
    S[f"s_bitcmp0_b{_bits}"] = lambda a, at, n=_bits: not a >> (at & n - 1) & 1
    S[f"s_bitcmp1_b{_bits}"] = lambda a, at, n=_bits: a >> (at & n - 1) & 1
for _n in (1, 2, 3, 4):
    S[f"s_lshl{_n}_add_u32"] = lambda a, b, n=_n: ((a << n) + b, (a << n) + b >= 1 << 32)
for _name, _f in {**COMPARE, "lg": lambda a, b: a != b}.items():
    if _name in ("f", "t", "ne"):
        continue
    for _t in ("i32", "u32"):
        S[f"s_cmp_{_name}_{_t}"] = _f
        mask = 0xFFFF if _t == "u32" else -1
        S[f"s_cmpk_{_name}_{_t}"] = lambda a, k, f=_f, m=mask: f(a, k & m)
for _name in ("eq", "lg"):
    S[f"s_cmp_{_name}_u64"] = S[f"s_cmp_{_name}_i32"]

# What gfx11 and gfx12 name otherwise or add.
NEW: dict[str, Reference] = {
    "v_add_co_ci_u32": lambda a, b, c: (a + b + c, a + b + c >> 32),
    "v_sub_co_ci_u32": lambda a, b, c: (a - b - c, a < b + c),
    "v_subrev_co_ci_u32": lambda a, b, c: (b - a - c, b < a + c),
    "v_subrev_nc_u32": lambda a, b: b - a,
    "v_mad_co_u64_u32": lambda a, b, c: (a * b + c, a * b + c >> 64),
    "v_mad_co_i64_i32": lambda a, b, c: (a * b + c, not -(1 << 63) <= a * b + c < 1 << 63),
    "v_clz_i32_u32": lambda a: clz(a, 32),
    "v_ctz_i32_b32": ctz,
    "v_cls_i32": lambda a: sign_run(a, 32),
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_and_b16": lambda a, b: a & b,
    "v_or_b16": lambda a, b: a | b,
    "v_xor_b16": lambda a, b: a ^ b,
    "v_not_b16": lambda a: ~a,
    "v_mov_b16": lambda a: a,
    "v_cndmask_b16": lambda a, b, c: b if c else a,
    "v_cvt_i32_i16": lambda a: a,
    "v_cvt_u32_u16": lambda a: a,
    "s_clz_i32_u32": lambda a: clz(a, 32),
    "s_clz_i32_u64": lambda a: clz(a, 64),
    "s_ctz_i32_b32": ctz,
    "s_ctz_i32_b64": ctz,
    "s_cls_i32": lambda a: sign_run(a, 32),
    "s_cls_i32_i64": lambda a: sign_run(a, 64),
    "s_add_co_u32": lambda a, b: (a + b, a + b >> 32),
    "s_add_co_ci_u32": lambda a, b, c: (a + b + c, a + b + c >> 32),
    "s_sub_co_u32": lambda a, b: (a - b, a < b),
    "s_sub_co_ci_u32": lambda a, b, c: (a - b - c, a < b + c),
    "s_add_co_i32": lambda a, b: (a + b, wrap(a + b, "i32") != a + b),
    "s_sub_co_i32": lambda a, b: (a - b, wrap(a - b, "i32") != a - b),
    "s_addk_co_i32": lambda old, k: (old + k, wrap(old + k, "i32") != old + k),
    "s_add_nc_u64": lambda a, b: a + b,
    "s_sub_nc_u64": lambda a, b: a - b,
    "s_mul_u64": lambda a, b: a * b,
    "s_pack_hl_b32_b16": lambda a, b: a >> 16 | (b & 65535) << 16,
    "v_add_nc_u64": lambda a, b: a + b,
    "v_sub_nc_u64": lambda a, b: a - b,
    "v_mul_u64": lambda a, b: a * b,
    "v_mad_u32": lambda a, b, c: a * b + c,
    "v_mad_nc_u64_u32": lambda a, b, c: a * b + c,
    "v_mad_nc_i64_i32": lambda a, b, c: a * b + c,
}
for _t in ("u64", "i64"):
    NEW |= {f"v_max_{_t}": max, f"v_min_{_t}": min}
for _bits in (32, 64):
    NEW[f"s_and_not1_b{_bits}"] = lambda a, b, n=_bits: flag(a & ~b, n)
    NEW[f"s_or_not1_b{_bits}"] = lambda a, b, n=_bits: flag(a | ~b, n)
for _t in ("u32", "i32", "u16", "i16"):
    NEW[f"v_add_nc_{_t}"] = lambda a, b: a + b
    NEW[f"v_sub_nc_{_t}"] = lambda a, b: a - b
for _t in ("u32", "i32"):
    NEW[f"v_minmax_{_t}"] = lambda a, b, c: max(min(a, b), c)
    NEW[f"v_maxmin_{_t}"] = lambda a, b, c: min(max(a, b), c)

CASES = {**V, **S, **NEW}


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_integer_opcode(name: str, arch: str) -> None:
    semantics = find(name)
    assert semantics is not None
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    scalar = name.startswith("s_")
    for _ in range(12 if scalar else 1):
        bench = InstructionBench(arch, WAVES)
        shape = (WAVES,) if scalar else (WAVES, bench.lane_count)
        given: dict[str, Any] = {}
        arguments: list[list[Any]] = []
        explicit: list[Any] = []
        for token in semantics.sources:
            if token == "inst":
                continue
            if token == "imm":
                k = int(rng.integers(-32768, 32768))
                arguments.append([k] * int(np.prod(shape)))
                explicit.append(k)
            elif token in ("mask", "scc"):
                bits = rng.integers(0, 2, shape).astype(bool)
                arguments.append([bool(x) for x in bits.reshape(-1)])
                if token == "scc":
                    given["scc"] = bits
                else:
                    explicit.append(bits)
            else:
                kind = semantics.results[0] if token == "old" else token
                flat = values(kind, rng, shape)
                arguments.append(flat)
                array = np.array(flat, dtype=DTYPES[kind]).reshape(shape)
                if token == "old":
                    given["old"] = array
                else:
                    explicit.append(array)
        results = bench.evaluate(name, *explicit, **given)
        expected = [CASES[name](*row) for row in zip(*arguments, strict=True)]
        for k, (result, got) in enumerate(zip(semantics.results, results, strict=True)):
            token = result.rpartition(".")[2]
            column = [e[k] if isinstance(e, tuple) else e for e in expected]
            if token in ("scc", "mask", "exec"):
                want = [bool(int(x) & 1) for x in column]
            else:
                want = [wrap(int(x), token) for x in column]
            assert got.reshape(-1).tolist() == want, token
