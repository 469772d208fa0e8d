"""Atomic operations from many threads against the same operations one after another."""

from __future__ import annotations

import linecache

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import FlyDSLError

BLOCKS, THREADS, SLOTS = 3, 128, 8  # slots: narrow atomics work on whole words
TOTAL = BLOCKS * THREADS


class Step:
    """What every thread does: ``call(pointer, value)``."""

    def __init__(self, call):
        self.call = call


@flyc.kernel
def update_kernel(Out: fx.Tensor, X: fx.Tensor, step: fx.Constexpr[object]):
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    step.call(Out.iter + i % SLOTS, X[i])


@flyc.jit
def update(Out: fx.Tensor, X: fx.Tensor, step: fx.Constexpr[object]):
    update_kernel(Out, X, step).launch(grid=BLOCKS, block=THREADS)


INTEGER = {
    "add": (fx.atomic_add, np.add),
    "sub": (fx.atomic_sub, np.subtract),
    "min": (fx.atomic_min, np.minimum),
    "max": (fx.atomic_max, np.maximum),
    "and": (fx.atomic_and, np.bitwise_and),
    "or": (fx.atomic_or, np.bitwise_or),
    "xor": (fx.atomic_xor, np.bitwise_xor),
}
TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def integers(dtype, count, seed):
    info = np.iinfo(dtype)
    random = np.random.default_rng(seed)
    return random.integers(info.min, info.max, count, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", INTEGER)
def test_integer_operations(name, dtype):
    call, reference = INTEGER[name]
    x, out = integers(dtype, TOTAL, 1), integers(dtype, SLOTS, 2)
    expected = out.copy()
    reference.at(expected, np.arange(TOTAL) % SLOTS, x)
    update(out, x, Step(call))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["add", "sub", "min", "max"])
def test_float_operations(name, dtype):
    """Small integers: every order of exact sums gives the same."""
    call = INTEGER[name][0]
    random = np.random.default_rng(4)
    x = random.integers(-2, 3, TOTAL).astype(dtype)
    out = random.integers(-2, 3, SLOTS).astype(dtype)
    expected = out.astype(np.float64)
    INTEGER[name][1].at(expected, np.arange(TOTAL) % SLOTS, x.astype(np.float64))
    update(out, x, Step(call))
    np.testing.assert_array_equal(out.astype(np.float64), expected)


