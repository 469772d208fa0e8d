"""CPU time of the neutral passes for kernels of growing size, and per operation.

Three kinds of program: slices of tiles with loads and stores, one long sum of digits, and a
register tensor that is stored and loaded. The passes work through each operation once, so the time
per operation stays the same when the program grows.

With ``--json FILE``, one JSON object a line: ``{"name": ..., "value": ..., "unit": "us/op"}``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from figures import Figure, add_json, show

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly
from flydsl.dialects.fly_types import MemRefType
from flydsl.targets import NEUTRAL_PASSES

MATRIX = '!fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>'
SIZES = (250, 500, 1000, 2000)
REPEATS = 3


def slices(tensor: Any, i: Any, count: int) -> None:
    """Build tiles, elements and stores, each depending on the one before through its index."""
    for _ in range(count):
        tile = fly.slice(fly.zipped_divide(tensor, fl.make_tile(8, 4)), ((None, None), (i, 1)))
        fly.memref_store(fly.memref_load(tile, (i, 3)), tensor, (i, i))
        i = fly.get_scalar(fly.int_tuple_add(i, 3))


def sums(tensor: Any, i: Any, count: int) -> None:
    """Build one long sum of digits."""
    total = i
    for n in range(count):
        digit = fly.get_scalar(fly.int_tuple_mod(i, n % 7 + 2))
        total = fly.get_scalar(fly.int_tuple_add(total, digit))
    fly.memref_load(tensor, (total, 0))


def registers(tensor: Any, i: Any, count: int) -> None:
    """Build stores to and loads from a register tensor."""
    fragment = fly.memref_alloca(MemRefType("f32", "register", fl.Layout(8, 1), 4))
    for n in range(count):
        fly.memref_store(fly.memref_load(tensor, (i, n)), fragment, n % 8)
        fly.memref_store_vec(fly.memref_load_vec(fragment), fragment)
    fly.memref_store(fly.memref_load(fragment, 3), tensor, (i, i))


PROGRAMS = (slices, sums, registers)


def lower(build: Callable[[Any, Any, int], None], count: int) -> tuple[float, int]:
    """Return the CPU seconds of the passes and the operations that they start from."""
    context = mlir.thread_context()
    module = mlir.parse_module(
        f"gpu.module @k {{ gpu.func @f(%a: {MATRIX}, %i: i32) kernel {{ gpu.return }} }}", context
    )
    function = module.body.operations[0].regions[0].blocks[0].operations[0]
    block = function.regions[0].blocks[0]
    with context, mlir.ir.Location.unknown(), mlir.ir.InsertionPoint(block.operations[0]):
        matrix, index = block.arguments
        build(matrix, index, count)
    operations = len(list(block.operations))
    passes = importlib.import_module("flydsl.passes").PASSES
    runs = []
    for name in NEUTRAL_PASSES:
        where, run = passes[name].split(":")
        runs.append(getattr(importlib.import_module(where), run))
    started = time.process_time()
    for run in runs:
        run(module, None)
    return time.process_time() - started, operations


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json(parser)
    options = parser.parse_args(arguments)
    rows, text = [], []
    for build in PROGRAMS:
        lower(build, 10)
        for size in SIZES:
            best, operations = min(lower(build, size) for _ in range(REPEATS))
            each = best / operations * 1e6
            name = f"{build.__name__:10} {operations:6} operations"
            text.append(f"{name} {best * 1e3:8.1f} ms {each:6.1f} us/op")
            rows.append(Figure(f"{build.__name__}-{operations}", each, "us/op"))
    show(rows, options.json, "\n".join(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
