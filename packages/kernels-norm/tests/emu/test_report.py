"""What the kernels move and execute for rows of 8192 bf16, by the emulator's report.

The issue's matrix has 4096 rows; workgroups take a row each and do the same for every one, so some
rows tell what all do: bytes per row, and the code.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl_emu
from flydsl import config
from flydsl_kernels.norm import (
    QuantFormat,
    fused_add_layernorm_quantised,
    fused_add_rmsnorm,
    layernorm,
    rmsnorm,
    rmsnorm_quantised,
    softmax,
)

ROWS, COLUMNS, LINE = 16, 8192, 128
ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1201")
# Registers, and instructions per element of a thread, of the reference's kernels on gfx942.
REFERENCE = {
    "rmsnorm": (60, 363 / 32),
    "layernorm": (76, 455 / 32),
    "softmax": (42, 584 / 32),
}


def aligned(*shape, dtype=ml_dtypes.bfloat16):
    """Return an array that begins at a line, of random numbers where that makes sense."""
    dtype = np.dtype(dtype)
    raw = np.empty(int(np.prod(shape)) * dtype.itemsize + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    out = raw[start : start + raw.size - LINE].view(dtype).reshape(shape)
    out[...] = np.random.default_rng().standard_normal(shape)
    return out


X, OTHER, Y, KEPT = (aligned(ROWS, COLUMNS) for _ in range(4))
W, B = aligned(COLUMNS), aligned(COLUMNS)
Q, S, G = (
    aligned(ROWS, COLUMNS, dtype=np.int8),
    aligned(ROWS, dtype="f"),
    aligned(ROWS, 64, dtype="f"),
)
CALLS = {
    "rmsnorm": (lambda: rmsnorm(X, W, out=Y), (X, W, Y)),
    "layernorm": (lambda: layernorm(X, W, B, out=Y), (X, W, B, Y)),
    "softmax": (lambda: softmax(X, out=Y), (X, Y)),
    "fused_add_rmsnorm": (
        lambda: fused_add_rmsnorm(X, OTHER, W, out=Y, residual_out=KEPT),
        (X, OTHER, W, Y, KEPT),
    ),
    "rmsnorm_quantised": (lambda: rmsnorm_quantised(X, W, out=(Q, S)), (X, W, Q, S)),
    "fused_add_layernorm_quantised": (
        lambda: fused_add_layernorm_quantised(
            X, OTHER, W, B, dtype=QuantFormat("int8", 128), out=(Q, G)
        ),
        (X, OTHER, W, B, Q, G, KEPT),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("arch", ARCHES)
def test_every_byte_once_in_wide_accesses(name, arch):
    call, arrays = CALLS[name]
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.collect() as reports:
        call()
    (report,) = reports
    least = sum(array.nbytes for array in arrays)
    # The sum of a quantising operation is not ours to align: it may touch one more line.
    assert least <= report.distinct_bytes <= 1.01 * least + LINE
    # Results of 8 bits leave in stores of as many bytes as elements were loaded; scales are single.
    small, wide = ("quantised" in name), {"dwordx4", "b128"}
    for access in report.accesses:
        if access.space != "global" or not access.executions:
            continue
        operation, _, width = access.text.split()[0].rpartition("_")
        if small and "store" in operation:
            assert width in wide | {"dwordx2", "b64", "dword", "b32"}
        else:
            assert width in wide, access.text
    assert all(traffic.conflict_ratio == 1.0 for traffic in report.traffic)
    assert report.resources.scratch_bytes == 0


@pytest.mark.parametrize("name", REFERENCE)
def test_registers_and_instructions_are_no_more_than_the_reference_takes(name):
    with config.scope(FLYDSL_TARGET="gfx942"), flydsl_emu.collect() as reports:
        CALLS[name][0]()
    (report,) = reports
    registers, instructions = REFERENCE[name]
    assert report.resources.vgprs <= registers
    assert report.resources.waves_per_simd >= (6 if name == "layernorm" else 8)
    # A wave executes every instruction once for the elements of its 64 lanes.
    assert report.total_instructions * 64 / (ROWS * COLUMNS) <= instructions


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("columns", [40960, 57344])
def test_the_longest_rows_in_registers_spill_nothing(columns, arch):
    x, w = np.ones((17, columns), ml_dtypes.bfloat16), np.ones(columns, np.float32)
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.collect() as reports:
        layernorm(x, w, w)
        softmax(x)
        fused_add_layernorm_quantised(x, x, w, w, dtype=QuantFormat("int8", 128), smooth=w)
    assert [report.resources.scratch_bytes for report in reports] == [0, 0, 0]
