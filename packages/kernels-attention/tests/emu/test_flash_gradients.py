"""Gradients of flash attention against float64, their determinism, and PyTorch's operators.

The bound of a gradient: weights and differences are rounded to the element type (unit w) before the
products, after errors of the scores as in `attention_reference`; dS is P (dP - δ), so the error of
each factor counts with the other's size. What the forward pass stores, O and lse, is off by its own
rounding, which enters through δ and P.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attention_reference import BF16, ROUNDING, U, check, mask

from flydsl import config
from flydsl.errors import ConfigError, UserValueError
from flydsl_kernels.attention import flash_attention

TYPES = {torch.bfloat16: BF16, torch.float16: np.dtype(np.float16)}


def wide(tensor):
    """Return a tensor as float64."""
    return tensor.detach().to(torch.float64).numpy()


def expected(arrays, slope, left, right, dtype, of_lse=None):
    """Return the gradients of one sequence and their bounds."""
    q, k, v = (wide(x) for x in arrays)
    slope = wide(slope)
    scale, group = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = np.einsum("ihd,jhd->hij", q, keys) * scale
    s = np.where(mask(len(q), len(k), left, right), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    p = p / np.where(total > 0, total, 1)
    out = np.einsum("hij,jhe->ihe", p, values)
    dp = np.einsum("ihe,jhe->hij", slope, values)
    delta = (slope * out).sum(-1).T - (0 if of_lse is None else wide(of_lse))
    ds = p * (dp - delta[..., None]) * scale
    w = ROUNDING[dtype][0]
    # Relative error of P: scores, and twice the sum's; of dP - δ: sums, and O's rounding in δ.
    size = np.einsum("ihd,jhd->hij", np.abs(q), np.abs(keys)) * scale
    off = (q.shape[-1] + 16) * U * (size + np.abs(np.where(np.isinf(top), 0, top))) + 3 * w
    loose = (np.abs(slope) * np.abs(out)).sum(-1).T[..., None] * 3 * w
    loose = loose + (v.shape[-1] + 8) * U * np.einsum("ihe,jhe->hij", np.abs(slope), np.abs(values))
    wrong = np.abs(ds) * (off + w) + p * scale * loose * (1 + off)
    back = lambda x: x.reshape(len(k), -1, group, x.shape[-1]).sum(2)  # noqa: E731
    found = [np.einsum("hij,jhd->ihd", ds, keys), back(np.einsum("hij,ihd->jhd", ds, q)),
             back(np.einsum("hij,ihe->jhe", p, slope))]  # fmt: skip
    bounds = [
        np.einsum("hij,jhd->ihd", wrong, np.abs(keys)),
        back(np.einsum("hij,ihd->jhd", wrong, np.abs(q))),
        back(np.einsum("hij,ihe->jhe", p * (off + w), np.abs(slope))),
    ]
    return [(y, b + w * (np.abs(y) + b) + 1e-6) for y, b in zip(found, bounds, strict=True)]


def tensors(*shapes, dtype=torch.bfloat16):
    """Return fresh random tensors that want gradients."""
    return [torch.randn(*shape).to(dtype).requires_grad_() for shape in shapes]


def compare(shape, dtype=torch.bfloat16, *, causal=False, window=(None, None)):
    """Check the gradients of a dense problem (batch, Sq, Sk, heads, kv heads, d, d of v)."""
    batch, rows, keys, heads, kv_heads, d, d_v = shape
    arrays = tensors((batch, rows, heads, d), (batch, keys, kv_heads, d),
                     (batch, keys, kv_heads, d_v), dtype=dtype)  # fmt: skip
    out = flash_attention(*arrays, causal=causal, window=window)
    slope = torch.randn(out.shape).to(dtype)
    out.backward(slope)
    left, right = window
    for b in range(batch):
        found = expected([x[b] for x in arrays], slope[b], left, 0 if causal else right,
                         TYPES[dtype])  # fmt: skip
        for array, (y, bound), name in zip(arrays, found, "qkv", strict=True):
            check(wide(array.grad[b]), y, bound, f"the gradient of {name}")


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1, 64, 64), (2, 70, 130, 4, 2, 64, 96),
                                   (1, 130, 33, 2, 1, 128, 128)], ids=str)  # fmt: skip
def test_gradients(shape, gfx942):
    compare(shape, causal=True)


@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201"])
def test_gradients_on_other_architectures(arch):
    with config.scope(FLYDSL_TARGET=arch):
        compare((1, 70, 40, 2, 1, 64, 64), torch.float16, window=(20, 3))


def test_heads_that_are_padded_where_lanes_have_copies():
    with config.scope(FLYDSL_TARGET="gfx1100"):
        compare((1, 20, 40, 2, 1, 72, 40), torch.float16, causal=True)


def test_wide_heads(gfx942):
    compare((1, 40, 70, 2, 1, 192, 128))
    compare((1, 40, 70, 1, 1, 256, 32))


def test_packed_sequences(gfx942):
    starts_q, starts_k = [0, 5, 5, 70], [0, 30, 40, 100]
    arrays = tensors((70, 4, 64), (100, 2, 64), (100, 2, 64))
    indices = [torch.tensor(x, dtype=torch.int32) for x in (starts_q, starts_k)]
    out = flash_attention(*arrays, causal=True, cu_seqlens_q=indices[0], cu_seqlens_k=indices[1])
    slope = torch.randn(out.shape).to(torch.bfloat16)
    out.backward(slope)
    for a, b, c, d in zip(starts_q, starts_q[1:], starts_k, starts_k[1:], strict=False):
        spans = [slice(a, b), slice(c, d), slice(c, d)]
        parts = [x[s] for x, s in zip(arrays, spans, strict=True)]
        found = expected(parts, slope[a:b], None, 0, BF16)
        for array, span, (y, bound) in zip(arrays, spans, found, strict=True):
            check(wide(array.grad[span]), y, bound)


def test_rows_of_no_sequence_have_no_gradient(gfx942):
    """Rows past the last end hold NaN, in q, k and v and in the slope of the result."""
    arrays = tensors((30, 2, 64), (50, 1, 64), (50, 1, 64))
    ends = (20, 40, 40)
    with torch.no_grad():
        for array, end in zip(arrays, ends, strict=True):
            array[end:] = float("nan")
    starts = {f"cu_seqlens_{x}": torch.tensor([0, end]).int() for x, end in (("q", 20), ("k", 40))}
    out = flash_attention(*arrays, **starts)
    slope = torch.randn(out.shape).to(torch.bfloat16)
    slope[20:] = float("nan")
    out.backward(slope)
    found = expected([x[:n] for x, n in zip(arrays, ends, strict=True)], slope[:20], None, None,
                     BF16)  # fmt: skip
    for array, end, (y, bound) in zip(arrays, ends, found, strict=True):
        check(wide(array.grad[:end]), y, bound)
        assert (array.grad[end:] == 0).all()


def test_the_logarithms_have_gradients_too(gfx942):
    arrays = tensors((1, 40, 2, 64), (1, 50, 2, 64), (1, 50, 2, 64))
    out, lse = flash_attention(*arrays, return_lse=True)
    slope, of_lse = torch.randn(out.shape).to(torch.bfloat16), torch.randn(lse.shape)
    torch.autograd.backward([out, lse], [slope, of_lse])
    found = expected([x[0] for x in arrays], slope[0], None, None, BF16, of_lse[0])
    for array, (y, bound) in zip(arrays, found, strict=True):
        check(wide(array.grad[0]), y, bound + 1e-4)


def test_gradients_are_the_same_in_every_run(gfx942):
    arrays = tensors((1, 100, 4, 64), (1, 90, 1, 64), (1, 90, 1, 64))
    slope = torch.randn(1, 100, 4, 64).to(torch.bfloat16)
    runs = []
    for _ in range(2):
        for array in arrays:
            array.grad = None
        flash_attention(*arrays, causal=True).backward(slope)
        runs.append([array.grad.clone() for array in arrays])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_what_has_no_gradient_says_so(gfx942):
    arrays = tensors((1, 8, 1, 64), (1, 8, 1, 64), (1, 8, 1, 64))
    out = flash_attention(*arrays, sink=torch.zeros(1))
    with pytest.raises(ConfigError, match="FLY-C948"):
        out.sum().backward()


@pytest.mark.parametrize("name", ["bias", "alibi_slopes", "sink", "q_descale", "k_descale",
                                  "v_descale"])  # fmt: skip
@pytest.mark.parametrize("of_q", [False, True])
def test_what_only_shifts_or_scales_has_no_gradient(name, of_q, gfx942):
    """Its gradient would be lost without a word, whether q, k and v have theirs or not."""
    arrays = [x.detach() for x in tensors((1, 8, 1, 64), (1, 8, 1, 64), (1, 8, 1, 64))]
    arrays[0].requires_grad_(of_q)
    shape = (1, 1, 8, 8) if name == "bias" else (1,)
    wanted = {name: torch.zeros(shape, requires_grad=True)}
    with pytest.raises(UserValueError, match="no_grad") as caught:
        flash_attention(*arrays, **wanted)
    assert (caught.value.code, caught.value.value) == ("FLY-U968", name)
    if "descale" not in name:
        with torch.no_grad():
            found = flash_attention(*arrays, **wanted)
        arguments = {name: wanted[name].detach()}
        assert torch.equal(found, flash_attention(*arrays, **arguments).detach())


def test_the_operator_passes_pytorchs_own_checks(gfx942):
    from flydsl_kernels.attention.ops.operators import flash_attention_operator

    arrays = tensors((1, 8, 2, 64), (1, 9, 1, 64), (1, 9, 1, 64))
    arguments = (*arrays, [None] * 10, [-1, -1, 1, 1, -1, -1], "linear", 0.0)
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(flash_attention_operator, arguments, test_utils=utilities)


def gradients(arrays, slope):
    """Return the gradients of q, k and v with a window."""
    leaves = [x.clone().requires_grad_() for x in arrays]
    flash_attention(*leaves, window=(9, 3)).backward(slope)
    return [wide(x.grad[0]) for x in leaves]


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("which", range(4), ids=["q", "k", "v", "slope"])
def test_what_is_not_finite_stays_with_those_that_see_it(which, odd, gfx942):
    """One element: exactly what is not computed from it stays what it is without it."""
    arrays = [x.detach() for x in tensors(*((1, n, 1, 32) for n in (40, 50, 50, 40)))]
    expected = gradients(arrays[:3], arrays[3])
    at = int(np.random.default_rng().integers(15, 40))
    arrays[which][0, at, 0, 5] = odd
    found = gradients(arrays[:3], arrays[3])
    seen = mask(40, 50, 9, 3)
    if which in (0, 3):
        rows, keys = np.arange(40) == at, seen[at]
    else:
        rows = seen[:, at]
        keys = seen[rows].any(0)
    assert np.array_equal(found[0][~rows], expected[0][~rows])
    for number in (1, 2):
        assert np.array_equal(found[number][~keys], expected[number][~keys])
    if which == 0:
        assert np.isnan(found[1][keys]).all()
    elif which == 1:
        assert np.isnan(found[0][rows, 0, 5]).all()
    elif which == 3:
        own = found[2][keys, 0]
        assert np.array_equal(own[:, 5], np.full(len(own), odd), equal_nan=True)
        assert np.isfinite(np.delete(own, 5, 1)).all()
