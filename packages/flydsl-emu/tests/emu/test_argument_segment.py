"""The memory of kernel arguments is whole units of 16 bytes, as LLVM takes it to be."""

from __future__ import annotations

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config


@fx.struct
class Numbers(fx.Struct):
    """Words after a tensor, of which the last three are loaded at once: as four."""

    x: fx.Tensor
    a: fx.Int32
    b: fx.Int32
    c: fx.Int32
    d: fx.Int32
    e: fx.Int32
    f: fx.Int32
    g: fx.Int32
    h: fx.Int32


@flyc.kernel
def sum_kernel(n: Numbers):
    n.x[fx.thread_idx.x] = n.f + n.g + n.h


@flyc.jit
def sum_numbers(n: Numbers):
    sum_kernel(n).launch(grid=1, block=4)


def test_a_widened_load_of_the_last_arguments():
    out = np.zeros(4, np.int32)
    with config.scope(FLYDSL_TARGET="gfx942"):
        compiled = flyc.compile(sum_numbers, Numbers(out, 1, 2, 3, 4, 5, 6, 7, 8))
        end = compiled.kernels[0].kernarg_size
        assert f"s_load_dwordx4 s[4:7], s[0:1], {end - 12:#x}" in compiled.isa
        compiled(Numbers(out, 1, 2, 3, 4, 5, 6, 7, 8))
    assert (out == 21).all()
