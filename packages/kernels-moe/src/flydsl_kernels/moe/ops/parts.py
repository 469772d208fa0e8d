"""The parts of a layer of experts, from arrays to launches, without PyTorch's knowledge."""

from __future__ import annotations

from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl.ext.arguments import element_type
from flydsl_kernels.moe.arguments import check_array, check_rank, written
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.ops.grouped import Product, run_product
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.ops.summing import ROW_TYPES, VECTOR_BYTES, sum_rows, summed
from flydsl_kernels.moe.plans import Activation
from flydsl_kernels.moe.selection import QuantPlan, quant_plan, rows_plan

__all__ = [
    "blocks_of_channels",
    "result_type",
    "run_first",
    "run_permute",
    "run_quantise",
    "run_second",
    "run_unpermute",
]

__flydsl_internal__ = True  # errors are at the line of the caller

_SILU = Activation()
OUTPUTS = ("bfloat16", "float16", "float32")
COPIED_TYPES = (*ROW_TYPES, "int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz")
LIMITS = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float4_e2m1fn": 6.0}


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


def run_first(
    given: tuple[Any, Any], weights: ExpertWeights, sorting: Sorting, flags: tuple[bool, bool],
    activation: Activation | None, kind: str, out: Any = None, stream: Any = None,
) -> Any:  # fmt: skip
    """Multiply by the gate and gated weights; see `moe_gemm1`.

    Args:
        given: The activations and their scales.
        weights: The experts.
        sorting: The order.
        flags: Whether results are weighted, and whether every pair has a row of its own.
        activation: Of the gates; None is SiLU.
        kind: Element type of a new result.
        out: Where to write; None makes a new array.
        stream: Where to launch.
    """
    x, x_scales = given
    weighted, by_slot = flags
    shape = sorting.tokens, sorting.slots, weights.channels
    result = written(out, shape, kind, x, dtypes=OUTPUTS)
    product = Product("slot" if by_slot else "token", activation or _SILU, weighted,
                      tiles=blocks_of_channels(weights, sorting.unit))  # fmt: skip
    run_product(
        x, x_scales, weights, sorting, product, result.reshape(-1, weights.channels), stream
    )
    return result


def run_second(
    given: tuple[Any, Any], weights: ExpertWeights, sorting: Sorting,
    flags: tuple[bool, bool, bool], kind: str, out: Any = None, stream: Any = None,
) -> Any:  # fmt: skip
    """Multiply by the weights without gates, and sum; see `moe_gemm2`.

    Args:
        given: The activations and their scales.
        weights: The experts.
        sorting: The order.
        flags: Whether results are weighted, summed in memory, and summed at all.
        kind: Element type of a new result.
        out: Where to write or add; None makes a new array.
        stream: Where to launch.
    """
    h, h_scales = given
    weighted, atomic, reduce = flags
    tokens, slots, channels = sorting.tokens, sorting.slots, weights.channels
    if h.ndim < 2:
        check_rank(h, 3, "h")
    if tuple(h.shape[:-1]) not in ((tokens, slots), (tokens * slots,)):
        arrays.check_shape(h, (tokens, slots, h.shape[-1]), "h")
    rows = h.reshape(tokens * slots, h.shape[-1])
    product = Product("pair", None, weighted, atomic, blocks_of_channels(weights, sorting.unit))
    if atomic:
        if kind != "float32" or not reduce:
            raise ConfigError("atomic sums are of f32, per token", code="FLY-C977", value=kind,
                              allowed="float32")  # fmt: skip
        total = arrays.zeros((tokens, channels), kind, h) if out is None else out
        total = written(total, (tokens, channels), kind, h)
        run_product(rows, h_scales, weights, sorting, product, total, stream)
        return total
    if not reduce:
        shape = tokens, slots, channels
        result = written(out, shape, kind, h, dtypes=OUTPUTS)
        run_product(rows, h_scales, weights, sorting, product, result.reshape(-1, channels), stream)
        return result
    result = written(out, (tokens, channels), kind, h, dtypes=OUTPUTS)
    parts = arrays.empty((tokens * slots, channels), kind, h)
    run_product(rows, h_scales, weights, sorting, product, parts, stream)
    sum_rows(parts, sorting.places, None, result, False, stream)
    return result


