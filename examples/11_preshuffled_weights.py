"""A layer with 8-bit weights, rearranged once: scales, bias and SiLU in one launch.

`preshuffle_b` puts the weights in the order in which matrix instructions take them, so that they
go from memory straight to registers while activations pass through LDS. The same call with weights
of four bits reads half of the bytes.

Run it with ``python examples/11_preshuffled_weights.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
from example_report import Measured, example_arguments, measure, only_for, print_report

from flydsl_kernels.gemm import gemm, preshuffle_b


def quantised(x: np.ndarray, kind: Any, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of x in 8 bits, and the scale of each row."""
    scale = (np.abs(x).max(axis=1) / largest).astype(np.float32)
    if kind is np.int8:
        return np.rint(x / scale[:, None]).astype(np.int8), scale
    return (x / scale[:, None]).astype(kind), scale


def run(target: str, rows: int = 33, columns: int = 256, k: int = 512) -> list[Measured]:
    """Multiply by weights of eight and of four bits on the emulator; compare with float64."""
    random = np.random.default_rng(11)
    x, w = random.standard_normal((rows, k)), random.standard_normal((columns, k))
    bias = random.standard_normal(columns).astype(ml_dtypes.bfloat16)
    eight = ml_dtypes.float8_e4m3fnuz if target == "gfx942" else ml_dtypes.float8_e4m3fn
    figures = []
    for kind, largest in ((eight, 240.0), (np.int8, 127.0)):
        a, scale_a = quantised(x, kind, largest)
        b, scale_b = quantised(w, kind, largest if kind is eight else 7.0)
        options = {} if kind is eight else {"layout": "int4_packed", "dtype": "int4"}
        weights = preshuffle_b(b, **options)
        out = np.zeros((rows, columns), ml_dtypes.bfloat16)

        def product(a: Any = a, weights: Any = weights, scales: Any = (scale_a, scale_b),
                    out: Any = out) -> None:  # fmt: skip
            gemm(a, weights, out=out, bias=bias, activation="silu",
                 scale_a=scales[0], scale_b=scales[1])  # fmt: skip

        (figure,) = measure(target, product, ())
        wide = a.astype(np.float64) @ b.astype(np.float64).T * scale_a[:, None] * scale_b
        wide += bias.astype(np.float64)
        exact = wide / (1 + np.exp(-wide))
        # The result is rounded once to 8 bits of mantissa; sums err by far less.
        bound = 2.0**-8 * np.abs(exact).max() + 1e-3
        error = np.abs(out.astype(np.float64) - exact).max()
        figures.append(figure.checked(float(error), float(bound)))
    return figures


if __name__ == "__main__":
    chosen = example_arguments(__doc__).target
    only_for(chosen, "gfx942", "gfx950")
    sys.exit(print_report(run(chosen)))
