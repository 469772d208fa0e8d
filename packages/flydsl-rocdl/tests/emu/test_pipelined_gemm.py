"""A GEMM whose tiles run ahead through LDS in 2, 3 or 4 stages, with the sanitizer on.

Both operands are loaded into LDS without registers, by `fx.rocdl.pipeline`; the source is swizzled,
because loads into LDS write neighbouring places. Four waves compute 64 x 64 of C.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope

TILE, DEPTH, THREADS = 64, 32, 256
STAGE = TILE * DEPTH
"""Elements of one operand in one stage."""


@flyc.kernel
def _gemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, k: fx.Constexpr[int], stages: fx.Constexpr[int],
          bits: fx.Constexpr[int]) -> None:  # fmt: skip
    """C (M, N) += A (M, K) B (N, K)ᵀ; `bits` per lane of a load into LDS."""
    thread = fx.thread_idx.x
    steps = fx.const_expr(k // DEPTH)
    each = fx.const_expr(bits // 16)
    parts = fx.const_expr(STAGE // (THREADS * each))
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 2 * stages * STAGE], alignment=1024)
    into = fx.make_view(
        space.ptr,
        fx.make_layout((each, THREADS, parts, 2, stages),
                       (1, each, each * THREADS, stages * STAGE, STAGE)),
    )  # fmt: skip
    pieces = fx.make_view(
        space.ptr,
        fx.make_layout((4, 2, 4, TILE, 2, stages), (1, 4, 8, DEPTH, stages * STAGE, STAGE)),
    )
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS(bits), fx.Float16)
    buffers = [fx.rocdl.make_buffer_tensor(x) for x in (A, B)]
    origins = (fx.block_idx.x * TILE, fx.block_idx.y * TILE)

    def load(step: Any, stage: Any) -> None:
        for part in fx.range_constexpr(parts):
            at = (part * THREADS + thread) * each
            row, column = at // DEPTH, at % DEPTH
            swizzled = column // 8 ^ row % 4
            for side in fx.range_constexpr(2):
                source = fx.add_offset(
                    buffers[side].iter,
                    (origins[side] + row) * k + step * DEPTH + swizzled * 8 + column % 8,
                )
                fx.copy_atom_call(
                    atom, fx.make_view(source, fx.make_layout(each, 1)),
                    into[None, thread, part, side, stage],
                )  # fmt: skip

    pipe = fx.rocdl.pipeline(stages - 2)
    for stage in fx.range_constexpr(stages - 1):
        if fx.const_expr(stage < steps):
            load(stage, stage)
        pipe.commit()
    lane, wave = thread % 64, thread // 64
    first = (wave % 2 * 32, wave // 2 * 32)
    wide = fx.make_copy_atom(fx.UniversalCopy(64), fx.Float16)
    total = fx.make_rmem_tensor((4, 2, 2), fx.Float32)
    total.fill(0.0)
    held = [fx.make_rmem_tensor(4, fx.Float16) for _ in range(4)]
    for step in range(steps):
        pipe.wait()
        load(fx.min(step + stages - 1, steps - 1), (step + stages - 1) % stages)
        pipe.commit()
        for half in fx.range_constexpr(2):
            for side in fx.range_constexpr(2):
                for tile in fx.range_constexpr(2):
                    row = first[side] + tile * 16 + lane % 16
                    inside = half * 16 + lane // 16 * 4
                    piece = pieces[None, inside // 4 % 2, inside // 8 ^ row % 4, row, side,
                                   step % stages]  # fmt: skip
                    fx.copy_atom_call(wide, piece, held[2 * side + tile])
            for m in fx.range_constexpr(2):
                for n in fx.range_constexpr(2):
                    operands = [held[m].load(), held[2 + n].load(), total[None, m, n].load()]
                    total[None, m, n].store(fx.rocdl.mfma_f32_16x16x16f16(None, operands))
        fx.rocdl.lds_barrier()
    pipe.wait(0)
    for m in fx.range_constexpr(2):
        for n in fx.range_constexpr(2):
            for i in fx.range_constexpr(4):
                row = origins[0] + first[0] + 16 * m + lane // 16 * 4 + i
                C[row, origins[1] + first[1] + 16 * n + lane % 16] = total[i, m, n]


@flyc.jit
def _launch(
    A: fx.Tensor,
    B: fx.Tensor,
    C: fx.Tensor,
    k: fx.Constexpr[int],
    stages: fx.Constexpr[int],
    bits: fx.Constexpr[int],
    grid: fx.Constexpr,
) -> None:
    _gemm(A, B, C, k, stages, bits).launch(grid=grid, block=(THREADS, 1, 1))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(("arch", "bits"), [("gfx942", 32), ("gfx950", 32), ("gfx950", 128)])
def test_stages(arch: str, bits: int, stages: int) -> None:
    generator = np.random.default_rng(stages)
    m, n, k = 128, 64, 160
    a, b = (generator.integers(-8, 9, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    with scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        _launch(a, b, c, k, stages, bits, (m // TILE, n // TILE))
    # Products of integers up to 8 over k = 160 are exact in f32.
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)
    with scope(FLYDSL_TARGET=arch):
        text = flyc.compile(_launch, a, b, c, k, stages, bits, (m // TILE, n // TILE)).isa
    # In the loop, all but the oldest of the stages in flight may stay.
    loads = 2 * STAGE // (THREADS * bits // 16)
    waits = [int(x) for x in re.findall(r"vmcnt\((\d+)\)", text)]
    assert loads * (stages - 2) in waits


def test_a_wait_too_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kernel that lets one stage too many stay on its way."""
    a, b = (np.ones((64, 160), np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    plain = fx.rocdl.pipeline
    monkeypatch.setattr(fx.rocdl, "pipeline", lambda ahead: plain(ahead + 1))
    with scope(FLYDSL_TARGET="gfx950"), flydsl_emu.sanitize(action="collect") as report:
        _launch_short(a, b, c)
    assert any(f.code == "FLY-U733" for f in report.findings)


@flyc.jit
def _launch_short(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor) -> None:
    _gemm(A, B, C, 160, 3, 128).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))
