"""Flash attention with tiles that rows see in part, without spilled vector registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_kernels.attention.device.flash import launch_flash
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import prepared


@pytest.mark.parametrize("masks", [{"causal": True}, {"window": (100, 0)}], ids=str)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_no_vector_register_is_spilled(arch, masks):
    q = np.zeros((1, 512, 2, 128), ml_dtypes.bfloat16)
    problem, options = prepared((q, q, q), Sequences(), Keys(), Extras(**masks))
    arguments = options.made(o=q.copy(), lse=np.zeros((1, 1, 1), np.float32))
    with scope(FLYDSL_TARGET=arch):
        kernel = flyc.compile(launch_flash, arguments, problem, 512, None).kernels[0]
    assert kernel.vgpr_spills == 0
    if arch == "gfx942":
        assert kernel.sgpr_spills == 0
        # Two workgroups of four waves are on a compute unit at once.
        assert kernel.vgpr <= 256
