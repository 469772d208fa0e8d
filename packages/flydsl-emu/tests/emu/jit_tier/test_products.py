"""Compiled matrix products of batches against numpy's, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.jit_tier import JitTier, host_code
from flydsl_emu.jit_tier.host_code import CodeCache
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.products import CompiledProducts, numpy_seconds
from flydsl_emu.semantics.matrix_plan import MatrixPlan
from flydsl_emu.semantics.registry import REGISTRY
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 5
NAMES = sorted(
    n for n in REGISTRY if n.startswith(("v_mfma_f32", "v_smfmac_f32")) and "f8f6f4" not in n
)

pytestmark = pytest.mark.skipif(
    not JitTier.available(), reason="no code generator for this processor"
)


@dataclass
class Noted:
    """Products that a machine asked for; it computes them itself."""

    calls: list[tuple[MatrixPlan, list[list[Array]]]] = field(default_factory=list)

    def multiply(self, plan: MatrixPlan, *operands: Sequence[Array]) -> None:
        self.calls.append((plan, [[x.copy() for x in y] for y in operands]))


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Registers: any bits, sizes below 2, denormals, edges, and usual numbers."""
    out = rng.integers(0, 2**32, shape, dtype=np.uint32)
    out[:, 1] &= 0xBFBFBFBF
    out[:, 2] &= 0x80FF83FF
    out[:, 3] = rng.choice([0, 0x80008000, 0x7F807F80, 0x7F7F7F7F, 0x00010001, 1], out[:, 3].shape)
    out[:, 4] = rng.standard_normal(out[:, 4].shape).astype(np.float32).view(np.uint32)
    return out


def product(name: str) -> tuple[MatrixPlan, list[list[Array]], Array]:
    """Return the product of one instruction on random registers, and numpy's result."""
    rng = np.random.default_rng(len(name))
    bench = InstructionBench("gfx942" if "xf32" in name else "gfx950", WAVES)
    noted = Noted()
    bench.machine.products = noted
    bench.state.vector[:] = words(rng, bench.state.vector.shape)
    size, kind = name.split("_")[3].split("x"), name.rsplit("_", 1)[1]
    m, n, k = map(int, size)
    found = [part for part in name.split("_") if part.endswith("b") and part[:-1].isdigit()]
    blocks = int(found[0][:-1]) if found else 1
    bits = {"f32": 32, "xf32": 32, "f16": 16, "bf16": 16}.get(kind, 8)
    a, b = m * k * blocks * bits // 2048, n * k * blocks * bits // 2048
    results = m * n * blocks // 64
    target = Operand("v", 128, results)
    if "smfmac" in name:
        sources = Operand("v", 0, a // 2), Operand("v", 32, b), Operand("v", 200)
    else:
        sources = Operand("v", 0, a), Operand("v", 32, b), Operand("v", 64, results)
    bench.execute(Instruction(0, 8, "VOP3P", name, "", (target, *sources), {}))
    ((plan, operands),) = noted.calls
    return plan, operands, bench.state.vector[128 : 128 + results].copy()


WAVES_OF_32 = [
    ("v_wmma_f32_16x16x16_f16", "gfx1100", 8),
    ("v_wmma_f32_16x16x16_bf16", "gfx1100", 8),
    ("v_wmma_f32_16x16x16_f16", "gfx1201", 4),
    ("v_wmma_f32_16x16x16_fp8_bf8", "gfx1201", 2),
    ("v_wmma_f32_16x16x32_bf16", "gfx1250", 8),
    ("v_wmma_f32_16x16x4_f32", "gfx1250", 2),
    ("v_wmma_f32_16x16x128_fp8_fp8", "gfx1250", 16),
]


def product_of_32_lanes(name: str, arch: str, count: int) -> tuple[MatrixPlan, Any, Array]:
    """Return the product of one WMMA on random registers, and numpy's result."""
    bench = InstructionBench(arch, WAVES)
    noted = Noted()
    bench.machine.products = noted
    bench.state.vector[:] = words(np.random.default_rng(count), bench.state.vector.shape)
    operands = [Operand("v", at, n) for at, n in ((128, 8), (0, count), (32, count), (64, 8))]
    bench.execute(Instruction(0, 8, "VOP3P", name, "", tuple(operands), {"neg_hi": 1}))
    ((plan, inputs),) = noted.calls
    return plan, inputs, bench.state.vector[128:136].copy()


def agree(found: Sequence[Array] | None, want: Array) -> None:
    assert found is not None
    got = np.stack(found)
    nan = np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32))
    assert not nan[:, 1].any()
    assert ((got == want) | nan).all()


@pytest.mark.parametrize("name", NAMES)
def test_compiled_products_equal_those_of_numpy(name: str, code_cache: Path) -> None:
    plan, operands, want = product(name)
    products = CompiledProducts(Library(CodeCache(code_cache)), patience=0)
    agree(products.multiply(plan, *operands), want)


@pytest.mark.parametrize(("name", "arch", "count"), WAVES_OF_32)
def test_products_of_32_lanes(name: str, arch: str, count: int, code_cache: Path) -> None:
    plan, operands, want = product_of_32_lanes(name, arch, count)
    assert plan.lanes == 32
    products = CompiledProducts(Library(CodeCache(code_cache)), patience=0)
    agree(products.multiply(plan, *operands), want)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_narrow_registers_give_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"f32": "v_mfma_f32_32x32x2_f32"}.get(kind, f"v_mfma_f32_32x32x8_{kind}")
    plan, operands, want = product(name)
    monkeypatch.setattr(host_code, "_processor", lambda: ("x86-64-v3", ""))
    assert host_code.strip_height() < plan.m
    products = CompiledProducts(Library(CodeCache(tmp_path)), patience=0)
    agree(products.multiply(plan, *operands), want)


def test_products_are_compiled_when_that_pays_off(tmp_path: Path) -> None:
    plan, operands, want = product("v_mfma_f32_16x16x16_bf16")
    patience = 2.5 * numpy_seconds(plan, WAVES)
    products = CompiledProducts(Library(CodeCache(tmp_path)), patience)
    assert products.multiply(plan, *operands) is None
    assert products.multiply(plan, *operands) is None
    agree(products.multiply(plan, *operands), want)
    # What is on disk is used at once.
    agree(CompiledProducts(Library(CodeCache(tmp_path))).multiply(plan, *operands), want)


def test_numpy_goes_on_where_nothing_can_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, operands, _ = product("v_mfma_f32_16x16x16_bf16")
    monkeypatch.setattr(host_code, "_processor", lambda: None)
    products = CompiledProducts(Library(CodeCache(tmp_path)), patience=0)
    assert products.multiply(plan, *operands) is None
    assert not list(tmp_path.iterdir())


def test_numpy_goes_on_where_the_compiler_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, operands, _ = product("v_mfma_f32_16x16x16_bf16")
    asked = []

    def require(*_arguments: object) -> None:
        asked.append(1)
        raise TargetError("the LLVM back end died", code="FLY-T424")

    monkeypatch.setattr(Library, "require", require)
    products = CompiledProducts(Library(CodeCache(tmp_path)), patience=0)
    assert products.multiply(plan, *operands) is None
    assert products.multiply(plan, *operands) is None
    assert len(asked) == 1
