"""Passes of the matrix instructions against LLVM's scheduling model."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from flydsl_rocdl.arch import MatrixShape, lookup

BITS = {"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16}
SMALL = {"fp6": 6, "bf6": 6, "fp4": 4}
CODES = ("fp8", "bf8", "fp6", "bf6", "fp4")


def _registers(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def _line(shape: MatrixShape) -> str:
    """Return the instruction on some registers."""
    elements = shape.m * shape.k * shape.blocks // 64
    sparse = shape.family == "smfmac"
    a, b = (max(1, elements * BITS.get(e, SMALL.get(e, 8)) // 32) for e in (shape.a, shape.b))
    d = shape.m * shape.n * shape.blocks * BITS[shape.acc] // 64 // 32
    result = _registers(64, d)
    last = "v40" if sparse else result
    text = f"{shape.mnemonic} {result}, {_registers(0, a // 2 if sparse else a)}, "
    text += f"{_registers(16, b)}, {last}"
    if shape.family == "mfma_scale":
        text += f", v40, v41 cbsz:{CODES.index(shape.a)} blgp:{CODES.index(shape.b)}"
    return text


def _eight_bits_with_scales(shape: MatrixShape) -> bool:
    return shape.family == "mfma_scale" and bool({"fp8", "bf8"} & {shape.a, shape.b})


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_passes_are_those_of_the_scheduling_model(arch: str) -> None:
    program = shutil.which("llvm-mca-22") or shutil.which("llvm-mca")
    if program is None:
        pytest.skip("llvm-mca is not installed")
    shapes = lookup(arch).matrix
    done = subprocess.run(
        [program, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-iterations=1",
         "-instruction-info"],
        input="\n".join(_line(shape) for shape in shapes), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    rows = re.findall(r"^\s*\d+\s+\d+\s+(\d+)\.00.*\s(v_s?mf\w+)", done.stdout, re.MULTILINE)
    assert [name for _, name in rows] == [shape.mnemonic for shape in shapes]
    # The model does not see the formats of f8f6f4 instructions: it has the passes of the short
    # ones. The CDNA4 guide gives twice as many where an operand has 8 bits.
    wrong = {
        str(shape): (shape.passes, int(passes))
        for shape, (passes, _) in zip(shapes, rows, strict=True)
        if shape.passes != int(passes) * (2 if _eight_bits_with_scales(shape) else 1)
    }
    assert wrong == {}
