"""`moe_quantise`: activations in the numbers of a format."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext.arguments import (
    as_flag,
    as_text,
    check_no_gradient,
    element_type,
    through_pytorch,
)
from flydsl_kernels.moe.arguments import check_rank
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.ops.parts import run_quantise

__all__ = ["moe_quantise"]

__flydsl_internal__ = True  # errors are at the line of the caller

FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz")


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
    return run_quantise(x, ids, smooth, format, dtype, by_slot, stream)
