"""Products of all element types and layouts against float64: ragged sizes, poisoned memory."""

from __future__ import annotations

import itertools

import numpy as np
import product_reference as reference
import pytest
from product_reference import After, check, dtype_of, fp8, operand, padded, product

from flydsl import config
from flydsl_kernels.gemm import gemm
from flydsl_kernels.gemm.problem import LAYOUTS

MS = [1, 2, 16, 17, 33, 64, 112, 129]
# Every remainder class by the widths of accesses (8, 2 and 1 elements) and by tiles of 64 and 128.
NS = [64, 65, 70, 72, 129, 1, 200, 24]
KS = [24, 192, 320, 1, 33, 66, 128, 200]
ARCHS = ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"]


def formats(arch):
    """Return pairs of element types that an architecture multiplies."""
    found = [("bfloat16", "bfloat16"), ("float16", "float16"), ("int8", "int8")]
    if fp8(arch):
        e4m3, e5m2 = fp8(arch), fp8(arch, "e5m2")
        found += [(e4m3, e4m3), (e5m2, e5m2), (e4m3, e5m2)]
    return found


def run(random, extents, types, layout="nt", pads=None, **options):
    """Multiply arrays in poisoned memory, into poisoned memory, and check the whole of it."""
    m, n, k = extents
    a, b = operand(random, (m, k), types[0]), operand(random, (n, k), types[1]).T
    given = [x if letter == "n" else x.T for x, letter in zip((a, b), layout, strict=True)]
    given = [padded(np.ascontiguousarray(x), pads or (3, 5, 0)) for x in given]
    out = "int32" if types[0] == "int8" else "float32"
    around = np.full((m + 2, n + 9), 7, dtype_of(out))
    result = around[1 : m + 1, 3 : n + 3]
    got = gemm(*given, out=result, layout=layout, **options)
    assert got is result
    expected, bound = product(a, b, After(), "float32", options.get("split_k") or 1)
    check(got.astype(np.float64), expected, bound)
    kept = np.ones_like(around, bool)
    kept[1 : m + 1, 3 : n + 3] = False
    assert (around[kept] == 7).all(), "written outside of the result"


