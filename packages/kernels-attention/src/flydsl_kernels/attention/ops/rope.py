"""`rope`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import as_text, check_no_gradient, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.attention.ops.rotation import rotated, run_rope

__all__ = ["rope"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def rope(
    x: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    style: str = "neox",
    rotary_dim: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Return `x` with the first `rotary_dim` elements of every head rotated.

    A pair (a, b) at a token of position p becomes (a·cos - b·sin, b·cos + a·sin) with the cosine
    and sine of row p. Pairs are elements i and i + rotary_dim / 2 (``"neox"``) or neighbours
    (``"gptj"``). Computed in f32, rounded once.

    Args:
        x: NumPy array or PyTorch tensor [..., heads, head_dim] of float32, float16 or bfloat16;
            leading axes are tokens. Heads may be any distance apart.
        cos: Cosines [positions, rotary_dim / 2], or [positions, rotary_dim] with a factor for each
            element in the elements' order.
        sin: Sines, of the same shape and type.
        positions: Position of every token, int32 or int64; default: 0, 1, 2, … A position that
            the tables do not have makes the token's rotated elements NaN.
        style: How elements are paired.
        rotary_dim: Rotated elements of a head; the others are copied. Default: twice the tables'
            columns.
        out: Array of `x`'s shape and type to write to, `x` itself included. PyTorch does not
            differentiate through a call that has it.
        stream: Where to launch; default: the current stream.

    Returns:
        `out`, or a new array of `x`'s shape and type.

    Raises:
        ConfigError: A style, head size or rotary size that is not supported.
        UserTypeError: Arguments of other libraries or devices.
        UserValueError: Shapes or element types that do not fit.
    """
    given = {"x": x, "cos": cos, "sin": sin}
    traced = through_pytorch(out is None and stream is None, given, positions=positions, out=out)
    as_text(style, "style")
    rotary_dim = rotated(cos, rotary_dim)
    if traced:
        from flydsl_kernels.attention.ops.rotary_operators import rope_operator

        check_no_gradient("cosines and sines", "FLY-U968", cos=cos, sin=sin)
        return rope_operator(x, cos, sin, positions, style, rotary_dim)
    return run_rope(
        x, cos, sin, positions, style=style, rotary_dim=rotary_dim, out=out, stream=stream
    )
