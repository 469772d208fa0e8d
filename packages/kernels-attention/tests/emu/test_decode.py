"""Paged decoding against float64."""

from __future__ import annotations

import numpy as np
import pytest
from decode_reference import BF16, F16, FN, FNUZ, INT8, Case

import flydsl_emu
from flydsl import config
from flydsl.errors import ConfigError, UserTypeError, UserValueError
from flydsl_kernels.attention import paged_attention_decode
from flydsl_kernels.attention.device.decode_work import Work, launch_work

CASES = {
    "linear": {},
    "vectorised": {"layout": "vectorised"},
    "transposed": {"layout": "transposed"},
    "several queries and a window": {"queries": 4, "heads": 32, "page": 64, "window": 50},
    "odd pages": {"d": 64, "dv": 64, "page": 48},
    "two widths": {"d": 192, "dv": 96, "queries": 2, "dtype": F16, "kind": F16},
    "wide heads, large pages": {"d": 256, "dv": 256, "page": 1024, "lens": (1, 1024, 1100)},
    "many rows": {"heads": 96, "kv": 1, "queries": 2, "lens": (300,), "d": 64, "dv": 32},
    "more queries than keys": {"queries": 4, "heads": 2, "lens": (3,), "d": 32, "dv": 32},
    "fnuz": {"kind": FNUZ, "scale": "number"},
    "fn, blocks": {"kind": FN, "layout": "vectorised", "scale": "number"},
    "int8, units per token": {"kind": INT8, "layout": "transposed", "scale": "token", "page": 64},
    "fnuz, units per token": {
        "kind": FNUZ, "layout": "vectorised", "scale": "token", "lens": (5, 16, 17), "dtype": F16,
    },
    "int8, four keys a load": {
        "kind": INT8, "d": 64, "dv": 192, "scale": "token", "page": 48, "window": 70,
    },
    "int8, narrow pieces": {"kind": INT8, "d": 96, "dv": 160, "scale": "number", "page": 80},
}  # fmt: skip
SOME = [
    "vectorised", "several queries and a window", "two widths", "int8, units per token",
    "int8, four keys a load",
]  # fmt: skip


def run(case, **options):
    """Call and check."""
    given = case.arrays
    result, logs = paged_attention_decode(
        given["q"], *case.caches(), given["table"], np.array(case.lens, np.int32),
        window=case.window, k_scale=given["units"][0], v_scale=given["units"][1],
        cache_layout=case.layout, return_lse=True, **options,
    )  # fmt: skip
    case.check(result, logs)
    return result


def run_without_spills(case):
    """Call, check, and look at what the kernels use."""
    with flydsl_emu.collect() as reports:
        run(case)
    assert not any(report.resources.scratch_bytes for report in reports)


@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, gfx942):
    run_without_spills(Case(**CASES[name]))


@pytest.mark.parametrize("name", ["linear", "several queries and a window", "fn, blocks"])
def test_on_gfx950(name):
    with config.scope(FLYDSL_TARGET="gfx950"):
        run_without_spills(Case(**CASES[name]))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("name", SOME)
def test_on_waves_of_32(name, arch):
    with config.scope(FLYDSL_TARGET=arch):
        run_without_spills(Case(**CASES[name]))


@pytest.mark.nightly
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("name", CASES)
def test_no_case_spills_on_waves_of_32(name, arch):
    with config.scope(FLYDSL_TARGET=arch):
        run_without_spills(Case(**CASES[name]))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx1250"])
def test_large_scores_and_equal_values_on_waves_of_32(arch):
    case = Case(lens=(100,), heads=32, kv=1, queries=2, d=64, dv=32, kind=INT8, scale="number")
    case.arrays["q"] = (case.arrays["q"].astype(np.float32) * 64).astype(BF16)
    with config.scope(FLYDSL_TARGET=arch):
        run(case)
        values = case.arrays["values"]
        values[:] = 100
        found = run(case).astype(np.float32)
    assert np.abs(found - 7).max() <= 2.0**-6


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_everywhere(name, any_arch):
    for kind in (None, FNUZ, FN, INT8):
        for layout in ("linear", "vectorised", "transposed"):
            changed = {"layout": layout} | ({} if kind is None else {"kind": kind})
            if CASES[name].get("page", 16) % 16 == 0:
                run(Case(**CASES[name] | changed))


@pytest.mark.parametrize(
    ("arch", "kind", "d"),
    [("gfx942", BF16, 64), ("gfx942", INT8, 64), ("gfx942", INT8, 128), ("gfx942", INT8, 256),
     ("gfx950", BF16, 96), ("gfx1201", INT8, 128)],
)  # fmt: skip
def test_every_load_of_whole_lines_has_128_bits(arch, kind, d):
    """Rows are multiples of 64 bytes, and loads of one lane have elements for up to four."""
    with config.scope(FLYDSL_TARGET=arch):
        for layout in ("linear", "vectorised") if d == 128 else ("linear",):
            scale = "number" if kind == INT8 else "none"
            case = Case(kind=kind, d=d, dv=d, layout=layout, lens=(40,), heads=2, kv=1, scale=scale)
            with flydsl_emu.collect() as reports:
                run(case)
            report = next(r for r in reports if "decode_kernel" in r.kernel)
            texts = {a.text for a in report.accesses if a.space == "global" and "load" in a.text}
            assert texts
            assert all("dwordx4" in text or "b128" in text for text in texts), (kind, d, texts)


