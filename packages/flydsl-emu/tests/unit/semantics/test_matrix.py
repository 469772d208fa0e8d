"""Matrix instructions: operands laid out by formulas of their own, results against float64."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from matrix_layouts import (
    DENSE,
    REGISTERS,
    SPARSE,
    WAVES,
    Run,
    Shape,
    architectures,
    codes_of,
    element,
    fragments,
    packed,
    parsed,
    place_results,
    values_of,
)

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.semantics.modes import DEFAULT_MODE

Array = Any
# f8f6f4 formats by the encoding of CBSZ and BLGP.
MIXED = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
    ml_dtypes.float4_e2m1fn,
)
MIXED_BITS = (8, 8, 6, 6, 4)


def random_matrix(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    if kind == np.int8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    x = rng.standard_normal(shape)
    edges = rng.choice([0.0, -0.0, 1.0, -2.0, 0.125], shape)
    return np.where(rng.random(shape) < 0.2, edges, x).astype(kind)


def check(got: Array, exact: Array, shape: Shape, size: Array, terms: int = 0) -> None:
    """Compare with exact sums; `terms`: how many are added to f32 accumulators one by one.

    Each of these additions is rounded to f32: a chain of n errs by at most n * u / (1 - n * u) of
    the sum of all sizes, u = 2**-24 (Higham, "Accuracy and Stability of Numerical Algorithms",
    section 3.1), and by half of the smallest denormal each. Other sums are rounded once.
    """
    want = place_results(exact, shape)
    if shape.accumulator == "i32":
        assert np.array_equal(got, want.astype(np.int64).astype(np.uint32).view(np.int32))
        return
    if terms and shape.accumulator == "f32":
        # The float64 reference itself errs by 2**-53 each time.
        unit = terms * 2.0**-24 / (1 - terms * 2.0**-24) + terms * 2.0**-52
        bound = unit * place_results(size, shape) + terms * 2.0**-150
        assert (np.abs(got - want) <= bound).all()
        return
    unit = 2.0**-22 if shape.accumulator == "f32" else 2.0**-50
    assert (np.abs(got - want) <= unit * (place_results(size, shape) + 1e-30)).all()


BROADCASTS = [(0, 0, 0), (1, 1, 0), (2, 3, 4), (4, 13, 7), (0, 0, 1), (0, 0, 2), (0, 0, 3)]


def modifier_cases() -> list[tuple[str, tuple[int, int, int]]]:
    out = []
    for name in DENSE:
        shape = parsed(name)
        cases = [(0, 0, 0)]
        if shape.accumulator == "f64":
            cases += [(0, 0, bits) for bits in (1, 2, 4, 7)]
        elif shape.blocks > 1:
            cases += [c for c in BROADCASTS if 1 << c[0] <= shape.blocks and c[2] < 8][1:]
        elif shape.kinds[0] in ("f32", "f16", "i8"):
            cases += [(0, 0, 3), (0, 0, 6)]
        out += [(name, case) for case in cases]
    return out


B_LANES = {
    0: lambda lane: lane,
    1: lambda lane: lane % 32,
    2: lambda lane: 32 + lane % 32,
    3: lambda lane: (lane + 16) % 64,
    4: lambda lane: lane % 16,
    5: lambda lane: 16 + lane % 16,
    6: lambda lane: 32 + lane % 16,
    7: lambda lane: 48 + lane % 16,
}


@pytest.mark.parametrize(("name", "modifiers"), modifier_cases())
def test_dense(name: str, modifiers: tuple[int, int, int]) -> None:
    cbsz, abid, blgp = modifiers
    shape = parsed(name)
    for arch in architectures(name):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        sides = []
        for rows, kind in zip((shape.m, shape.n), shape.kinds, strict=True):
            dtype, bits = element(kind, arch)
            x = random_matrix(rng, (WAVES, shape.blocks, rows, shape.k), dtype)
            sides.append((x, bits))
        integer = shape.accumulator == "i32"
        extent = (WAVES, shape.blocks, shape.m, shape.n)
        c = rng.integers(-(2**31), 2**31, extent) if integer else rng.standard_normal(extent)
        c = c.astype(REGISTERS[shape.accumulator][1])
        run = Run(arch)
        (a, a_bits), (b, b_bits) = sides
        left = run.put(0, packed(codes_of(fragments(a), a_bits), a_bits))
        held = fragments(b)
        right = run.put(32, packed(codes_of(held, b_bits), b_bits))
        third = run.accumulator(c, shape)
        target = Operand("v", 128, third.count)
        mods = {"cbsz": cbsz, "abid": abid, "blgp": blgp}
        run.execute(name, target, left, right, third, **{k: v for k, v in mods.items() if v})
        # What the modifiers make of the operands.
        group = 1 << cbsz
        chosen = [blk // group * group + abid for blk in range(shape.blocks)] if cbsz else None
        wide_a = values_of(a if chosen is None else a[:, chosen], shape.kinds[0])
        wide_c = c.astype(np.float64)
        if shape.accumulator == "f64":
            wide_b = b.astype(np.float64)
            wide_a, wide_b, wide_c = (
                -x if blgp >> bit & 1 else x for bit, x in enumerate((wide_a, wide_b, wide_c))
            )
        else:
            moved = held[:, [B_LANES[blgp](lane) for lane in range(64)]]
            wide_b = np.zeros(b.shape)
            elements = moved.shape[2]
            for blk in range(shape.blocks):
                for j in range(shape.n):
                    for k in range(shape.k):
                        lane = (k // elements * shape.blocks + blk) * shape.n + j
                        value = moved[:, lane, k % elements]
                        wide_b[:, blk, j, k] = values_of(value, shape.kinds[1])
        exact = wide_a @ wide_b.transpose(0, 1, 3, 2) + wide_c
        size = np.abs(wide_a) @ np.abs(wide_b).transpose(0, 1, 3, 2) + np.abs(wide_c)
        check(run.result(target, shape), exact, shape, size, shape.k)


@pytest.mark.parametrize("name", ["v_mfma_f32_32x32x8_f16", "v_mfma_f64_16x16x4_f64"])
def test_constant_accumulator_and_special_values(name: str) -> None:
    shape = parsed(name)
    run = Run("gfx942")
    dtype, bits = element(shape.kinds[0], "gfx942")
    a = np.zeros((WAVES, 1, shape.m, shape.k), dtype)
    b = np.ones((WAVES, 1, shape.n, shape.k), dtype)
    a[:, 0, 1, 0], a[:, 0, 2, 0], a[:, 0, 3, 1] = np.inf, np.nan, 2.0
    left = run.put(0, packed(codes_of(fragments(a), bits), bits))
    right = run.put(32, packed(codes_of(fragments(b), bits), bits))
    count = shape.m * shape.n // 64 * REGISTERS[shape.accumulator][0]
    target = Operand("v", 128, count)
    zero = Operand("i", 0, count, 0)
    run.execute(name, target, left, right, zero)
    want = np.zeros((WAVES, 1, shape.m, shape.n))
    want[:, :, 1], want[:, :, 2], want[:, :, 3] = np.inf, np.nan, 2.0
    assert np.array_equal(run.result(target, shape), place_results(want, shape), equal_nan=True)


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x16_f16"])
def test_denormals_follow_the_mode_for_f32_operands(name: str) -> None:
    shape = parsed(name)
    dtype, bits = element(shape.kinds[0], "gfx942")
    run = Run("gfx942")
    tiny = np.finfo(dtype).tiny / 4
    a = np.full((WAVES, 1, shape.m, shape.k), tiny, dtype)
    b = np.ones((WAVES, 1, shape.n, shape.k), dtype)
    left = run.put(0, packed(codes_of(fragments(a), bits), bits))
    right = run.put(32, packed(codes_of(fragments(b), bits), bits))
    c = np.full((WAVES, 1, shape.m, shape.n), 1e-40, np.float32)
    third = run.accumulator(c, shape)
    i = Instruction(0, 8, "VOP3P", name, "", (Operand("v", 128, 4), left, right, third))
    run.bench.execute(i, mode=DEFAULT_MODE & ~0xF0)
    product = 0.0 if bits == 32 else shape.k * float(tiny)
    want = np.float32(np.float32(1e-40) + np.float64(product))
    assert (run.result(Operand("v", 128, 4), shape) == want).all()


def mixed_fragments(codes: Array, bits: int) -> Array:
    """Lanes of f8f6f4 operands: 8-bit ones come in two runs of 16, others in one of 32."""
    return fragments(codes[:, None], 2 if bits == 8 else 1)


def scale_lanes(rng: np.random.Generator, rows: int, ks: int) -> tuple[Array, Array, Array]:
    """Scale registers for four byte selections, and the scales ``[row, block of k]`` of each."""
    words = rng.integers(120, 134, (64, 4))
    scales = np.zeros((4, rows, ks // 32))
    for block in range(ks // 32):
        for row in range(rows):
            scales[:, row, block] = 2.0 ** (words[rows * block + row] - 127.0)
    register = sum(words[:, k].astype(np.uint32) << np.uint32(8 * k) for k in range(4))
    return register, scales, words


@pytest.mark.parametrize("form_b", range(5))
@pytest.mark.parametrize("form_a", range(5))
@pytest.mark.parametrize("extent", ["16x16x128", "32x32x64"])
@pytest.mark.opcodes("v_mfma_f32_{extent}_f8f6f4 v_mfma_scale_f32_{extent}_f8f6f4")
def test_mixed_small_formats(extent: str, form_a: int, form_b: int) -> None:
    shape = parsed(f"v_mfma_f32_{extent}_f8f6f4")
    rng = np.random.default_rng(form_a * 5 + form_b)
    run = Run("gfx950")
    operands, matrices = [], []
    for at, form, rows in ((0, form_a, shape.m), (32, form_b, shape.n)):
        bits = MIXED_BITS[form]
        codes = rng.integers(0, 1 << bits, (WAVES, rows, shape.k)).astype(np.uint8)
        values = codes.view(MIXED[form]).astype(np.float64)
        codes = np.where(np.isfinite(values), codes, 0).astype(np.uint8)
        matrices.append(codes.view(MIXED[form]).astype(np.float64)[:, None])
        operands.append(run.put(at, packed(mixed_fragments(codes, bits), bits)))
    c = rng.standard_normal((WAVES, 1, shape.m, shape.n)).astype(np.float32)
    third = run.accumulator(c, shape)
    target = Operand("v", 128, third.count)
    mods = {"cbsz": form_a, "blgp": form_b}
    run.execute(f"v_mfma_f32_{extent}_f8f6f4", target, *operands, third, **mods)
    a, b = matrices
    exact = a @ b.transpose(0, 1, 3, 2) + c
    size = np.abs(a) @ np.abs(b).transpose(0, 1, 3, 2) + np.abs(c)
    check(run.result(target, shape), exact, shape, size)
    register_a, scale_a, _ = scale_lanes(rng, shape.m, shape.k)
    register_b, scale_b, _ = scale_lanes(rng, shape.n, shape.k)
    run.bench.state.vector[200], run.bench.state.vector[201] = register_a, register_b
    for select_a, select_b in ((0, 0), (1, 2), (3, 1), (2, 3)):
        select = {
            "op_sel": select_a & 1 | (select_b & 1) << 1,
            "op_sel_hi": select_a >> 1 | select_b >> 1 << 1,
        }
        name = f"v_mfma_scale_f32_{extent}_f8f6f4"
        extra = (Operand("v", 200), Operand("v", 201))
        run.execute(name, target, *operands, third, *extra, **mods, **select)
        scaled_a = a * np.repeat(scale_a[select_a], 32, axis=1)
        scaled_b = b * np.repeat(scale_b[select_b], 32, axis=1)
        exact = scaled_a @ scaled_b.transpose(0, 1, 3, 2) + c
        size = np.abs(scaled_a) @ np.abs(scaled_b).transpose(0, 1, 3, 2) + np.abs(c)
        check(run.result(target, shape), exact, shape, size)


def sparse_positions(rng: np.random.Generator, shape: Shape) -> Array:
    """Two increasing positions of four, ``[wave, row, group of 4 k, 2]``."""
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    return pairs[rng.integers(0, 6, (WAVES, shape.m, shape.k // 4))]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse(name: str) -> None:
    shape = parsed(name)
    for arch in architectures(name):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        dtype, bits = element(shape.kinds[0], arch)
        other, _ = element(shape.kinds[1], arch)
        positions = sparse_positions(rng, shape)
        kept = random_matrix(rng, (WAVES, shape.m, shape.k // 2), dtype)
        b = random_matrix(rng, (WAVES, 1, shape.n, shape.k), other)
        spread = np.zeros((WAVES, shape.m, shape.k))
        for group in range(shape.k // 4):
            for which in (0, 1):
                for w in range(WAVES):
                    for i in range(shape.m):
                        column = 4 * group + positions[w, i, group, which]
                        spread[w, i, column] = kept[w, i, 2 * group + which].astype(np.float64)
        lane_bytes = shape.n * shape.k * bits // 8 // 64
        integer = shape.accumulator == "i32"
        c = rng.integers(-1000, 1000, (WAVES, 1, shape.m, shape.n))
        c = c.astype(np.int32) if integer else (c / 100).astype(np.float32)
        # Each lane's index bits: four for each group of its compressed elements.
        per_lane = shape.k // 4 * shape.m // 64
        width = 4 * per_lane
        index = np.zeros((WAVES, 64), np.uint64)
        for group in range(shape.k // 4):
            for i in range(shape.m):
                lane, at = group // per_lane * shape.m + i, group % per_lane
                pair = positions[:, i, group]
                index[:, lane] |= (pair[:, 0] | pair[:, 1] << 2).astype(np.uint64) << np.uint64(
                    4 * at
                )
        for cbsz, abid in [(0, k) for k in range(32 // width)] + [(1, 1)]:
            run = Run(arch)
            left = run.put(0, packed(codes_of(fragments(kept[:, None]), bits), bits))
            runs = 2 if lane_bytes == 32 else 1
            right = run.put(32, packed(codes_of(fragments(b, runs), bits), bits))
            third = run.accumulator(c, shape)
            place = 0 if cbsz else abid * width
            noise = rng.integers(0, 2**32, (WAVES, 64), dtype=np.uint64)
            mask = np.uint64((1 << width) - 1 << place)
            words = noise & ~mask | index << np.uint64(place)
            run.bench.state.vector[200] = words.astype(np.uint32)
            mods = {"cbsz": cbsz, "abid": abid} if cbsz or abid else {}
            run.execute(name, third, left, right, Operand("v", 200), **mods)
            wide_b = b.astype(np.float64)
            exact = spread[:, None] @ wide_b.transpose(0, 1, 3, 2) + c
            size = np.abs(spread[:, None]) @ np.abs(wide_b).transpose(0, 1, 3, 2) + np.abs(c)
            check(run.result(third, shape), exact, shape, size, shape.k // 2)
