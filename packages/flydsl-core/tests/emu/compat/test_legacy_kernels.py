"""Kernels in the style of older FlyDSL code, run in the emulator; every legacy name warns."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import arith as raw_arith
    from flydsl._mlir.dialects import fly as raw_fly
    from flydsl._mlir.dialects import scf
    from flydsl._mlir.extras import types
    from flydsl._mlir.passmanager import PassManager
    from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

    from flydsl.expr import T, arith, gpu, vector
    from flydsl.expr.arith import ArithValue, constant, index_cast, unwrap

pytestmark = pytest.mark.filterwarnings("ignore:.*kept for existing kernels:DeprecationWarning")


@pytest.fixture(params=["gfx942", "gfx1100"], autouse=True)
def arch(request):
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


def run(kernel, *arrays, block=64):
    typed = [flyc.from_dlpack(a) for a in arrays]

    @flyc.jit
    def launch(a: fx.Tensor, b: fx.Tensor):
        kernel(a, b).launch(grid=1, block=block)

    launch(*typed)


@flyc.kernel
def scalar_kernel(x: fx.Tensor, out: fx.Tensor):
    tid = gpu.thread_idx.x
    index = index_cast(T.index, unwrap(tid))
    value = ArithValue(x[tid])
    doubled = arith.addi(value, value)
    low = arith.minsi(doubled, constant(20, T.i32))
    low = arith.maxsi(low, arith.constant(-20, type=T.i32))
    small = arith.cmpi("slt", low, constant(0, T.i32))
    picked = arith.select(small, arith.negf(arith.sitofp(T.f32, low)), arith.sitofp(T.f32, low))
    high = arith.maxui(value, constant(5, T.i32))
    out[tid] = arith.fptosi(T.i32, picked) * 1000 + arith.index_cast(T.i32, index) + (high & 255)


def test_scalar_builders():
    x = (np.arange(64, dtype=np.int32) - 30) // 2
    out = np.zeros(64, np.int32)
    run(scalar_kernel, x, out)
    high = np.maximum(x.astype(np.uint32), 5).astype(np.int64) & 255
    want = np.abs(np.clip(2 * x, -20, 20)) * 1000 + np.arange(64) + high
    np.testing.assert_array_equal(out, want)


@flyc.kernel
def raw_control_kernel(x: fx.Tensor, out: fx.Tensor):
    tid = gpu.thread_idx.x
    n = x[tid]
    zero, one = fx.Index(0), fx.Index(1)
    start = fx.Int32(0).ir_value()
    upper = arith.index_cast(T.index, n)
    loop = scf.ForOp(zero.ir_value(), upper.ir_value(), one.ir_value(), [start])
    with ir.InsertionPoint(loop.body):
        i = ArithValue(loop.induction_variable).to(fx.Int32)
        total = fx.Int32(loop.inner_iter_args[0]) + i * i
        scf.YieldOp([total.ir_value()])
    even = (n % 2 == 0).ir_value()
    branch = scf.IfOp(even, [T.i32], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([fx.Int32(loop.results[0]).ir_value()])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([(-fx.Int32(loop.results[0])).ir_value()])
    out[tid] = ArithValue(branch.results[0])


def test_raw_scf_operations():
    x = np.arange(64, dtype=np.int32) % 11
    out = np.zeros(64, np.int32)
    run(raw_control_kernel, x, out)
    sums = np.array([sum(i * i for i in range(n)) for n in x])
    np.testing.assert_array_equal(out, np.where(x % 2 == 0, sums, -sums))


@flyc.kernel
def shuffle_kernel(x: fx.Tensor, out: fx.Tensor):
    tid = gpu.thread_idx.x
    total = unwrap(x[tid])
    for step in fx.range_constexpr(5):
        offset, width = constant(16 >> step, T.i32), constant(32, T.i32)
        other = gpu.ShuffleOp(total, unwrap(offset), unwrap(width), mode="xor").shuffleResult
        total = unwrap(arith.addi(total, other))
    out[tid] = ArithValue(total)


def test_shuffle_op():
    x = np.random.default_rng().integers(-1000, 1000, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    run(shuffle_kernel, x, out)
    np.testing.assert_array_equal(out, np.repeat(x.reshape(2, 32).sum(1), 32))


@flyc.kernel
def vector_kernel(x: fx.Tensor, out: fx.Tensor):
    tid = gpu.thread_idx.x
    loaded = vector.load_op(T.vec(4, T.i32), x, [tid * 4])
    turned = vector.shuffle(loaded, loaded, [3, 2, 1, 0])
    first = vector.extract(turned, static_position=[0])
    chosen = vector.extract(turned, dynamic_position=[tid % 4])
    filled = vector.broadcast(T.i32x4, first)
    made = vector.from_elements(T.i32x4, [first, chosen, 7, vector.reduction(T.i32, "add", loaded)])
    added = arith.addi(vector.insert(chosen, filled, static_position=[2]), made)
    halves = vector.bitcast(T.vec(8, T.i16), added)
    vector.store(vector.bitcast(T.i32x4, halves), out, [tid * 4])


def test_vector_builders():
    x = np.random.default_rng().integers(-(2**20), 2**20, 256).astype(np.int32)
    out = np.zeros(256, np.int32)
    run(vector_kernel, x, out)
    for tid in range(64):
        loaded = x[4 * tid : 4 * tid + 4]
        turned = loaded[::-1]
        first, chosen = turned[0], turned[tid % 4]
        made = np.array([first, chosen, 7, loaded.sum()])
        filled = np.array([first, first, chosen, first])
        np.testing.assert_array_equal(out[4 * tid : 4 * tid + 4], made + filled)


@flyc.kernel
def reduction_kernel(x: fx.Tensor, out: fx.Tensor):
    tid = gpu.thread_idx.x
    loaded = vector.load_op(T.vec(4, T.i32), x, [tid * 4])
    unsigned = loaded.bitcast(fx.Uint32)
    out[tid * 4] = vector.reduction(T.i32, "maxsi", unsigned)
    out[tid * 4 + 1] = vector.reduction(T.i32, "minsi", loaded)
    out[tid * 4 + 2] = vector.reduction(T.i32, "maxui", loaded)
    out[tid * 4 + 3] = vector.reduction(T.i32, "minui", unsigned)


def test_reductions_compare_as_their_name_says():
    x = np.random.default_rng().integers(-(2**31), 2**31, 256).astype(np.int32)
    out = np.zeros(256, np.int32)
    run(reduction_kernel, x, out)
    rows, unsigned = x.reshape(64, 4), x.view(np.uint32).reshape(64, 4)
    want = [
        rows.max(1),
        rows.min(1),
        unsigned.max(1).view(np.int32),
        unsigned.min(1).view(np.int32),
    ]
    np.testing.assert_array_equal(out.reshape(64, 4), np.stack(want, 1))


def test_shared_memory_allocator_views_survive_loops(arch):
    allocator = SmemAllocator(None, arch=arch, global_sym_name="smem0")
    array = allocator.allocate_array(T.i32, 64)
    offset = allocator._align(allocator.ptr, 16)
    allocator.ptr = offset + 64 * 2

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        tid = gpu.thread_idx.x
        words = None
        halves = None
        for i in range(x[0] + 2):
            # The views are first made inside the loop, and used after it.
            base = allocator.get_base()
            words = array(base)
            halves = SmemPtr(base, offset, T.f16, shape=(8, 8))
            words.store(x[tid] + i, [tid])
            halves.store(fx.Float16(0.5) * tid.to(fx.Float16), [tid // 8, tid % 8])
        base = allocator.get_base()
        words, halves = array(base), SmemPtr(base, offset, T.f16, shape=(8, 8))
        fx.gpu.barrier()
        other = 63 - tid
        half = halves.load([other // 8, other % 8])
        out[tid] = words.load([other]) * 100 + (half * 2).to(fx.Int32)
        allocator.finalize()

    x = np.arange(64, dtype=np.int32) % 3
    x[0] = 2
    out = np.zeros(64, np.int32)
    run(kernel, x, out)
    other = 63 - np.arange(64)
    np.testing.assert_array_equal(out, (x[other] + 3) * 100 + other)


def test_a_block_first_used_in_a_loop_that_is_traced_again():
    allocator = SmemAllocator()
    array = allocator.allocate_array(fx.Int32, 64)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        tid = fx.thread_idx.x
        total = 0
        for i in range(x[0]):
            array(allocator.get_base()).store(tid + i, [tid])
            # The first trace takes total for an integer.
            total = total + 0.5
        own = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64])
        own[tid] = tid * 100
        fx.gpu.barrier()
        kept = array(allocator.get_base()).load([63 - tid])
        out[tid] = own[63 - tid] + kept + (total * 2).to(fx.Int32)

    x, out = np.full(64, 3, np.int32), np.zeros(64, np.int32)
    run(kernel, x, out)
    other = 63 - np.arange(64)
    np.testing.assert_array_equal(out, other * 100 + other + 2 + 3)


@flyc.kernel
def bindings_kernel(x: fx.Tensor, out: fx.Tensor):
    tid = fx.thread_idx.x
    four = raw_arith.constant(types.i32(), 4)
    total = raw_arith.AddIOp(x[tid].ir_value(), four).result
    place = raw_fly.make_int_tuple(tid.ir_value())
    raw_fly.memref_store(raw_arith.muli(total, total), out.ir_value(), place)


def test_bindings_of_upstream_dialects_and_of_fly():
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    run(bindings_kernel, x, out)
    np.testing.assert_array_equal(out, (x + 4) ** 2)
    assert PassManager.parse is not None


def test_an_allocator_that_grows_after_its_base_was_taken_is_refused():
    allocator = SmemAllocator()
    array = allocator.allocate_array(fx.Int32, 64)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        array(allocator.get_base()).store(1, [fx.thread_idx.x])
        allocator.allocate(16)
        allocator.get_base()

    with pytest.raises(UserError, match="grew after get_base"):
        run(kernel, np.zeros(64, np.int32), np.zeros(64, np.int32))


def test_more_shared_memory_than_the_architecture_has_is_refused(arch):
    allocator = SmemAllocator(arch=arch)
    allocator.allocate(1 << 20)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        allocator.get_base()

    with pytest.raises(UserError, match=r"(?s)1048576.*65536"):
        run(kernel, np.zeros(64, np.int32), np.zeros(64, np.int32))


@pytest.mark.filterwarnings("error")
def test_every_legacy_name_warns_once_where_it_is_used():
    from flydsl.compat.names import LEGACY

    for module, names in LEGACY.items():
        for name, (_, instead) in names.items():
            with pytest.warns(DeprecationWarning, match="kept for existing kernels") as caught:
                assert getattr(importlib.import_module(module), name) is not None
            assert len(caught) == 1
            assert instead in str(caught[0].message)
            assert caught[0].filename == __file__
