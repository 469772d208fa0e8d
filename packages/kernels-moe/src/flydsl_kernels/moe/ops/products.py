"""`moe_gemm1` and `moe_gemm2`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl.ext.arguments import (
    as_flag,
    check_instance,
    check_no_gradient,
    element_type,
    through_pytorch,
)
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.moe.arguments import check_rank, check_written
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops.grouped import Product, run_product
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.ops.summing import sum_rows
from flydsl_kernels.moe.plans import Activation

__all__ = ["moe_gemm1", "moe_gemm2"]

__flydsl_internal__ = True  # errors are at the line of the caller

OUTPUTS = ("bfloat16", "float16", "float32")


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


def result_type(x: Any, wanted: Any) -> str:
    """Return the element type of a product: as asked for, that of 16-bit activations, or bf16."""
    own = arrays.dtype_name(x)
    wanted = None if wanted is None else element_type(wanted, "dtype")
    kind = wanted or (own if own in OUTPUTS else "bfloat16")
    if kind not in OUTPUTS:
        raise ConfigError("products are not written in this type", code="FLY-C977", value=kind,
                          allowed=", ".join(OUTPUTS))  # fmt: skip
    return kind


def blocks_of_channels(weights: ExpertWeights, unit: int) -> int:
    """Return how many blocks of 16 channels a wave gets.

    Few where there are few channels, and at most as many as leave registers for two waves: 16 sums
    of blocks of channels and entries, half of that where a step's activations are twice as long.
    """
    room = 8 if weights.numbers.row_bytes > 128 else 16
    most = max(1, min(4, room // (weights.halves * (unit // 16))))
    most = min(most, 4 // weights.halves)
    while most > 1 and weights.channels <= 32 * most:
        most //= 2
    return most


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
    shape = sorting.tokens, sorting.slots, weights.channels
    kind = result_type(x, dtype)
    if traced:
        from flydsl_kernels.moe.ops.part_operators import first_through_pytorch

        flags = weighted, by_slot
        return first_through_pytorch((x, x_scales), weights, sorting, activation, flags, kind)
    result = arrays.empty(shape, kind, x) if out is None else out
    result = check_written(result, shape, OUTPUTS, x, "out")
    product = Product("slot" if by_slot else "token", activation or Activation(), weighted,
                      tiles=blocks_of_channels(weights, sorting.unit))  # fmt: skip
    run_product(
        x, x_scales, weights, sorting, product, result.reshape(-1, weights.channels), stream
    )
    return result


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
    tokens, slots, channels = sorting.tokens, sorting.slots, weights.channels
    if h.ndim < 2:
        check_rank(h, 3, "h")
    if tuple(h.shape[:-1]) not in ((tokens, slots), (tokens * slots,)):
        arrays.check_shape(h, (tokens, slots, h.shape[-1]), "h")
    rows = h.reshape(tokens * slots, h.shape[-1])
    kind = "float32" if atomic and dtype is None else result_type(h, dtype)
    if traced:
        from flydsl_kernels.moe.ops.part_operators import second_through_pytorch

        flags = weighted, atomic, reduce
        return second_through_pytorch((h, h_scales), weights, sorting, flags, kind)
    product = Product("pair", None, weighted, atomic, blocks_of_channels(weights, sorting.unit))
    if atomic:
        if kind != "float32" or not reduce:
            raise ConfigError("atomic sums are of f32, per token", code="FLY-C977", value=kind,
                              allowed="float32")  # fmt: skip
        total = arrays.zeros((tokens, channels), kind, h) if out is None else out
        total = check_written(total, (tokens, channels), (kind,), h, "out")
        run_product(rows, h_scales, weights, sorting, product, total, stream)
        return total
    if not reduce:
        shape = tokens, slots, channels
        result = arrays.empty(shape, kind, h) if out is None else out
        result = check_written(result, shape, OUTPUTS, h, "out")
        run_product(rows, h_scales, weights, sorting, product, result.reshape(-1, channels), stream)
        return result
    result = arrays.empty((tokens, channels), kind, h) if out is None else out
    result = check_written(result, (tokens, channels), OUTPUTS, h, "out")
    parts = arrays.empty((tokens * slots, channels), kind, h)
    run_product(rows, h_scales, weights, sorting, product, parts, stream)
    sum_rows(parts, sorting.places, None, result, False, stream)
    return result
