"""Decoding of latent attention against float64."""

from __future__ import annotations

import numpy as np
import pytest
from decode_reference import BF16, F16, FN, FNUZ, INT8, UNIT

from flydsl import config
from flydsl.errors import ConfigError, UserValueError
from flydsl_kernels.attention import mla_decode

CASES = {
    "all heads": {"lens": (0, 37, 70)},
    "few heads": {"heads": 16, "lens": (37,), "kind": F16, "dtype": F16},
    "ragged rows, small pages": {"heads": 40, "queries": 2, "page": 16, "lens": (5, 70)},
    "8-bit tokens": {"kind": FNUZ, "unit": 0.05, "lens": (33,), "heads": 48, "queries": 3},
    "8-bit queries too": {
        "kind": FNUZ, "dtype": FNUZ, "unit": 0.05, "q_unit": 0.5, "lens": (300,), "page": 48,
        "heads": 32,
    },
}  # fmt: skip


def run(lens, heads=128, queries=1, page=64, kind=BF16, dtype=BF16, unit=None, q_unit=None):
    """Call on random tokens, NaN outside the sequences, and check.

    The bound is that of `decode_reference.Case.check`.
    """
    random = np.random.default_rng()
    used = [-(-n // page) for n in lens]
    count = sum(used) + 2
    table = np.full((len(lens), max(1, *used)), 2**30, np.int32)
    valid, order = np.zeros((count, page), bool), random.permutation(count)
    for row, (length, pages) in enumerate(zip(lens, used, strict=True)):
        table[row, :pages], order = order[:pages], order[pages:]
        for turn in range(pages):
            valid[table[row, turn], : length - turn * page] = True
    cache = (1 if unit is None else 8) * random.standard_normal((count, page, 576))
    cache = cache.clip(-127, 127).astype(kind)
    cache[~valid] = 127 if kind == INT8 else np.nan
    q = random.standard_normal((len(lens), queries, heads, 576)).astype(dtype)
    result, logs = mla_decode(
        q, cache, table, np.array(lens, np.int32), q_scale=q_unit, kv_scale=unit, return_lse=True
    )
    kept = UNIT[np.dtype(result.dtype)]
    for row, length in enumerate(lens):
        at = np.arange(length)
        keys = cache[table[row, at // page], at % page].astype(np.float64) * (unit or 1)
        for query in range(queries):
            found = result[row, query].astype(np.float64)
            seen = keys[at <= length - queries + query]
            if not len(seen):
                assert (found == 0).all()
                assert (logs[row, :, query] == -np.inf).all()
                continue
            scores = q[row, query].astype(np.float64) * (q_unit or 1) @ seen.T / 24
            top = scores.max(-1, keepdims=True)
            weights = np.exp(scores - top)
            total = weights.sum(-1, keepdims=True)
            exact = weights / total @ seen[:, :512]
            size = weights / total @ np.abs(seen[:, :512])
            assert (np.abs(found - exact) <= kept * (1.25 * size + np.abs(exact)) + 2.0**-24).all()
            log = (top + np.log(total))[:, 0]
            assert np.allclose(logs[row, :, query], log, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, gfx942):
    run(**CASES[name])


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("name", ["few heads", "ragged rows, small pages", "8-bit tokens"])
def test_on_waves_of_32(name, arch):
    with config.scope(FLYDSL_TARGET=arch):
        run(**CASES[name])


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [BF16, FNUZ, FN, INT8])
def test_everywhere(kind, any_arch):
    unit = None if kind == BF16 else 0.05
    for heads, queries, page in ((1, 1, 64), (16, 4, 16), (48, 3, 48), (128, 1, 16), (128, 2, 64)):
        run((0, 1, 33, 200), heads, queries, page, kind, unit=unit)


def test_on_gfx950():
    with config.scope(FLYDSL_TARGET="gfx950"):
        run((37,), heads=32, kind=FN, unit=0.05)


def test_mistakes_are_named(gfx942):
    q, cache = np.zeros((1, 4, 576), BF16), np.zeros((2, 16, 576), BF16)
    table, lens = np.zeros((1, 2), np.int32), np.ones(1, np.int32)
    with pytest.raises(UserValueError, match="q has another shape"):
        mla_decode(q[..., :512].copy(), cache, table, lens)
    with pytest.raises(UserValueError, match="another shape than latent"):
        mla_decode(q, cache[..., :512], table, lens)
    with pytest.raises(ConfigError, match="queries of this element type"):
        mla_decode(q.astype(np.float32), cache, table, lens)
    with pytest.raises(ConfigError, match="caches of this element type"):
        mla_decode(q, cache.astype(np.float16), table, lens)
    with pytest.raises(UserValueError, match="page for sequence 0 that does not exist"):
        mla_decode(q, cache, table + 2, lens)
    with pytest.raises(UserValueError, match="out has an element type"):
        mla_decode(q, cache, table, lens, out=np.zeros((1, 4, 512), np.float32))


def test_operator_of_pytorch(gfx942):
    torch = pytest.importorskip("torch", reason="tests the operator of PyTorch")
    q = torch.randn(1, 4, 576, dtype=torch.bfloat16)
    cache = torch.randn(2, 16, 1, 576, dtype=torch.bfloat16)
    table, lens = torch.tensor([[1, 0]], dtype=torch.int32), torch.tensor([20], dtype=torch.int32)

    def call(q):
        return mla_decode(q, cache, table, lens, kv_scale=0.5, return_lse=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(q)
    for found, wanted in zip(compiled, call(q), strict=True):
        assert torch.equal(found, wanted)
