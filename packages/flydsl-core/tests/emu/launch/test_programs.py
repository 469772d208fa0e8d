"""Control flow, arguments, shared memory and several kernels in one launcher."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError

WAVE = 64


@flyc.kernel
def triangle_kernel(out: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    total = fx.Int32(0)
    for k in range(i + 1):
        if k % 2 == 0:
            total = total + k
        else:
            total = total - 1
    if i < n:
        out[i] = total


@flyc.jit
def triangle(out: fx.Tensor, n: fx.Int32):
    triangle_kernel(out, n).launch(grid=(1,), block=(WAVE, 1, 1))


def test_loops_with_run_time_bounds_and_branches(target):
    out = np.full(50, -7, np.int32)
    triangle(out, 50)
    expected = [sum(k if k % 2 == 0 else -1 for k in range(i + 1)) for i in range(50)]
    np.testing.assert_array_equal(out, expected)


@flyc.kernel
def divide_kernel(a: fx.Tensor, b: fx.Tensor, q: fx.Tensor, r: fx.Tensor):
    i = fx.thread_idx.x
    q[i] = a[i] // b[i]
    r[i] = a[i] % b[i]


@flyc.jit
def divide(a: fx.Tensor, b: fx.Tensor, q: fx.Tensor, r: fx.Tensor):
    divide_kernel(a, b, q, r).launch(grid=(1,), block=(WAVE, 1, 1))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_division_floors_and_respects_signedness(target, dtype):
    random = np.random.default_rng(5)
    low = 0 if dtype is np.uint32 else -100
    a = random.integers(low, 100, WAVE).astype(dtype)
    b = random.integers(1, 9, WAVE).astype(dtype)
    if low:
        b[::2] = -b[::2]
    else:
        a[0] = np.uint32(2**32 - 1)
    q, r = np.zeros_like(a), np.zeros_like(a)
    divide(a, b, q, r)
    np.testing.assert_array_equal(q, a // b)
    np.testing.assert_array_equal(r, a % b)


@flyc.kernel
def scalars_kernel(
    out: fx.Tensor,
    wide: fx.Int64,
    unsigned: fx.Uint32,
    small: fx.Int8,
    flag: fx.Boolean,
    real: fx.Float64,
    half: fx.Float16,
):
    out[0] = fx.Float64(wide)
    out[1] = fx.Float64(unsigned)
    out[2] = fx.Float64(small)
    value = fx.Float64(0.0)
    if flag:
        value = real
    out[3] = value
    out[4] = fx.Float64(half)


@flyc.jit
def scalars(
    small: fx.Int8,
    out: fx.Tensor,
    flag: fx.Boolean,
    wide: fx.Int64,
    half: fx.Float16,
    unsigned: fx.Uint32,
    real: fx.Float64,
):
    scalars_kernel(out, wide, unsigned, small, flag, real, half).launch(grid=(1,), block=(1, 1, 1))


@pytest.mark.parametrize("flag", [True, False])
def test_scalars_of_every_width_arrive(target, flag):
    out = np.zeros(5)
    scalars(-5, out, flag, -(2**40), 0.1, 2**32 - 1, 1e-300)
    expected = [-(2.0**40), 2.0**32 - 1, -5.0, 1e-300 if flag else 0.0, float(np.float16(0.1))]
    np.testing.assert_array_equal(out, expected)


@flyc.kernel
def reverse_kernel(x: fx.Tensor, y: fx.Tensor, block: fx.Constexpr[int]):
    i = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, block])
    shared[i] = x[fx.block_idx.x * block + i]
    fx.gpu.barrier()
    y[fx.block_idx.x * block + i] = shared[block - 1 - i]


@flyc.jit
def reverse(x: fx.Tensor, y: fx.Tensor, blocks: fx.Int32, block: fx.Constexpr[int]):
    reverse_kernel(x, y, block).launch(grid=(blocks,), block=(block, 1, 1))


def test_shared_memory_and_barrier(target):
    x = np.arange(768, dtype=np.float32)
    y = np.zeros_like(x)
    reverse(x, y, 3, 256)
    np.testing.assert_array_equal(y.reshape(3, 256), x.reshape(3, 256)[:, ::-1])
    compiled = flyc.compile(reverse, x, y, 3, 256)
    assert compiled.kernels[0].lds_static == 1024


@flyc.kernel
def wave_sum_kernel(x: fx.Tensor, y: fx.Tensor, steps: fx.Constexpr[int]):
    i = fx.thread_idx.x
    value = x[i]
    for step in fx.range_constexpr(steps):
        value = value + fx.gpu.shuffle_xor(value, 1 << step, 1 << steps)
    y[i] = value


@flyc.jit
def wave_sum(x: fx.Tensor, y: fx.Tensor, steps: fx.Constexpr[int]):
    wave_sum_kernel(x, y, steps).launch(grid=(1,), block=(2 * WAVE, 1, 1))


def test_shuffles(target):
    x = np.arange(2 * WAVE, dtype=np.float32)
    y = np.zeros_like(x)
    steps = 6 if target.startswith("gfx9") else 5
    wave_sum(x, y, steps)
    width = 1 << steps
    np.testing.assert_array_equal(y, np.repeat(x.reshape(-1, width).sum(1), width))


@flyc.kernel
def increment_kernel(x: fx.Tensor, by: fx.Int32):
    x[fx.thread_idx.x] = x[fx.thread_idx.x] + by


@flyc.kernel
def double_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = x[fx.thread_idx.x] * 2


@flyc.jit
def pipeline(x: fx.Tensor, times: fx.Int32, doubled: fx.Boolean):
    for k in range(times):
        increment_kernel(x, k).launch(grid=(1,), block=(WAVE, 1, 1))
    if doubled:
        double_kernel(x).launch(grid=(1,), block=(WAVE, 1, 1))


@pytest.mark.parametrize(("times", "doubled"), [(0, False), (4, True), (3, False)])
def test_a_launcher_may_launch_in_loops_and_branches(target, times, doubled):
    x = np.ones(WAVE, np.int32)
    pipeline(x, times, doubled)
    np.testing.assert_array_equal(x, (1 + sum(range(times))) * (2 if doubled else 1))


@flyc.kernel
def geometry_kernel(out: fx.Tensor):
    block = fx.block_idx.x + fx.grid_dim.x * (fx.block_idx.y + fx.grid_dim.y * fx.block_idx.z)
    thread = fx.thread_idx.x + fx.block_dim.x * (fx.thread_idx.y + fx.block_dim.y * fx.thread_idx.z)
    size = fx.block_dim.x * fx.block_dim.y * fx.block_dim.z
    out[block * size + thread] = block * 1000 + thread


@flyc.jit
def geometry(out: fx.Tensor, gx: fx.Int32, gy: fx.Int32):
    geometry_kernel(out).launch(grid=(gx, gy, 2), block=(8, 4, 2))


def test_three_dimensional_geometry(target):
    out = np.zeros((12, 64), np.int32)
    geometry(out.reshape(-1), 3, 2)
    expected = 1000 * np.arange(12)[:, None] + np.arange(64)[None, :]
    np.testing.assert_array_equal(out, expected)


@flyc.kernel
def stray_kernel(x: fx.Tensor, at: fx.Int32):
    x[at] = 1.0


@flyc.jit
def stray(x: fx.Tensor, at: fx.Int32):
    stray_kernel(x, at).launch(grid=(1,), block=(1, 1, 1))


@pytest.mark.parametrize("at", [-1, 8, 2**20])
def test_a_store_outside_the_tensor_is_an_exception(target, at):
    whole = np.zeros(64, np.float32)
    x = whole[16:24]
    stray(x, 7)
    assert whole[23] == 1.0
    with pytest.raises(UserError, match="stray_kernel"):
        stray(x, at)
    assert whole.sum() == 1.0
    stray(x, 0)
    assert whole[16] == 1.0


class Scaler:
    """Kernels and launchers as methods that read attributes of their object."""

    def __init__(self, factor):
        self.factor = factor

    @flyc.kernel
    def body(self, x: fx.Tensor):
        x[fx.thread_idx.x] = x[fx.thread_idx.x] * self.factor

    @flyc.jit
    def scale(self, x: fx.Tensor):
        self.body(x).launch(grid=(1,), block=(WAVE, 1, 1))


def test_methods(target):
    x = np.ones(WAVE, np.float32)
    Scaler(3.0).scale(x)
    Scaler(0.5).scale(x)
    np.testing.assert_array_equal(x, 1.5)


def test_processes_that_are_forked_while_a_thread_compiles_and_launches():
    """They find no lock taken, and neither read nor write what belongs to the parent's compile."""

    def made(k):
        @flyc.kernel
        def kernel(out: fx.Tensor):
            out[fx.thread_idx.x] = fx.thread_idx.x + k

        @flyc.jit
        def launch(out: fx.Tensor):
            kernel(out).launch(grid=1, block=64)

        return launch, k

    def check(launch, k):
        out = np.zeros(64, np.int32)
        launch(out)
        np.testing.assert_array_equal(out, np.arange(64) + k)

    def forked(turn):
        pid = os.fork()
        if pid:
            return pid
        signal.alarm(60)
        code = 1
        try:
            # The second may be what the parent's thread compiles at this moment.
            for one in (programs[0], programs[-1], made(-1 - turn)):
                check(*one)
            code = 0
        finally:
            os._exit(code)

    programs = [made(1000)]
    check(*programs[0])
    stop, wrong = threading.Event(), []

    def work():
        try:
            while not stop.is_set():
                check(*programs[0])
                programs.append(made(len(programs)))
                check(*programs[-1])
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            wrong.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    children = []
    for turn in range(8):
        time.sleep(0.011 * turn)
        children.append(forked(turn))
    stop.set()
    thread.join()
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 8
    assert wrong == []


@flyc.kernel
def factors_kernel(out: fx.Tensor, a: fx.Float32, b: fx.Float64, c: fx.Float32, d: fx.Float16):
    out[0] = a
    out[1] = b.to(fx.Float32)
    out[2] = c
    out[3] = d.to(fx.Float32)


@flyc.jit
def factors(out: fx.Tensor, x: fx.Float32):
    wide = x.to(fx.Float64) * 0.1 - 123456.789
    factors_kernel(out, 2.0, wide, -x * 0.3, 0.1).launch(grid=1, block=1)


def test_a_launcher_computes_with_numbers_of_its_own():
    rng = np.random.default_rng()
    for x in (*rng.normal(size=3).astype(np.float32), np.float32(-0.0)):
        out = np.zeros(4, np.float32)
        factors(out, float(x))
        wide = np.float64(x) * 0.1 - 123456.789
        wanted = [2.0, wide, -x * np.float32(0.3), np.float16(0.1)]
        np.testing.assert_array_equal(out, np.array(wanted, np.float32))
