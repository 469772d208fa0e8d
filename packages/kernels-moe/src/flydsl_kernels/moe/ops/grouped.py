"""From arrays to a launch of a grouped product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl_kernels.moe.arguments import check_array, check_rank, padded, raw_bytes
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.plans import Activation, gemm_plan

__all__ = ["MOST_BYTES", "Product", "product_arguments", "run_product"]

__flydsl_internal__ = True  # errors are at the line of the caller

UNITS = (16, 32, 64, 128)
MOST_BYTES = (1 << 32) - 4096
"""Bytes that one descriptor reaches, without the offsets that lie outside on purpose."""


@dataclass(frozen=True, slots=True)
class Product:
    """Which product.

    Attributes:
        source: Rows of the activations: ``token``, ``pair`` or ``slot``.
        activation: For products with gates.
        weighted: Multiply by the weights of the pairs.
        atomic: Add to the rows of the tokens.
        tiles: Blocks of 16 channels of a wave.
    """

    source: str
    activation: Activation | None = None
    weighted: bool = False
    atomic: bool = False
    tiles: int = 2


def _activations(x: Any, weights: ExpertWeights, rows: int) -> tuple[Any, int]:
    """Return the activations as bytes, rows padded to 16 bytes, and the bytes of a row."""
    numbers = weights.numbers
    columns = weights.k * numbers.bits // (8 * x.itemsize)
    x = check_array(x, (rows, columns), numbers.activations, x, "the activations")
    unit = 16 // x.itemsize
    whole = arrays.contiguous(padded(x, (-(-columns // unit) * unit,)))
    size = int(whole.shape[1]) * int(x.itemsize)
    if rows * size > MOST_BYTES:
        raise ConfigError("the activations are too large for one launch", code="FLY-C978",
                          value=rows * size, allowed=f"up to {MOST_BYTES} bytes",
                          hint="split the tokens")  # fmt: skip
    return raw_bytes(whole, rows), size


def _scales(a_scales: Any, x: Any, weights: ExpertWeights, rows: int) -> Any:
    """Return the scales of activations, checked; None if the format has none."""
    kind, k = weights.numbers.a_scale, weights.k
    if kind == "none":
        if a_scales is not None:
            raise ConfigError("activations of this format have no scales", code="FLY-C976",
                              value=weights.format)  # fmt: skip
        return None
    if a_scales is None:
        raise ConfigError("activations of this format need scales", code="FLY-C976",
                          value=weights.format)  # fmt: skip
    if kind == "row":
        return check_array(a_scales, (rows,), ("float32",), x, "the activations' scales")
    if kind == "block":
        shape = rows, -(-k // 128)
        return check_array(a_scales, shape, ("float32",), x, "the activations' scales")
    found = check_array(a_scales, (rows, k // 32), ("uint8", "float8_e8m0fnu"), x,
                        "the activations' scales")  # fmt: skip
    return arrays.contiguous(padded(arrays.as_bytes(found), (-(-k // 256) * 8,)))


def _sizes(
    x: tuple[Any, int], scales: tuple[Any, Any], weights: ExpertWeights, sorting: Sorting
) -> Any:
    numbers, weight = weights.numbers, weights.weight
    block = 16 * weight.k * numbers.weight_bits // 8
    expert = weight.n // 16 * block
    if expert > MOST_BYTES:
        raise ConfigError("an expert's weights are too large", code="FLY-C978", value=expert,
                          allowed=f"up to {MOST_BYTES} bytes")  # fmt: skip
    a_scales, w_scales = scales
    per_expert = 0 if w_scales is None else int(w_scales.nbytes) // weights.experts
    pitch = {
        "block": weight.k // 128 * 4, "group": weight.n * 4, "mx": weight.k,
    }.get(numbers.w_scale, 0)  # fmt: skip
    items = 0 if w_scales is None else per_expert // int(w_scales.itemsize)
    a_pitch = 0 if a_scales is None or a_scales.ndim == 1 else int(
        a_scales.shape[1]) * int(a_scales.itemsize)  # fmt: skip
    steps = -(-weights.k // numbers.tile_k)
    return _sizes_of(
        sorting.tokens, sorting.slots, weights.experts, steps, x[1], int(x[0].nbytes),
        weights.channels, weights.rows // 16, block, expert, pitch, items, per_expert, a_pitch,
        0 if a_scales is None else int(a_scales.nbytes),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _sizes_of(*sizes: int) -> Any:
    from flydsl_kernels.moe.device.records import Sizes

    return Sizes(*sizes)


def _flavour(x: Any) -> str:
    name = arrays.dtype_name(x)
    if not name.startswith("float8_e4m3"):
        return ""
    return "fnuz" if name.endswith("fnuz") else "ocp"


def product_arguments(
    x: Any, a_scales: Any, weights: ExpertWeights, sorting: Sorting, product: Product, out: Any
) -> tuple[Any, ...]:
    """Return the arguments of `launch_grouped`, but for the stream.

    Args:
        x: (rows, K) activations.
        a_scales: Their scales, or None.
        weights: The experts.
        sorting: The order; its unit is the height of a tile.
        product: Which product.
        out: (rows of the result, channels); contiguous.

    Raises:
        ConfigError: Sizes or formats that do not fit each other.
        UserError: Arguments of other libraries, shapes or types.
    """
    from flydsl_kernels.moe.device.records import Operands, Order

    check_rank(x, 2, "the activations")
    if sorting.unit not in UNITS:
        raise ConfigError("grouped products have no tiles of this many entries", code="FLY-C974",
                          value=sorting.unit, allowed=", ".join(map(str, UNITS)))  # fmt: skip
    if sorting.local not in (None, weights.experts):
        raise ConfigError("the order is of another number of experts", code="FLY-C975",
                          value=sorting.local, allowed=str(weights.experts))  # fmt: skip
    if weights.gated != (product.activation is not None):
        raise ConfigError("only weights with gates have an activation", code="FLY-C975",
                          value=weights.gated)  # fmt: skip
    rows = sorting.tokens * (1 if product.source == "token" else sorting.slots)
    whole = _activations(x, weights, rows)
    scales = _scales(a_scales, x, weights, rows), weights.scales
    numbers = weights.numbers
    plan = gemm_plan(
        product.activation, weights.format, sorting.unit, product.tiles, product.source,
        product.weighted, product.atomic,
        bool(weights.k * numbers.bits // 8 % numbers.row_bytes),
        bool(weights.channels % (64 * product.tiles)), 4 if weights.channels % 4 == 0 else 1,
        weights.group, _flavour(x),
    )  # fmt: skip
    data = raw_bytes(weights.weight.data, weights.experts)
    some = [data if item is None else item for item in scales]
    if numbers.w_scale in ("block", "group", "mx"):
        some = [raw_bytes(item, 1) if item is not data else item for item in some]
    # Structs take arguments by name faster.
    order = Order(
        ids=sorting.ids, weights=sorting.weights, experts=sorting.experts, valid=sorting.valid
    )
    sizes = _sizes(whole, scales, weights, sorting)
    operands = Operands(x=whole[0], w=data, a=some[0], b=some[1], y=out)
    return operands, order, sizes, plan


def run_product(
    x: Any, a_scales: Any, weights: ExpertWeights, sorting: Sorting, product: Product, out: Any,
    stream: Any = None,
) -> None:  # fmt: skip
    """Multiply every entry's row by its expert's weights; see `product_arguments`."""
    from flydsl_kernels.moe.device.grouped import launch_grouped

    arguments = product_arguments(x, a_scales, weights, sorting, product, out)
    if sorting.tokens:
        launch_grouped(*arguments, stream)