@pytest.mark.parametrize(
    ("arch", "index"),
    [
        (arch, index)
        for arch in ARCHS
        for index in range(len(MS))
        # Those that resemble another architecture have every second size; all are nightly.
        if arch in ("gfx942", "gfx1201") or (index + ARCHS.index(arch)) % 2
    ],
)
def test_ragged_sizes_of_every_type_and_layout(index, arch):
    """Eight sizes; types, layouts, and aligned or unaligned rows in turn."""
    random = np.random.default_rng()
    kinds = formats(arch)
    extents = MS[index], NS[index], KS[index]
    pads = (16, -extents[2] % 16 + 16, 0) if index % 3 == 0 else None
    with config.scope(FLYDSL_TARGET=arch):
        run(random, extents, kinds[index % len(kinds)], LAYOUTS[index % 4], pads)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("m", MS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("arch", ARCHS)
def test_many_sizes_of_every_layout(arch, layout, m):
    """Tails of N and K of every kind; element types in turn, so that all meet all lengths of K."""
    random = np.random.default_rng()
    kinds = formats(arch)
    with config.scope(FLYDSL_TARGET=arch):
        for number, extents in enumerate(itertools.product(MS, NS[:5], KS[:6])):
            if extents[0] == m:
                run(random, extents, kinds[(number + number // 6) % len(kinds)], layout)


def test_operands_of_more_than_4_gib(gfx942):
    """Rows that are 16 MiB apart: every matrix spans 4.7 GiB, of which little is touched."""
    random = np.random.default_rng()
    count, pitch = 300, 1 << 23
    tall = np.zeros((count, pitch), np.float16)
    tall[:, :40] = random.standard_normal((count, 40))
    out = np.zeros((count, pitch // 2), np.float32)
    b = operand(random, (72, 40), "float16")
    got = gemm(tall[:, :40], b, out=out[:, :72])
    check(got, *product(tall[:, :40], b.T, After(), "float32"))
    assert not out[:, 72].any()
    # The same memory as B, whose rows are contiguous along N.
    a = operand(random, (3, count), "float16")
    got = gemm(a, tall[:, :40], layout="nn", out_dtype="float32")
    check(got, *product(a, tall[:, :40], After(), "float32"))


@pytest.mark.parametrize(("parts", "layout"), [(2, "nt"), (3, "tn"), (7, "nn")])
def test_parts_of_k(parts, layout, gfx942):
    """Parts that are empty, or differ in length."""
    random = np.random.default_rng()
    run(random, (33, 65, 200), ("bfloat16", "bfloat16"), layout, split_k=parts)
    run(random, (17, 72, 192), ("int8", "int8"), layout, split_k=parts)


def test_parts_of_k_are_added_in_a_fixed_order(gfx942):
    random = np.random.default_rng()
    a, b = (operand(random, (40, 320), "float16") for _ in range(2))
    first, second = (gemm(a, b, split_k=5, out_dtype="float32") for _ in range(2))
    assert np.array_equal(reference.bits(first), reference.bits(second))
    check(first, *product(a, b.T, After(), "float32", 5))


@pytest.mark.parametrize("extents", [(0, 5, 7), (5, 0, 7), (0, 0, 0), (5, 7, 0)])
def test_nothing_to_do(extents, gfx942):
    m, n, k = extents
    a, b = np.ones((m, k), np.float16), np.ones((n, k), np.float16)
    c = gemm(a, b)
    assert c.shape == (m, n)
    assert not c.any()
    rows = np.arange(2 * n, dtype=np.float32).reshape(2, n)
    assert np.array_equal(gemm(a, b, bias=rows[1]), np.broadcast_to(rows[1], (m, n)))
    batches = gemm(np.stack((a, a)), b, bias=rows)
    assert np.array_equal(batches, np.broadcast_to(rows[:, None], (2, m, n)))


@pytest.mark.parametrize(("types", "arch"), [("bfloat16", "gfx942"), ("int8", "gfx1201")])
def test_batches(types, arch):
    with config.scope(FLYDSL_TARGET=arch):
        batches(types)


def batches(types):
    """Multiply batches with batches, and with single matrices."""
    random = np.random.default_rng()
    a, b = operand(random, (2, 3, 17, 72), types), operand(random, (2, 3, 33, 72), types)
    out = "int32" if types == "int8" else "float32"
    for x, y in ((a, b), (a[1, 0], b), (padded(a[0]), padded(b[1], (1, 2, 3)))):
        expected, bound = product(x, np.swapaxes(y, -1, -2), After(), "float32")
        check(gemm(x, y, out_dtype=out), expected, bound)
    shared = np.broadcast_to(a[0, 0], (3, 17, 72))
    expected, bound = product(shared, np.swapaxes(b[0], -1, -2), After(), "float32")
    check(gemm(shared, b[0], out_dtype=out), expected, bound)
    check(gemm(shared, b[0], out_dtype=out, split_k=2), expected, 2 * bound)


def test_views_that_are_transposed_or_reversed(gfx942):
    """What counts is where elements lie, not the letters; what no load can follow is copied."""
    random = np.random.default_rng()
    a, b = operand(random, (33, 64), "bfloat16"), operand(random, (64, 48), "bfloat16")
    expected, bound = product(a, b, After(), "float32")
    across = np.ascontiguousarray(a.T).T
    for x, y in (
        (across, b), (a, np.asfortranarray(b)), (across, np.asfortranarray(b)),
        (a[::-1][::-1], b), (np.repeat(a, 2, 1)[:, ::2], np.repeat(b, 3, 1)[:, ::3]),
    ):  # fmt: skip
        check(gemm(x, y, layout="nn", out_dtype="float32"), expected, bound)
    check(gemm(a[::-1], b, layout="nn", out_dtype="float32"), expected[::-1], bound[::-1])
    rows = np.broadcast_to(a[:1], a.shape)
    check(gemm(rows, b, layout="nn", out_dtype="float32"), *product(rows, b, After(), "float32"))


def test_results_of_16_bits(target):
    random = np.random.default_rng()
    for name, (m, n, k) in (("bfloat16", (33, 72, 128)), ("float16", (17, 65, 72))):
        a, b = operand(random, (m, k), name), operand(random, (n, k), name)
        got = gemm(a, b)
        assert got.dtype == dtype_of(name)
        check(got, *product(a, b.T, After(), name))
