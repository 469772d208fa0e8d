"""What comes before a product in 8 bits: addition, RMSNorm and quantisation as one call.

The residual is added, the sum kept for the next layer, and its normalised rows are quantised to the
8-bit float of the target with a power-of-two scale per 128 elements: what scaled matrix products
take. For four long rows the same call divides each among several workgroups.

Run it with ``python examples/12_quantised_norm.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

from flydsl_kernels.norm import QuantFormat, fused_add_rmsnorm_quantised

FORM = QuantFormat("float8_e4m3", group=128, scale_dtype="float8_e8m0fnu")


def run(target: str, rows: int = 32, columns: int = 4096) -> list[Measured]:
    """Quantise rows on the emulator, and compare what they stand for with float64."""
    random = np.random.default_rng(11)
    x, residual = (random.standard_normal((rows, columns), np.float32) for _ in range(2))
    weight = random.standard_normal(columns, np.float32)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def layer(*arguments: np.ndarray) -> None:
        found.append(fused_add_rmsnorm_quantised(*arguments, dtype=FORM))

    figures = measure(target, layer, (x, residual, weight))
    small, scales, total = found[0]
    wide = np.repeat(scales.astype(np.float64), FORM.group, axis=1)[:, :columns]
    got = small.astype(np.float64) * wide
    assert np.array_equal(total, x + residual)
    sums = total.astype(np.float64)
    expected = sums / np.sqrt((sums * sums).mean(-1, keepdims=True) + 1e-6) * weight
    # Three digits after the first: an element is off by a sixteenth of itself at most, or by half
    # of the smallest step, which is 2^-9 (2^-10 where exponents are one lower) times the scale.
    allowed = np.abs(expected) / 16 * 1.0001 + wide * 2.0**-10
    error = float((np.abs(got - expected) / allowed).max())
    return [figure.checked(error, 1.0) for figure in figures]


if __name__ == "__main__":
    options = example_arguments(__doc__)
    sys.exit(print_report([*run(options.target), *run(options.target, 4, 65536)]))
