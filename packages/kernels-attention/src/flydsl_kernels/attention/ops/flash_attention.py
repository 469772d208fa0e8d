"""`flash_attention`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import as_flag, through_pytorch, unless_number
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import run_forward

__all__ = ["flash_attention"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def flash_attention(
    q: Any, k: Any, v: Any, *,
    causal: bool = False, window: tuple[int | None, int | None] = (None, None),
    softmax_scale: float | None = None, bias: Any = None, alibi_slopes: Any = None,
    sink: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
    max_seqlen_q: int | None = None, max_seqlen_k: int | None = None, block_table: Any = None,
    seqlens_k: Any = None, kv_layout: str = "linear", q_descale: Any = None,
    k_descale: Any = None, v_descale: Any = None, num_splits: int = 1,
    return_lse: bool = False, out: Any = None, stream: Any = None,
) -> Any:  # fmt: skip
    """Return softmax(softmax_scale · q kᵀ + bias) v for every head.

    Row i of a sequence of Sq rows stands at key i + Sk - Sq of its Sk keys: the last row at the
    last key. A row that sees no key gives 0, and minus infinity as logarithm of its sum. Keys past
    the end of a sequence, and those that no row of a block of queries sees, are not read.

    Args:
        q: Queries [batch, Sq, heads, d], or packed sequences [rows, heads, d]; bfloat16, float16,
            or the architecture's 8-bit float (float8_e4m3fn, on gfx942 float8_e4m3fnuz). NumPy
            arrays and PyTorch tensors with rows any distance apart.
        k: Keys [batch, Sk, kv heads, d], packed [rows, kv heads, d], or pages of them.
        v: Values like k, whose rows may have another number of elements. Heads have up to 256
            elements, a multiple of 8.
        causal: Rows see no keys past their own place.
        window: How many keys to the left and right of its place a row sees; None or a negative
            number is all.
        softmax_scale: Factor of q kᵀ, positive; default d^(-1/2).
        bias: Added to the scores: [batch, heads, Sq, Sk], with packed sequences
            [heads, rows, most keys]; extents may be 1, leading ones absent.
        alibi_slopes: f32 [heads] or [batch, heads]: scores lose this much per key of distance.
        sink: f32 [heads]: exp(sink) is added to the denominator.
        cu_seqlens_q: Where packed sequences of q start, from 0 on, int32 [sequences + 1]. Results
            and logarithms past the last end mean nothing, gradients are 0.
        cu_seqlens_k: The same for k and v.
        max_seqlen_q: Rows of the longest sequence, past which none is computed; default: read back.
        max_seqlen_k: Keys of the longest sequence; without it, a bias has the lengths read back.
        block_table: Pages of each sequence, int32 [sequences, pages]; needs `seqlens_k`. Entries
            past a sequence's last page are not read.
        seqlens_k: Keys of each sequence, int32 [sequences]; also without pages, where the others
            of the batch's keys are left out.
        kv_layout: ``"linear"``: pages [pages, page, kv heads, d]; ``"vectorised"``: of k
            [pages, kv heads, d / 8, page, 8], of v [pages, kv heads, page / 8, d, 8].
        q_descale: Unit of 8-bit q: a number, f32 [heads] or [sequences, heads].
        k_descale: Unit of k: a number, f32 [kv heads] or [sequences, kv heads].
        v_descale: Unit of v likewise.
        num_splits: Parts of the keys for different workgroups, for few rows and many keys.
        return_lse: Return the logarithms of the sums too.
        out: Where to write the result; not of tensors that want gradients.
        stream: Where to launch; default: the current stream.

    Returns:
        `out` or a new array like q with rows of v's length (bfloat16 for 8-bit q); with
        `return_lse` also the natural logarithms of the sums, f32 [batch, heads, Sq], packed
        [heads, rows].

    Raises:
        ConfigError: A type, head, page or number of parts that there is no kernel for.
        UserTypeError: Arguments of other libraries or devices.
        UserValueError: Shapes or arguments that do not fit, or gradients of others than q, k, v.
    """
    traced = through_pytorch(
        out is None and stream is None, {"q": q, "k": k, "v": v}, bias=bias,
        alibi_slopes=unless_number(alibi_slopes), sink=unless_number(sink), out=out,
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, block_table=block_table,
        seqlens_k=seqlens_k, q_descale=unless_number(q_descale),
        k_descale=unless_number(k_descale), v_descale=unless_number(v_descale),
    )  # fmt: skip
    sequences = Sequences(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    keys = Keys(block_table, seqlens_k, kv_layout, num_splits, return_lse)
    extras = Extras(
        as_flag(causal, "causal"), window, softmax_scale, bias, alibi_slopes, sink,
        (q_descale, k_descale, v_descale),
    )  # fmt: skip
    if traced:
        from flydsl_kernels.attention.ops.operators import differentiable_attention

        result, lse = differentiable_attention((q, k, v), sequences, keys, extras)
    else:
        result, lse = run_forward((q, k, v), sequences, keys, extras, return_lse, out, stream)
    return (result, lse) if return_lse else result
