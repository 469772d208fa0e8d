"""Transpose tiles of a matrix through LDS, with the swizzle that pictures of the tile suggest.

A tile of 64 x 64 float32 is written to LDS by rows and read by columns. The layouts of LDS that are
tried are plain Python objects: the bank conflicts of an access can be counted, and drawn with
``layout.draw``, before anything is compiled. Then both kernels run, and the emulator counts the
conflicts of the reads that the compiler made.

Run it with ``python examples/05_swizzle.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import layout as fl
from flydsl.layout.drawing import DrawOptions, bank_conflicts
from flydsl.targets import create_target

TILE = 64
ROWS = fl.make_layout((TILE, TILE), (TILE, 1))


def layouts(banks: int) -> dict[str, object]:
    """Return the layouts of LDS to try; the swizzle spreads a column over all banks."""
    swizzle = fl.Swizzle(banks.bit_length() - 1, 0, 6)
    return {"rows": ROWS, "swizzled": fl.make_composed_layout(swizzle, ROWS)}


@flyc.kernel
def transpose(X: fx.Tensor, Y: fx.Tensor, layout: fx.Constexpr[object]):
    """One workgroup of 64 threads transposes one tile; thread j owns column j, then row j."""
    memory = fx.SharedAllocator().allocate(fx.Array[fx.Float32, TILE * TILE], 16).peek()
    tile = fx.make_view(memory.ptr, layout)
    thread, row0, column0 = fx.thread_idx.x, fx.block_idx.x * TILE, fx.block_idx.y * TILE
    for row in range(TILE):
        tile[row, thread] = X[row0 + row, column0 + thread]
    fx.gpu.barrier()
    for column in range(TILE):
        Y[column0 + column, row0 + thread] = tile[thread, column]


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, tiles: fx.Int32, layout: fx.Constexpr[object]):
    """Launch one workgroup per tile of a square matrix."""
    transpose(X, Y, layout).launch(grid=(tiles, tiles), block=(TILE,))


def predicted(layout: object, banks: int, bits: int) -> float:
    """Return clocks over conflict-free clocks when each lane reads `bits` bits of its row."""
    options = DrawOptions(banks=banks, element_bits=32, access_bits=bits)
    report = bank_conflicts(layout, options)
    return report.clocks / len(report.ways)


def run(target: str, tiles: int = 2) -> list[Measured]:
    """Transpose a matrix of tiles x tiles tiles with each layout of LDS."""
    x = np.random.default_rng(5).standard_normal((tiles * TILE, tiles * TILE), dtype=np.float32)
    figures = []
    banks = create_target(target).shared_banks
    for name, layout in layouts(banks).items():
        y = np.full_like(x, np.nan)
        (figure,) = measure(target, launch, (x, y, tiles, layout))
        (reads,) = [t for t in figure.report.traffic if t.space == "lds" and t.direction == "read"]
        # The compiler merges reads of neighbours where it can, so both widths are of interest.
        narrow, merged = (predicted(layout, banks, bits) for bits in (32, 128))
        print(f"{name}: {layout}")
        print(f"  predicted: x{narrow:.2f} for reads of 32 bits, x{merged:.2f} of 128 bits")
        print(f"  emulated:  x{reads.conflict_ratio:.2f}")
        # Nothing is computed: the result is exact.
        figures.append(figure.checked(float(np.abs(y - x.T).max()), 0.0))
    return figures


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
