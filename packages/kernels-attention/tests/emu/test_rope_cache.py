"""Keys and values in paged caches, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from rotary_reference import BF16, tables

from flydsl.errors import UserValueError
from flydsl_kernels.attention import fused_rope_kv_cache, rope

pytest.importorskip("flydsl_emu", reason="runs kernels on the emulator")
FNUZ = np.dtype(ml_dtypes.float8_e4m3fnuz)
LIMITS = {FNUZ: 240.0, np.dtype(np.int8): 127.0}
PAGES, PAGE, GROUPS, DIM, VALUES = 3, 16, 2, 64, 48
SLOTS = np.array([3, -1, 17, 47, 40, 48, 2**33])


def shapes(layout, kind):
    """Return the shapes of both caches."""
    x = 16 // kind.itemsize
    if layout == "linear":
        return (PAGES, PAGE, GROUPS, DIM), (PAGES, PAGE, GROUPS, VALUES)
    keys = (PAGES, GROUPS, DIM // x, PAGE, x)
    blocked = (PAGES, GROUPS, PAGE // x, VALUES, x)
    return keys, blocked if layout == "vectorised" else (PAGES, GROUPS, VALUES, PAGE)


def converted(values, kind, scale):
    """Divide by the scale in f32 and round to the cache's type."""
    exact = values.astype(np.float32) / np.float32(1 if scale is None else scale)
    if kind in LIMITS:
        exact = np.clip(exact, -LIMITS[kind], LIMITS[kind])
    return (np.rint(exact) if kind == np.int8 else exact).astype(kind)


