"""A layer of a network as one call: a product with bias, activation and residual, and its plan.

`plan_gemm` lists how the work can be divided, with what it predicts; the call takes the first.

Run it with ``python examples/09_gemm.py --target gfx1201``; no GPU is needed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

from flydsl_kernels.gemm import GemmProblem, gemm, plan_gemm


def run(target: str, m: int = 48, n: int = 136, k: int = 200) -> list[Measured]:
    """Multiply on the emulator and compare with float64."""
    problem = GemmProblem(m, n, k, "float16", out_dtype="float32", bias=True, residual=True)
    print("\n".join(str(plan_gemm(problem, target)).splitlines()[:4]))
    random = np.random.default_rng(9)
    x = random.standard_normal((m, k)).astype(np.float16)
    w = random.standard_normal((n, k)).astype(np.float16)
    bias = random.standard_normal(n).astype(np.float32)
    residual = random.standard_normal((m, n)).astype(np.float32)
    out = np.full((m, n), np.nan, np.float32)

    def layer(*arguments: Any) -> None:
        gemm(*arguments, bias=bias, activation="relu", residual=residual, out=out)

    figures = measure(target, layer, (x, w))
    wide_x, wide_w = x.astype(np.float64), w.astype(np.float64)
    expected = np.maximum(wide_x @ wide_w.T + bias, 0) + residual
    # Products are exact in f32; k additions, one per part of K, and those of bias and residual.
    magnitude = np.abs(wide_x) @ np.abs(wide_w).T + np.abs(bias) + np.abs(residual)
    bound = (k + 40) * 2.0**-24 * magnitude.max()
    error = float(np.abs(out - expected).max())
    return [figure.checked(error, float(bound)) for figure in figures]


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
