"""Options and outputs that attention and rotations do not take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from flydsl import config
from flydsl.errors import ConfigError, FlyDSLError, TargetError
from flydsl_kernels.attention import (
    flash_attention,
    fused_rope_kv_cache,
    mla_decode,
    paged_attention_decode,
    qk_norm_rope_quant,
    rope,
)
from flydsl_kernels.attention.decoding import (
    DecodeProblem,
    LatentProblem,
    select_decode,
    select_latent,
)
from flydsl_rocdl.arch import lookup

Q, K = np.ones((1, 5, 2, 32), np.float16), np.ones((1, 9, 1, 32), np.float16)
COS, SIN = np.ones((2001, 16), np.float32), np.zeros((2001, 16), np.float32)


@pytest.fixture(autouse=True)
def _gfx942():
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


def _repeated(shape):
    return np.lib.stride_tricks.as_strided(np.zeros(shape[-1], np.float16), shape,
                                           (0,) * (len(shape) - 1) + (2,))  # fmt: skip


@pytest.mark.parametrize(("options", "code"), [
    ({"window": 3}, "U944"), ({"window": None}, "U944"), ({"window": ("a", 1)}, "U944"),
    ({"window": (1.5, 1)}, "U944"), ({"softmax_scale": "x"}, "U943"),
    ({"softmax_scale": np.ones(3)}, "U943"), ({"num_splits": 2.0}, "C943"),
    ({"num_splits": "2"}, "C943"), ({"out": _repeated(Q.shape)}, "U546"), ({"out": [1]}, "U540"),
    ({"causal": "no"}, "U549"), ({"causal": 1}, "U549"), ({"return_lse": None}, "U549"),
    ({"softmax_scale": True}, "U943"), ({"num_splits": True}, "C943"), ({"bias": 1.0}, "U540"),
    ({"sink": [1.0]}, "U540"), ({"alibi_slopes": "a"}, "U540"), ({"kv_layout": 1}, "U549"),
    ({"kv_layout": ["linear"]}, "U549"), ({"q_descale": "1"}, "U540"),
    ({"cu_seqlens_q": [0, 5]}, "U540"), ({"max_seqlen_q": 2.5}, "U549"),
    ({"max_seqlen_k": "9"}, "U549"), ({"seqlens_k": 9}, "U540"),
    ({"block_table": np.int32(3), "seqlens_k": np.ones(1, np.int32)}, "U540"),
])  # fmt: skip
def test_flash_attention(options, code):
    with pytest.raises(FlyDSLError) as caught:
        flash_attention(Q, K, K, **options)
    assert caught.value.code == f"FLY-{code}"


@pytest.mark.parametrize(("options", "code"), [
    ({"window": "a"}, "U549"), ({"partitions": 1.5}, "U549"), ({"softmax_scale": "a"}, "U943"),
    ({"window": 1.5}, "U549"), ({"window": -1}, "U964"), ({"partitions": 0}, "U964"),
    ({"partitions": True}, "U549"), ({"partitions": 1 << 31}, "U964"),
    ({"cache_layout": "x"}, "U959"), ({"cache_layout": "transposed"}, "U960"),
    ({"out": np.zeros((1, 8, 128), np.float16)[..., ::2]}, "U965"),
    ({"out": _repeated((1, 8, 64))}, "U546"), ({"cache_layout": 3}, "U549"),
    ({"cache_layout": ["linear"]}, "U549"), ({"return_lse": 1}, "U549"),
    ({"window": True}, "U549"), ({"k_scale": "1"}, "U540"), ({"v_scale": True}, "U540"),
    ({"block_table": None}, "U540"), ({"seqlens": [1]}, "U540"), ({"seqlens": 1}, "U540"),
    ({"block_table": np.array(0, np.int32)}, "U542"), ({"key_cache": 0}, "U540"),
    ({"value_cache": [[1.0]]}, "U540"), ({"q": "q"}, "U540"),
])  # fmt: skip
def test_decoding(options, code):
    pages = np.zeros((2, 16, 2, 64), np.float16)
    given = {
        "q": np.zeros((1, 8, 64), np.float16), "key_cache": pages, "value_cache": pages,
        "block_table": np.zeros((1, 2), np.int32), "seqlens": np.ones(1, np.int32), **options,
    }  # fmt: skip
    with pytest.raises(FlyDSLError) as caught:
        paged_attention_decode(**given)
    assert caught.value.code == f"FLY-{code}"


def test_rotations_of_what_is_no_array():
    for call in (
        lambda: flash_attention([1.0], K, K), lambda: rope(Q[0], [1.0], SIN),
        lambda: rope(Q[0], None, None), lambda: qk_norm_rope_quant([1.0], Q[0], COS, SIN),
    ):  # fmt: skip
        with pytest.raises(FlyDSLError, match="neither a NumPy array"):
            call()
    with pytest.raises(FlyDSLError, match="same memory"):
        rope(Q[0], COS, SIN, out=_repeated(Q[0].shape))


def test_a_rotation_to_one_token_further_on():
    memory = np.random.default_rng().standard_normal((2001, 2, 32)).astype(np.float16)
    angles = np.random.default_rng().uniform(0, 6, (2001, 16))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    expected = rope(memory[:-1].copy(), cos, sin)
    rope(memory[:-1], cos, sin, out=memory[1:])
    assert np.array_equal(memory[1:], expected)


def test_errors_of_launches_are_at_the_line_of_the_caller():
    for call in (lambda: flash_attention(Q, K, K), lambda: rope(Q[0], COS, SIN)):
        with config.scope(FLYDSL_TARGET="nonsense"), pytest.raises(TargetError) as caught:
            call()
        assert caught.value.location.file == __file__


def test_decoding_names_the_architectures_that_it_is_for():
    paged = DecodeProblem("float16", "float16", 4, 1, 64, 64, 16, "linear")
    latent = LatentProblem("float16", "float16", 16, 1, 16)
    none = replace(lookup("gfx1201"), name="gfx0000", matrix=())
    for choose in (lambda: select_decode(paged, none), lambda: select_latent(latent, none)):
        with pytest.raises(ConfigError, match="decoding has no kernel") as caught:
            choose()
        assert (caught.value.code, caught.value.value) == ("FLY-C945", "gfx0000")


@pytest.mark.parametrize(("options", "code"), [
    ({"q_scale": "1"}, "U549"), ({"kv_scale": "1"}, "U540"), ({"partitions": "2"}, "U549"),
    ({"partitions": -1}, "U964"), ({"partitions": 2.0}, "U549"),
    ({"block_table": None}, "U540"), ({"kv_cache": [1]}, "U540"), ({"return_lse": 0}, "U549"),
])  # fmt: skip
def test_latent_decoding(options, code):
    given = {
        "q": np.zeros((1, 8, 576), np.float16), "kv_cache": np.zeros((2, 16, 576), np.float16),
        "block_table": np.zeros((1, 2), np.int32), "seqlens": np.ones(1, np.int32), **options,
    }  # fmt: skip
    with pytest.raises(FlyDSLError) as caught:
        mla_decode(**given)
    assert caught.value.code == f"FLY-{code}"


@pytest.mark.parametrize(("call", "code"), [
    (lambda: rope(Q[0], COS, SIN, rotary_dim="3"), "U549"),
    (lambda: rope(Q[0], COS, SIN, rotary_dim=16.0), "U549"),
    (lambda: rope(Q[0], COS, SIN, style=3), "U549"), (lambda: rope(Q[0], COS, SIN, 3), "U540"),
    (lambda: rope(Q[0], COS, SIN, style=["neox"]), "U549"),
    (lambda: rope(Q[0], COS, SIN, style="n"), "C955"), (lambda: rope(None, COS, SIN), "U540"),
    (lambda: rope(np.ma.masked_array(Q[0]), COS, SIN), "U547"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, eps="a"), "U963"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, eps=None), "U963"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, group="8"), "U549"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, quant=8), "U549"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, quant=np.int8), "C959"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, scale_dtype=None), "U549"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, rotary_dim="x"), "U549"),
    (lambda: qk_norm_rope_quant(Q[0], None, COS, SIN), "U540"),
    (lambda: qk_norm_rope_quant(np.float16(1), Q[0], COS, SIN), "U540"),
    (lambda: qk_norm_rope_quant(Q[0], Q[0], COS, SIN, q_weight=2.0), "U540"),
])  # fmt: skip
def test_rotations(call, code):
    with pytest.raises(FlyDSLError) as caught:
        call()
    assert caught.value.code == f"FLY-{code}"
    assert caught.value.location.file == __file__


def _cached(**options):
    q, pages = np.ones((3, 2, 32), np.float16), np.zeros((2, 4, 2, 32), np.float16)
    given = {
        "q": q, "k": q.copy(), "v": q.copy(), "cos": COS, "sin": SIN, "positions": None,
        "slots": np.arange(3, dtype=np.int32), "key_cache": pages, "value_cache": pages.copy(),
        **options,
    }  # fmt: skip
    return fused_rope_kv_cache(**given)


PAGES = np.zeros((2, 4, 2, 32), np.float16)


@pytest.mark.parametrize(("options", "code"), [
    ({"slots": [0, 1, 2]}, "U540"), ({"slots": None}, "U540"), ({"k": None}, "U540"),
    ({"key_cache": None}, "U540"), ({"k_scale": "1"}, "U540"), ({"k_scale": True}, "U540"),
    ({"cache_layout": 1}, "U549"), ({"style": None}, "U549"), ({"rotary_dim": "3"}, "U549"),
    ({"k_scale": -1.0}, "U962"), ({"v_scale": np.float32(0)}, "U962"), ({"q_out": 1}, "U540"),
    ({"key_cache": PAGES, "value_cache": PAGES}, "U548"),
    ({"key_cache": PAGES, "value_cache": PAGES[:, ::-1]}, "U548"),
    ({"q_out": PAGES[0, :3], "key_cache": PAGES}, "U548"),
    ({"q_out": PAGES[0, :3], "k_out": PAGES[0, :3]}, "U548"),
    ({"q_out": PAGES[0, :3], "k_out": PAGES[0, 1:]}, "U548"),
])  # fmt: skip
def test_caches(options, code):
    with pytest.raises(FlyDSLError) as caught:
        _cached(**options)
    assert caught.value.code == f"FLY-{code}"


def test_rotations_in_place_in_one_array_of_queries_keys_and_values():
    random = np.random.default_rng()
    whole = random.standard_normal((3, 6, 32)).astype(np.float16)
    cache = random.standard_normal((2, 2, 4, 2, 32)).astype(np.float16)
    parts = {"q": whole[:, :2], "k": whole[:, 2:4], "v": whole[:, 4:]}
    angles = random.uniform(0, 6, (3, 16))
    tables = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    wanted, keys = [cache[0].copy(), cache[1].copy()], np.zeros((3, 2, 32), np.float16)
    q = _cached(**{name: part.copy() for name, part in parts.items()}, **tables, k_out=keys,
                key_cache=wanted[0], value_cache=wanted[1])  # fmt: skip
    v = parts["v"].copy()
    _cached(**parts, **tables, q_out=parts["q"], k_out=parts["k"], key_cache=cache[0],
            value_cache=cache[1])  # fmt: skip
    assert np.array_equal(whole, np.concatenate((q, keys, v), 1))
    assert np.array_equal(cache, wanted)


def test_a_result_over_what_it_is_of():
    random = np.random.default_rng()
    q, k, v = (random.standard_normal((1, 40, 2, 32)).astype(np.float16) for _ in range(3))
    for splits in (1, 2):
        expected = flash_attention(q, k, v, num_splits=splits)
        for place in range(3):
            given = [q.copy(), k.copy(), v.copy()]
            flash_attention(*given, num_splits=splits, out=given[place])
            assert np.array_equal(given[place], expected)


def test_torch_follows_shapes_and_refuses_transformations():
    torch = pytest.importorskip("torch", reason="asks PyTorch to follow shapes")
    q, k = (torch.ones(1, n, 2, 32, dtype=torch.float16) for n in (5, 9))
    cos, sin = torch.ones(5, 16), torch.zeros(5, 16)
    shape = flash_attention(q.to("meta"), k.to("meta"), k.to("meta"), causal=True)
    assert (shape.shape, shape.device.type) == (q.shape, "meta")
    assert rope(q[0].to("meta"), cos.to("meta"), sin.to("meta")).shape == q[0].shape
    for call in (
        lambda: torch.vmap(lambda x: flash_attention(x[None], k, k))(q),
        lambda: torch.func.grad(lambda x: rope(x, cos, sin).sum())(q[0]),
        lambda: rope(q[0].to_sparse(), cos, sin),
        lambda: flash_attention(q.to("meta"), k.to("meta"), k.to("meta"), out=q.to("meta")),
    ):  # fmt: skip
        with pytest.raises(FlyDSLError, match="FLY-U547"):
            call()


@pytest.mark.parametrize("wrong", [[2, 5], [-1, 5], [0, 3, 2, 5], [0, 6], [1]], ids=str)
@pytest.mark.parametrize("name", ["cu_seqlens_q", "cu_seqlens_k"])
def test_packed_sequences_start_with_the_first_row(name, wrong):
    torch = pytest.importorskip("torch", reason="checks starts in tensors, too")
    right = np.array([0, *[5] * (len(wrong) - 1)], np.int32)
    starts = {"cu_seqlens_q": right, "cu_seqlens_k": right, name: np.array(wrong, np.int32)}
    for kind in (np.asarray, torch.from_numpy):
        given = {what: kind(x) for what, x in starts.items()}
        with pytest.raises(FlyDSLError, match="does not rise from 0") as caught:
            flash_attention(*(kind(Q[0]) for _ in range(3)), **given)
        assert caught.value.code == "FLY-U945"


def test_a_bias_has_a_column_for_every_key():
    starts, lengths = np.array([0, 2, 9], np.int32), np.array([9], np.int32)
    packed = {"cu_seqlens_q": np.array([0, 2, 5], np.int32), "cu_seqlens_k": starts}
    pages = np.ones((2, 16, 1, 32), np.float16)
    paged = {"block_table": np.array([[1, 0]], np.int32), "seqlens_k": lengths}

    def call(columns, most):
        bias = np.zeros((2, 5, columns), np.float32)
        flash_attention(Q[0], K[0], K[0], bias=bias, max_seqlen_k=most, **packed)
        bias = np.zeros((1, 2, 5, columns + 2), np.float32)
        flash_attention(Q, pages, pages, bias=bias, max_seqlen_k=most and most + 2, **paged)

    call(7, None)
    call(7, 7)
    call(10, None)
    for columns, most in ((6, None), (3, None), (6, 7)):
        with pytest.raises(FlyDSLError, match="bias does not fit") as caught:
            call(columns, most)
        assert caught.value.code == "FLY-U940"
    with pytest.raises(FlyDSLError, match="bias does not fit"):
        flash_attention(Q, pages, pages, bias=np.zeros((1, 2, 5, 8), np.float32), **paged)


def _wanting_gradients(torch):
    """Return calls without gradients, and by name the tensors whose gradients they would lose."""
    half, whole = torch.float16, torch.int32
    pages, cos, sin = torch.zeros(2, 16, 2, 64, dtype=half), torch.ones(8, 32), torch.zeros(8, 32)
    unit, heads, factors = torch.ones(1), torch.zeros(1, 8, 64, dtype=half), torch.ones(64)
    where = {"block_table": torch.zeros(1, 2, dtype=whole), "seqlens": torch.ones(1, dtype=whole)}
    caches = {"key_cache": pages, "value_cache": pages.clone()}
    units = {"k_scale": unit, "v_scale": unit.clone()}
    rows = {"q": torch.zeros(1, 2, 64, dtype=half), "cos": cos, "sin": sin}
    keys = {"k": rows["q"].clone(), "v": rows["q"].clone()}
    slots = {"positions": None, "slots": torch.zeros(1, dtype=whole)}
    latent = {"q": torch.zeros(1, 8, 576, dtype=half), "kv_scale": unit,
              "kv_cache": torch.zeros(2, 16, 576, dtype=half)}  # fmt: skip
    weights = {"q_weight": factors.to(half), "kv_weight": factors.to(half)}
    return [
        (paged_attention_decode, {"q": heads, **caches, **units}, where),
        (mla_decode, latent, where),
        (fused_rope_kv_cache, {**rows, **keys, **caches, **units}, slots),
        (qk_norm_rope_quant, {**rows, "kv": keys["k"], **weights}, {}),
        (rope, {"cos": cos, "sin": sin}, {"x": rows["q"]}),
    ]


def test_gradients_that_there_are_not_are_refused_at_the_call():
    torch = pytest.importorskip("torch", reason="asks PyTorch for gradients")
    for call, tensors, others in _wanting_gradients(torch):
        for name in tensors:
            given = {**tensors, **others, name: tensors[name].clone().requires_grad_()}
            with pytest.raises(FlyDSLError, match="no_grad") as caught:
                call(**given)
            assert (caught.value.code, caught.value.value) == ("FLY-U968", name)
            assert caught.value.location.file == __file__
    for call, tensors, others in _wanting_gradients(torch):
        wanted = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
        with torch.no_grad():
            call(**wanted, **others)


def test_values_in_host_memory_are_checked_in_every_call():
    q = torch.ones(8, 2, 32).half()
    starts, lengths = torch.tensor([0, 3, 8]).int(), torch.tensor([3, 16]).int()
    table = torch.zeros(2, 1, dtype=torch.int32)
    pages = torch.ones(2, 16, 2, 32).half()
    packed = {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
    flash_attention(q, q, q, **packed)
    starts[1] = 9
    with pytest.raises(FlyDSLError, match="does not rise"):
        flash_attention(q, q, q, **packed)
    paged_attention_decode(q[:2], pages, pages, table, lengths)
    table[1, 0] = 2
    with pytest.raises(FlyDSLError, match="does not exist"):
        paged_attention_decode(q[:2], pages, pages, table, lengths)
    table[1, 0] = 1
    lengths[1] = 17
    with pytest.raises(FlyDSLError, match="no number of keys"):
        paged_attention_decode(q[:2], pages, pages, table, lengths)


def test_large_tables_are_looked_at_where_they_are_used():
    """What lies past a sequence's last page is not looked at, in large tables and in small ones."""
    pages = torch.ones(2, 16, 2, 32).half()
    for columns in (3, 5000):
        table = torch.full((2, columns), 7, dtype=torch.int32)
        table[:, :2] = torch.tensor([[0, 1], [1, 0]])
        lengths = torch.tensor([17, 32]).int()
        given = torch.ones(2, 2, 32).half(), (pages, pages)
        paged_attention_decode(given[0], *given[1], table, lengths)
        table[1, 1] = -1
        with pytest.raises(FlyDSLError, match="sequence 1"):
            paged_attention_decode(given[0], *given[1], table, lengths)


def test_settings_that_change_between_calls_take_effect():
    x, table = torch.ones(4, 2, 32), torch.ones(4, 16)
    expected = rope(x, table, table)
    with config.scope(FLYDSL_TARGET="nonsense"), pytest.raises(FlyDSLError):
        rope(x, table, table)
    with config.scope(FLYDSL_TARGET="gfx1201"):
        assert torch.allclose(rope(x, table, table), expected)