EXTREMES = {
    "min": (fx.atomic_fmin, np.minimum, {}),
    "max": (fx.atomic_fmax, np.maximum, {}),
    "min of positive": (fx.atomic_fmin, np.minimum, {"is_positive": True}),
    "max of negative": (fx.atomic_fmax, np.maximum, {"is_positive": False}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXTREMES)
def test_float_extremes_through_bits(name, dtype):
    call, reference, options = EXTREMES[name]
    random = np.random.default_rng(5)
    x = (random.standard_normal(TOTAL) * 10.0 ** random.integers(-30, 30, TOTAL)).astype(dtype)
    x[::11], x[5::17] = np.inf, -np.inf
    if options:
        x = np.abs(x) if options["is_positive"] else -np.abs(x)
    out = random.standard_normal(SLOTS).astype(dtype)
    expected = out.copy()
    reference.at(expected, np.arange(TOTAL) % SLOTS, x)

    def step(pointer, value):
        return call(pointer, value, **options)

    update(out, x, Step(step))
    np.testing.assert_array_equal(out, expected)


@flyc.kernel
def tickets_kernel(Counter: fx.Tensor, Old: fx.Tensor, order: fx.Constexpr[object]):
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    Old[i] = fx.atomic_add(Counter.iter, 1, ordering=order.ordering, syncscope=order.scope)


@flyc.jit
def tickets(Counter: fx.Tensor, Old: fx.Tensor, order: fx.Constexpr[object]):
    tickets_kernel(Counter, Old, order).launch(grid=BLOCKS, block=THREADS)


class Order:
    """A memory ordering and a scope."""

    def __init__(self, ordering=fx.AtomicOrdering.Monotonic, scope=None):
        self.ordering, self.scope = ordering, scope


ORDERS = [
    Order(),
    Order(fx.AtomicOrdering.Acquire, "workgroup"),
    Order(fx.AtomicOrdering.Release),
    Order(fx.AtomicOrdering.AcqRel, fx.SyncScope.System),
    Order(fx.AtomicOrdering.SeqCst),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: f"{o.ordering.name}-{o.scope}")
def test_old_values_are_tickets(each_target, order):
    counter, old = np.zeros(1, np.int32), np.full(TOTAL, -1, np.int32)
    tickets(counter, old, order)
    assert counter[0] == TOTAL
    np.testing.assert_array_equal(np.sort(old), np.arange(TOTAL))


@flyc.kernel
def lock_kernel(Lock: fx.Tensor, Sum: fx.Tensor, X: fx.Tensor):
    if fx.thread_idx.x == 0:
        taken = fx.Boolean(False)
        while ~taken:
            _, taken = fx.atomic_cas(
                Lock.iter, 0, 1, success_ordering=fx.AtomicOrdering.Acquire,
            )  # fmt: skip
        total = fx.generic_load(Sum.iter, memory_order=fx.AtomicOrdering.Monotonic)
        fx.generic_store(
            Sum.iter, total + X[fx.block_idx.x], memory_order=fx.AtomicOrdering.Monotonic
        )
        fx.memory_fence(ordering=fx.AtomicOrdering.Release)
        fx.atomic_xchg(Lock.iter, 0)


@flyc.jit
def lock(Lock: fx.Tensor, Sum: fx.Tensor, X: fx.Tensor):
    lock_kernel(Lock, Sum, X).launch(grid=16, block=64)


def test_a_lock_of_compare_and_swap_protects_a_sum(each_target):
    guard, total = np.zeros(1, np.int32), np.zeros(1, np.float32)
    x = np.arange(16, dtype=np.float32)
    lock(guard, total, x)
    assert (guard[0], total[0]) == (0, x.sum())


@flyc.kernel
def swap_kernel(X: fx.Tensor, Old: fx.Tensor, Done: fx.Tensor):
    i = fx.thread_idx.x
    old, done = fx.atomic_cas(X.iter + i, 5, 9)
    Old[i] = old
    Done[i] = done


@flyc.jit
def swap(X: fx.Tensor, Old: fx.Tensor, Done: fx.Tensor):
    swap_kernel(X, Old, Done).launch(grid=1, block=64)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64])
def test_compare_and_swap_says_what_happened(dtype):
    x = np.random.default_rng(6).integers(4, 7, 64).astype(dtype)
    before, old, done = x.copy(), np.zeros(64, dtype), np.zeros(64, np.bool_)
    swap(x, old, done)
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(done, before == 5)
    np.testing.assert_array_equal(x, np.where(before == 5, 9, before))


@flyc.kernel
def shared_kernel(X: fx.Tensor, Out: fx.Tensor):
    counts = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 8])
    i = fx.thread_idx.x
    if i < 8:
        counts[i] = 0
    fx.barrier()
    fx.atomic_add(counts.ptr + X[i], 1)
    fx.barrier()
    if i < 8:
        Out[i] = counts[i]


@flyc.jit
def shared(X: fx.Tensor, Out: fx.Tensor):
    shared_kernel(X, Out).launch(grid=1, block=256)


def test_a_histogram_in_shared_memory(each_target):
    x = np.random.default_rng(7).integers(0, 8, 256).astype(np.int32)
    out = np.zeros(8, np.int32)
    shared(x, out)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=8))


@flyc.kernel
def copied_kernel(Out: fx.Tensor, X: fx.Tensor, operation: fx.Constexpr[object]):
    i = fx.thread_idx.x
    atom = fx.make_copy_atom(operation, X.dtype)
    value = fx.make_rmem_tensor(1, X.dtype)
    value[0] = X[i]
    fx.copy_atom_call(atom, value, fx.make_view(Out.iter + i % SLOTS, fx.make_layout(1, 1)))


@flyc.jit
def copied(Out: fx.Tensor, X: fx.Tensor, operation: fx.Constexpr[object]):
    copied_kernel(Out, X, operation).launch(grid=1, block=64)


def increment(old, limit):
    return 0 if old >= limit else old + 1


def decrement(old, limit):
    return limit if old == 0 or old > limit else old - 1


