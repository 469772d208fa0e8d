"""Copy operations of AMD GPUs, run: widths, cache modifiers, LDS loads, transposes, atomics."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import TargetError, UserError
from flydsl_rocdl.arch import lookup
from flydsl_rocdl.arch.memory import buffer_atomics

ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


@flyc.kernel
def _move(a: fx.Tensor, out: fx.Tensor, load: fx.Constexpr, store: fx.Constexpr,
          bits: fx.Constexpr[int]) -> None:  # fmt: skip
    lane = fx.thread_idx.x
    source, target = a, out
    if fx.const_expr(load.prefix == "buffer_copy"):
        source = fx.rocdl.make_buffer_tensor(a)
    if fx.const_expr(store.prefix == "buffer_copy"):
        target = fx.rocdl.make_buffer_tensor(out)
    count = bits // 8
    value = fx.make_rmem_tensor(count, fx.Uint8)
    parts = (None, lane)
    rows = fx.logical_divide(source, fx.make_layout(count, 1))
    fx.copy_atom_call(fx.make_copy_atom(load, fx.Uint8), fx.slice(rows, parts), value)
    rows = fx.logical_divide(target, fx.make_layout(count, 1))
    fx.copy_atom_call(fx.make_copy_atom(store, fx.Uint8), value, fx.slice(rows, parts))


@flyc.jit
def _launch_move(a: fx.Tensor, out: fx.Tensor, load: fx.Constexpr, store: fx.Constexpr,
                 bits: fx.Constexpr[int]) -> None:  # fmt: skip
    _move(a, out, load, store, bits).launch(grid=(1,), block=(64, 1, 1))


def _check_move(arch: str, load: Any, store: Any, bits: int) -> None:
    generator = np.random.default_rng(bits)
    a = generator.integers(0, 256, 64 * bits // 8).astype(np.uint8)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET=arch):
        _launch_move(a, out, load, store, bits)
    assert np.array_equal(a, out), (arch, load, store)


@pytest.mark.parametrize("arch", ARCHES)
def test_every_width(arch: str) -> None:
    for bits in (8, 16, 32, 64, 96, 128, 256):
        _check_move(arch, fx.UniversalCopy(bits), fx.UniversalCopy(bits), bits)
    for bits in (8, 16, 32, 64, 96, 128):
        _check_move(arch, fx.rocdl.BufferCopy(bits), fx.rocdl.BufferCopy(bits), bits)


@pytest.mark.parametrize("arch", ARCHES)
def test_cache_modifiers_reach_the_instruction(arch: str) -> None:
    for bits in (8, 32, 128):
        atom = fx.rocdl.BufferCopy(bits, 1)
        _check_move(arch, atom, fx.rocdl.BufferCopy(bits, 2), bits)
    plain = fx.rocdl.BufferCopy(32)
    refused = {"gfx942": 4, "gfx950": 8, "gfx1100": 8}.get(arch)
    if refused is None:
        _check_move(arch, plain, fx.rocdl.BufferCopy(32, 24), 32)
    else:
        with pytest.raises(TargetError, match="cache modifier"):
            _check_move(arch, plain, fx.rocdl.BufferCopy(32, refused), 32)
    with pytest.raises(UserError):
        fx.rocdl.BufferCopy(32, 32)


@flyc.kernel
def _dma(a: fx.Tensor, out: fx.Tensor, atom_op: fx.Constexpr, mode: fx.Constexpr[str]) -> None:
    thread = fx.thread_idx.x
    words = fx.const_expr(atom_op.bits // 32)
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 256 * words], alignment=16)
    lds = fx.logical_divide(
        fx.make_view(storage.ptr, fx.make_layout(256 * words, 1)), fx.make_layout(words, 1)
    )
    source = a
    if fx.const_expr(atom_op.prefix == "buffer_copy_lds"):
        source = fx.rocdl.make_buffer_tensor(a)
    rows = fx.logical_divide(source, fx.make_layout(words, 1))
    atom = fx.make_copy_atom(atom_op, fx.Int32)
    if fx.const_expr(mode == "wave"):
        place = fx.rocdl.read_first_lane(thread // 64) * 64
    else:
        place = thread
    if fx.const_expr(mode == "odd"):
        if thread % 2 == 1:
            fx.copy_atom_call(atom, fx.slice(rows, (None, thread)), fx.slice(lds, (None, place)))
    else:
        fx.copy_atom_call(atom, fx.slice(rows, (None, thread)), fx.slice(lds, (None, place)))
    fx.rocdl.s_waitcnt(vmcnt=0)
    fx.barrier()
    back = fx.logical_divide(out, fx.make_layout(words, 1))
    value = fx.make_rmem_tensor(words, fx.Int32)
    plain = fx.make_copy_atom(fx.UniversalCopy(32), fx.Int32)
    fx.copy(plain, fx.slice(lds, (None, thread)), value)
    fx.copy(plain, value, fx.slice(back, (None, thread)))


@flyc.jit
def _launch_dma(a: fx.Tensor, out: fx.Tensor, atom: fx.Constexpr, mode: fx.Constexpr[str]) -> None:
    _dma(a, out, atom, mode).launch(grid=(1,), block=(256, 1, 1))


@pytest.mark.parametrize(
    ("arch", "bits"), [("gfx942", 32), ("gfx950", 32), ("gfx950", 96), ("gfx950", 128)]
)
@pytest.mark.parametrize("buffer", [True, False])
def test_loads_into_lds(arch: str, bits: int, buffer: bool) -> None:
    words = bits // 32
    maker = fx.rocdl.BufferCopyLDS if buffer else fx.rocdl.cdna4.GlobalLoadAsyncLDS
    generator = np.random.default_rng(bits)
    a = generator.integers(-(2**31), 2**31, 256 * words).astype(np.int32)
    for mode in ("lane", "wave", "odd"):
        out = np.zeros_like(a)
        with scope(FLYDSL_TARGET=arch):
            _launch_dma(a, out, maker(bits), mode)
        rows, expected = out.reshape(256, words), a.reshape(256, words)
        step = slice(1, None, 2) if mode == "odd" else slice(None)
        assert np.array_equal(rows[step], expected[step]), mode


def test_what_is_outside_the_buffer_is_zero_in_lds() -> None:
    a = np.arange(1, 257, dtype=np.int32)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET="gfx950"):
        _launch_dma(a[:200], out, fx.rocdl.BufferCopyLDS32b(), "lane")
    assert np.array_equal(out[:200], a[:200])
    assert not out[200:].any()


@pytest.mark.parametrize(("arch", "bits"), [("gfx942", 128), ("gfx942", 96), ("gfx1201", 32),
                                            ("gfx1100", 32), ("gfx1250", 32)])  # fmt: skip
def test_loads_into_lds_elsewhere_are_refused(arch: str, bits: int) -> None:
    a = np.zeros(256 * bits // 32, np.int32)
    function, *rest = _launch_dma, fx.rocdl.BufferCopyLDS(bits), "lane"
    with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(function, a, a, *rest)
    assert caught.value.code == "FLY-T636"
    with pytest.raises(UserError):
        fx.rocdl.BufferCopyLDS64b()


@flyc.kernel
def _scattered(a: fx.Tensor, at: fx.Tensor, mode: fx.Constexpr[str]) -> None:
    thread = fx.thread_idx.x
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1024], alignment=1024)
    lds = fx.make_view(storage.ptr, fx.make_layout((1, 1024), (1, 1)))
    rows = fx.make_view(fx.get_iter(a), fx.make_layout((1, 1024), (1, 1)))
    if fx.const_expr(mode == "reversed"):
        place = 255 - thread
    elif fx.const_expr(mode == "strided"):
        place = thread * 2
    elif fx.const_expr(mode == "straight"):
        place = thread
    elif fx.const_expr(mode == "swizzled"):
        place = thread ^ ((thread >> 4) & 3)
    else:
        place = at[thread]
    atom = fx.make_copy_atom(fx.rocdl.cdna4.GlobalLoadAsyncLDS32b(), fx.Int32)
    fx.copy_atom_call(atom, fx.slice(rows, (None, thread)), fx.slice(lds, (None, place)))


@flyc.jit
def _launch_scattered(a: fx.Tensor, at: fx.Tensor, mode: fx.Constexpr[str]) -> None:
    _scattered(a, at, mode).launch(grid=(1,), block=(256, 1, 1))


@pytest.mark.parametrize("mode", ["reversed", "strided", "swizzled", "loaded"])
def test_scattered_destinations_are_refused(mode: str) -> None:
    a = np.zeros(1024, np.int32)
    with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(_launch_scattered, a, a, mode)
    assert caught.value.code == "FLY-T639"
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_copy_atoms.py")


@flyc.kernel
def _double_buffered(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32) -> None:
    thread = fx.thread_idx.x
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 512], alignment=1024)
    lds = fx.make_view(storage.ptr, fx.make_layout((1, 256, 2), (1, 1, 256)))
    rows = fx.logical_divide(fx.rocdl.make_buffer_tensor(a), fx.make_layout(1, 1))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Int32)
    total = fx.Int32(0)
    fx.copy_atom_call(atom, fx.slice(rows, (None, thread)), fx.slice(lds, (None, thread, 0)))
    for step in range(steps):
        following = fx.slice(lds, (None, thread, (step + 1) % 2))
        fx.copy_atom_call(atom, fx.slice(rows, (None, thread)), following, soffset=(step + 1) * 256)
        fx.rocdl.s_waitcnt(vmcnt=1)
        fx.barrier()
        total = total + lds[0, (thread + 1) % 256, step % 2]
        fx.barrier()
    out[thread] = total


@flyc.jit
def _launch_double_buffered(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32) -> None:
    _double_buffered(a, out, steps).launch(grid=(1,), block=(256, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_loop_over_two_buffers(arch: str) -> None:
    generator = np.random.default_rng(3)
    a = generator.integers(-1000, 1000, 256 * 5).astype(np.int32)
    out = np.zeros(256, np.int32)
    with scope(FLYDSL_TARGET=arch):
        _launch_double_buffered(a, out, 5)
    assert np.array_equal(out, np.roll(a.reshape(5, 256).sum(0), -1))


CLASSES = {
    "i32": (fx.Int32, np.int32), "ui32": (fx.Uint32, np.uint32), "i64": (fx.Int64, np.int64),
    "ui64": (fx.Uint64, np.uint64), "f32": (fx.Float32, np.float32),
    "f64": (fx.Float64, np.float64), "vector<2xf16>": (fx.Float16, np.float16),
    "vector<2xbf16>": (fx.BFloat16, ml_dtypes.bfloat16),
}  # fmt: skip


@flyc.kernel
def _atomic(values: fx.Tensor, memory: fx.Tensor, atom_op: fx.Constexpr,
            dtype: fx.Constexpr) -> None:  # fmt: skip
    lane = fx.thread_idx.x
    count = fx.const_expr(2 if atom_op.pair else 1)
    buffer = fx.logical_divide(fx.rocdl.make_buffer_tensor(memory), fx.make_layout(count, 1))
    rows = fx.logical_divide(values, fx.make_layout(count, 1))
    value = fx.make_rmem_tensor(count, dtype)
    plain = fx.make_copy_atom(fx.UniversalCopy(dtype.width), dtype)
    fx.copy(plain, fx.slice(rows, (None, lane)), value)
    atom = fx.make_copy_atom(atom_op, dtype)
    fx.copy_atom_call(atom, value, fx.slice(buffer, (None, lane % 8)), soffset=count * 1)


@flyc.jit
def _launch_atomic(values: fx.Tensor, memory: fx.Tensor, atom: fx.Constexpr,
                   dtype: fx.Constexpr) -> None:  # fmt: skip
    _atomic(values, memory, atom, dtype).launch(grid=(1,), block=(32, 1, 1))


def _combined(operation: str, memory: Any, value: Any) -> Any:
    kind = type(memory)
    if operation == "inc":
        return kind(0) if int(memory) % 2**64 >= int(value) % 2**64 else kind(memory + kind(1))
    if operation == "dec":
        return value if memory == 0 or memory > value else kind(memory - kind(1))
    functions = {
        "add": lambda: memory + value, "sub": lambda: memory - value,
        "min": lambda: min(memory, value), "max": lambda: max(memory, value),
        "and": lambda: memory & value, "or": lambda: memory | value, "xor": lambda: memory ^ value,
    }  # fmt: skip
    return functions[operation]()


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", CLASSES)
def test_buffer_atomics(arch: str, kind: str) -> None:
    """Every operation on eight places, each hit by four lanes, but the last, which is outside."""
    dtype, host = CLASSES[kind]
    operations = buffer_atomics(lookup(arch)).get(kind, ())
    pair = kind.startswith("vector")
    count = 2 if pair else 1
    generator = np.random.default_rng(len(kind))
    for operation in ("add", "sub", "min", "max", "and", "or", "xor", "inc", "dec"):
        if dtype.is_float and operation not in ("add", "min", "max"):
            continue
        if pair and operation != "add":
            continue
        atom = fx.rocdl.BufferAtomic(operation, dtype, pair=pair)
        if dtype.is_float:
            memory = generator.integers(-50, 50, 9 * count).astype(host)
            values = generator.integers(-50, 50, 32 * count).astype(host)
        elif operation in ("inc", "dec"):
            memory = generator.integers(0, 6, 9).astype(host)
            values = np.repeat(generator.integers(1, 6, 1), 32).astype(host)
        else:
            info = np.iinfo(host)
            memory = generator.integers(info.min, info.max, 9, dtype=host)
            values = generator.integers(info.min, info.max, 32, dtype=host)
            memory[1], values[1] = info.max, info.min
        length = 8 * count
        got = memory.copy()
        with scope(FLYDSL_TARGET=arch):
            if operation not in operations:
                with pytest.raises(TargetError, match="buffer atomic"):
                    _launch_atomic(values, got[:length], atom, dtype)
                continue
            _launch_atomic(values, got[:length], atom, dtype)
        expected = memory.copy()
        with np.errstate(over="ignore"):
            for lane in range(32):
                for part in range(count):
                    at = (lane % 8 + 1) * count + part
                    if at < length:
                        value = values[lane * count + part]
                        expected[at] = _combined(operation, expected[at], value)
        assert np.array_equal(got, expected), operation


@flyc.kernel
def _scalar_load(a: fx.Tensor, out: fx.Tensor) -> None:
    pointer = fx.rocdl.make_buffer_ptr(fx.get_iter(a), 64)
    out[0] = fx.rocdl.s_buffer_load(pointer, 8)
    four = fx.rocdl.s_buffer_load(pointer, 16, count=4)
    for i in fx.range_constexpr(4):
        out[1 + i] = four[i]


@flyc.jit
def _launch_scalar_load(a: fx.Tensor, out: fx.Tensor) -> None:
    _scalar_load(a, out).launch(grid=(1,), block=(1, 1, 1))


@pytest.mark.parametrize("arch", ARCHES)
def test_scalar_buffer_loads(arch: str) -> None:
    a, out = np.arange(100, 116, dtype=np.int32), np.zeros(5, np.int32)
    with scope(FLYDSL_TARGET=arch):
        _launch_scalar_load(a, out)
    assert out.tolist() == [102, 104, 105, 106, 107]
