"""The builders under ROCDL names become their instructions, one kernel per architecture."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import TargetError, UserTypeError, UserValueError
from flydsl_rocdl.arch import lookup
from flydsl_rocdl.expr.raw_matrix import NAMES

WIDTHS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "iu4": 4, "fp4": 4}
WIDTHS |= {"fp6": 6, "bf6": 6}
CLASSES = {"f64": fx.Float64, "f32": fx.Float32, "xf32": fx.Float32, "f16": fx.Float16,
           "bf16": fx.BFloat16, "i32": fx.Int32}  # fmt: skip


def filled(seed, count, kind):
    """Return a number or a vector of `count` numbers made from `seed`."""
    number = seed.to(kind)
    return number if count == 1 else fx.Vector.filled((count,), number, kind)


def operands_of(shape, facts, seed):
    """Return A, B, C and what follows them, as the manual names them."""
    copies = 2 if "wmma-copies" in facts.has else 1
    lanes = facts.wave_size
    out = []
    for side, (element, rows) in enumerate(((shape.a, shape.m), (shape.b, shape.n))):
        count = rows * shape.k * shape.blocks * copies // lanes
        if side == 0 and shape.family in ("smfmac", "swmmac"):
            count //= 2
        if element in CLASSES:
            out.append(filled(seed, count, CLASSES[element]))
            continue
        bits = count * WIDTHS.get(element, 8)
        if shape.family == "mfma" and bits == 64:
            out.append(filled(seed, 1, fx.Int64))
        else:
            out.append(filled(seed, bits // 32, fx.Int32))
    count = shape.m * shape.n * shape.blocks // lanes
    wide = copies if shape.acc in ("f16", "bf16") else 1
    out.append(filled(seed, count * wide, CLASSES[shape.acc]))
    if shape.family in ("smfmac", "swmmac"):
        short = shape.family == "swmmac" and shape.k * WIDTHS.get(shape.a, 8) != 64 * 4
        out.append(seed.to(fx.Int16) if short else seed)
    return out


@flyc.kernel
def every_builder_kernel(Out: fx.Tensor, arch: fx.Constexpr[str]):
    facts = lookup(arch)
    seed = fx.thread_idx.x
    place = fx.get_iter(Out) + seed
    done = set()
    for shape in facts.matrix:
        name = shape.intrinsic.replace(".", "_")
        scales = {}
        if fx.const_expr(shape.family == "mfma_scale"):
            scales = {"scaleA": seed, "scaleB": seed, "opselA": 1}
            formats = [("fp8", "bf8", "fp6", "bf6", "fp4").index(x) for x in (shape.a, shape.b)]
            scales.update(cbsz=formats[0], blgp=formats[1])
        if fx.const_expr(shape.family == "wmma_scale"):
            wide = fx.Int64 if "scale16" in name else fx.Int32
            scales = {"scaleA": seed.to(wide), "scaleB": seed.to(wide)}
            if fx.const_expr(name.endswith("f8f6f4")):
                formats = [("fp8", "bf8", "fp6", "bf6", "fp4").index(x)
                           for x in (shape.a, shape.b)]  # fmt: skip
                scales.update(fmtA=formats[0], fmtB=formats[1])
        if fx.const_expr((name, str(scales.get("cbsz")), str(scales.get("fmtA"))) not in done):
            done.add((name, str(scales.get("cbsz")), str(scales.get("fmtA"))))
            result = getattr(fx.rocdl, name)(None, operands_of(shape, facts, seed), **scales)
            if fx.const_expr(isinstance(result, fx.Vector)):
                result = result[0]
            fx.ptr_store(result.to(fx.Float32), place)
            place = place + 64


@flyc.jit
def every_builder(Out: fx.Tensor, arch: fx.Constexpr[str]):
    every_builder_kernel(Out, arch).launch(grid=1, block=32)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_every_builder_becomes_its_instruction(arch: str) -> None:
    out = np.zeros(64 * 256, np.float32)
    with config.scope(FLYDSL_TARGET=arch):
        isa = flyc.compile(every_builder, out, arch).isa
    found = set(re.findall(r"\bv_(?:s?w?mfmac?|s?wmmac?|smfmac)_\w+", isa))
    found = {x.removesuffix("_e64") for x in found}
    assert found == {shape.mnemonic for shape in lookup(arch).matrix}


@flyc.kernel
def calling_kernel(check: fx.Constexpr[object]):
    check(fx.thread_idx.x)


@flyc.jit
def calling(check: fx.Constexpr[object]):
    calling_kernel(check).launch(grid=1, block=64)


def refusals(seed):
    a = fx.Vector.filled((4,), seed.to(fx.Float16), fx.Float16)
    c = fx.Vector.filled((4,), seed.to(fx.Float32), fx.Float32)
    with pytest.raises(UserTypeError, match="FLY-U618"):
        fx.rocdl.mfma_f32_16x16x16f16(None, [a, c, c])
    with pytest.raises(UserValueError, match="lacks an operand"):
        fx.rocdl.mfma_f32_16x16x16f16(None, [a, a])
    with pytest.raises(UserValueError, match="FLY-U613"):
        fx.rocdl.mfma_f32_16x16x16f16(None, [a, a, c, 9])
    with pytest.raises(UserValueError, match="no such operand"):
        fx.rocdl.mfma_f32_16x16x16f16(None, [a, a, c], clamp=1)
    with pytest.raises(UserTypeError, match="FLY-U617"):
        fx.rocdl.mfma_f32_16x16x16f16("vector<4xi32>", [a, a, c])
    with pytest.raises(TargetError, match="gfx942 has no mfma_f32_16x16x32_f16") as caught:
        fx.rocdl.mfma_f32_16x16x32_f16(None, [a, a, c])
    assert "mfma_f32_16x16x16f16" in caught.value.allowed
    with pytest.raises(TargetError, match="no wmma_") as caught:
        fx.rocdl.wmma_f32_16x16x16_f16(None, a, a, c)
    assert "none" in caught.value.allowed


def test_wrong_operands_are_refused() -> None:
    with config.scope(FLYDSL_TARGET="gfx942"):
        flyc.compile(calling, refusals)


def test_names_that_no_architecture_has_are_no_attributes() -> None:
    assert "swmmac_f32_16x16x64_f16" in NAMES
    assert "mfma_f32_16x16x16f16" in dir(fx.rocdl)
    with pytest.raises(AttributeError):
        fx.rocdl.mfma_f32_8x8x8f16  # noqa: B018
