"""`qk_norm_rope_quant`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import as_integer, check_no_gradient, element_type, through_pytorch
from flydsl_kernels.attention.ops.head_norm import NormOptions, check_options, run_qk_norm
from flydsl_kernels.attention.ops.rotation import rotated

__all__ = ["qk_norm_rope_quant"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
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
    quant: Any = None,
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
        quant: None, or an 8-bit float that results are quantised to, such as
            ``"float8_e4m3fn"``, by name or as NumPy or PyTorch have it.
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
    traced = through_pytorch(
        (stream is None) or None, {"q": q, "kv": kv, "cos": cos, "sin": sin}, positions=positions,
        q_weight=q_weight, kv_weight=kv_weight,
    )  # fmt: skip
    check_no_gradient(
        "normalised and rotated heads", "FLY-U968", q=q, kv=kv, cos=cos, sin=sin,
        q_weight=q_weight, kv_weight=kv_weight,
    )  # fmt: skip
    rotary_dim = rotated(cos, rotary_dim)
    quant = None if quant is None else element_type(quant, "quant")
    group = (int(q.shape[-1]) if q.shape else 0) if group is None else as_integer(group, "group")
    scale_dtype = element_type(scale_dtype, "scale_dtype")
    options = NormOptions(eps, rotary_dim, quant, group, scale_dtype)
    if traced:
        from flydsl_kernels.attention.ops.rotary_operators import qk_norm_rope_quant_operator

        check_options(options)
        results = qk_norm_rope_quant_operator(
            [q, kv],
            [cos, sin, positions],
            [q_weight, kv_weight],
            eps=float(eps),  # checked above
            rotary_dim=rotary_dim,
            quant=quant or "",
            group=group,
            scale_dtype=scale_dtype,
        )
        return tuple(results)
    return run_qk_norm((q, kv), (cos, sin, positions), (q_weight, kv_weight), options, stream)
