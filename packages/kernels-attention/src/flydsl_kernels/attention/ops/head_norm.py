"""Checks and the launch of `qk_norm_rope_quant`, without PyTorch's knowledge."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from flydsl.errors import ConfigError, UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import is_finite
from flydsl_kernels.attention.ops.rotation import FLOATS, checked_tables, planned, token_heads
from flydsl_kernels.attention.rotary import LIMITS, NormPlan, check_group, divide_head

__all__ = ["NormOptions", "check_options", "new_outputs", "run_qk_norm"]

__flydsl_internal__ = True  # errors are at the line of the caller

SCALES = ("float32", "e8m0")


@dataclass(frozen=True, slots=True)
class NormOptions:
    """The options of `qk_norm_rope_quant`."""

    eps: float
    rotary_dim: int | None
    quant: str | None
    group: int
    scale_dtype: str


def new_outputs(operands: tuple[Any, Any], options: NormOptions) -> tuple[Any, ...]:
    """Return new arrays for the results: queries, keys, and the scales of quantised ones."""
    q = operands[0]
    if options.quant is None:
        return tuple(arrays.empty(a.shape, arrays.dtype_name(q), q) for a in operands)
    outs = [arrays.empty(a.shape, options.quant, q) for a in operands]
    small = "uint8" if options.scale_dtype == "e8m0" else "float32"
    counts = int(q.shape[-1]) // options.group
    return (*outs, *(arrays.empty((*a.shape[:-1], counts), small, q) for a in operands))


def run_qk_norm(
    operands: tuple[Any, Any],
    angles: tuple[Any, Any, Any],
    factors: tuple[Any, Any],
    options: NormOptions,
    stream: Any = None,
) -> tuple[Any, ...]:
    """Normalise and rotate without PyTorch's knowledge; see `qk_norm_rope_quant`.

    Args:
        operands: q, kv.
        angles: cos, sin, positions.
        factors: q_weight, kv_weight.
        options: The others.
        stream: Where to launch.
    """
    from flydsl_kernels.attention.device.qk_norm import Heads, launch_qk_norm
    from flydsl_kernels.attention.device.rotary import Angles

    check_options(options)
    q, kv = operands
    quant, group = options.quant, options.group
    queries, keys = token_heads(q, "q"), token_heads(kv, "kv")
    arrays.check_same_library(kv, q, "kv")
    arrays.check_dtype(kv, (arrays.dtype_name(q),), "kv")
    tokens, _, head_dim = (int(extent) for extent in queries.shape)
    arrays.check_shape(keys, (tokens, int(keys.shape[1]), head_dim), "kv")
    cos, sin, positions = angles
    tables = checked_tables(cos, sin, positions, q, tokens, options.rotary_dim)
    names = ("q_weight", "kv_weight")
    weights = [_weight(w, q, head_dim, name) for w, name in zip(factors, names, strict=True)]
    plan = _plan((queries, keys), tables, weights, options.eps)
    if quant is not None:
        check_group(group, head_dim, plan.vector)
        power = options.scale_dtype == "e8m0"
        plan = dataclasses.replace(plan, group=group, power_of_two=power, limit=LIMITS[quant])
    results = new_outputs(operands, options)
    if tokens and head_dim:
        heads = [
            Heads(
                source,
                tables[0][:, 0] if weight is None else weight,
                out.reshape(source.shape),
                scale.reshape(*source.shape[:2], -1),
            )
            for source, weight, out, scale in zip(
                (queries, keys), weights, results[:2], results[-2:], strict=True
            )
        ]
        given = tables[2] if plan.rotation.positions else tables[0][:, 0]
        launch_qk_norm(*heads, Angles(tables[0], tables[1], given), plan, stream)
    return results


def check_options(options: NormOptions) -> None:
    """Check what is not an array.

    Raises:
        ConfigError: A type that is not supported.
        UserValueError: A negative, infinite or NaN `eps`.
    """
    quant, scale_dtype, eps = options.quant, options.scale_dtype, options.eps
    if not (is_finite(eps) and eps >= 0):
        raise UserValueError(
            "an epsilon is a finite number of at least 0", code="FLY-U963", value=eps
        )
    kinds = [name for name in LIMITS if name != "int8"]
    if quant is not None and quant not in kinds:
        raise ConfigError(
            "queries and keys are not quantised to this element type",
            code="FLY-C959",
            value=quant,
            allowed=", ".join(kinds),
        )
    if scale_dtype not in SCALES:
        raise ConfigError(
            "scales are not kept in this type",
            code="FLY-C959",
            value=scale_dtype,
            allowed=", ".join(SCALES),
        )


def _weight(weight: Any, like: Any, head_dim: int, what: str) -> Any:
    """Return a weight as a contiguous vector, or None."""
    if weight is None:
        return None
    arrays.check_same_library(weight, like, what)
    arrays.check_dtype(weight, FLOATS, what)
    arrays.check_shape(weight, (head_dim,), what)
    return arrays.contiguous(weight)


def _plan(operands: tuple[Any, Any], tables: tuple[Any, ...], weights: Any, eps: float) -> NormPlan:
    """Return the plan without quantisation."""
    # Vectors of a head begin at its start or at the rotation's; pairs are of half their width.
    rotation = planned(operands, tables, "gptj")
    head_dim = rotation.head_dim
    vector = 2 * math.gcd(rotation.vector, head_dim // 2)
    lanes, chunks = divide_head(head_dim, vector)
    first = head_dim - rotation.rotary_dim
    given = tuple(weight is not None for weight in weights)
    return NormPlan(
        dataclasses.replace(rotation, first=first),
        vector, lanes, chunks, 0, False, (given[0], given[1]), 0.0, float(eps),
    )  # fmt: skip
