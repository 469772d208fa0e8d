"""Every public function in PyTorch's graphs: compiled as a whole, and exported."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="these are graphs of PyTorch")

from flydsl.testing.graphs import check_graphs
from flydsl_kernels import attention

pytestmark = pytest.mark.usefixtures("gfx942")
RNG = np.random.default_rng(31)


def numbers(*shape, dtype=np.float16):
    return RNG.standard_normal(shape).astype(dtype)


Q = numbers(1, 4, 2, 32)
PAGES = numbers(2, 16, 2, 32)
TABLE = {"block_table": np.array([[0, 1]], np.int32)}
LENGTHS = np.array([9], np.int32)
COMMON = {**TABLE, "seqlens": LENGTHS, "softmax_scale": 0.25, "partitions": 1}
TURNED = {
    "cos": numbers(8, 16, dtype=np.float32),
    "sin": numbers(8, 16, dtype=np.float32),
    "positions": np.arange(4),
}
WIDE = numbers(32, dtype=np.float32)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (
            attention.flash_attention,
            {"q": Q, "k": Q, "v": Q, "causal": True, "softmax_scale": 0.25, "out": Q.copy()},
        ),
        (
            attention.paged_attention_decode,
            {"q": Q[0, :1], "key_cache": PAGES, "value_cache": PAGES, **COMMON, "k_scale": 0.5,
             "return_lse": True, "out": Q[0, :1].copy()},
        ),
        (
            attention.mla_decode,
            {"q": numbers(1, 8, 576), "kv_cache": numbers(2, 16, 576), **COMMON, "kv_scale": 0.5,
             "out": numbers(1, 8, 512)},
        ),
        (attention.rope, {"x": Q[0], **TURNED, "rotary_dim": 32, "out": Q[0].copy()}),
        (
            attention.qk_norm_rope_quant,
            {"q": Q[0], "kv": Q[0], **TURNED, "q_weight": WIDE, "kv_weight": WIDE, "eps": 1e-5,
             "rotary_dim": 32, "quant": "float8_e4m3fnuz", "group": 32},
        ),
        (
            attention.fused_rope_kv_cache,
            {"q": Q[0], "k": Q[0], "v": Q[0], **TURNED, "slots": np.arange(4),
             "key_cache": PAGES.copy(), "value_cache": PAGES.copy(), "rotary_dim": 32,
             "q_out": Q[0].copy()},
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_calls_in_graphs(function, given):
    check_graphs(function, **given)


def test_outputs_beside_the_result_are_written_in_graphs():
    torch = pytest.importorskip("torch")
    given = {"q": Q[0], "k": Q[0], "v": Q[0], **TURNED, "slots": np.arange(4)}
    given |= {"key_cache": PAGES, "value_cache": PAGES, "k_out": np.zeros_like(Q[0])}
    found = []
    for how in (lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")):
        torch._dynamo.reset()
        tensors = {name: torch.from_numpy(array.copy()) for name, array in given.items()}
        result = how(attention.fused_rope_kv_cache)(**tensors)
        found.append([result, *(tensors[n] for n in ("key_cache", "value_cache", "k_out"))])
    for eager, compiled in zip(*found, strict=True):
        assert torch.equal(eager, compiled)
    assert bool(found[0][3].any())
