"""Random problems of flash attention, run and checked against `attention_reference`."""

from __future__ import annotations

import numpy as np
from attention_reference import BF16, Case, attention, check

from flydsl.config import core
from flydsl_kernels.attention import flash_attention


def normal(random, shape, dtype=BF16):
    """Return standard normal numbers of a type."""
    return random.standard_normal(shape).astype(dtype)


def dense(
    shape, dtype=BF16, *, causal=False, window=(None, None), units=(1, 1, 1), logarithms=True,
    **options,
):  # fmt: skip
    """Run a dense problem (batch, Sq, Sk, heads, kv heads, d, d of v) and check it."""
    batch, rows, keys, heads, kv_heads, d, d_v = shape
    random = np.random.default_rng()
    q = normal(random, (batch, rows, heads, d), dtype)
    k = normal(random, (batch, keys, kv_heads, d), dtype)
    v = normal(random, (batch, keys, kv_heads, d_v), dtype)
    found = flash_attention(q, k, v, causal=causal, window=window, return_lse=logarithms, **options)
    out, lse = found if logarithms else (found, [None] * batch)
    bias = options.get("bias")
    if bias is not None:
        bias = np.broadcast_to(bias.astype(np.float64), (batch, heads, rows, keys))
    left, right = window
    for b in range(batch):
        case = Case(
            q[b], k[b], v[b], left=left, right=0 if causal else right, units=units,
            bias=None if bias is None else bias[b], slopes=options.get("alibi_slopes"),
            sink=options.get("sink"), scale=options.get("softmax_scale"),
        )  # fmt: skip
        compare(case, out[b], lse[b])
    return out, lse


def compare(case, out, lse):
    """Check the result of one sequence, and the logarithms if there are any."""
    # There pairs of narrow weights are summed by one instruction.
    case.narrow_sums = core.TARGET.get() == "gfx950" and lse is None
    expected, bound, sums, slack = attention(case, out.dtype)
    check(out, expected, bound)
    if lse is not None:
        check(lse, sums, slack, "the logarithms")


def packed(lengths_q, lengths_k, dtype=BF16, *, heads=(4, 2), d=64, causal=True, **options):
    """Run packed sequences and check each."""
    random = np.random.default_rng()
    starts_q, starts_k = (np.cumsum([0, *n]).astype(np.int32) for n in (lengths_q, lengths_k))
    q = normal(random, (starts_q[-1], heads[0], d), dtype)
    k = normal(random, (starts_k[-1], heads[1], d), dtype)
    v = normal(random, (starts_k[-1], heads[1], d), dtype)
    out, lse = flash_attention(
        q, k, v, causal=causal, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k, return_lse=True,
        **options,
    )  # fmt: skip
    for a, b, c, e in zip(starts_q, starts_q[1:], starts_k, starts_k[1:], strict=False):
        case = Case(q[a:b], k[c:e], v[c:e], right=0 if causal else None)
        compare(case, out[a:b], lse[:, a:b])


def paged(lengths, rows, page, layout, dtype=BF16, *, window=(None, None), d=64, d_v=96):
    """Run sequences in pages whose other places are NaN, with entries of no page, and check."""
    random = np.random.default_rng()
    lengths = np.array(lengths, np.int32)
    count, most = len(lengths), max(1, -(-int(lengths.max()) // page))
    pages = count * most + 2
    table = random.permutation(pages)[: count * most].reshape(count, most).astype(np.int32)
    q = normal(random, (count, rows, 4, d), dtype)
    k_pages = np.full((pages, page, 2, d), np.nan, dtype)
    v_pages = np.full((pages, page, 2, d_v), np.nan, dtype)
    keys, values = [], []
    for sequence, length in enumerate(lengths):
        keys.append(normal(random, (length, 2, d), dtype))
        values.append(normal(random, (length, 2, d_v), dtype))
        for j in range(length):
            k_pages[table[sequence, j // page], j % page] = keys[-1][j]
            v_pages[table[sequence, j // page], j % page] = values[-1][j]
        table[sequence, -(-length // page) :] = 2**30
    if layout == "vectorised":
        k_pages = k_pages.reshape(pages, page, 2, d // 8, 8).transpose(0, 2, 3, 1, 4).copy()
        v_pages = v_pages.reshape(pages, page // 8, 8, 2, d_v).transpose(0, 3, 1, 4, 2).copy()
    out, lse = flash_attention(
        q, k_pages, v_pages, causal=True, window=window, block_table=table, seqlens_k=lengths,
        kv_layout=layout, return_lse=True,
    )  # fmt: skip
    for sequence in range(count):
        case = Case(q[sequence], keys[sequence], values[sequence], left=window[0], right=0)
        compare(case, out[sequence], lse[sequence])
