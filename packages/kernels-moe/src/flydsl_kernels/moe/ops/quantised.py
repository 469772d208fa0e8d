"""`moe_quantise`: activations in the numbers of a format."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl.ext.arguments import (
    as_flag,
    as_text,
    check_no_gradient,
    element_type,
    through_pytorch,
)
from flydsl_kernels.moe.arguments import check_array, check_rank
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.selection import QuantPlan

__all__ = ["moe_quantise"]

__flydsl_internal__ = True  # errors are at the line of the caller

LIMITS = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float4_e2m1fn": 6.0}
FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz")
ROW_TYPES = ("float32", "float16", "bfloat16")


@at_user_line()
def moe_quantise(
    x: Any,
    *,
    format: str,
    dtype: Any = "float8_e4m3fn",
    ids: Any = None,
    smooth: Any = None,
    by_slot: bool = False,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Quantise rows of activations for a grouped product.

    Scales are the largest magnitude over the largest number of the type, per row, or per 128
    columns (``fp8_block``), or the least power of two of at least that per 32 columns (formats
    with mx). Zero rows have scale 0.

    Args:
        x: (R, C) float32, float16 or bfloat16.
        format: A format with scales of the activations.
        dtype: Type for the formats of 8-bit floats, by name or as NumPy or PyTorch have it:
            ``float8_e4m3fn`` or ``float8_e4m3fnuz``.
        ids: (T, k) int32; with `smooth`, the expert of each row.
        smooth: (E, C) float32 factors of the columns, per expert.
        by_slot: `x` has the rows of tokens; the result those of slot * T + token.
        stream: Where to launch; default: the current stream.

    Returns:
        The numbers, (R or T * k, C), two per byte for fp4; and their scales: (rows,) or (rows,
        ceil(C / 128)) float32, or (rows, C / 32) E8M0 bytes.

    Raises:
        ConfigError: The format has no such scales, or does not take this number of columns.
        UserError: Arguments of other libraries, shapes or types than these.
    """
    needed = {"x": x} if smooth is None else {"x": x, "ids": ids, "smooth": smooth}
    traced = through_pytorch((stream is None) or None, needed)
    check_no_gradient("quantised activations", "FLY-U972", x=x, smooth=smooth)
    by_slot, dtype = as_flag(by_slot, "by_slot"), element_type(dtype, "dtype")
    check_rank(x, 2, "x")
    numbers = FORMATS.get(as_text(format, "format"))
    if dtype not in FLOATS:
        raise ConfigError("rows are not quantised to this type", code="FLY-C975", value=dtype,
                          allowed=", ".join(FLOATS))  # fmt: skip
    if numbers is None or numbers.a_scale == "none":
        known = ", ".join(name for name, item in FORMATS.items() if item.a_scale != "none")
        raise ConfigError("activations of this format are not quantised", code="FLY-C975",
                          value=format, allowed=known)  # fmt: skip
    if traced:
        from flydsl_kernels.moe.ops.part_operators import quantise_through_pytorch

        return quantise_through_pytorch(x, ids, smooth, format, dtype, by_slot)
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
    plan = QuantPlan(kind, LIMITS[kind], 8 if columns % 8 == 0 else 1, group, smooth is not None,
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
