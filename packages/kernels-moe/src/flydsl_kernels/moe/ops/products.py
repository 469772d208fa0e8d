"""`moe_gemm1` and `moe_gemm2`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext import arrays
from flydsl.ext.arguments import (
    as_flag,
    check_instance,
    check_no_gradient,
    through_pytorch,
)
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.ops.parts import result_type, run_first, run_second
from flydsl_kernels.moe.plans import Activation

__all__ = ["moe_gemm1", "moe_gemm2"]

__flydsl_internal__ = True  # errors are at the line of the caller


def _check(
    x: Any, what: str, weights: Any, sorting: Any, scales: Any, out: Any, stream: Any
) -> tuple[Any, Any, bool]:
    """Check the arguments that both products have.

    Returns:
        Rows and scales apart from `out`, and whether the call goes through PyTorch's operator.
    """
    check_instance(weights, ExpertWeights, "weights", "prepare_experts makes them")
    check_instance(sorting, Sorting, "sorting", "moe_sort makes it")
    needed = {what: x, "weights": weights.weight.data, "sorting": sorting.ids}
    new = out is None and stream is None
    traced = through_pytorch(new or None, needed, out=out, **{f"{what}_scales": scales})
    check_no_gradient("products of experts", "FLY-U972", **{what: x})
    return (x, scales, True) if traced else (*arrays.apart_from((out,), x, scales), False)


@at_user_line()
@outputs_in_graphs("out", kind="dtype")
def moe_gemm1(
    x: Any,
    weights: ExpertWeights,
    sorting: Sorting,
    *,
    x_scales: Any = None,
    activation: Activation | None = None,
    weighted: bool = False,
    by_slot: bool = False,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Multiply the rows of tokens by the gate and gated weights of their experts.

    Args:
        x: (T, K) activations in the format of the weights; with `by_slot` (k * T, K), rows slot * T
            + token.
        weights: What `prepare_experts` returned, with gates.
        sorting: What `moe_sort` returned, with a unit of 16, 32, 64 or 128.
        x_scales: Scales of the activations, for formats that have some; see `moe_quantise`.
        activation: Of the gates; default: SiLU.
        weighted: Multiply the results by the weights of the pairs.
        by_slot: Whether every pair has a row of its own.
        dtype: Element type of the result, by name or as NumPy or PyTorch have it: bfloat16,
            float16 or float32; default: that of 16-bit activations, else bfloat16.
        out: Where to write; default: a new array.
        stream: Where to launch; default: the current stream.

    Returns:
        (T, k, channels): ``activation(gate) * gated`` for each pair, summed in f32 (integers
        exactly) and rounded once. Rows of pairs whose expert is not here are not written.

    Raises:
        ConfigError: Formats or sizes that do not fit, or that the architecture does not have.
        UserError: Arguments of other libraries, shapes or types than these.
    """
    x, x_scales, traced = _check(x, "x", weights, sorting, x_scales, out, stream)
    weighted, by_slot = as_flag(weighted, "weighted"), as_flag(by_slot, "by_slot")
    if activation is not None:
        check_instance(activation, Activation, "activation")
    kind = result_type(x, dtype)
    if traced:
        from flydsl_kernels.moe.ops.part_operators import first_through_pytorch

        flags = weighted, by_slot
        return first_through_pytorch((x, x_scales), weights, sorting, activation, flags, kind)
    flags = weighted, by_slot
    return run_first((x, x_scales), weights, sorting, flags, activation, kind, out, stream)


@at_user_line()
@outputs_in_graphs("out", kind="dtype", adding="atomic")
def moe_gemm2(
    h: Any,
    weights: ExpertWeights,
    sorting: Sorting,
    *,
    h_scales: Any = None,
    weighted: bool = True,
    atomic: bool = False,
    reduce: bool = True,
    dtype: Any = None,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Multiply the rows of pairs by the weights of their experts, and sum them per token.

    Args:
        h: (T, k, K) activations, or (T * k, K), in the format of the weights.
        weights: What `prepare_experts` returned, without gates.
        sorting: As for `moe_gemm1`.
        h_scales: Scales of the activations, for formats that have some.
        weighted: Multiply by the weights of the pairs.
        atomic: Add to the result in memory, in f32 and in no certain order, instead of writing
            the rows of all pairs and summing them in the order of slots.
        reduce: Sum; else the rows of pairs are returned, and those whose expert is not here are
            not written.
        dtype: Element type of the result, as for `moe_gemm1`; ``float32`` with `atomic`.
        out: Where to write; with `atomic` where to add. Default: a new array.
        stream: Where to launch; default: the current stream.

    Returns:
        (T, channels), or (T, k, channels) without `reduce`.

    Raises:
        ConfigError: Formats or sizes that do not fit, or that the architecture does not have.
        UserError: Arguments of other libraries, shapes or types than these.
    """
    h, h_scales, traced = _check(h, "h", weights, sorting, h_scales, out, stream)
    weighted, atomic = as_flag(weighted, "weighted"), as_flag(atomic, "atomic")
    reduce = as_flag(reduce, "reduce")
    kind = "float32" if atomic and dtype is None else result_type(h, dtype)
    if traced:
        from flydsl_kernels.moe.ops.part_operators import second_through_pytorch

        flags = weighted, atomic, reduce
        return second_through_pytorch((h, h_scales), weights, sorting, flags, kind)
    flags = weighted, atomic, reduce
    return run_second((h, h_scales), weights, sorting, flags, kind, out, stream)
