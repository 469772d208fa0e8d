"""Attention with a window over packed sequences of unlike lengths, one of them empty.

Four heads of queries share two of keys. A row sees 20 keys to the left of its place and none to the
right, so a workgroup reads only the keys that its rows see. The same call with the keys divided
among two workgroups each gives what is needed for few queries over many keys.

Run it with ``python examples/13_flash_attention.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import itertools
import sys

import ml_dtypes
import numpy as np
from example_report import Measured, example_arguments, measure, print_report

from flydsl_kernels.attention import flash_attention

STARTS = np.array([0, 70, 70, 103], np.int32)
LEFT = 20


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the attention of one sequence in float64."""
    rows, keys = len(q), len(k)
    scores = np.einsum("ihd,jhd->hij", q, np.repeat(k, 2, 1)) * q.shape[-1] ** -0.5
    place, key = np.arange(rows)[:, None] + keys - rows, np.arange(keys)
    scores[:, (key > place) | (key < place - LEFT)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    result: np.ndarray = np.einsum("hij,jhe->ihe", weights, np.repeat(v, 2, 1))
    return result


def run(target: str, splits: int) -> list[Measured]:
    """Attend on the emulator and compare with float64."""
    random = np.random.default_rng(5)
    q, k, v = (
        random.standard_normal((STARTS[-1], heads, 64)).astype(ml_dtypes.bfloat16)
        for heads in (4, 2, 2)
    )
    found: list[np.ndarray] = []

    def attend(*arrays: np.ndarray) -> None:
        found.append(
            flash_attention(
                *arrays, causal=True, window=(LEFT, 0), cu_seqlens_q=STARTS, cu_seqlens_k=STARTS,
                num_splits=splits,
            )
        )  # fmt: skip

    figures = measure(target, attend, (q, k, v))
    wide = [x.astype(np.float64) for x in (q, k, v)]
    parts = [slice(a, b) for a, b in itertools.pairwise(STARTS) if b > a]
    expected = np.concatenate([reference(*(x[part] for x in wide)) for part in parts])
    error = float(np.abs(found[0].astype(np.float64) - expected).max())
    # Weights, their sum and the result are each rounded to eight bits; the weights sum to one.
    allowed = 4 * 2.0**-8 * float(np.abs(wide[2]).max())
    return [figure.checked(error, allowed) for figure in figures]


if __name__ == "__main__":
    options = example_arguments(__doc__)
    sys.exit(print_report([*run(options.target, 1), *run(options.target, 2)]))
