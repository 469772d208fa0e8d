"""`qk_norm_rope_quant`."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from flydsl.errors import ConfigError, UserValueError
from flydsl.ext import arrays
from flydsl_kernels.attention.ops.rope import FLOATS, checked_tables, planned, token_heads
from flydsl_kernels.attention.rotary import LIMITS, NormPlan, check_group, divide_head

__all__ = ["NormOptions", "new_outputs", "qk_norm_rope_quant", "run_qk_norm"]

SCALES = ("float32", "e8m0")


def qk_norm_rope_quant(
    q: Any,
    kv: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    q_weight: Any = None,
    kv_weight: Any = None,
    eps: float = 1e-6,
    rotary_dim: int | None = None,
    quant: str | None = None,
    group: int | None = None,
    scale_dtype: str = "float32",
    stream: Any = None,
) -> tuple[Any, ...]:
    """Normalise every head of queries and keys, rotate its end, and perhaps quantise it.

    A head becomes x · (mean(x²) + eps)^(-1/2) · weight; then its last `rotary_dim` elements are
    rotated in neighbouring pairs, as by `rope` with style ``"gptj"``. All in f32, rounded once.
    Quantised, every `group` elements are divided by their scale: their largest magnitude after the
    rotation over the type's largest number, at least 2^-126, or (``"e8m0"``) the next power of two
    that is not less, as a byte of 127 plus its exponent. A group with NaN has scale NaN (byte 255).

    Args:
        q: Queries [..., heads, head_dim] of float32, float16 or bfloat16; leading axes are tokens.
        kv: Keys [..., kv_heads, head_dim] of the same type.
        cos: Cosines, as of `rope`.
        sin: Sines, as of `rope`.
        positions: As of `rope`.
        q_weight: [head_dim] factors of queries, or None.
        kv_weight: [head_dim] factors of keys, or None.
        eps: Added to the mean square; compiled in.
        rotary_dim: Rotated elements at the end of a head; default: twice the tables' columns.
        quant: None, or the name of an 8-bit float that results are quantised to, such as
            ``"float8_e4m3fn"``.
        group: Elements that share a scale; default: the head.
        scale_dtype: ``"float32"`` or ``"e8m0"``.
        stream: Where to launch; default: the current stream.

    Returns:
        Queries and keys; quantised, followed by their scales [..., heads, head_dim / group] of
        float32 or uint8.

    Raises:
        ConfigError: A head, rotary or group size or a type that is not supported.
        UserTypeError: Arguments of other libraries or devices.
        UserValueError: Shapes or element types that do not fit, or a negative `eps`.
    """
    if rotary_dim is None and len(cos.shape) == 2:
        rotary_dim = 2 * int(cos.shape[1])
    group = int(q.shape[-1]) if group is None else group
    options = NormOptions(float(eps), rotary_dim, quant, group, scale_dtype)
    if stream is None and arrays.differentiable(q, kv, q_weight, kv_weight):
        from flydsl_kernels.attention.ops.rotary_operators import qk_norm_rope_quant_operator

        _check_options(options)
        results = qk_norm_rope_quant_operator(
            [q, kv],
            [cos, sin, positions],
            [q_weight, kv_weight],
            eps=float(eps),
            rotary_dim=rotary_dim,
            quant=quant or "",
            group=group,
            scale_dtype=scale_dtype,
        )
        return tuple(results)
    return run_qk_norm((q, kv), (cos, sin, positions), (q_weight, kv_weight), options, stream)


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

    _check_options(options)
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


def _check_options(options: NormOptions) -> None:
    """Check what is not an array.

    Raises:
        ConfigError: A type that is not supported.
        UserValueError: A negative, infinite or NaN `eps`.
    """
    quant, scale_dtype, eps = options.quant, options.scale_dtype, options.eps
    if not (math.isfinite(eps) and eps >= 0):
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
