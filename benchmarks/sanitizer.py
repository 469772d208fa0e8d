"""Speed of the static checks, and what the run-time checks of the sanitizer add to a launch.

Static: instructions checked a second (CPU time, decoding not counted) of one long kernel. Run time:
CPU seconds of a launch on the numpy tier, without checks and with each of them.

With ``--json FILE``, one JSON object a line: ``{"name": ..., "value": ..., "unit": ...}``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from figures import Figure, add_json, show

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl_emu.observers import watching
from flydsl_emu.sanitizer import CHECKS, check_program

THREADS = 256
REPEATS = 3


@flyc.kernel
def long_kernel(X: fx.Tensor, Y: fx.Tensor, steps: fx.Constexpr[int]):
    """Straight-line code: loads, LDS traffic, arithmetic and stores."""
    thread = fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, THREADS])
    for step in fx.range_constexpr(steps):
        value = X[step, thread]
        tile[thread] = value
        fx.gpu.barrier()
        other = tile[THREADS - 1 - thread]
        fx.gpu.barrier()
        Y[step, thread] = value * other + fx.math.sqrt(value)


@flyc.jit
def launch_long(X: fx.Tensor, Y: fx.Tensor, groups: fx.Int32, steps: fx.Constexpr[int]):
    """Launch `groups` workgroups that all do the same."""
    long_kernel(X, Y, steps).launch(grid=(groups,), block=(THREADS,))


def cpu_seconds(action: Any) -> float:
    """Return the best CPU time of several runs."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        action()
        best = min(best, time.process_time() - started)
    return best


def static_speed(target: str) -> tuple[int, float]:
    """Return the instructions of the long kernel, and how many are checked a second."""
    kernels: list[Any] = []

    def watcher(kernel: Any, _geometry: Any, _allocations: Any) -> None:
        kernels.append(kernel)

    x = np.ones((500, THREADS), np.float32)
    with scope(FLYDSL_TARGET=target), watching(watcher):
        launch_long(x, np.zeros_like(x), 1, 500)
    program = kernels[0].program
    count = len(program.instructions)
    return count, count / cpu_seconds(lambda: check_program(program))


def launch_seconds(target: str, checks: str) -> float:
    """Return the CPU seconds of one launch with some checks, or none."""
    x = np.ones((20, THREADS), np.float32)
    y = np.zeros_like(x)
    watched: AbstractContextManager[Any] = nullcontext()
    if checks:
        watched = flydsl_emu.sanitize(checks, action="collect")
    with scope(FLYDSL_TARGET=target, FLYDSL_EMU_TIER="numpy"), watched:
        launch_long(x, y, 512, 20)
        return cpu_seconds(lambda: launch_long(x, y, 512, 20))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the sanitizer.")
    parser.add_argument("--target", default="gfx942")
    add_json(parser)
    options = parser.parse_args(arguments)
    count, speed = static_speed(options.target)
    figures = [Figure("static checks", speed, "instructions/s")]
    text = [f"static checks: {speed:,.0f} instructions/s ({count} in the kernel)"]
    plain = launch_seconds(options.target, "")
    figures.append(Figure("launch, unchecked", plain, "s"))
    text.append(f"launch on the numpy tier: {plain:.3f} s")
    for checks in (*CHECKS, "all"):
        seconds = launch_seconds(options.target, checks)
        figures.append(Figure(f"launch with {checks}", seconds, "s"))
        text.append(f"  with {checks:8} {seconds:.3f} s ({100 * (seconds / plain - 1):+.0f} %)")
    show(figures, options.json, "\n".join(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
