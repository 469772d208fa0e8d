"""Structs as arguments, in memory and through control flow; shared memory and its limits."""

# Type checkers do not know the field types and constructors that the decorator makes.
# mypy: disable-error-code="valid-type,call-arg"

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import TargetError, UserError

flydsl_emu = pytest.importorskip("flydsl_emu")
RNG = np.random.default_rng(20261130)


@fx.struct
class Scale:
    factor: fx.Float32
    offset: fx.Int64


@fx.struct
class Job:
    X: fx.Tensor
    n: fx.Int32
    step: fx.Constexpr[int]
    scale: Scale
    Y: fx.Tensor

    def value(self, i):
        return self.X[i] * self.scale.factor + self.scale.offset.to(fx.Float32)


@flyc.kernel
def job_kernel(job: Job, extra: fx.Uint8):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < job.n:
        job.Y[i] = job.value(i) * job.step + extra.to(fx.Float32)


@flyc.jit
def run_job(before: fx.Float32, job: Job, extra: fx.Uint8):
    job = job.replace(scale=job.scale.replace(factor=job.scale.factor * before))
    job_kernel(job, extra).launch(grid=(job.n + 63) // 64, block=64)


def test_a_struct_is_passed_field_by_field(target):
    x = RNG.standard_normal(100).astype(np.float32)
    for step, n, factor in ((2, 100, 1.5), (2, 70, -3.0), (3, 70, 0.25)):
        y = np.zeros_like(x)
        run_job(2.0, Job(x, n, step, Scale(factor, 2**33), y), 200)
        want = np.zeros_like(x)
        scaled = x * np.float32(factor * 2) + np.float32(2**33)
        want[:n] = (scaled * np.float32(step) + np.float32(200))[:n]
        np.testing.assert_array_equal(y, want)
    # Another element type is another specialisation.
    wide, y = RNG.standard_normal(100), np.zeros(100)
    with pytest.raises(UserError, match="FLY-U243"):  # Y gets a Float64 plus a Float32
        run_job(2.0, Job(wide, 100, 2, Scale(1.0, 0), y.astype(np.float32)), 1)
    run_job(2.0, Job(wide, 100, 2, Scale(1.0, 3), y), 1)
    np.testing.assert_array_equal(y, (wide * 2 + 3) * 2 + 1)


def test_the_ordinary_call_and_the_compiled_one_agree(target):
    x = RNG.standard_normal(64).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    job = Job(x, 64, 1, Scale(2.0, 5), y)
    compiled = flyc.compile(run_job, 1.0, job, 0)
    compiled(1.0, job, 0)
    run_job(1.0, job.replace(Y=z), 0)
    np.testing.assert_array_equal(y, x * 2 + 5)
    np.testing.assert_array_equal(z, y)


def line(sign):
    """Two types of one name and the same fields."""
    if sign > 0:

        @fx.struct
        class Line:
            slope: fx.Float32

            def at(self, x):
                return x * self.slope

    else:

        @fx.struct
        class Line:
            slope: fx.Float32

            def at(self, x):
                return -x * self.slope

    return Line


def test_types_that_differ_in_their_methods_are_not_confused():
    @flyc.kernel
    def kernel(X: fx.Tensor, line):
        X[fx.thread_idx.x] = line.at(X[fx.thread_idx.x])

    @flyc.jit
    def launch(X: fx.Tensor, line):
        kernel(X, line).launch(grid=1, block=64)

    for sign in (1, -1, 1):
        x = np.arange(64, dtype=np.float32)
        with config.scope(FLYDSL_TARGET="gfx942"):
            launch(x, line(sign)(2.0))
        np.testing.assert_array_equal(x, sign * 2 * np.arange(64))


def test_another_struct_is_refused():
    other = fx.struct["X" : fx.Tensor, "n" : fx.Int32]
    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserError, match=r"'job'.*Job"):
        run_job(1.0, other(np.zeros(4, np.float32), 4), 0)
    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserError, match="field 'Y'"):
        run_job(1.0, Job(np.zeros(4, np.float32), 4, 1, Scale(1, 1), "text"), 0)


@fx.struct
class Best:
    value: fx.Float32
    place: fx.Int32
    seen: fx.Array[fx.Int16, 3]


@fx.struct
class Cell:
    key: fx.Int8
    value: fx.Float64
    lanes: fx.Align[fx.Float32x4, 16]


