"""A layer of experts: choosing, sorting, two grouped products with fp8 weights, the weighted sum.

The ready functions of ``flydsl_kernels.moe`` launch a kernel for each step; the report shows them
all. Weights and activations are quantised to the 8-bit floats of the architecture, and the result
is compared with float64 on the same quantised weights: what remains is the rounding of activations.

Run it with ``python examples/10_experts.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
from example_report import Measured, example_arguments, measure, only_for, print_report

from flydsl.config import scope
from flydsl_kernels.moe import fused_moe, prepare_experts, topk_gating

EIGHT = {"gfx942": ml_dtypes.float8_e4m3fnuz, "gfx950": ml_dtypes.float8_e4m3fn}


def quantised(w: np.ndarray, target: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights in 8 bits, a scale per channel, and what both stand for."""
    kind = EIGHT[target]
    scales = (np.abs(w).max(-1) / float(ml_dtypes.finfo(kind).max)).astype(np.float32)
    small = (w / scales[..., None]).astype(kind)
    return small, scales, small.astype(np.float64) * scales[..., None]


def run(
    target: str, tokens: int = 33, experts: int = 8, hidden: int = 256, inner: int = 128
) -> list[Measured]:
    """Run a random layer on the emulator and compare with float64."""
    random = np.random.default_rng(9)
    x = random.standard_normal((tokens, hidden)).astype(ml_dtypes.bfloat16)
    gate_up = random.standard_normal((experts, 2 * inner, hidden)) / np.sqrt(hidden)
    small1, scales1, wide1 = quantised(gate_up, target)
    down = random.standard_normal((experts, hidden, inner)) / np.sqrt(inner)
    small2, scales2, wide2 = quantised(down, target)
    w1 = prepare_experts(small1, format="fp8", gated=True, scales=scales1)
    w2 = prepare_experts(small2, format="fp8", scales=scales2)
    with scope(FLYDSL_TARGET=target):
        weights, ids = topk_gating(random.standard_normal((tokens, experts)).astype(np.float32), 2)
    y = np.full((tokens, hidden), np.nan, ml_dtypes.bfloat16)

    def layer() -> None:
        fused_moe(x, w1, w2, weights, ids, out=y)

    figures = measure(target, layer, ())
    wide, expected = x.astype(np.float64), np.zeros((tokens, hidden))
    for token, slot in np.ndindex(ids.shape):
        both = wide1[ids[token, slot]] @ wide[token]
        gate, up = both[:inner], both[inner:]
        h = gate / (1 + np.exp(-gate)) * up
        expected[token] += weights[token, slot] * (wide2[ids[token, slot]] @ h)
    # Rounding to 3 bits of mantissa errs by 0.026 in the mean square. Gates, gated numbers and the
    # products meet it independently: 0.026 times the root of 3, or 0.045; a third more is allowed.
    error = float(np.sqrt(((y - expected) ** 2).sum() / (expected**2).sum()))
    return [figure.checked(error, 0.06) for figure in figures]


if __name__ == "__main__":
    chosen = example_arguments(__doc__).target
    only_for(chosen, "gfx942", "gfx950")
    sys.exit(print_report(run(chosen)))
