"""Softmax and RMSNorm, one workgroup of 256 threads per row."""

import flydsl.compiler as flyc
import flydsl.expr as fx

BLOCK = 256
LANES = 32  # half a wave on gfx9, a wave on gfx11 and gfx12
GROUPS = BLOCK // LANES


def wave_reduce(value, combine):
    """Combine a value over 32 lanes."""
    for shift in fx.range_constexpr(5):
        value = combine(value, fx.gpu.shuffle_xor(value, 16 >> shift, LANES))
    return value


def block_reduce(value, combine, scratch):
    """Combine a value over the workgroup through LDS."""
    value = wave_reduce(value, combine)
    tid = fx.thread_idx.x
    scratch[tid // LANES] = value  # the lanes of a group write the same value
    fx.gpu.barrier()
    total = scratch[0]
    for group in fx.range_constexpr(1, GROUPS):
        total = combine(total, scratch[group])
    return total


def add(a, b):
    """Sum, as a function."""
    return a + b


def larger(a, b):
    """Maximum, as a function."""
    return fx.max(a, b)


@flyc.kernel
def softmax(X: fx.Tensor, Y: fx.Tensor, columns: fx.Constexpr[int]):
    allocator = fx.SharedAllocator()
    highest = allocator.allocate(fx.Array[fx.Float32, GROUPS]).peek()
    sums = allocator.allocate(fx.Array[fx.Float32, GROUPS]).peek()
    row = fx.block_idx.x
    tid = fx.thread_idx.x
    values = []
    for k in fx.range_constexpr(columns // BLOCK):
        values.append(X[row, tid + k * BLOCK])
    top = values[0]
    for value in values[1:]:
        top = fx.max(top, value)
    top = block_reduce(top, larger, highest)
    values = [fx.exp(value - top) for value in values]
    total = values[0]
    for value in values[1:]:
        total = total + value
    total = block_reduce(total, add, sums)
    for k in fx.range_constexpr(columns // BLOCK):
        Y[row, tid + k * BLOCK] = values[k] / total


@flyc.jit
def launch_softmax(
    X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, columns: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):  # fmt: skip
    softmax(X, Y, columns).launch(grid=(rows, 1, 1), block=(BLOCK, 1, 1), stream=stream)


@flyc.kernel
def rmsnorm(X: fx.Tensor, W: fx.Tensor, Y: fx.Tensor, eps: fx.Float32, columns: fx.Constexpr[int]):
    sums = fx.SharedAllocator().allocate(fx.Array[fx.Float32, GROUPS]).peek()
    row = fx.block_idx.x
    tid = fx.thread_idx.x
    values = []
    for k in fx.range_constexpr(columns // BLOCK):
        values.append(X[row, tid + k * BLOCK].to(fx.Float32))
    total = values[0] * values[0]
    for value in values[1:]:
        total = total + value * value
    total = block_reduce(total, add, sums)
    scale = fx.rsqrt(total * (1.0 / columns) + eps)
    for k in fx.range_constexpr(columns // BLOCK):
        weight = W[tid + k * BLOCK].to(fx.Float32)
        Y[row, tid + k * BLOCK] = (values[k] * scale * weight).to(fx.Float16)


@flyc.jit
def launch_rmsnorm(
    X: fx.Tensor, W: fx.Tensor, Y: fx.Tensor, eps: fx.Float32, rows: fx.Int32,
    columns: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None),
):  # fmt: skip
    rmsnorm(X, W, Y, eps, columns).launch(grid=(rows, 1, 1), block=(BLOCK, 1, 1), stream=stream)
