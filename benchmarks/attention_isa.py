"""The hot loops of flash attention, from the assembly: no GPU, no timing.

Forward, causal, bfloat16, heads of 128 elements: per iteration of the loop over keys that all rows
see what is executed, and the share of the matrix unit that `llvm-mca` finds for one wave (see
`isa_loops`). Beside them the same figures of another project's kernels for these shapes, quoted;
its loop passes over 128 keys, ours over 64 or 128, so instructions are given per matrix
instruction. All have 32 rows of queries a wave, but ours on gfx950 64. Waits are the ``s_waitcnt``
instructions of an iteration, on both sides.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from figures import Figure, add_json, show
from isa_loops import hot_loop

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_kernels.attention.device.flash import launch_flash
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import prepared

ROWS, HEADS, WIDTH = 4096, 16, 128


@dataclass(frozen=True, slots=True)
class Peer:
    """The fast path of another project's loop: instructions, and mca's share."""

    matrix: int
    vector: int
    lds_reads: int
    waits: int
    barriers: int
    share: float
    vgprs: int


PEERS = {
    "gfx942": Peer(128, 476, 126, 124, 4, 0.52, 250),
    "gfx950": Peer(64, 250, 96, 4, 8, 0.76, 246),
}


def measure(target: str) -> list[Figure]:
    """Compile for an architecture and return the figures of its loop."""
    q = np.zeros((1, ROWS, HEADS, WIDTH), ml_dtypes.bfloat16)
    problem, options = prepared((q, q, q), Sequences(), Keys(), Extras(causal=True))
    arguments = options.made(o=q.copy(), lse=np.zeros((1, 1, 1), np.float32))
    with scope(FLYDSL_TARGET=target):
        compiled = flyc.compile(launch_flash, arguments, problem, ROWS, None)
    loop, _ = hot_loop(compiled.isa, target, dense=True)
    kernel, peer = compiled.kernels[0], PEERS[target]
    found = [
        ("matrix share (mca)", loop.share, "of the cycles", peer.share),
        ("vector", loop.vector / loop.matrix, "per matrix instruction", peer.vector / peer.matrix),
        ("LDS reads", loop.lds_reads / loop.matrix, "per matrix instruction",
         peer.lds_reads / peer.matrix),
        ("waits", loop.waits / loop.matrix, "per matrix instruction", peer.waits / peer.matrix),
        ("barriers", loop.barriers / loop.matrix, "per matrix instruction",
         peer.barriers / peer.matrix),
        ("registers", kernel.vgpr, "per lane", peer.vgprs),
        ("spilled registers", kernel.vgpr_spills + kernel.sgpr_spills, "", 0),
        ("matrix instructions", loop.matrix, "per iteration", None),
        ("instructions", loop.instructions, "per iteration", None),
    ]  # fmt: skip
    return [
        Figure(f"flash attention {target}: {name}", value, unit, against)
        for name, value, unit, against in found
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=list(PEERS), help="default: all")
    add_json(parser)
    options = parser.parse_args(arguments)
    show([f for target in options.target or PEERS for f in measure(target)], options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