def test_every_number_of_parts_gives_the_same_rows(gfx942):
    case = Case(lens=(0, 37, 1300, 513), heads=4, d=32, dv=32)
    results = [run(case, partitions=count) for count in (1, 2, 1000)]
    again = run(case, partitions=2)
    assert np.array_equal(again.view(np.uint16), results[1].view(np.uint16))


def test_ones_give_ones_and_large_scores_stay_finite(gfx942):
    case = Case(lens=(100,), heads=2, d=64, dv=32)
    case.arrays["keys"] = (case.arrays["keys"].astype(np.float32) * 64).astype(BF16)
    run(case)
    values = case.arrays["values"]
    values[~np.isnan(values.astype(np.float32))] = 1
    assert np.abs(run(case).astype(np.float32) - 1).max() <= 2.0**-8


def test_the_list_of_parts(gfx942):
    lens = np.random.default_rng().integers(0, 3000, 300).astype(np.int32)
    starts, items = np.full(301, -1, np.int32), np.full((600, 2), -1, np.int32)
    size = np.zeros(1, np.int32)
    launch_work(Work(lens, starts, items, size, 2**31 - 1), 0, 128, 1, 32, False, None)
    parts = -(-lens // size[0])
    assert size[0] % 128 == 0
    assert parts.sum() <= 600
    assert np.array_equal(starts, np.concatenate([[0], np.cumsum(parts)]))
    assert np.array_equal(items[: starts[-1], 0], np.repeat(np.arange(300), parts))
    assert np.array_equal(items[: starts[-1], 1], np.concatenate([np.arange(n) for n in parts]))
    assert (items[starts[-1] :] == -1).all()


def test_three_axes_outputs_and_empty_batches(gfx942):
    case = Case(lens=(20,), heads=4, d=32, dv=32)
    given, lens = case.arrays, np.array(case.lens, np.int32)
    whole = paged_attention_decode(given["q"], *case.caches(), given["table"], lens)
    out = np.zeros((1, 4, 32), BF16)
    flat = paged_attention_decode(given["q"][:, 0], *case.caches(), given["table"], lens, out=out)
    assert flat is out
    assert np.array_equal(out.view(np.uint16), whole[:, 0].view(np.uint16))
    none = paged_attention_decode(
        given["q"][:0], *case.caches(), given["table"][:0], lens[:0], return_lse=True
    )
    assert (none[0].shape, none[1].shape) == ((0, 1, 4, 32), (0, 4, 1))


def test_mistakes_are_named(gfx942):
    case = Case(lens=(20,), heads=4, d=32, dv=32)
    caches, given = case.caches(), case.arrays

    def call(q=given["q"], caches=caches, table=given["table"], lens=(20,), **options):
        paged_attention_decode(q, *caches, table, np.array(lens, np.int32), **options)

    with pytest.raises(ConfigError, match="queries of this element type"):
        call(q=given["q"].astype(np.float32))
    with pytest.raises(ConfigError, match="caches of this element type"):
        call(caches=tuple(c.astype(np.float16) for c in caches))
    with pytest.raises(ConfigError, match="pages of this many tokens"):
        call(caches=tuple(np.ascontiguousarray(c[:, :8]) for c in caches))
    with pytest.raises(ConfigError, match="heads of this many elements"):
        call(q=given["q"][..., :16], caches=tuple(c[..., :16].copy() for c in caches))
    with pytest.raises(UserValueError, match="same number of heads"):
        call(q=given["q"][:, :, :3])
    with pytest.raises(UserValueError, match="another shape than its layout"):
        call(cache_layout="vectorised")
    with pytest.raises(UserValueError, match="seqlens has another shape"):
        call(lens=(20, 1))
    for lens in (-1, 33):
        with pytest.raises(UserValueError, match=r"seqlens\[0\] is no number of keys"):
            call(lens=(lens,))
    for number in (-1, 99):
        with pytest.raises(UserValueError, match="page for sequence 0 that does not exist"):
            call(table=np.array([[0, number]], np.int32))
    with pytest.raises(UserValueError, match="window is out of range"):
        call(window=-1)
    with pytest.raises(UserValueError, match="scale of scores"):
        call(softmax_scale=0.0)
    loose = np.repeat(caches[1], 2, -1)[..., ::2]
    with pytest.raises(UserValueError, match="not aligned"):
        call(caches=(caches[0], loose))
    with pytest.raises(UserTypeError, match="neither"):
        call(q=[1])


def test_operator_of_pytorch(gfx942):
    torch = pytest.importorskip("torch", reason="tests the operator of PyTorch")
    q = torch.randn(2, 1, 4, 32, dtype=torch.bfloat16)
    cache = torch.randn(2, 4, 16, 2, 32, dtype=torch.bfloat16)
    table = torch.tensor([[2, 1], [0, 3]], dtype=torch.int32)
    lens = torch.tensor([20, 3], dtype=torch.int32)

    def call(q):
        return paged_attention_decode(q, cache[0], cache[1], table, lens, return_lse=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(q)
    for found, wanted in zip(compiled, call(q), strict=True):
        assert torch.equal(found, wanted)