def expected(layout, kind, keys, values):
    """Return both caches, 7 where no token is."""
    flat = [np.full((PAGES * PAGE, GROUPS, dim), 7, kind) for dim in (DIM, VALUES)]
    for token, slot in enumerate(SLOTS):
        if 0 <= slot < PAGES * PAGE:
            flat[0][slot], flat[1][slot] = keys[token], values[token]
    k, v = (a.reshape(PAGES, PAGE, GROUPS, -1) for a in flat)
    x = 16 // kind.itemsize
    if layout != "linear":
        k = k.reshape(PAGES, PAGE, GROUPS, DIM // x, x).transpose(0, 2, 3, 1, 4)
    if layout == "vectorised":
        v = v.reshape(PAGES, PAGE // x, x, GROUPS, VALUES).transpose(0, 3, 1, 4, 2)
    if layout == "transposed":
        v = v.transpose(0, 2, 3, 1)
    return k, v


KINDS = [
    (BF16, None),
    (FNUZ, "head"),
    (np.dtype(np.int8), 0.0625),
    (np.dtype(np.float32), None),
]
LAYOUTS = ["linear", "vectorised", "transposed"]
# Every layout with every style and every type, each type with every layout once.
CASES = [
    (layout, style, *KINDS[(index + place) % 4])
    for place, layout in enumerate(LAYOUTS)
    for index, style in enumerate(("neox", "gptj", "neox", "gptj"))
]


@pytest.mark.parametrize(("layout", "style", "kind", "scale"), CASES, ids=str)
def test_every_layout(layout, style, kind, scale, gfx942):
    random = np.random.default_rng()
    tokens = len(SLOTS)
    q, k, v = (
        (4 * random.standard_normal((tokens, heads, dim))).astype(BF16)
        for heads, dim in ((4, DIM), (GROUPS, DIM), (GROUPS, VALUES))
    )
    v[0, 0, 0], v[2, 1, 3] = np.nan if kind == FNUZ else 3, 1e6
    cos, sin = tables(random, 11, 16)
    at = random.integers(0, 11, tokens)
    caches = [np.full(shape, 7, kind) for shape in shapes(layout, kind)]
    given = np.array([0.03125, 0.05], np.float32) if scale == "head" else scale
    out = fused_rope_kv_cache(
        q, k, v, cos, sin, at, slots=SLOTS, key_cache=caches[0], value_cache=caches[1],
        style=style, cache_layout=layout, k_scale=given, v_scale=given,
    )  # fmt: skip
    assert np.array_equal(out.view(np.uint16), rope(q, cos, sin, at, style=style).view(np.uint16))
    # Rotated in f32 and rounded once, so not through bf16.
    turned = rope(k.astype(np.float32), cos, sin, at, style=style)
    factor = given.reshape(1, -1, 1) if scale == "head" else given
    for found, wanted in zip(
        caches,
        expected(layout, kind, converted(turned, kind, factor), converted(v, kind, factor)),
        strict=True,
    ):
        assert np.array_equal(found.view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8))


def test_outputs_in_place(gfx942):
    random = np.random.default_rng()
    q, k, v = (random.standard_normal((3, 2, 8)).astype(np.float32) for _ in range(3))
    cos, sin = tables(random, 3, 4)
    kept = [rope(a, cos, sin) for a in (q, k)]
    cache = np.zeros((2, 2, 2, 2, 8), np.float32)
    fused_rope_kv_cache(
        q, k, v, cos, sin, None, slots=np.array([0, 1, 2]), key_cache=cache[0],
        value_cache=cache[1], q_out=q, k_out=k,
    )  # fmt: skip
    assert np.array_equal(q, kept[0])
    assert np.array_equal(k, kept[1])
    assert np.array_equal(cache[0].reshape(4, 2, 8)[:3], kept[1])
    assert np.array_equal(cache[1].reshape(4, 2, 8)[:3], v)
    assert (cache.reshape(2, 4, 2, 8)[:, 3] == 0).all()


def test_mistakes_are_named(gfx942):
    heads, table = np.ones((3, 2, 8), np.float32), np.ones((3, 4), np.float32)
    cache, slots = np.ones((2, 4, 2, 8), np.float32), np.arange(3)

    def call(**changes):
        values = {"slots": slots, "key_cache": cache, "value_cache": cache.copy()}
        fused_rope_kv_cache(heads, heads, heads, table, table, None, **{**values, **changes})

    call()
    with pytest.raises(UserValueError, match="no cache layout"):
        call(cache_layout="paged")
    with pytest.raises(UserValueError, match="another shape than its layout"):
        call(cache_layout="vectorised")
    with pytest.raises(UserValueError, match="value_cache has another shape"):
        call(value_cache=cache[:, :, :1])
    with pytest.raises(UserValueError, match="value_cache has an element type"):
        call(value_cache=cache.astype(np.float16))
    with pytest.raises(UserValueError, match="slots has another shape"):
        call(slots=slots[:2])
    with pytest.raises(UserValueError, match="k_scale is no finite positive number"):
        call(k_scale=0.0)
    five = np.ones((2, 2, 2, 3, 4), np.float32)
    with pytest.raises(UserValueError, match="whole blocks"):
        call(key_cache=five, value_cache=five, cache_layout="vectorised")


def test_operator_of_pytorch_writes_the_caches(gfx942):
    torch = pytest.importorskip("torch", reason="tests the operator of PyTorch")
    cos, sin = (torch.from_numpy(t) for t in tables(np.random.default_rng(), 3, 4))
    q, k, v = (torch.randn(3, 2, 8) for _ in range(3))
    caches = [torch.zeros(2, 2, 2, 8) for _ in range(4)]

    def step(q, k, v, keys, values):
        return fused_rope_kv_cache(
            q, k, v, cos, sin, None, slots=torch.tensor([3, 1, 0]), key_cache=keys,
            value_cache=values,
        )  # fmt: skip

    plain = step(q, k, v, *caches[:2])
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(q, k, v, *caches[2:])
    assert torch.equal(plain, compiled)
    assert torch.equal(caches[0], caches[2])
    assert torch.equal(caches[1], caches[3])
    assert caches[0][1, 1].any()
