"""WMMA and SWMMAC on registers that are filled by the documented layouts, against float64."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.errors import FlyDSLError
from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.testing import InstructionBench

Array = Any
A, B, C, D, X = 16, 40, 64, 96, 120
BITS = {"f32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "iu8": 8, "iu4": 4}
TYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8": np.dtype(ml_dtypes.float8_e4m3fn),
    "bf8": np.dtype(ml_dtypes.float8_e5m2),
    "f32": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
}
FLOATS = [
    ("f32", 16, "f16", "f16"),
    ("f32", 16, "bf16", "bf16"),
    ("f16", 16, "f16", "f16"),
    ("bf16", 16, "bf16", "bf16"),
]
SMALL = [("f32", 16, x, y) for x in ("fp8", "bf8") for y in ("fp8", "bf8")]
INTEGERS = [("i32", 16, "iu8", "iu8"), ("i32", 16, "iu4", "iu4")]
GFX11 = [("gfx1100", *s) for s in FLOATS + INTEGERS]
GFX1250 = [("gfx1250", "f32", 4, "f32", "f32"), ("gfx1250", "i32", 64, "iu8", "iu8")]
GFX1250 += [("gfx1250", r, 32, x, y) for r, _, x, y in FLOATS]
GFX1250 += [
    ("gfx1250", r, k, x, y) for r in ("f32", "f16") for k in (64, 128) for _, _, x, y in SMALL
]
GFX12 = [("gfx1201", *s) for s in [*FLOATS, *SMALL, *INTEGERS, ("i32", 32, "iu4", "iu4")]]
SPARSE = [(r, 32, a, b) for r, _, a, b in [*FLOATS, *SMALL, *INTEGERS]] + [
    ("i32", 64, "iu4", "iu4")
]


def title(kind: str, result: str, k: int, a: str, b: str) -> str:
    return f"v_{kind}_{result}_16x16x{k}_" + (f"{a}_{b}" if a in ("fp8", "bf8") else a)


def codes(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return bits and values of random elements; integers as if unsigned."""
    if kind[0] == "i":
        bits = rng.integers(0, 1 << BITS[kind], shape).astype(np.uint32)
        return bits, bits.astype(np.float64)
    values = rng.normal(0, 1, shape).astype(TYPES[kind])
    raw = values.view(f"u{TYPES[kind].itemsize}").astype(np.uint32)
    return raw, values.astype(np.float64)


