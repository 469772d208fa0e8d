"""CPU time of tracing: from a decorated function to a module of Fly IR, by what the kernel does.

Each program is a kernel of about `OPERATIONS` operations. Source is rewritten and IR types are made
on the first trace; the best of several later ones is reported, for all operations and for one.

With ``--json FILE``, one JSON object: program -> operations, milliseconds, microseconds each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from figures import Figure, add_json, show

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import frontend
from flydsl.plugins.payloads import ArgSpec

OPERATIONS = 5000
REPEATS = 7
MATRIX = '!fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>'


@flyc.kernel
def arithmetic(x: fx.Tensor, n: fx.Int32, count: fx.Constexpr[int]):
    """Integer and float operators on scalars: two operations a step and one conversion."""
    i = fx.thread_idx.x
    total = x[i, 0]
    for _ in fx.range_constexpr(count // 3):
        i = i + n
        total = total * i.to(fx.Float32)
    x[fx.thread_idx.x, 0] = total


@flyc.kernel
def memory(x: fx.Tensor, n: fx.Int32, count: fx.Constexpr[int]):
    """Loads and stores of elements by two indices."""
    i = fx.thread_idx.x
    for k in fx.range_constexpr(count // 5):
        x[i, k] = x[n, k] + 1.0


@flyc.kernel
def control_flow(x: fx.Tensor, n: fx.Int32, count: fx.Constexpr[int]):
    """Branches and loops on run-time values that carry two variables."""
    total = fx.Int32(0)
    last = n
    for k in fx.range_constexpr(count // 20):
        for step in range(n):
            if total > step:
                total = total - step
            else:
                last = total + k
                total = total + last
    x[total, last] = 1.0


PROGRAMS: tuple[Any, ...] = (arithmetic, memory, control_flow)


def launcher(kernel: Any) -> Any:
    """Return a launcher of `kernel`."""

    @flyc.jit
    def launch(x: fx.Tensor, n: fx.Int32, count: fx.Constexpr[int]):
        kernel(x, n, count).launch(grid=1, block=64)

    return launch


def operations(module: Any) -> int:
    """Return the number of operations in a module."""
    found: list[Any] = []

    def note(op: Any) -> Any:
        found.append(op)
        return advance

    from flydsl import mlir

    advance = mlir.ir.WalkResult.ADVANCE
    module.operation.walk(note)
    return len(found)


def measure(trace: Callable[[], Any]) -> tuple[int, float]:
    """Return the operations of a traced module and the least CPU seconds of a trace."""
    count = operations(trace().module)
    return count, min(trace().cpu_seconds for _ in range(REPEATS))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json(parser)
    options = parser.parse_args(arguments)
    figures, text = [], []
    for kernel in PROGRAMS:
        specs = {
            "x": ArgSpec("x", MATRIX),
            "n": ArgSpec("n", "i32"),
            "count": ArgSpec("count", "", static=OPERATIONS),
        }
        launch = launcher(kernel)
        count, seconds = measure(lambda launch=launch, specs=specs: frontend.trace(launch, specs))
        figures.append(Figure(f"{kernel.name}, 5,000 operations", seconds * 5e6 / count, "ms"))
        text.append(
            f"{kernel.name:13} {count:6} operations {seconds * 1e3:8.1f} ms"
            f" {seconds * 1e6 / count:6.2f} us each {seconds * 5e6 / count:6.1f} ms per 5,000"
        )
    show(figures, options.json, "\n".join(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
