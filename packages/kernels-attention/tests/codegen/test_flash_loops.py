"""The main loops of flash attention on gfx950 wait once a step, at its barrier."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_kernels.attention.device.flash import launch_flash
from flydsl_kernels.attention.ops import forward
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import prepared


def compiled(d, d_v, **extras):
    """Compile a forward kernel."""
    q = np.zeros((1, 256, 1, d), ml_dtypes.bfloat16)
    v = np.zeros((1, 256, 1, d_v), ml_dtypes.bfloat16)
    problem, options = prepared((q, q, v), Sequences(), Keys(), Extras(**extras))
    arguments = options.made(o=v.copy(), lse=np.zeros((1, 1, 1), np.float32))
    with scope(FLYDSL_TARGET="gfx950"):
        return flyc.compile(launch_flash, arguments, problem, 256, None)


def steps(isa):
    """Return the instructions between barriers, of those stretches that a loop consists of."""
    lines = (line.split(";")[0].strip() for line in isa.splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("."))
    # What is before the first step's barrier and behind the last one's fills the pipeline.
    return re.split(r"^s_barrier$", text, flags=re.MULTILINE)[2:-1]


@pytest.mark.parametrize(
    ("d", "groups"),
    [((64, 64), 1), ((128, 128), 1), ((128, 128), 256), ((160, 160), 256), ((256, 256), 1)],
)
def test_one_wait_for_all_operands_of_a_step(d, groups, monkeypatch):
    """Otherwise LLVM waits before each use, or for loads into LDS that are still on their way.

    Nor are wait states needed behind matrix instructions, whatever branches and loops get: those
    are where references are raised. One group asked for means workgroups of four waves, else they
    have two.
    """
    monkeypatch.setattr(forward, "_GROUPS", groups)
    kernel = compiled(*d)
    assert kernel.kernels[0].vgpr_spills == 0
    found = steps(kernel.isa)
    assert len(found) >= 3
    columns = 1 if d == (256, 256) else 2
    for step in found:
        assert step.count("v_mfma") == columns * (d[0] // 16 + 2 * (d[1] // 32))
        # Before the first one references of rows may be raised, which is rare.
        first, last = step.index("v_mfma"), step.rindex("v_mfma")
        assert "s_nop" not in step[first:]
        assert "s_waitcnt" not in step[first:last]
        waits = re.findall(r"s_waitcnt.*", step[last:])
        assert waits == [step.splitlines()[-1]]
        assert waits[0].endswith("lgkmcnt(0)")