def run_quantise(
    x: Any, ids: Any, smooth: Any, form: str, dtype: str, by_slot: bool, stream: Any = None
) -> tuple[Any, Any]:
    """Quantise rows; see `moe_quantise`, which has checked the format and the type."""
    numbers = FORMATS[form]
    rows, columns = (int(extent) for extent in x.shape)
    group = {"row": 0, "block": 128, "mx": 32}[numbers.a_scale]
    unit = {0: 1, 128: 8, 32: 32}[group]
    if not columns or columns % unit:
        raise ConfigError("rows of this length are not quantised", code="FLY-C979", value=columns,
                          allowed=f"multiples of {unit}")  # fmt: skip
    x = check_array(x, (rows, columns), ROW_TYPES, x, "x")
    kind = "int8" if numbers.integer else "float4_e2m1fn" if numbers.bits == 4 else dtype
    pairs = rows
    if smooth is not None:
        check_rank(ids, 2, "ids")
        tokens, slots = (int(extent) for extent in ids.shape)
        pairs = tokens * slots
        ids = check_array(ids, (tokens, slots), ("int32",), x, "ids")
        check_array(x, (tokens if by_slot else pairs, columns), ROW_TYPES, x, "x")
        check_rank(smooth, 2, "smooth")
        smooth = check_array(smooth, (int(smooth.shape[0]), columns), ("float32",), x, "smooth")
    plan = quant_plan(kind, LIMITS[kind], 8 if columns % 8 == 0 else 1, group, smooth is not None,
                      by_slot)  # fmt: skip
    return _quantised(x, ids, smooth, pairs, plan, stream)


def _quantised(
    x: Any, ids: Any, smooth: Any, rows: int, plan: QuantPlan, stream: Any
) -> tuple[Any, Any]:
    from flydsl_kernels.moe.device.quantise import launch_quantise

    columns = int(x.shape[1])
    packed = plan.dtype == "float4_e2m1fn"
    shape = (rows, columns // 2 if packed else columns)
    result = arrays.empty(shape, "uint8" if packed else plan.dtype, x)
    if plan.group:
        scale_shape: tuple[int, ...] = (rows, -(-columns // plan.group))
    else:
        scale_shape = (rows,)
    scales = arrays.empty(scale_shape, "uint8" if plan.group == 32 else "float32", x)
    if rows:
        some = x if smooth is None else smooth
        launch_quantise(x, x if ids is None else ids, some, arrays.as_bytes(result), scales, plan,
                        stream)  # fmt: skip
    return result, scales


def _permute(x: Any, ids: Any, out: Any, stream: Any = None) -> None:
    """Copy the row of every entry's token to `out`; see `moe_permute`."""
    from flydsl_kernels.moe.device.rows import launch_permute

    if x.itemsize == 1:
        x, out = arrays.as_bytes(x), arrays.as_bytes(out)
    if out.shape[0] and x.shape[1]:
        launch_permute(x, ids, out, rows_plan(VECTOR_BYTES // x.itemsize), stream)


def run_permute(x: Any, sorting: Sorting, out: Any = None, stream: Any = None) -> Any:
    """Copy rows to the order of their experts; see `moe_permute`."""
    (x,) = arrays.apart_from((out,), x)
    x = check_array(x, (sorting.tokens, x.shape[1]), COPIED_TYPES, sorting.ids, "x")
    shape, dtype = (int(sorting.ids.shape[0]), int(x.shape[1])), arrays.dtype_name(x)
    result = written(out, shape, dtype, x)
    _permute(x, sorting.ids, result, stream)
    return result


def run_unpermute(
    rows: Any, sorting: Sorting, weights: Any, out: Any = None, stream: Any = None
) -> Any:
    """Sum the rows of every token; see `moe_unpermute`."""
    shape = (int(sorting.ids.shape[0]), int(rows.shape[1]))
    rows = check_array(rows, shape, ROW_TYPES, sorting.ids, "rows")
    return summed(rows, sorting.places, weights, out, True, stream)
