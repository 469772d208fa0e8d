"""The loop of products with weights of four bits that are unpacked where they are multiplied."""

from __future__ import annotations

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_kernels.gemm import GemmConfig, GemmProblem
from flydsl_kernels.gemm.device.dense import launch_dense
from flydsl_kernels.gemm.device.epilogue import Extras
from flydsl_kernels.gemm.rules import derive
from flydsl_rocdl.arch import lookup

M, N, K = 128, 256, 1024


@pytest.mark.parametrize(("arch", "name", "instruction", "load"), [
    ("gfx1250", "bfloat16", "v_wmma_f32_16x16x32_bf16", "buffer_load_b32"),
    ("gfx1250", "float16", "v_wmma_f32_16x16x32_f16", "buffer_load_b32"),
    ("gfx1250", "int8", "v_wmma_i32_16x16x64_iu8", "buffer_load_b64"),
    ("gfx1201", "bfloat16", "v_wmma_f32_16x16x16_bf16", "buffer_load_b32"),
    ("gfx1100", "int8", "v_wmma_i32_16x16x16_iu8", "buffer_load_b64"),
])  # fmt: skip
def test_weights_are_unpacked_between_products(arch, name, instruction, load):
    """Nothing spills, loads stay on their way, and a weight costs what the plan counts."""
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    tile_k = 128 // kind.itemsize
    problem = GemmProblem(M, N, K, name, "int4", "float32")
    plan = derive(problem, lookup(arch), GemmConfig(64, 128, tile_k, 1, 4))
    a, b = np.zeros((1, M, K), kind), np.zeros((1, N, K // 2), np.uint8)
    c = np.zeros((1, M, N), np.float32)
    with scope(FLYDSL_TARGET=arch, COMPILE_ONLY="1"):
        compiled = flyc.compile(launch_dense, a, b, c, Extras(c, c, c, c, c), plan, None)
    (kernel,) = compiled.kernels
    assert (kernel.vgpr_spills, kernel.scratch) == (0, 0)
    loops = re.findall(r"(\.LBB\d+_\d+):(.*?)s_cbranch_\w+ \1", compiled.isa, re.DOTALL)
    (loop,) = (text for _, text in loops if "wmma" in text)
    found = Counter(re.findall(r"^\s+(\w+)", loop, re.MULTILINE))
    k = plan.core.k
    assert found[instruction] == (64 // 16) * (128 // 4 // 16) * (tile_k // k)
    # A lane has whole columns on gfx11, else half of their k; a load is of 8 or 16 of them.
    eights = 128 // 4 * tile_k // (32 if plan.core.groups > 1 else 16) // 8
    loads = eights // (2 if load.endswith("64") else 1)
    assert found[load] == loads
    assert not any(op.startswith(("v_cvt", "v_mul_lo")) for op in found)
    assert problem.unpacking is not None
    vector = [op for op in found.elements() if op.startswith("v_") and "wmma" not in op]
    # Two operations are one instruction where they can; addresses take some, too.
    operations = len(vector) + sum(op.startswith("v_dual") for op in vector)
    assert operations <= eights * problem.unpacking.operations * 1.1 + 48
    waits = [int(count, 16) for count in re.findall(r"s_wait_loadcnt 0x(\w+)", loop)]
    waits += [int(count) for count in re.findall(r"vmcnt\((\d+)\)", loop)]
    assert waits
    assert max(waits) >= loads // 2
