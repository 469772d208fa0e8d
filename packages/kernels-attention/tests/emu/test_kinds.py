"""Every argument of every public function, replaced by values that it does not take."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.testing.families import check_refusals
from flydsl_kernels import attention

pytestmark = [
    pytest.mark.usefixtures("gfx942"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning"),
]
Q = np.ones((1, 4, 2, 32), np.float16)
PAGES = np.ones((2, 16, 2, 32), np.float16)
ANGLES = {"cos": np.ones((8, 16), np.float32), "sin": np.zeros((8, 16), np.float32)}
PAGED = {"block_table": np.array([[0, 1]], np.int32)}
HEADS, WIDE = np.ones(2, np.float32), np.ones(32, np.float32)


def _calls():
    lengths, turned = np.array([9], np.int32), {**ANGLES, "positions": np.arange(4)}
    yield attention.flash_attention, {
        "q": Q, "k": Q, "v": Q, "causal": True, "window": (None, 3), "softmax_scale": 1.0,
        "bias": np.ones((1, 2, 4, 4), np.float32), "alibi_slopes": HEADS, "sink": HEADS,
        "seqlens_k": np.array([4], np.int32), "kv_layout": "linear", "q_descale": None,
        "num_splits": 1, "return_lse": False, "out": Q.copy(), "stream": None,
    }  # fmt: skip
    yield attention.flash_attention, {
        "q": Q[0], "k": PAGES, "v": PAGES, "cu_seqlens_q": np.array([0, 4], np.int32), **PAGED,
        "seqlens_k": lengths, "max_seqlen_q": 4, "max_seqlen_k": 9,
    }  # fmt: skip
    common = {**PAGED, "seqlens": lengths, "softmax_scale": 1.0, "partitions": 1}
    yield attention.paged_attention_decode, {
        "q": Q[0, :1], "key_cache": PAGES, "value_cache": PAGES, **common, "window": 3,
        "k_scale": 1.0, "v_scale": 1.0, "cache_layout": "linear", "return_lse": True,
        "out": Q[0, :1].copy(),
    }  # fmt: skip
    yield attention.mla_decode, {
        "q": np.ones((1, 8, 576), np.float16), "kv_cache": np.ones((2, 16, 576), np.float16),
        **common, "q_scale": 1.0, "kv_scale": 1.0, "return_lse": True,
        "out": np.ones((1, 8, 512), np.float16),
    }  # fmt: skip
    yield attention.rope, {"x": Q[0], **turned, "style": "neox", "rotary_dim": 32,
                           "out": Q[0].copy()}  # fmt: skip
    yield attention.qk_norm_rope_quant, {
        "q": Q[0], "kv": Q[0], **turned, "q_weight": WIDE, "kv_weight": WIDE, "eps": 1e-6,
        "rotary_dim": 32, "quant": "float8_e4m3fn", "group": 32, "scale_dtype": "float32",
    }  # fmt: skip
    yield attention.fused_rope_kv_cache, {
        "q": Q[0], "k": Q[0], "v": Q[0], **turned, "slots": np.arange(4),
        "key_cache": PAGES.copy(), "value_cache": PAGES.copy(), "style": "neox", "rotary_dim": 32,
        "cache_layout": "linear", "k_scale": 1.0, "v_scale": 1.0, "q_out": Q[0].copy(),
        "k_out": Q[0].copy(),
    }  # fmt: skip


@pytest.mark.parametrize("number", range(7))
def test_every_argument(number):
    function, good = list(_calls())[number]
    assert check_refusals(function, **good) > 10 * len(good)
