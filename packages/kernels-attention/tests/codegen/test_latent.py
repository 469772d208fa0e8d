"""The code of latent decoding: nothing is spilled, and tokens are loaded in 128 bits."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl import config
from flydsl_kernels.attention.decoding import LatentProblem
from flydsl_kernels.attention.device.decode_work import Work
from flydsl_kernels.attention.device.latent import LatentArguments, launch_latent

BF16 = np.dtype(ml_dtypes.bfloat16)
FN, FNUZ = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e4m3fnuz)


def compiled(arch, heads, cache):
    """Compile for one query of a sequence."""
    lengths, items = np.array([64], np.int32), np.zeros((8, 2), np.int32)
    work = Work(lengths, np.zeros(2, np.int32), items, np.zeros(1, np.int32), 64)
    arguments = LatentArguments(
        np.zeros((1, 1, heads, 576), BF16), np.zeros((2, 64, 576), cache),
        np.zeros((1, 2), np.int32), np.ones(1, np.float32),
        np.zeros((8, 1, heads, 512), np.float32), np.zeros((2, 8, 1, heads), np.float32), 1.0,
    )  # fmt: skip
    problem = LatentProblem("bfloat16", cache.name, heads, 1, 64)
    with config.scope(FLYDSL_TARGET=arch, COMPILE_ONLY="1"):
        return flyc.compile(launch_latent, arguments, work, problem, None)


def loop_of(isa):
    """Return the instructions of the loop over steps: the blocks from its head to its end."""
    lines = isa.splitlines()
    (head,) = {re.search(r"(BB\d+_\d+)", x).group(1) for x in lines if "Inner Loop Header" in x}
    inside = [n for n, x in enumerate(lines) if f"Header={head}" in x or x.startswith(f".L{head}:")]
    end = next(
        n for n in range(max(inside) + 1, len(lines)) if re.match(r"\.L\w+:", lines[n])
    )  # the loop's last block ends where the next one begins
    return lines[min(inside) : end]


@pytest.mark.parametrize("cache", [BF16, FN, FNUZ], ids=str)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_128_rows_in_one_workgroup_without_spills(arch, cache):
    built = compiled(arch, 128, cache)
    (kernel,) = built.kernels
    assert (kernel.scratch, kernel.vgpr_spills, kernel.sgpr_spills) == (0, 0, 0)
    assert kernel.required_block == (512, 1, 1)  # eight waves of 16 rows
    loads = [x.split()[0] for x in loop_of(built.isa) if "global_load" in x]
    # Per thread of a step's 16 or 32 tokens: values in loads of 16 bytes, and rotated elements.
    tokens = {"gfx942": 16, "gfx950": 32}[arch]
    whole = tokens * 512 * cache.itemsize // (512 * 16)
    assert loads.count("global_load_dwordx4") == whole + (cache == BF16)
    assert loads.count("global_load_dwordx2") == (cache != BF16)
    assert len(loads) == whole + 1 + loads.count("global_load_dword")
    assert loads.count("global_load_dword") == 1  # the number of a page


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx1250"])
def test_waves_of_32_lanes_do_not_spill(arch):
    (kernel,) = compiled(arch, 128, BF16).kernels
    assert (kernel.scratch, kernel.vgpr_spills, kernel.wave_size) == (0, 0, 32)
