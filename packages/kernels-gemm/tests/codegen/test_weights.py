"""The loops of products with preshuffled weights where waves have 32 lanes."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_kernels.gemm import GemmProblem, Operand, plan_gemm
from flydsl_kernels.gemm.device.dense import launch_dense
from flydsl_kernels.gemm.device.epilogue import Extras
from flydsl_kernels.gemm.rules import derive
from flydsl_rocdl.arch import KNOWN

TYPES = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": np.uint8, "int8": np.int8}
CASES = [
    (arch, name, m)
    for arch, names in (
        ("gfx1100", ("bfloat16", "int8")), ("gfx1201", ("bfloat16", "float8_e4m3fn")),
        ("gfx1250", ("bfloat16", "int8", "float8_e4m3fn")),
    )
    for name in names
    for m in (16, 4096)
]  # fmt: skip


def compiled(arch, name, m):
    """Return the plan, the kernel and the loop of the default configuration for 4096 x 4096."""
    n = k = 4096
    problem = GemmProblem(m, n, k, name, out_dtype="bfloat16", b=Operand(order="16x16"))
    plan = derive(problem, KNOWN[arch], plan_gemm(problem, arch, split_k=1).best.config)
    c = np.zeros((1, m, n), ml_dtypes.bfloat16)
    a, b = (np.zeros((1, rows, k), TYPES[name]) for rows in (m, n))
    with scope(FLYDSL_TARGET=arch, COMPILE_ONLY="1"):
        found = flyc.compile(launch_dense, a, b, c, Extras(c, c, c, c, c), plan, None)
        isa = found.isa
    (kernel,) = found.kernels
    loops = re.findall(r"(\.LBB\d+_\d+):(.*?)s_cbranch_\w+ \1", isa, re.DOTALL)
    return plan, kernel, max((text for _, text in loops), key=len)


@pytest.mark.parametrize(("arch", "name", "m"), CASES)
def test_weights_arrive_while_tiles_are_multiplied(arch, name, m):
    """Every load has 16 bytes, stays in flight for about a tile, and goes to its own registers."""
    plan, kernel, loop = compiled(arch, name, m)
    assert (kernel.spills, kernel.scratch, kernel.lds_static) == (0, 0, plan.lds_bytes)
    core, steps = plan.core, plan.a.row_bytes // plan.core.step_bytes
    products = steps * core.calls * plan.tiles_m * plan.tiles_n
    assert len(re.findall(r"\bv_wmma_", loop)) == products
    weights = steps * plan.tiles_n * core.reads
    staged = 0 if plan.a.tensor else plan.a.turns
    assert len(re.findall(r"\bbuffer_load_b128\b", loop)) == weights + staged
    assert len(re.findall(r"\b(?:buffer|global)_load", loop)) == weights + staged
    assert len(re.findall(r"\bds_load_b128\b", loop)) == steps * plan.tiles_m * core.reads
    assert "v_dual_mov" not in loop  # fragments of the next tile are not copied
    # Descriptors in vector registers would need loops; tiles of few pieces are some threads' only.
    assert loop.count("saveexec") == plan.a.partial
    waits = [int(x) for x in re.findall(r"s_waitcnt (?:\S+ )*?vmcnt\((\d+)\)", loop)]
    waits += [int(x, 0) for x in re.findall(r"s_wait_loadcnt (\w+)", loop)]
    waits += [int(x, 0) >> 8 for x in re.findall(r"s_wait_loadcnt_dscnt (\w+)", loop)]
    assert waits
    # The newest load that a product waits for is of the tile before this one.
    assert min(waits) >= weights * (steps - 1) // steps // 2
