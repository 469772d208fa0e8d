"""Entry points under the names and arguments that existing callers of such kernels use.

A builder checks a configuration once and returns a function of arrays. Weights are given in the
order ``16x16`` (``int4_packed`` for int4) of `flydsl_rocdl.kernels.preshuffle`, stacked by expert,
their extents multiples of a step; results go where the caller says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError, UserTypeError
from flydsl.ext import arrays
from flydsl.ext.arguments import as_integer, as_text, check_results_apart, through_pytorch
from flydsl_kernels.moe.arguments import check_array, check_rank, check_written
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.ops.choosing import gate
from flydsl_kernels.moe.ops.grouped import UNITS, Product, run_product
from flydsl_kernels.moe.ops.ordering import Sorting, checked_mask, sort
from flydsl_kernels.moe.ops.rows import moe_reduce
from flydsl_kernels.moe.plans import Activation
from flydsl_kernels.moe.problem import GatingProblem, SortProblem
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = [
    "build_topk_gating_softmax_module",
    "compile_moe_gemm1",
    "compile_moe_gemm2",
    "compile_moe_reduction",
    "moe_sorting_flydsl",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Launch = Callable[..., None]
_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "fp16": "float16"}
_FORMATS = {"bf16": "bf16", "f16": "f16", "fp16": "f16", "fp8": "fp8", "int8": "int8",
            "int8smooth": "int8", "int4": "int8_int4"}  # fmt: skip


def _chosen(name: str, table: dict[str, str], what: str) -> str:
    if as_text(name, what) not in table:
        raise ConfigError(f"there is no such {what}", code="FLY-C975", value=name,
                          allowed=", ".join(table))  # fmt: skip
    return table[name]


@at_user_line()
def build_topk_gating_softmax_module(
    num_experts: int, topk: int, dtype_str: str = "f32", renormalize: bool = True
) -> Launch:
    """Return ``launch(gating, weights, ids, token_expert, num_tokens, stream=None)``.

    `token_expert`, if not None, gets slot * tokens + token. See `topk_gating`.

    Raises:
        ConfigError: A size or type is out of range.
    """
    dtype = _chosen(dtype_str, _TYPES, "type of logits")
    GatingProblem(0, num_experts, topk, dtype, renormalise=renormalize)

    def launch(
        gating: Any, weights: Any, ids: Any, token_expert: Any = None, num_tokens: Any = None,
        stream: Any = None,
    ) -> None:  # fmt: skip
        through_pytorch(
            False, {"gating": gating, "weights": weights, "ids": ids}, token_expert=token_expert
        )
        check_rank(gating, 2, "gating")
        tokens = int(gating.shape[0])
        tokens = tokens if num_tokens is None else as_integer(num_tokens, "num_tokens")
        check_array(gating, (gating.shape[0], num_experts), (dtype,), gating, "gating")
        problem = GatingProblem(tokens, num_experts, topk, dtype, renormalise=renormalize)
        out = weights[:tokens], ids[:tokens]
        extra = None if token_expert is None else token_expert[:tokens]
        gate(gating[:tokens], None, problem, out, stream, extra)

    return launch


@at_user_line()
def moe_sorting_flydsl(
    topk_ids: Any, topk_weights: Any, sorted_ids: Any, sorted_weights: Any, sorted_expert_ids: Any,
    num_valid_ids: Any, moe_buf: Any, num_experts: int, *, unit_size: int = 32,
    expert_mask: Any = None, num_local_tokens: Any = None, stream: Any = None,
) -> None:  # fmt: skip
    """Sort into given arrays; see `moe_sort` and `Sorting` for what they get.

    Args:
        topk_ids: (T, k) int32.
        topk_weights: (T, k) float32.
        sorted_ids: int32, at least as long as `SortProblem.capacity`.
        sorted_weights: float32, as long.
        sorted_expert_ids: int32, at least `SortProblem.blocks` long.
        num_valid_ids: (2,) int32.
        moe_buf: Set to zero; None: nothing.
        num_experts: Number of experts.
        unit_size: Entries of a block.
        expert_mask: As for `moe_sort`.
        num_local_tokens: (1,) int32 on the device, or None.
        stream: Where to launch.

    Raises:
        ConfigError: A size is out of range, or an array too short.
    """
    written = {
        "sorted_ids": sorted_ids, "sorted_weights": sorted_weights,
        "sorted_expert_ids": sorted_expert_ids, "num_valid_ids": num_valid_ids,
    }  # fmt: skip
    through_pytorch(
        False, {"topk_ids": topk_ids, "topk_weights": topk_weights, **written}, moe_buf=moe_buf,
        expert_mask=expert_mask, num_local_tokens=num_local_tokens,
    )  # fmt: skip
    check_rank(topk_ids, 2, "topk_ids")
    tokens, slots = (int(extent) for extent in topk_ids.shape)
    problem = SortProblem(tokens, slots, num_experts, unit_size)
    for array, least in ((sorted_ids, problem.capacity), (sorted_expert_ids, problem.blocks)):
        if array.ndim != 1 or int(array.shape[0]) < least:
            raise ConfigError("an array for the sorted order is too short", code="FLY-C974",
                              value=tuple(array.shape), allowed=f"at least ({least},)")  # fmt: skip
    check_results_apart(**written, moe_buf=moe_buf)
    length, blocks = (int(sorted_ids.shape[0]),), (int(sorted_expert_ids.shape[0]),)
    outputs = (
        check_written(sorted_ids, length, ("int32",), topk_ids, "sorted_ids"),
        check_written(sorted_weights, length, ("float32",), topk_ids, "sorted_weights"),
        check_written(sorted_expert_ids, blocks, ("int32",), topk_ids, "sorted_expert_ids"),
        check_written(num_valid_ids, (2,), ("int32",), topk_ids, "num_valid_ids"),
        arrays.empty((tokens, slots), "int32", topk_ids),
    )
    if moe_buf is not None:
        moe_buf[...] = 0
    ids = check_array(topk_ids, (tokens, slots), ("int32",), topk_ids, "topk_ids")
    weights = check_array(topk_weights, (tokens, slots), ("float32",), topk_ids, "topk_weights")
    mask = checked_mask(expert_mask, num_experts, topk_ids)
    if tokens:
        sort(ids, weights, problem, mask, num_local_tokens, outputs, stream)
    else:
        num_valid_ids[...] = 0


class _Grouped:
    """A grouped product of fixed extents."""

    def __init__(
        self, product: Product, extents: tuple[int, int], slots: int, unit: int, formats: Any
    ) -> None:
        extents = (as_integer(extents[0], "channels"), as_integer(extents[1], "columns"))
        slots, unit = as_integer(slots, "topk"), as_integer(unit, "tile_m")
        self.product = product
        self.extents = extents
        self.slots = slots
        self.unit = unit
        self.format, self.experts, self.dtype = formats
        if unit not in UNITS:
            raise ConfigError("grouped products have no tiles of this many entries",
                              code="FLY-C974", value=unit,
                              allowed=", ".join(map(str, UNITS)))  # fmt: skip
        step = FORMATS[self.format].tile_k
        if extents[1] % step:
            raise ConfigError("the columns are not a multiple of a step", code="FLY-C975",
                              value=extents[1], allowed=f"multiples of {step}")  # fmt: skip

    def __call__(self, out: Any, x: Any, w: Any, *others: Any, stream: Any = None) -> None:
        """Launch.

        Args:
            out: The result.
            x: Activations.
            w: Weights.
            *others: scale_x, scale_w, sorted_ids, sorted_expert_ids, sorted_weights,
                num_valid_ids, tokens, and then extents that the configuration has already.
            stream: Where to launch.
        """
        if len(others) < 7:
            raise UserTypeError(
                "the launcher needs more arguments", code="FLY-U549", value=3 + len(others),
                allowed="out, x, w, scale_x, scale_w, sorted_ids, sorted_expert_ids, "
                "sorted_weights, num_valid_ids, tokens",
            )  # fmt: skip
        scale_x, scale_w, sorted_ids, sorted_expert_ids, sorted_weights, valid, tokens = others[:7]
        through_pytorch(
            False,
            {"x": x, "out": out, "w": w, "sorted_ids": sorted_ids, "num_valid_ids": valid,
             "sorted_expert_ids": sorted_expert_ids, "sorted_weights": sorted_weights},
            scale_x=scale_x, scale_w=scale_w,
        )  # fmt: skip
        tokens = as_integer(tokens, "tokens")
        channels, k = self.extents
        gated = self.product.activation is not None
        numbers = FORMATS[self.format]
        n = 2 * channels if gated else channels
        kind = arrays.dtype_name(w) if arrays.dtype_name(w) in numbers.weights else (
            numbers.weights[0])  # fmt: skip
        weight = PreshuffledWeight(numbers.layout, kind, n, k, w, self.experts)
        scales = None if scale_w is None else scale_w.reshape(self.experts, n)
        layer = ExpertWeights(weight, scales, self.format, channels, k, gated)
        order = Sorting(sorted_ids, sorted_weights, sorted_expert_ids, valid, None,
                        tokens, self.slots, self.experts, self.unit)  # fmt: skip
        rows = tokens * (1 if self.product.atomic else self.slots)
        result = check_written(
            out.reshape(rows, channels), (rows, channels), (self.dtype,), x, "out"
        )
        rows_x = x.reshape(-1, k)
        a = None if numbers.a_scale == "none" else scale_x.reshape(-1)
        run_product(rows_x, a, layer, order, self.product, result, stream)


@at_user_line()
def compile_moe_gemm1(
    *, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
    tile_k: int = 128, doweight_stage1: bool = False, out_dtype: str = "f16", in_dtype: str = "fp8",
) -> Launch:  # fmt: skip
    """Return a launcher of the first product; see `moe_gemm1`.

    ``launch(out, x, w, scale_x, scale_w, sorted_ids, sorted_expert_ids, sorted_weights,
    num_valid_ids, tokens, ..., stream=None)`` with `out` (tokens, topk, inter_dim), `w` of rows
    [gate; up] per expert, and `x` (tokens, model_dim) or, for ``int8smooth``, (topk * tokens,
    model_dim) by slot.

    Args:
        model_dim: Columns.
        inter_dim: Channels of the result.
        experts: Number of experts.
        topk: Experts per token.
        tile_m: Entries of a tile: the unit of the sorted order.
        tile_n: Channels of a tile: 64, 128 or 256.
        tile_k: Accepted for compatibility: steps are of 128 bytes of a row.
        doweight_stage1: Multiply by the weights of the pairs.
        out_dtype: ``f16``, ``bf16`` or ``f32``.
        in_dtype: ``bf16``, ``f16``, ``fp8``, ``int8``, ``int8smooth`` or ``int4``.

    Raises:
        ConfigError: A type or size that the kernels do not have.
    """
    del tile_k
    product = Product("slot" if in_dtype == "int8smooth" else "token", Activation(),
                      doweight_stage1, tiles=_tiles(tile_n))  # fmt: skip
    numbers = _chosen(in_dtype, _FORMATS, "type of activations")
    dtype = _chosen(out_dtype, _TYPES, "type of results")
    return _Grouped(product, (inter_dim, model_dim), topk, tile_m, (numbers, experts, dtype))


@at_user_line()
def compile_moe_gemm2(
    *, model_dim: int, inter_dim: int, experts: int, topk: int, tile_m: int, tile_n: int,
    tile_k: int = 128, doweight_stage2: bool = True, out_dtype: str = "f32", in_dtype: str = "fp8",
    accumulate: bool = True,
) -> Launch:  # fmt: skip
    """Return a launcher of the second product; see `moe_gemm2` and `compile_moe_gemm1`.

    With `accumulate` it adds to `out` (tokens, model_dim), which is ``f32``; else it writes the
    rows of pairs, `out` (tokens, topk, model_dim).

    Raises:
        ConfigError: A type or size that the kernels do not have.
    """
    del tile_k
    dtype = _chosen(out_dtype, _TYPES, "type of results")
    if accumulate and dtype != "float32":
        raise ConfigError("atomic sums are of f32", code="FLY-C977", value=out_dtype, allowed="f32",
                          hint="accumulate=False, then compile_moe_reduction")  # fmt: skip
    product = Product("pair", None, doweight_stage2, accumulate, _tiles(tile_n))
    numbers = _chosen(in_dtype, _FORMATS, "type of activations")
    return _Grouped(product, (model_dim, inter_dim), topk, tile_m, (numbers, experts, dtype))


def _tiles(tile_n: int) -> int:
    if as_integer(tile_n, "tile_n") not in (64, 128, 256):
        raise ConfigError("grouped products have no tiles of this many channels", code="FLY-C974",
                          value=tile_n, allowed="64, 128, 256")  # fmt: skip
    return tile_n // 64


@at_user_line()
def compile_moe_reduction(
    *, topk: int, model_dim: int, dtype_str: str = "f16", use_mask: bool = False,
    num_experts: int = 0, out_dtype_str: str | None = None,
) -> Launch:  # fmt: skip
    """Return ``launch(x, out, ids, tokens=None, stream=None)``: the sum over slots.

    `x` is (tokens, topk, model_dim), `out` (tokens, model_dim). With `use_mask`, slots of `ids`
    (tokens, topk) outside 0 to `num_experts` - 1 are left out. See `moe_reduce`.

    Raises:
        ConfigError: A type that the kernels do not have.
    """
    dtype = _chosen(dtype_str, _TYPES, "type of rows")
    wanted = _chosen(out_dtype_str or dtype_str, _TYPES, "type of results")

    def launch(
        x: Any, out: Any, ids: Any = None, tokens: Any = None, stream: Any = None
    ) -> None:  # fmt: skip
        needed = {"x": x, "out": out, "ids": ids} if use_mask else {"x": x, "out": out}
        through_pytorch(False, needed)
        check_rank(x, 3, "x")
        count = int(x.shape[0]) if tokens is None else as_integer(tokens, "tokens")
        rows = check_array(x[:count], (count, topk, model_dim), (dtype,), x, "x")
        check_written(out[:count], (count, model_dim), (wanted,), x, "out")
        places = None
        if use_mask:
            chosen = ids[:count]
            places = arrays.zeros((count, topk), "int32", x)
            places[(chosen < 0) | (chosen >= num_experts)] = -1
        moe_reduce(rows, places, out=out[:count], stream=stream)

    return launch