def as_signed(values: Array, kind: str) -> Array:
    top = 1 << BITS[kind]
    return np.where(values >= top // 2, values - top, values)


class Scene:
    """One wave with matrices in its registers."""

    def __init__(self, arch: str, lanes: int = 32) -> None:
        self.bench = InstructionBench(arch, 1, lanes=lanes)
        self.bench.state.vector[...] = 0x7FC07FC0
        self.lanes, self.old = lanes, arch == "gfx1100"

    def put(self, first: int, bits: int, place: dict[tuple[int, int], int]) -> int:
        """Write elements ``place[lane, element]``; return how many registers they take."""
        per = 32 // bits
        count = 0
        for (lane, element), code in place.items():
            register = first + element // per
            shift = bits * (element % per)
            word = int(self.bench.state.vector[register, 0, lane])
            word = word & ~(((1 << bits) - 1) << shift) | int(code) << shift
            self.bench.state.vector[register, 0, lane] = word
            count = max(count, element // per + 1)
        return count

    def operand(self, first: int, matrix: Array, bits: int) -> int:
        """Write rows of A, or columns of B, as the target lays them out."""
        rows, k = matrix.shape
        place = {}
        for row in range(rows):
            for column in range(k):
                if self.old:
                    for copy in range(self.lanes // 16):
                        place[16 * copy + row, column] = matrix[row, column]
                else:
                    place[16 * (column // (k // 2)) + row, column % (k // 2)] = matrix[row, column]
        return self.put(first, bits, place)

    def operand_across_words(self, first: int, matrix: Array, bits: int) -> None:
        """Write rows of 128 elements of any width, half of them in each half of the wave."""
        for lane in range(32):
            row = matrix[lane % 16, 64 * (lane // 16) : 64 * (lane // 16 + 1)]
            number = sum(int(code) << bits * k for k, code in enumerate(row))
            for word in range(64 * bits // 32):
                self.bench.state.vector[first + word, 0, lane] = number >> 32 * word & 0xFFFFFFFF

    def where(self, row: int, column: int) -> tuple[int, int]:
        """Return lane and element of the accumulator."""
        if self.old:
            step = self.lanes // 16
            return 16 * (row % step) + column, row // step
        return 16 * (row // 8) + column, row % 8

    def accumulator(self, first: int, matrix: Array, half: int = 0) -> int:
        bits = matrix.dtype.itemsize * 8
        raw = matrix.view(f"u{bits // 8}")
        spread = 2 if bits == 16 and self.old else 1
        place = {}
        for row in range(16):
            for column in range(16):
                lane, element = self.where(row, column)
                place[lane, spread * element + half] = raw[row, column]
        return self.put(first, bits, place)

    def result(self, kind: str, half: int = 0) -> Array:
        dtype = TYPES[kind]
        bits = dtype.itemsize * 8
        spread = 2 if bits == 16 and self.old else 1
        out = np.zeros((16, 16), f"u{dtype.itemsize}")
        for row in range(16):
            for column in range(16):
                lane, element = self.where(row, column)
                element = spread * element + half
                word = int(self.bench.state.vector[D + element * bits // 32, 0, lane])
                out[row, column] = word >> bits * (element % (32 // bits)) & (1 << bits) - 1
        return out.view(dtype)

    def run(self, name: str, sizes: tuple[int, int, int], mods: dict[str, int]) -> None:
        a, b, c = sizes
        operands = [Operand("v", D, c), Operand("v", A, a), Operand("v", B, b)]
        operands.append(Operand("v", X, 1) if "swmmac" in name else Operand("v", C, c))
        self.bench.set_exec(np.arange(self.lanes)[None, :] % 3 == 0)
        self.bench.execute(Instruction(0, 8, "VOP3P", name, "", tuple(operands), mods))


def check(got: Array, a: Array, b: Array, c: Array, kind: str, terms: int = 0) -> None:
    """Compare with float64; `terms`: how many are added to an f32 accumulator one by one."""
    want = a @ b + c.astype(np.float64)
    if kind == "i32":
        wrapped = want.astype(np.int64).astype(np.uint32).view(np.int32)
        assert np.array_equal(got, wrapped)
    elif terms and kind == "f32":
        # Each addition is rounded to f32 (Higham, "Accuracy and Stability", section 3.1).
        gamma = terms * 2.0**-24 / (1 - terms * 2.0**-24) + terms * 2.0**-52
        size = np.abs(a) @ np.abs(b) + np.abs(c.astype(np.float64))
        assert (np.abs(got.astype(np.float64) - want) <= gamma * size + terms * 2.0**-150).all()
    else:
        # One rounding of a sum that is exact but for the order of additions in double.
        scale = (np.abs(a) @ np.abs(b) + np.abs(c.astype(np.float64))) * 2.0**-48
        digits = {"f32": 24, "f16": 11, "bf16": 8}[kind]
        error = np.abs(got.astype(np.float64) - want)
        assert (error <= np.abs(want) * 2.0**-digits + scale + 2.0**-25).all()


@pytest.mark.parametrize(
    ("name", "arch", "result", "k", "x", "y"),
    [(title("wmma", *case[1:]), *case) for case in GFX11 + GFX12 + GFX1250],
)
def test_dense(name: str, arch: str, result: str, k: int, x: str, y: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{arch}{result}{k}{x}{y}".encode()))
    for half in (0, 1) if result in ("f16", "bf16") and arch == "gfx1100" else (0,):
        scene = Scene(arch)
        (a_bits, a), (b_bits, b) = codes(x, rng, (16, k)), codes(y, rng, (16, k))
        mods = {"op_sel_hi": 7}
        if result == "i32":
            signs = int(rng.integers(0, 4))
            mods["neg_lo"] = signs
            a = as_signed(a, x) if signs & 1 else a
            b = as_signed(b, y) if signs & 2 else b
        if half:
            mods["op_sel"] = 4
        if result == "i32":
            c = rng.integers(-(2**31), 2**31, (16, 16)).astype(np.int32)
        else:
            c = rng.normal(0, 3, (16, 16)).astype(TYPES[result])
        sizes = (
            scene.operand(A, a_bits, BITS[x]),
            scene.operand(B, b_bits, BITS[y]),
            scene.accumulator(C, c, half),
        )
        before = scene.bench.state.vector.copy()
        scene.run(name, sizes, mods)
        check(scene.result(result, half), a, b.T, c, result, k)
        scene.bench.state.vector[D : D + 8] = before[D : D + 8]
        assert np.array_equal(scene.bench.state.vector, before)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_other_half_of_a_register_stays(kind: str) -> None:
    scene = Scene("gfx1100")
    scene.bench.state.vector[D : D + 8] = 0x12345678
    scene.bench.state.vector[A : C + 8] = 0
    scene.run(title("wmma", kind, 16, kind, kind), (8, 8, 8), {"op_sel": 4})
    assert (scene.bench.state.vector[D : D + 8] == 0x00005678).all()
    scene.run(title("wmma", kind, 16, kind, kind), (8, 8, 8), {})
    assert (scene.bench.state.vector[D : D + 8] == 0).all()


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize(("result", "x"), [("f32", "f16"), ("i32", "iu8"), ("f16", "f16")])
def test_wave_size_of_gfx11(lanes: int, result: str, x: str) -> None:
    rng = np.random.default_rng(lanes)
    scene = Scene("gfx1100", lanes)
    (a_bits, a), (b_bits, b) = codes(x, rng, (16, 16)), codes(x, rng, (16, 16))
    c = rng.integers(-99, 99, (16, 16)).astype(TYPES[result])
    sizes = (
        scene.operand(A, a_bits, BITS[x]),
        scene.operand(B, b_bits, BITS[x]),
        scene.accumulator(C, c),
    )
    scene.run(title("wmma", result, 16, x, x), sizes, {})
    check(scene.result(result), a, b.T, c, result, 16)


def test_waves_of_64_lanes_on_gfx12_are_refused() -> None:
    scene = Scene("gfx1201", 64)
    with pytest.raises((KernelFault, FlyDSLError), match="64 lanes"):
        scene.run("v_wmma_f32_16x16x16_f16", (2, 2, 4), {})
    with pytest.raises((KernelFault, FlyDSLError), match="64 lanes"):
        scene.run("v_swmmac_f32_16x16x32_f16", (2, 4, 4), {})


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("kind", ["iu8", "iu4"])
def test_clamp_saturates(arch: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    scene = Scene(arch)
    (a_bits, a), (b_bits, b) = codes(kind, rng, (16, 16)), codes(kind, rng, (16, 16))
    c = rng.choice(np.array([2**31 - 1, 2**31 - 900, -(2**31), 7], np.int32), (16, 16))
    sizes = (
        scene.operand(A, a_bits, BITS[kind]),
        scene.operand(B, b_bits, BITS[kind]),
        scene.accumulator(C, c),
    )
    scene.run(title("wmma", "i32", 16, kind, kind), sizes, {"clamp": 1, "neg_lo": 1})
    want = as_signed(a, kind) @ b.T + c
    assert np.array_equal(scene.result("i32"), np.clip(want, -(2**31), 2**31 - 1).astype(np.int32))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_float_modifiers(arch: str) -> None:
    rng = np.random.default_rng(6)
    scene = Scene(arch)
    (a_bits, a), (b_bits, b) = codes("f16", rng, (16, 16)), codes("f16", rng, (16, 16))
    c = rng.normal(0, 3, (16, 16)).astype(np.float32)
    sizes = (scene.operand(A, a_bits, 16), scene.operand(B, b_bits, 16), scene.accumulator(C, c))
    scene.run("v_wmma_f32_16x16x16_f16", sizes, {"neg_lo": 0b101, "neg_hi": 0b110})
    flip = np.where(np.arange(16) % 2 == 0, -1.0, 1.0)
    check(scene.result("f32"), a * flip, (b * -flip).T, -np.abs(c), "f32", 16)


def test_inline_accumulator() -> None:
    for arch in ("gfx1100", "gfx1201"):
        scene = Scene(arch)
        scene.bench.state.vector[A : C + 8] = 0
        copies = 2 if arch == "gfx1100" else 1
        for name, count, operand, want in (
            ("v_wmma_f32_16x16x16_f16", 4 * copies, Operand("f", 0, 8, 2.0), 0x40000000),
            ("v_wmma_i32_16x16x16_iu8", 2 * copies, Operand("i", 0, 8, -3), 0xFFFFFFFD),
        ):
            a = Operand("v", A, count), Operand("v", B, count)
            scene.bench.execute(
                Instruction(0, 8, "VOP3P", name, "", (Operand("v", D, 8), *a, operand), {})
            )
            assert (scene.bench.state.vector[D : D + 8] == want).all()


@pytest.mark.parametrize(
    ("name", "result", "k", "x", "y"), [(title("swmmac", *case), *case) for case in SPARSE]
)
def test_sparse(name: str, result: str, k: int, x: str, y: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{result}{k}{x}{y}".encode()))
    key = int(rng.integers(0, 2)) if k == 32 else 0
    scene = Scene("gfx1201")
    (a_bits, kept), (b_bits, b) = codes(x, rng, (16, k // 2)), codes(y, rng, (16, k))
    mods = {"index_key": key}
    if result == "i32":
        mods["neg_lo"] = 3
        kept, b = as_signed(kept, x), as_signed(b, y)
        c = rng.integers(-(2**31), 2**31, (16, 16)).astype(np.int32)
    else:
        c = rng.normal(0, 3, (16, 16)).astype(TYPES[result])
    a = np.zeros((16, k))
    scene.bench.state.vector[X] = rng.integers(0, 2**32, (1, 32), dtype=np.uint32)
    half, per = k // 2, k // 4
    for row in range(16):
        for quad in range(k // 4):
            places = sorted(rng.choice(4, 2, replace=False))
            for which, place in enumerate(places):
                source = 2 * quad + which
                a[row, 4 * quad + place] = kept[row, source]
                lane, local = 16 * (source // per) + row, source % per
                shift = 2 * local + (half * key if k == 32 else 0)
                word = int(scene.bench.state.vector[X, 0, lane]) & ~(3 << shift)
                scene.bench.state.vector[X, 0, lane] = word | int(place) << shift
    sizes = (
        scene.operand(A, a_bits, BITS[x]),
        scene.operand(B, b_bits, BITS[y]),
        scene.accumulator(D, c),
    )
    scene.run(name, sizes, mods)
    check(scene.result(result), a, b.T, c, result, k // 2)


@pytest.mark.opcodes("v_wmma_bf16f32_16x16x32_bf16")
def test_narrow_result_of_a_wide_accumulator() -> None:
    rng = np.random.default_rng(9)
    scene = Scene("gfx1250")
    (a_bits, a), (b_bits, b) = codes("bf16", rng, (16, 32)), codes("bf16", rng, (16, 32))
    c = rng.normal(0, 3, (16, 16)).astype(np.float32)
    sizes = scene.operand(A, a_bits, 16), scene.operand(B, b_bits, 16), scene.accumulator(C, c)
    registers = [Operand("v", D, 4), Operand("v", A, sizes[0]), Operand("v", B, sizes[1])]
    name = "v_wmma_bf16f32_16x16x32_bf16"
    scene.bench.execute(
        Instruction(0, 8, "VOP3P", name, "", (*registers, Operand("v", C, sizes[2])), {})
    )
    check(scene.result("bf16"), a, b.T, c, "bf16")


ANY = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


@pytest.mark.opcodes("v_wmma_f32_16x16x128_f8f6f4")
@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (0, 1), (2, 2), (3, 2), (4, 4)])
def test_formats_that_the_instruction_names(first: int, second: int) -> None:
    rng = np.random.default_rng(first)
    bits = (8, 8, 6, 6, 4)
    scene = Scene("gfx1250")
    sides, registers = [], [Operand("v", D, 8)]
    for base, index in ((A, first), (B, second)):
        values = rng.normal(0, 1, (16, 128)).astype(getattr(ml_dtypes, ANY[index]))
        sides.append(values.astype(np.float64))
        raw = values.view(np.uint8).astype(np.uint32)
        scene.operand_across_words(base, raw, bits[index])
        registers.append(Operand("v", base, 64 * bits[index] // 32))
    c = rng.normal(0, 3, (16, 16)).astype(np.float32)
    registers.append(Operand("v", C, scene.accumulator(C, c)))
    mods = {"a_fmt": first, "b_fmt": second}
    name = "v_wmma_f32_16x16x128_f8f6f4"
    scene.bench.execute(Instruction(0, 8, "VOP3P", name, "", tuple(registers), mods))
    check(scene.result("f32"), sides[0], sides[1].T, c, "f32")


WIDTHS = (8, 8, 6, 6, 4)


def small_floats(rng: np.random.Generator, rows: int, index: int) -> tuple[Array, Array]:
    values = rng.normal(0, 1, (rows, 128)).astype(getattr(ml_dtypes, ANY[index]))
    return values.view(np.uint8).astype(np.uint32), values.astype(np.float64)


def in_turns(bits: int) -> Array:
    """Return the k of the halves of a wave one after the other: they take turns every 16 bytes."""
    run, at = 128 // bits, np.arange(64)
    low = at // run * 2 * run + at % run
    return np.concatenate([low, low + run])


@pytest.mark.opcodes("v_{kind}_f32_16x16x128_f8f6f4")
@pytest.mark.parametrize("formats", [(0, 4), (4, 1), (1, 0), (4, 4)])
@pytest.mark.parametrize(("kind", "block"), [("wmma", 0), ("wmma_scale", 32), ("wmma_scale16", 16)])
@pytest.mark.parametrize("rows", [(0, 0), (1, 0), (0, 1)])
def test_formats_of_different_widths_and_scales(
    formats: tuple[int, int], kind: str, block: int, rows: tuple[int, int]
) -> None:
    rng = np.random.default_rng(block + formats[0])
    scene = Scene("gfx1250")
    sides, registers = [], [Operand("v", D, 8)]
    for base, index in ((A, formats[0]), (B, formats[1])):
        raw, values = small_floats(rng, 16, index)
        scene.operand_across_words(base, raw[:, in_turns(WIDTHS[index])], WIDTHS[index])
        registers.append(Operand("v", base, 64 * WIDTHS[index] // 32))
        sides.append(values)
    c = rng.normal(0, 3, (16, 16)).astype(np.float32)
    registers.append(Operand("v", C, scene.accumulator(C, c)))
    mods = {"a_fmt": formats[0], "b_fmt": formats[1], "a_scale": rows[0], "b_scale": rows[1]}
    if block:
        for side in (0, 1):
            lanes = rng.integers(120, 134, (32, 128 // block)).astype(np.uint8)
            for at, word in enumerate(lanes.view(np.uint32).T):
                scene.bench.state.vector[X + 4 * side + at, 0, :] = word
            powers = 2.0 ** (lanes[16 * rows[side] :][:16].astype(np.float64) - 127)
            sides[side] = sides[side] * np.repeat(powers, block, axis=1)
            registers.append(Operand("v", X + 4 * side, 32 // block))
    name = f"v_{kind}_f32_16x16x128_f8f6f4"
    scene.bench.execute(Instruction(0, 16, "VOP3P", name, "", tuple(registers), mods))
    check(scene.result("f32"), sides[0], sides[1].T, c, "f32")


@pytest.mark.opcodes("v_wmma_f32_32x16x128_f4")
def test_thirty_two_rows_of_four_bits() -> None:
    rng = np.random.default_rng(4)
    scene = Scene("gfx1250")
    (a_bits, a), (b_bits, b) = small_floats(rng, 32, 4), small_floats(rng, 16, 4)
    turns = in_turns(4)
    for half in (0, 1):
        scene.operand_across_words(A + 8 * half, a_bits[16 * half :][:16, turns], 4)
    scene.operand_across_words(B, b_bits[:, turns], 4)
    c = rng.normal(0, 3, (32, 16)).astype(np.float32)
    for half in (0, 1):
        scene.accumulator(C + 8 * half, c[16 * half :][:16])
    registers = tuple(Operand("v", *x) for x in ((D, 16), (A, 16), (B, 8), (C, 16)))
    scene.bench.execute(Instruction(0, 8, "VOP3P", "v_wmma_f32_32x16x128_f4", "", registers, {}))
    check(scene.result("f32"), a[:16], b.T, c[:16], "f32")
    lower = scene.bench.state.vector[D + 8 : D + 16, 0, :].astype(np.uint32).view(np.float32)
    check(np.concatenate([lower[:, :16], lower[:, 16:]]), a[16:], b.T, c[16:], "f32")


@pytest.mark.parametrize(
    ("name", "mods", "said"),
    [
        ("v_wmma_f32_16x16x128_f8f6f4", {"b_fmt": 2}, "fp8 and fp6"),
        ("v_wmma_scale_f32_16x16x128_f8f6f4", {"a_fmt": 3, "b_fmt": 3}, "bf6 and bf6"),
        ("v_wmma_scale_f32_16x16x128_f8f6f4", {"a_scale_fmt": 1}, "other formats than E8M0"),
    ],
)
def test_what_is_not_published_is_refused(name: str, mods: dict[str, int], said: str) -> None:
    sizes = [(D, 8), (A, 16), (B, 12 if "b_fmt" in mods else 16), (C, 8)]
    if "scale" in name:
        sizes += [(X, 1), (X + 1, 1)]
    registers = tuple(Operand("v", *x) for x in sizes)
    with pytest.raises((KernelFault, FlyDSLError), match=said):
        Scene("gfx1250").bench.execute(Instruction(0, 8, "VOP3P", name, "", registers, mods))
