"""CPU time of compiling a vector add, all processes together, with a breakdown.

Every compile in the list is a new specialisation of the same launcher (another block size), so
nothing is found in a cache; the first one in a process also pays for imports and for starting the
codegen worker. CPU seconds are those of this process (`time.process_time`) plus those of the worker
(reported with each of its answers); its start-up is read from the operating system.

With ``--json FILE``, one JSON object a line: ``{"name": ..., "value": ..., "unit": "ms"}``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import Figure, add_json, show

STARTED = time.process_time()

import flydsl.compiler as flyc  # noqa: E402 - the import is part of what is measured
import flydsl.expr as fx  # noqa: E402

IMPORTED = time.process_time()


@flyc.kernel
def add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    """One element a thread."""
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


@flyc.jit
def add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    """Launch `add_kernel` for n elements."""
    add_kernel(a, b, c, n, block).launch(grid=((n + block - 1) // block,), block=(block, 1, 1))


class Placeholder:
    """A host tensor without NumPy: an array interface over a bytearray."""

    def __init__(self, elements: int) -> None:
        import ctypes

        self.data = (ctypes.c_float * elements)()
        self.__array_interface__ = {
            "shape": (elements,),
            "typestr": "<f4",
            "data": (ctypes.addressof(self.data), False),
            "version": 3,
        }


def worker_cpu() -> float:
    """Return the CPU milliseconds that the codegen worker has used so far; 0 if unknown."""
    from flydsl.codegen import shared_worker

    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in shared_worker().pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        total += int(fields[11]) + int(fields[12])
    return total / ticks * 1e3


def compile_once(block: int, tensors: Sequence[Any]) -> tuple[float, Any]:
    """Return the CPU milliseconds of this process for one compile, and the compiled function."""
    started = time.process_time()
    compiled = flyc.compile(add, *tensors, 1000, block)
    return (time.process_time() - started) * 1e3, compiled


def breakdown(events: Sequence[Any]) -> list[Figure]:
    """Return the events of a compile as figures, the worker's included."""
    return [
        Figure(f"second/{event.kind}/{event.name}", event.cpu_seconds * 1e3, "ms")
        for event in events
        if event.kind not in ("cache-miss", "done")
    ]


def worker_share(events: Sequence[Any]) -> float:
    """Return the CPU milliseconds that the worker spent on a compile."""
    return sum(e.cpu_seconds for e in events if e.kind in ("optimise", "codegen")) * 1e3


def measure(repeats: int) -> list[Figure]:
    """Compile `repeats` + 1 specialisations."""
    tensors = [Placeholder(1000) for _ in range(3)]
    cpu, compiled = compile_once(64, tensors)
    figures = [
        Figure("import", (IMPORTED - STARTED) * 1e3, "ms"),
        Figure("first/this-process", cpu, "ms"),
        Figure("first/worker", worker_cpu() or worker_share(compiled.events), "ms"),
    ]
    best: tuple[float, float, float, Any] | None = None
    totals = []
    for index in range(repeats):
        cpu, compiled = compile_once(128 + 64 * (index % 14), tensors)
        share = worker_share(compiled.events)
        totals.append(cpu + share)
        if index == 0:
            figures.append(Figure("second/both-processes", cpu + share, "ms"))
            figures.append(Figure("second/this-process", cpu, "ms"))
            figures.append(Figure("second/worker", share, "ms"))
            figures += breakdown(compiled.events)
        if best is None or cpu + share < best[0]:
            best = (cpu + share, cpu, share, compiled)
    assert best is not None
    figures.append(Figure("best/both-processes", best[0], "ms"))
    figures.append(Figure("best/this-process", best[1], "ms"))
    figures.append(Figure("best/worker", best[2], "ms"))
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=12, help="compiles after the first, up to 14"
    )
    add_json(parser)
    options = parser.parse_args(arguments)
    figures = measure(max(1, min(14, options.repeats)))
    show(figures, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
