"""The launcher that `launch_overhead` times, and the timing; runs with this system and the peer's.

``python launch_kernels.py`` prints one JSON object: microseconds by path.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def axpy_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, alpha: fx.Float32):
    """Touch every tensor; the element count is only passed."""
    del n
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    copy = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    register = fx.make_rmem_tensor(1, fx.Float32)
    parts = [fx.logical_divide(tensor, fx.make_layout(1, 1)) for tensor in (a, b, c)]
    fx.copy_atom_call(copy, fx.slice(parts[0], (None, i)), register)
    fx.copy_atom_call(copy, fx.slice(parts[1], (None, i)), register)
    fx.memref_store_vec(fx.memref_load_vec(register) * alpha, register)
    fx.copy_atom_call(copy, register, fx.slice(parts[2], (None, i)))


@flyc.jit
def axpy(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, alpha: fx.Float32, stream: fx.Stream
):
    """Launch `axpy_kernel` over n elements."""
    grid = ((n + 255) // 256, 1, 1)
    axpy_kernel(a, b, c, n, alpha).launch(grid=grid, block=(256, 1, 1), stream=stream)


def microseconds(call: Callable[[], Any], count: int) -> float:
    """Return the median over seven repeats of the CPU time of one call."""
    call()
    figures = []
    for _ in range(7):
        started = time.thread_time()
        for _ in range(count):
            call()
        figures.append((time.thread_time() - started) / count * 1e6)
    return statistics.median(figures)


def in_threads(call: Callable[[], Any], count: int, threads: int) -> float:
    """Return the wall time of one call while some threads make calls; the best of five."""
    gate = threading.Barrier(threads + 1)

    def work() -> None:
        gate.wait()
        for _ in range(count):
            call()
        gate.wait()

    figures = []
    for _ in range(5):
        running = [threading.Thread(target=work) for _ in range(threads)]
        for thread in running:
            thread.start()
        gate.wait()
        started = time.perf_counter()
        gate.wait()
        figures.append((time.perf_counter() - started) / count * 1e6)
        for thread in running:
            thread.join()
    return min(figures)


def main() -> int:
    """Time the paths and print the figures."""
    n = 4096
    tensors = [torch.ones(n, dtype=torch.float32) for _ in range(3)]
    stream = fx.Stream(0)
    plain_count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    compiled = flyc.compile(axpy, *tensors, n, 2.0, stream)
    a, b, c = tensors

    def plain() -> None:
        axpy(a, b, c, n, 2.0, stream)

    def callable_() -> None:
        compiled(a, b, c, n, 2.0, stream)

    alone, together = (in_threads(callable_, 20_000, threads) for threads in (1, 2))
    figures = {
        "plain": microseconds(plain, plain_count),
        "compiled": microseconds(callable_, 20_000),
        "compiled_two_threads": together,
        # Launches of two threads in the time of those of one.
        "scaling": 2 * alone / together,
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