@flyc.kernel
def stored_kernel(Y: fx.Tensor, dynamic: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    memory = fx.SharedAllocator(static=not dynamic)
    cells = memory.allocate(fx.Array[Cell, 64])
    one = memory.allocate(fx.Align[fx.struct["a" : fx.Int8, "b" : fx.Array[fx.Int32, 64]], 8])
    either = memory.allocate(fx.union["word" : fx.Uint32, "bytes" : fx.Array[fx.Uint8, 4]])
    lanes = fx.Vector([fx.Float32(k) + t.to(fx.Float32) for k in range(4)])
    cells[t] = Cell((t + 100).to(fx.Int8), t.to(fx.Float64) / 3.0, lanes)
    one.b[t] = t * 7
    if t == 0:
        one.a.poke(-5)
        either.word.poke(0x01020384)
    fx.barrier()
    found = cells[63 - t]
    Y[0, t] = found.key.to(fx.Float64)
    Y[1, t] = found.value
    Y[2, t] = found.lanes.reduce("add").to(fx.Float64)
    Y[3, t] = one.b[63 - t].to(fx.Float64)
    Y[4, t] = one.a.peek().to(fx.Float64)
    Y[5, t] = either.bytes[0].to(fx.Float64) + either.bytes[3].to(fx.Float64)
    handle = cells.at(t)
    fx.barrier()
    handle.value.poke(handle.value.peek() + 1.0)
    Y[6, t] = cells[t].value


@flyc.jit
def stored(Y: fx.Tensor, dynamic: fx.Constexpr[bool]):
    stored_kernel(Y, dynamic).launch(grid=1, block=64)


@pytest.mark.parametrize("dynamic", [False, True])
def test_structs_and_unions_in_shared_memory(target, dynamic):
    y = np.zeros((7, 64))
    stored(y, dynamic)
    t = np.arange(64)
    back = 63 - t
    np.testing.assert_array_equal(y[0], (back + 100).astype(np.int8))
    np.testing.assert_array_equal(y[1], back / 3)
    np.testing.assert_array_equal(y[2], 4 * back + 6)
    np.testing.assert_array_equal(y[3], 7 * back)
    np.testing.assert_array_equal(y[4], -5)
    np.testing.assert_array_equal(y[5], 0x84 + 1)
    np.testing.assert_array_equal(y[6], t / 3 + 1)


@flyc.kernel
def carried_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    low = fx.struct["value" : fx.Float32, "place" : fx.Int32]
    best = {"low": low(float("inf"), -1), "high": low(float("-inf"), -1)}
    count = fx.struct["odd" : fx.Int32, "width" : fx.Constexpr[int]](0, 3)
    for i in range(n):
        v = X[t, i]
        if v < best["low"].value:
            best["low"] = low(v, i)
        elif v > best["high"].value:
            best["high"] = best["high"].replace(value=v, place=i)
        if i % 2 == 1:
            count = count.replace(odd=count.odd + count.width)
    Y[0, t] = best["low"].value
    Y[1, t] = best["low"].place.to(fx.Float32)
    Y[2, t] = best["high"].value
    Y[3, t] = count.odd.to(fx.Float32)


@flyc.jit
def carried(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    carried_kernel(X, Y, n).launch(grid=1, block=64)


def test_structs_are_carried(target):
    x = RNG.standard_normal((64, 9)).astype(np.float32)
    y = np.zeros((4, 64), np.float32)
    carried(x, y, 9)
    np.testing.assert_array_equal(y[0], x.min(1))
    np.testing.assert_array_equal(y[1], x.argmin(1))
    high = np.full(64, -np.inf, np.float32)
    low = np.full(64, np.inf, np.float32)
    for i in range(9):
        below = x[:, i] < low
        low = np.where(below, x[:, i], low)
        high = np.where(~below & (x[:, i] > high), x[:, i], high)
    np.testing.assert_array_equal(y[2], high)
    np.testing.assert_array_equal(y[3], 12)


@flyc.kernel
def aligned_kernel(Y: fx.Tensor):
    t = fx.thread_idx.x
    memory = fx.SharedAllocator()
    both = memory.allocate(
        fx.struct[
            "flag" : fx.Int8, "a" : fx.Array[fx.Float16, 512], "b" : fx.Array[fx.Float16, 512]
        ]
    )
    layout = fx.make_layout((8, 64), (1, 8))
    both.a.view(layout)[None, t].store(fx.Float16x8([t.to(fx.Float16)] * 8))
    fx.barrier()
    Y[t] = both.a.view(layout)[None, 63 - t].load()[3].to(fx.Float32)


@flyc.jit
def aligned(Y: fx.Tensor):
    aligned_kernel(Y).launch(grid=1, block=64)


def test_static_arrays_are_aligned_for_vectors(target):
    y = np.zeros(64, np.float32)
    aligned(y)
    np.testing.assert_array_equal(y, np.arange(64)[::-1])
    isa = flyc.compile(aligned, y).isa
    assert re.search(r"ds_(write|store)_b128", isa), isa
    assert not re.search(r"ds_(write|store)_(b16|b32|b64)\b", isa)


def refused(kind, dynamic, smem=None):
    @flyc.kernel
    def kernel(Y: fx.Tensor):
        memory = fx.SharedAllocator(static=not dynamic)
        small = memory.allocate(fx.Array[fx.Int32, 100])
        memory.allocate(kind)
        small[fx.thread_idx.x] = 1
        Y[0] = small[0]

    @flyc.jit
    def launch(Y: fx.Tensor):
        kernel(Y).launch(grid=1, block=64, smem=smem)

    with pytest.raises(TargetError) as caught:
        launch(np.zeros(1, np.int32))
    return str(caught.value)


@pytest.mark.parametrize("dynamic", [False, True])
def test_too_much_shared_memory_lists_who_uses_it(dynamic):
    with config.scope(FLYDSL_TARGET="gfx942"):
        text = refused(fx.Array[fx.Float32, 16384], dynamic)
    assert "FLY-T512" in text
    assert "65936 bytes of shared memory" in text
    assert "65536 bytes for fx.Array[fx.Float32, 16384, 4] at " in text
    assert "400 bytes for fx.Array[fx.Int32, 100, 4] at " in text
    assert text.index("65536 bytes for") < text.index("400 bytes for")
    with config.scope(FLYDSL_TARGET="gfx950"):  # 160 KiB
        launch_fits = refused(fx.Array[fx.Float32, 40960], dynamic)
    assert "163840" in launch_fits


def test_scratch_memory_counts_too():
    @flyc.kernel
    def kernel(Y: fx.Tensor):
        memory = fx.SharedAllocator().allocate(fx.Array[fx.Int8, 65536])
        memory[fx.thread_idx.x] = 1
        Y[0] = fx.coop.block_sum(Y[0])

    @flyc.jit
    def launch(Y: fx.Tensor):
        kernel(Y).launch(grid=1, block=128)

    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(TargetError) as caught:
        launch(np.zeros(1, np.int32))
    assert "8 bytes for fx.Array[fx.Int32, 2, 4]" in str(caught.value)


@flyc.kernel
def both_kinds_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    """Dynamic shared memory beside the static scratch memory of a reduction, after a return."""
    t = fx.thread_idx.x
    memory = fx.SharedAllocator(static=False)
    tile = memory.allocate(fx.Array[fx.Float32, 128])
    if fx.block_idx.x >= n:
        return
    tile[t] = X[t]
    fx.barrier()
    total = fx.coop.block_sum(tile[127 - t] * t.to(fx.Float32))
    more = fx.coop.block_exclusive_sum(tile[t])
    Y[fx.block_idx.x, t] = total + more + tile[t]


@flyc.jit
def both_kinds(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    both_kinds_kernel(X, Y, n).launch(grid=3, block=128)


def test_dynamic_and_static_shared_memory_lie_apart(target):
    x = RNG.integers(-50, 50, 128).astype(np.float32)
    y = np.zeros((3, 128), np.float32)
    both_kinds(x, y, 2)
    want = (x[::-1] * np.arange(128)).sum() + np.cumsum(x)
    np.testing.assert_array_equal(y, [want, want, 0 * want])


def test_allocations_in_a_loop_that_is_traced_twice_count_once():
    sizes = []

    @flyc.kernel
    def kernel(Y: fx.Tensor, n: fx.Int32):
        memory = fx.SharedAllocator(static=False)
        total = 0
        for _ in range(n):
            part = memory.allocate(fx.Array[fx.Int32, 64])
            part[fx.thread_idx.x] = 2
            total = total + part[fx.thread_idx.x] + fx.Int64(1)
        sizes.append(memory.allocated_bytes)
        Y[fx.thread_idx.x] = total

    @flyc.jit
    def launch(Y: fx.Tensor, n: fx.Int32):
        kernel(Y, n).launch(grid=1, block=64)

    y = np.zeros(64, np.int64)
    with config.scope(FLYDSL_TARGET="gfx942"):
        launch(y, 3)
    assert (y == 9).all()
    assert sizes == [256]


MISUSES = {
    "an array is not assigned": lambda place: place.poke(place.peek()),
    "has no field 'z'": lambda place: place.z.peek(),
    "not a value of": lambda place: place.poke(3),
}


@pytest.mark.parametrize("words", MISUSES)
def test_misuses_of_storage(words):
    use = MISUSES[words]

    @flyc.kernel
    def kernel(Y: fx.Tensor):
        use(fx.SharedAllocator().allocate(Best))
        Y[0] = 1.0

    @flyc.jit
    def launch(Y: fx.Tensor):
        kernel(Y).launch(grid=1, block=64)

    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserError) as caught:
        launch(np.zeros(1, np.float32))
    assert words in str(caught.value)
