"""Matrix products through tiled copies, fragments and `gemm`, against float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError

ORDERS = [order.name for order in fx.GemmTraversalOrder]


class Plan:
    """Compile-time choices by name; every instance is compiled anew."""

    def __init__(self, items=()):
        self.items = dict(items)

    def __getitem__(self, name):
        return self.items[name]

    def __setitem__(self, name, value):
        self.items[name] = value

    def get(self, name, default=None):
        return self.items.get(name, default)


def view(tensor, rows, columns):
    """Return a row-major view of known shape."""
    return fx.make_view(fx.get_iter(tensor), fx.make_layout((rows, columns), (columns, 1)))


@flyc.kernel
def product_kernel(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, shape: fx.Constexpr[tuple], plan: fx.Constexpr[Plan]
):
    m, n, k = shape
    thread = fx.thread_idx.x
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(getattr(fx.rocdl, plan["kind"])(*plan["mfma"], plan["element"])),
        fx.make_layout(*plan["atoms"]),
        plan.get("permutation"),
    )
    gA, gB, gC = view(A, m, k), view(B, n, k), view(C, m, n)
    load = fx.make_copy_atom(fx.UniversalCopy(plan["bits"]), plan["element"])
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy_a, copy_b = fx.make_tiled_copy_A(load, mma), fx.make_tiled_copy_B(load, mma)
    copy_c = fx.make_tiled_copy_C(store, mma)
    a, b, c = mma.make_fragment_A(gA), mma.make_fragment_B(gB), mma.make_fragment_C(gC)
    fx.copy(copy_a, copy_a.get_slice(thread).partition_S(gA), copy_a.retile(a))
    fx.copy(copy_b, copy_b.get_slice(thread).partition_S(gB), copy_b.retile(b))
    fx.copy(copy_c, copy_c.get_slice(thread).partition_S(gC), copy_c.retile(c))
    fx.gemm(mma, c, a, b, c, **plan.get("gemm", {}))
    fx.copy(copy_c, copy_c.retile(c), copy_c.get_slice(thread).partition_D(gC))


@flyc.jit
def product(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, shape: fx.Constexpr[tuple],
    threads: fx.Constexpr[int], plan: fx.Constexpr[Plan],
):  # fmt: skip
    product_kernel(A, B, C, shape, plan).launch(grid=1, block=threads)


def check(plan, shape, threads, dtype=np.float16, seed=0):
    """Multiply random matrices and compare: products are exact in f32, sums round.

    One addition errs by at most 2^-24 of the partial sum, at most sum |a||b| + |c|; there are k.
    """
    m, n, k = shape
    random = np.random.default_rng(seed)
    a = random.standard_normal((m, k)).astype(dtype)
    b = random.standard_normal((n, k)).astype(dtype)
    c = random.standard_normal((m, n)).astype(np.float32)
    wide = [x.astype(np.float64) for x in (a, b, c)]
    expected = wide[0] @ wide[1].T + wide[2]
    bound = (np.abs(wide[0]) @ np.abs(wide[1]).T + np.abs(wide[2])) * (k + 1) * 2.0**-24
    product(a, b, c, shape, threads, Plan(plan))
    assert (np.abs(c - expected) <= bound).all()


BASE = {
    "kind": "MFMA", "mfma": (16, 16, 16), "bits": 64, "element": fx.Float16,
    "atoms": ((2, 2, 1), (1, 2, 0)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "shape", "threads"),
    [
        ({}, (32, 32, 16), 256),
        ({}, (64, 96, 32), 256),
        ({"atoms": ((1, 4, 1), (0, 1, 0))}, (32, 64, 16), 256),
        ({"atoms": ((1, 1, 1), (0, 0, 0)), "mfma": (32, 32, 8)}, (64, 32, 16), 64),
        ({"atoms": ((2, 1, 1), (1, 0, 0)), "bits": 32}, (32, 32, 32), 128),
        # Eight values of K next to each other: two atoms per thread, one 128-bit load.
        ({"permutation": (None, None, ((4, 4, 2), (1, 8, 4))), "bits": 128}, (32, 32, 64), 256),
        ({"permutation": (None, (((16, 2), 2), ((1, 32), 16)), None)}, (32, 64, 16), 256),
    ],
    ids=["tile", "tiles", "row", "wide", "half", "permuted-k", "permuted-n"],
)
def test_a_product_matches(mfma_target, change, shape, threads):
    permutation = change.get("permutation")
    if permutation:
        change = dict(change, permutation=tuple(p and fx.make_layout(*p) for p in permutation))
    check({**BASE, **change}, shape, threads)


@pytest.mark.parametrize(
    ("change", "shape", "threads"),
    [
        ({"atoms": ((1, 1, 1), (0, 0, 0))}, (16, 16, 16), 32),
        ({}, (64, 96, 32), 128),
        ({"atoms": ((1, 4, 1), (0, 1, 0)), "bits": 32}, (32, 64, 16), 128),
        ({"permutation": (None, (((16, 2), 2), ((1, 32), 16)), None)}, (32, 64, 16), 128),
    ],
    ids=["tile", "tiles", "row", "permuted-n"],
)
@pytest.mark.parametrize("element", ["Float16", "BFloat16"])
def test_a_product_of_32_lanes_matches(wmma_target, element, change, shape, threads):
    permutation = change.get("permutation")
    if permutation:
        change = dict(change, permutation=tuple(p and fx.make_layout(*p) for p in permutation))
    dtype = np.float16 if element == "Float16" else ml_dtypes.bfloat16
    plan = {**BASE, "kind": "WMMA", "element": getattr(fx, element), **change}
    check(plan, shape, threads, dtype=dtype)


def test_bfloat16(mfma_target):
    plan = {**BASE, "element": fx.BFloat16}
    check(plan, (32, 32, 32), 256, dtype=ml_dtypes.bfloat16)


@pytest.mark.parametrize("order", ORDERS)
def test_every_traversal_order_gives_the_product(order):
    plan = {**BASE, "gemm": {"traversal_order": fx.GemmTraversalOrder[order]}}
    check(plan, (64, 96, 64), 256, seed=ORDERS.index(order))


def test_a_traversal_layout_gives_the_product(mfma_target):
    layout = fx.make_layout((4, 3, 2), (6, 2, 1))
    check({**BASE, "gemm": {"traversal_layout": layout}}, (64, 96, 64), 256)


def test_the_callback_sees_every_step_in_order(mfma_target):
    seen = []

    def note(atom, step):
        assert isinstance(atom, fx.MmaAtom)
        seen.append(step)
        return atom

    check({**BASE, "gemm": {"atom_callback": note}}, (64, 32, 32), 256)
    assert seen == [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]


@flyc.kernel
def fma_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, shape: fx.Constexpr[tuple]):
    m, n, k = shape
    thread = fx.thread_idx.x
    mma = fx.make_tiled_mma(fx.UniversalFMA(fx.Float32), fx.make_layout((8, 8, 1), (8, 1, 0)))
    share = mma.thr_slice(thread)
    gA, gB, gC = view(A, m, k), view(B, n, k), view(C, m, n)
    a, b, c = mma.make_fragment_A(gA), mma.make_fragment_B(gB), mma.make_fragment_C(gC)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, share.partition_A(gA), a)
    fx.copy(atom, share.partition_B(gB), b)
    c.fill(0.0)
    fx.gemm(mma, c, a, b, c)
    fx.copy(atom, c, share.partition_C(gC))


@flyc.jit
def fma(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, shape: fx.Constexpr[tuple]):
    fma_kernel(A, B, C, shape).launch(grid=1, block=64)


def test_universal_fma_rounds_products_and_sums(each_target):
    m, n, k = 16, 24, 5
    random = np.random.default_rng(3)
    a = random.standard_normal((m, k)).astype(np.float32)
    b = random.standard_normal((n, k)).astype(np.float32)
    c = np.empty((m, n), np.float32)
    fma(a, b, c, (m, n, k))
    expected = np.zeros((m, n), np.float32)
    for i in range(k):
        expected = expected + a[:, i, None] * b[None, :, i]
    np.testing.assert_array_equal(c, expected)


def refusals(mma, copy, a, c):
    def refused(code):
        return pytest.raises(UserError, match=code)

    with refused("FLY-U270"):
        mma.get_slice(256)
    with refused("FLY-U270"):
        copy.get_slice(-1)
    with refused("FLY-U270"):
        mma.get_slice(1.5)
    with refused("FLY-U270"):
        fx.make_tiled_mma(copy, (1, 1, 1))
    with refused("FLY-U252"):
        fx.make_tiled_copy_A(mma, mma)
    with refused("FLY-U270"):
        fx.make_tiled_copy_A(copy.copy_atom, copy)
    with refused("FLY-U330"):
        fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16), mma)
    with refused("FLY-U270"):
        fx.gemm(mma, c, a, a, c, traversal_order="MN")
    with refused("FLY-U270"):
        mma.make_fragment_A(fx.make_layout((32, 16), (16, 1)), stages=0)
    with refused("FLY-U329"):
        fx.gemm(mma, a, a, a, c)
    with refused("FLY-U270"):
        fx.gemm(mma, c, [a, 1, 2], a, c)
    with refused("FLY-U270"):
        fx.gemm(mma, c, fx.make_layout(4, 1), a, c)


@flyc.kernel
def facts_kernel(found: fx.Constexpr[Plan]):
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
        fx.make_layout((2, 2, 1), (1, 2, 0)),
    )
    found["size"] = mma.tile_size_mnk
    found["threads"] = mma.size
    found["vmnk"] = str(mma.thr_layout_vmnk)
    found["atom"] = mma.mma_atom.shape_mnk
    found["shape_c"] = str(mma.partition_shape_C((128, 128)))
    a = mma.make_fragment_A(fx.make_layout((128, 64), (64, 1)), stages=2)
    found["a"] = str(a.kind)
    c = mma.make_fragment_C(fx.make_layout((128, 128), (128, 1)))
    found["c"] = str(c.kind.layout)
    copy = fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), mma)
    found["retiled"] = str(copy.retile(a).kind.layout)
    found["copy"] = copy.size, str(copy.tile_mn)
    found["refusals"](mma, copy, a, c)


@flyc.jit
def facts(found: fx.Constexpr[Plan]):
    facts_kernel(found).launch(grid=1, block=256)


def test_properties_and_refusals(mfma_target):
    found = Plan()
    found["refusals"] = refusals
    facts(found)
    assert found["size"] == (32, 32, 16)
    assert found["threads"] == 256
    assert found["vmnk"] == "(64,2,2,1):(1,64,128,0)"
    assert found["atom"] == (16, 16, 16)
    assert found["shape_c"] == "((4, 1), 4, 4)"
    assert '"(4,4,4,2):(1,16,4,64)"' in found["a"]
    assert found["c"] == "((4,1),4,4):((1,0),16,4)"
    assert found["retiled"].startswith("((4,1),4,4")
    assert found["copy"] == (256, "[32|16]")