COPIED = {
    "add": (fx.UniversalAtomicAdd, lambda a, b: (int(a) + int(b)) & 0xFFFFFFFF),
    "max": (fx.UniversalAtomicMax, max),
    "min": (fx.UniversalAtomicMin, min),
    "and": (fx.UniversalAtomicAnd, lambda a, b: a & b),
    "or": (fx.UniversalAtomicOr, lambda a, b: a | b),
    "inc": (fx.UniversalAtomicInc, increment),
    "dec": (fx.UniversalAtomicDec, decrement),
}


@pytest.mark.parametrize("name", COPIED)
def test_atomic_copies(each_target, name):
    make, reference = COPIED[name]
    x = integers(np.uint32, 64, 8)
    if name in ("inc", "dec"):
        x[:] = 3
    out = integers(np.uint32, SLOTS, 9)
    if name in ("inc", "dec"):
        out %= 5
    expected = [int(v) for v in out]
    for i, value in enumerate(x):
        expected[i % SLOTS] = reference(expected[i % SLOTS], int(value))
    copied(out, x, make(fx.Uint32))
    np.testing.assert_array_equal(out, np.array(expected, np.uint32))


REFUSED = {
    "register": "fx.atomic_add(fx.make_rmem_tensor(1, fx.Int32).iter, 1)",
    "type": "fx.atomic_add(Out.iter, fx.Int64(1))",
    "float and": "fx.atomic_and(fx.recast_iter(fx.Float32, Out.iter), 1.0)",
    "ordering type": "fx.atomic_add(Out.iter, 1, ordering='monotonic')",
    "ordering": "fx.atomic_add(Out.iter, 1, ordering=fx.AtomicOrdering.Unordered)",
    "scope": "fx.atomic_add(Out.iter, 1, syncscope='galaxy')",
    "scope type": "fx.atomic_add(Out.iter, 1, syncscope=3)",
    "no pointer": "fx.atomic_add(Out, 1)",
    "cas of floats": "fx.atomic_cas(fx.recast_iter(fx.Float32, Out.iter), 1.0, 2.0)",
    "failure ordering": "fx.atomic_cas(Out.iter, 1, 2, failure_ordering=fx.AtomicOrdering.Release)",
    "fence": "fx.memory_fence(ordering=fx.AtomicOrdering.Monotonic)",
    "load ordering": "fx.generic_load(Out.iter, memory_order=fx.AtomicOrdering.Release)",
    "its other name": "fx.generic_load(Out.iter, ordering=fx.AtomicOrdering.Release)",
    "store ordering": "fx.generic_store(Out.iter, 1, memory_order=fx.AtomicOrdering.Acquire)",
    "scope without order": "fx.generic_load(Out.iter, syncscope='agent')",
    "count": "fx.generic_load(Out.iter, count=0)",
    "fmin of ints": "fx.atomic_fmin(Out.iter, 1.0)",
    "inc of floats": "fx.UniversalAtomicInc(fx.Float32)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_exist_is_refused(name):
    source = (
        f"def kernel(Out: fx.Tensor):\n    {REFUSED[name]}\n"
        "def launch(Out: fx.Tensor):\n    kernel(Out).launch(grid=1, block=64)\n"
    )
    space = {"fx": fx, "__name__": "flydsl_kernels.test"}
    filename = f"<generated {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), space)
    space["kernel"] = flyc.kernel(space["kernel"])
    with pytest.raises(FlyDSLError) as caught:
        flyc.jit(space["launch"])(np.zeros(4, np.int32))
    assert caught.value.location is not None
    assert caught.value.location.line == 2


@flyc.kernel
def access_kernel(X: fx.Tensor, Out: fx.Tensor):
    i = fx.thread_idx.x
    wide = fx.generic_load(X.iter + i * 4, dtype=fx.Float32, count=4, nontemporal=True)
    one = fx.generic_load(X.iter + i * 4, volatile=True)
    fx.generic_store(Out.iter + i * 4, wide + one, nontemporal=True)


@flyc.jit
def access(X: fx.Tensor, Out: fx.Tensor):
    access_kernel(X, Out).launch(grid=1, block=64)


def test_hinted_loads_and_stores_move_vectors(each_target):
    x = np.random.default_rng(1).standard_normal(256).astype(np.float32)
    out = np.zeros_like(x)
    access(x, out)
    np.testing.assert_array_equal(out, x + np.repeat(x[::4], 4))
