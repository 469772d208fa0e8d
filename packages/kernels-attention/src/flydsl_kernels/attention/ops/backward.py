"""From the arguments of a forward pass and gradients of its results to launches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from flydsl.ext.arrays import contiguous, dtype_name, empty, zeros
from flydsl_kernels.attention.arrays import as_rows
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import (
    as_batches,
    index_arrays,
    problem_of,
    shapes_of,
)

__all__ = ["run_backward"]

__flydsl_internal__ = True  # errors are at the line of the caller

_LOG2_E = 1.0 / math.log(2.0)
_ROWS = 16


def run_backward(
    arrays: tuple[Any, Any, Any], results: tuple[Any, Any], gradients: tuple[Any, Any],
    sequences: Sequences, extras: Extras,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of q, k and v, in their types.

    Args:
        arrays: q, k and v, dense or packed.
        results: What the forward pass returned: the result and the logarithms of the sums.
        gradients: Their gradients; that of the logarithms may be None.
        sequences: Packed sequences.
        extras: Masks and scale; nothing else has gradients.
    """
    from flydsl_kernels.attention.device.backward import (
        GradientArguments,
        launch_delta,
        launch_gradient,
    )

    q, k, v = arrays
    packed = sequences.cu_seqlens_q is not None
    shapes = shapes_of(arrays, sequences, Keys())
    problem = problem_of(q, shapes, sequences, Keys(), extras, True)
    # Rows of packed arrays that belong to no sequence have a gradient of zero.
    make = zeros if packed else empty
    out = tuple(make(tuple(x.shape), dtype_name(x), q) for x in arrays)
    if not math.prod(q.shape[:-1]) or not math.prod(k.shape[:-1]):
        return tuple(zeros(tuple(x.shape), dtype_name(x), q) for x in arrays)
    rows_q, rows_k, rows_v, slope, result = (
        as_rows(as_batches(x)) for x in (q, k, v, gradients[0], results[0])
    )
    lse = contiguous(results[1])
    of_lse = zeros(tuple(lse.shape), "float32", q) if gradients[1] is None else gradients[1]
    lse, of_lse = (contiguous(x[None] if packed else x) for x in (lse, of_lse))
    delta = empty(tuple(lse.shape), "float32", q)
    rows = math.prod(int(n) for n in result.shape[:3])
    launch_delta(result, slope, of_lse, delta, -(-rows // _ROWS), None)
    index = index_arrays(shapes, sequences, Keys(), q, int(k.shape[0]))
    starts_q, starts_k = (index.get(name, rows_q) for name in ("starts_q", "starts_k"))
    left, right = (max(side, 0) for side in extras.bounds)
    group = shapes.heads // shapes.kv_heads
    known = {
        "lse": lse, "delta": delta, "lengths": rows_q, "sequences": shapes.sequences,
        "scale": (extras.softmax_scale or shapes.d_qk**-0.5) * _LOG2_E,
    }  # fmt: skip
    d_q, d_k, d_v = (as_batches(x) for x in out)
    of_queries = GradientArguments(
        q=rows_q, y=slope, k=rows_k, v=rows_v, first=d_q, second=d_q, starts_q=starts_q,
        starts_k=starts_k, left=left, right=right, group=group, repeat=1, **known,
    )  # fmt: skip
    problem = replace(problem, lse=False)
    launch_gradient(of_queries, problem, False, shapes.longest, None)
    of_keys = GradientArguments(
        q=rows_k, y=rows_v, k=rows_q, v=slope, first=d_k, second=d_v, starts_q=starts_k,
        starts_k=starts_q, left=right, right=left, group=1, repeat=group, **known,
    )  # fmt: skip
    launch_gradient(of_keys, problem, True, _longest_keys(shapes, sequences, k), None)
    return out


def _longest_keys(shapes: Any, sequences: Sequences, k: Any) -> int:
    """Return the keys of the longest sequence, or as many as there are."""
    if shapes.keys is not None:
        return int(shapes.keys)
    return int(k.shape[0]) if sequences.cu_seqlens_k is not None else int(k.shape[1])
