"""CPU time of a call of the ready operations, without a GPU: a library stands in for HIP.

What the host does for a call that has been made before: checks of the arguments, results, and the
launches. ``.../out`` has all results and a stream given, which is what an engine with buffers of
its own does; without it the operation makes its results.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, add_json, show
from launch_overhead import build_stub, recorded_by, run

SETUP = """
import json, sys, time
import torch
import flydsl.expr as fx
from flydsl_kernels.attention import flash_attention, paged_attention_decode, rope
from flydsl_kernels.gemm import gemm
from flydsl_kernels.moe import topk_gating
from flydsl_kernels.norm import fused_add_rmsnorm, layernorm, rmsnorm, softmax

stream = fx.Stream(0)
half = torch.bfloat16
x, y, residual = (torch.ones(4, 8192, dtype=half) for _ in range(3))
w, b = (torch.ones(8192, dtype=half) for _ in range(2))
q, k, v, o = (torch.ones(1, 128, 4, 64, dtype=half) for _ in range(4))
angles = torch.ones(128, 32)
one = torch.ones(2, 4, 64, dtype=half)
pages = torch.ones(8, 16, 4, 64, dtype=half)
table = torch.zeros(2, 2, dtype=torch.int32)
lengths = torch.full((2,), 17, dtype=torch.int32)
m, n, p = (torch.ones(256, 256, dtype=half) for _ in range(3))
logits = torch.ones(16, 64)
"""
CALLS = {
    "rmsnorm": "rmsnorm(x, w)",
    "rmsnorm/out": "rmsnorm(x, w, out=y, stream=stream)",
    "layernorm/out": "layernorm(x, w, b, out=y, stream=stream)",
    "fused_add_rmsnorm/out": (
        "fused_add_rmsnorm(x, residual, w, out=y, residual_out=residual, stream=stream)"
    ),
    "softmax/out": "softmax(x, out=y, stream=stream)",
    "gemm": "gemm(m, n)",
    "gemm/out": "gemm(m, n, out=p, stream=stream)",
    "flash_attention": "flash_attention(q, k, v, causal=True)",
    "flash_attention/out": "flash_attention(q, k, v, causal=True, out=o, stream=stream)",
    "paged_attention_decode": "paged_attention_decode(one, pages, pages, table, lengths)",
    "rope/out": "rope(q, angles, angles, out=o, stream=stream)",
    "topk_gating": "topk_gating(logits, 4)",
}
PROBE = """
def called():
    {call}

for _ in range(20):
    called()
best = float("inf")
for _ in range({rounds}):
    started = time.process_time()
    for _ in range(50):
        called()
    best = min(best, (time.process_time() - started) / 50)
print(json.dumps({{"cpu": best * 1e6}}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of 50 calls; the best counts")
    parser.add_argument("--only", default="", help="operations whose name begins so")
    add_json(parser)
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        stub = build_stub(Path(name))
        if stub is None:
            print("no C compiler (cc): the stand-in for HIP cannot be built")
            return 1
        variables = recorded_by(stub)
        for operation, call in CALLS.items():
            if not operation.startswith(options.only):
                continue
            probe = SETUP + PROBE.format(call=call, rounds=options.rounds)
            cpu = run([sys.executable, "-c", probe], **variables)["cpu"]
            figures.append(Figure(f"operation/{operation}", round(cpu, 1), "us"))
    show(figures, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
