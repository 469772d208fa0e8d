"""CPU time of 10,000 mixed operations of the layout algebra on static layouts.

The operations are those of `OPERATIONS`, in turn, on layouts whose extents change from round to
round, so that nothing could be answered from a cache. Making the layouts counts. With ``--peer
PYTHON`` (default: ``FLYDSL_PEER_PYTHON``) the same expressions are timed in that interpreter with
the package of the same name that it holds, in the same run; there, they are traced into MLIR,
which is the only way that package evaluates them. User plus system time; the best of several runs.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from figures import Figure, add_json, show

COUNT = 10_000

Operation = Callable[[Any, int], object]

OPERATIONS: tuple[Operation, ...] = (
    lambda f, n: f.coalesce(f.make_layout((2, (n, 4)), (1, (2, 2 * n)))),
    lambda f, n: f.composition(
        f.make_layout((8, 4 * n), (4 * n, 1)), f.make_layout((2, 4), (1, 2))
    ),
    lambda f, n: f.complement(f.make_layout((2, n), (1, 4)), 64 * n),
    lambda f, n: f.right_inverse(f.make_layout((4, n, 2), (n, 1, 4 * n))),
    lambda f, n: f.left_inverse(f.make_layout((4, n), (n, 1))),
    lambda f, n: f.logical_divide(f.make_layout((16, 8 * n), (8 * n, 1)), f.make_tile(4, 8)),
    lambda f, n: f.zipped_divide(f.make_layout((16, 8 * n), (8 * n, 1)), f.make_tile(4, 8)),
    lambda f, n: f.flat_divide(f.make_layout((16, 8 * n), (1, 16)), f.make_tile(4, 8)),
    lambda f, n: f.logical_product(f.make_layout((4, n), (n, 1)), f.make_layout((2, 2), (1, 2))),
    lambda f, n: f.blocked_product(f.make_layout((4, n), (n, 1)), f.make_layout((2, 2), (1, 2))),
    lambda f, n: f.raked_product(f.make_layout((4, n), (n, 1)), f.make_layout((2, 2), (2, 1))),
    lambda f, n: f.tile_to_shape(f.make_layout((4, 8), (8, 1)), (16, 8 * n), (0, 1)),
    lambda f, n: f.make_ordered_layout((4, (n, 2)), (1, 0)),
    lambda f, n: f.crd2idx((1, 2), f.make_layout((4, n), (n, 1))),
    lambda f, n: f.idx2crd(n, f.make_layout((4, 2 * n), (2 * n, 1))),
    lambda f, n: f.slice(f.make_layout((4, (n, 2)), (1, (4, 4 * n))), (None, (1, None))),
    lambda f, n: f.select(f.make_layout((4, n, 2), (1, 4, 4 * n)), [2, 0]),
    lambda f, n: f.recast_layout(f.make_layout((n, 8), (8, 1)), 16, 32),
    lambda f, n: f.cosize(f.make_layout((4, n), (1, 5))),
    lambda f, n: f.make_fragment_layout_like(f.make_layout((4, n, 2), (n, 1, 64))),
)


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Enter what the other package needs around its functions."""
    ir = importlib.import_module("flydsl._mlir.ir")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            yield


def run_operations(functions: Any) -> float:
    """Return the CPU seconds of `COUNT` operations."""
    gc.collect()
    gc.disable()
    started = time.process_time()
    for i in range(COUNT // len(OPERATIONS)):
        n = 2 + i % 61
        for operation in OPERATIONS:
            operation(functions, n)
    seconds = time.process_time() - started
    gc.enable()
    return seconds


def measure(runs: int, *, traced: bool) -> float:
    """Return the best of `runs`, in this interpreter."""
    functions = importlib.import_module("flydsl.expr" if traced else "flydsl.layout")
    best = float("inf")
    for _ in range(runs):
        with _tracing() if traced else contextlib.nullcontext():
            best = min(best, run_operations(SimpleNamespace(**vars(functions))))
    return best


def measure_peer(python: str, runs: int) -> float:
    """Return the best of `runs` in another interpreter."""
    command = [python, str(Path(__file__).resolve()), "--traced", "--runs", str(runs)]
    child = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}
    )
    return float(child.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the best counts")
    add_json(parser)
    parser.add_argument("--peer", default=os.environ.get("FLYDSL_PEER_PYTHON"), metavar="PYTHON")
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.traced:
        print(measure(options.runs, traced=True))
        return 0
    seconds = measure(options.runs, traced=False)
    peer = measure_peer(options.peer, options.runs) if options.peer else None
    show([Figure(f"{COUNT} operations", seconds, "s", peer)], options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
