"""Operands and results of matrix instructions, laid out by formulas of the tests' own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.semantics.registry import REGISTRY
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
SHAPE = re.compile(r"v_(?:mfma|smfmac|mfma_scale)_(\w\d+)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(.+)$")
DENSE = sorted(n for n in REGISTRY if n.startswith("v_mfma_") and "f8f6f4" not in n)
SPARSE = sorted(n for n in REGISTRY if n.startswith("v_smfmac_"))
SMALL = {
    "gfx942": {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz},
    "gfx950": {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2},
}
REGISTERS = {"f64": (2, np.float64), "f32": (1, np.float32), "i32": (1, np.int32)}


@dataclass(frozen=True)
class Shape:
    """What a mnemonic says."""

    accumulator: str
    m: int
    n: int
    k: int
    blocks: int
    kinds: tuple[str, str]


def parsed(name: str) -> Shape:
    found = SHAPE.match(name)
    assert found is not None
    kinds = found[6].split("_")
    m, n, k = (int(found[at]) for at in (2, 3, 4))
    return Shape(found[1], m, n, k, int(found[5] or 1), (kinds[0], kinds[-1]))


def element(kind: str, arch: str) -> tuple[Any, int]:
    """Element type and bits."""
    if kind in ("fp8", "bf8"):
        return SMALL[arch][kind], 8
    types = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i8": np.int8}
    dtype = np.dtype(types.get(kind, np.float32))
    return dtype, 8 * dtype.itemsize


def packed(codes: Array, bits: int) -> Array:
    """Registers ``[register, wave, lane]`` of codes ``[wave, lane, element]``, low bits first."""
    count = codes.shape[2]
    words = np.zeros((count * bits + 31) // 32 + 1, object)[:, None, None] + np.zeros(
        codes.shape[:2], object
    )
    whole = codes.astype(object)
    for e in range(count):
        at, shift = divmod(e * bits, 32)
        moved = whole[:, :, e] << shift
        words[at] |= moved & 0xFFFFFFFF
        words[at + 1] |= moved >> 32 & 0xFFFFFFFF
        if bits == 64:
            words[at + 1] |= 0
    return words[:-1].astype(np.uint32)


def codes_of(x: Array, bits: int) -> Array:
    return x.view(f"u{max(1, bits // 8)}")


def fragments(x: Array, runs: int = 1) -> Array:
    """``[wave, lane, element]`` of rows ``[wave, block, row, k]``.

    With e elements a lane, k lies in lane group ``k % (e * groups) // (e / runs)``.
    """
    waves, blocks, rows, ks = x.shape
    groups = 64 // (rows * blocks)
    run = ks // groups // runs
    out = np.zeros((waves, 64, ks // groups), x.dtype)
    for b in range(blocks):
        for i in range(rows):
            for k in range(ks):
                h, rest = divmod(k, run * groups)
                g, e = divmod(rest, run)
                out[:, (g * blocks + b) * rows + i, h * run + e] = x[:, b, i, k]
    return out


def place_results(x: Array, shape: Shape) -> Array:
    """``[element, wave, lane]`` of results ``[wave, block, i, j]``."""
    out = np.zeros((shape.m * shape.n * shape.blocks // 64, WAVES, 64), x.dtype)
    for b in range(shape.blocks):
        for i in range(shape.m):
            for j in range(shape.n):
                if shape.accumulator == "f64":
                    at = (i // 4, 16 * (i % 4) + 4 * b + j)
                else:
                    row, sets = b * shape.m + i, 64 // shape.n
                    register = row // (4 * sets) * 4 + row % 4
                    at = (register, row // 4 % sets * shape.n + j)
                out[at[0], :, at[1]] = x[:, b, i, j]
    return out


class Run:
    """One instruction with registers filled: A from v0, B from v32, C and D from v64 on."""

    def __init__(self, arch: str) -> None:
        self.bench = InstructionBench(arch, WAVES)
        # Matrix instructions ignore EXEC.
        self.bench.set_exec(np.zeros((WAVES, 64), bool))

    def put(self, at: int, registers: Array) -> Operand:
        self.bench.state.vector[at : at + len(registers)] = registers
        return Operand("v", at, len(registers))

    def accumulator(self, c: Array, shape: Shape, at: int = 64) -> Operand:
        words, dtype = REGISTERS[shape.accumulator]
        placed = place_results(c.astype(dtype), shape)
        raw = placed.view(np.uint32).reshape(*placed.shape, words)
        return self.put(at, raw.transpose(0, 3, 1, 2).reshape(-1, WAVES, 64))

    def result(self, operand: Operand, shape: Shape) -> Array:
        words, dtype = REGISTERS[shape.accumulator]
        raw = self.bench.state.vector[operand.index : operand.index + operand.count]
        shaped = raw.reshape(-1, words, WAVES, 64).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(shaped).view(dtype)[..., 0]

    def execute(self, name: str, *operands: Operand, **mods: int) -> None:
        self.bench.execute(Instruction(0, 8, "VOP3P", name, "", operands, mods))


def architectures(name: str) -> list[str]:
    if "xf32" in name:
        return ["gfx942"]
    return ["gfx942", "gfx950"] if "fp8" in name or "bf8" in name else ["gfx950"]


def xf32(x: Array) -> Array:
    """Round float32 to 11 significant bits, ties to even."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2**11), exponent - 11)


def values_of(x: Array, kind: str) -> Array:
    return xf32(x) if kind == "xf32" else x.astype(np.float64)
