"""Streams, events and graph capture of the emulator."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import UserError
from flydsl_emu.runtime import EmulatorRuntime


@pytest.fixture(autouse=True)
def target() -> Iterator[None]:
    with scope(FLYDSL_TARGET="gfx942"):
        yield


@pytest.fixture
def runtime() -> EmulatorRuntime:
    return flydsl_emu.emulator()


@flyc.kernel
def axpy_kernel(X: fx.Tensor, Y: fx.Tensor, a: fx.Float32, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        Y[i] = Y[i] + a * X[i]


@flyc.jit
def axpy(X: fx.Tensor, Y: fx.Tensor, a: fx.Float32, n: fx.Int32, stream: fx.Stream = None):
    axpy_kernel(X, Y, a, n).launch(grid=((n + 63) // 64,), block=(64,), stream=stream)


@flyc.jit
def implicit(X: fx.Tensor, Y: fx.Tensor, a: fx.Float32, n: fx.Int32):
    axpy_kernel(X, Y, a, n).launch(grid=((n + 63) // 64,), block=(64,))


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    return np.arange(100, dtype=np.float32), np.zeros(100, np.float32)


def test_a_graph_runs_again_on_the_same_memory(runtime: EmulatorRuntime, arrays: Any) -> None:
    x, y = arrays
    stream = runtime.create_stream()
    with runtime.capture(stream) as graph:
        axpy(x, y, 2.0, 100, stream)
        axpy(y, x, 1.0, 50, stream)
        axpy(x, y, 100.0, 100)  # another stream: runs at once
        with pytest.raises(UserError, match="captured"):
            graph.replay()
    assert len(graph) == 2
    assert np.array_equal(y, 100 * np.arange(100, dtype=np.float32))
    y[:] = 0
    expected_x, expected_y = x.copy(), y.copy()
    for _ in range(3):
        graph.replay()
        expected_y += 2 * expected_x
        expected_x[:50] += expected_y[:50]
        assert np.array_equal(x, expected_x)
        assert np.array_equal(y, expected_y)
    runtime.destroy_stream(stream)


@pytest.mark.parametrize("way", ["first call", "later call", "compiled", "printing"])
def test_a_graph_keeps_its_tensors_alive(runtime: EmulatorRuntime, way: str) -> None:
    @flyc.kernel
    def kernel(X: fx.Tensor, Y: fx.Tensor) -> None:
        if way == "printing":
            fx.printf("")
        Y[fx.thread_idx.x] = Y[fx.thread_idx.x] + X[fx.thread_idx.x]

    @flyc.jit
    def add(X: fx.Tensor, Y: fx.Tensor) -> None:
        kernel(X, Y).launch(grid=1, block=64)

    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    launch: Any = flyc.compile(add, x.copy(), y.copy()) if way == "compiled" else add
    if way != "first call":
        for _ in range(2):
            launch(x.copy(), y.copy())
    stream = runtime.create_stream()
    with runtime.using_stream(stream), runtime.capture(stream) as graph:
        launch(x, y)
    gone = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    others = [np.full(64, 7, np.float32) for _ in range(50)]
    graph.replay()
    graph.replay()
    assert all((other == 7).all() for other in others)
    assert np.array_equal(gone[1](), 2 * np.arange(64))
    del graph
    gc.collect()
    assert all(ref() is None for ref in gone)


def test_the_current_stream_of_a_thread(runtime: EmulatorRuntime, arrays: Any) -> None:
    x, y = arrays
    stream = runtime.create_stream()
    seen: list[int] = []
    with runtime.using_stream(stream):
        assert runtime.current_stream(0) == stream
        other = threading.Thread(target=lambda: seen.append(runtime.current_stream(0)))
        other.start()
        other.join()
        with runtime.capture(stream) as graph:
            implicit(x, y, 1.0, 100)
    assert seen == [0]
    assert runtime.current_stream(0) == 0
    assert not y.any()
    graph.replay()
    assert np.array_equal(x, y)


def test_events_have_happened_when_recorded(runtime: EmulatorRuntime, arrays: Any) -> None:
    x, y = arrays
    stream = runtime.create_stream()
    before = runtime.record_event(stream)
    axpy(x, y, 1.0, 100, stream)
    after = runtime.record_event(stream)
    assert after.query()
    after.synchronize()
    runtime.wait_event(0, after)
    runtime.synchronize(stream, 0)
    assert after.launches == before.launches + 1


def test_wrong_uses(runtime: EmulatorRuntime, arrays: Any) -> None:
    x, y = arrays
    stream = runtime.create_stream()
    with runtime.capture(stream):
        for wrong in (
            lambda: runtime.synchronize(stream, 0),
            lambda: runtime.destroy_stream(stream),
            lambda: runtime.capture(stream).__enter__(),
        ):
            with pytest.raises(UserError) as error:
                wrong()
            assert error.value.code == "FLY-U726"
    runtime.destroy_stream(stream)
    with pytest.raises(UserError, match="no such stream") as error:
        axpy(x, y, 1.0, 100, stream)
    assert error.value.code == "FLY-U726"
    with pytest.raises(UserError):
        runtime.destroy_stream(stream)


def test_a_failed_launch_is_refused_when_captured(runtime: EmulatorRuntime, arrays: Any) -> None:
    x, y = arrays
    stream = runtime.create_stream()
    with runtime.capture(stream) as graph:
        axpy(x, y, 1.0, 101, stream)
    with pytest.raises(UserError) as error:
        graph.replay()
    assert error.value.code == "FLY-U711"


@flyc.kernel
def hello_kernel(n: fx.Int32):
    fx.printf("hello {}\n", n)


@flyc.jit
def hello(n: fx.Int32, stream: fx.Stream):
    hello_kernel(n).launch(grid=(1,), block=(1,), stream=stream)


def test_output_of_a_graph(runtime: EmulatorRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    stream = runtime.create_stream()
    with runtime.capture(stream) as graph:
        hello(1, stream)
        hello(2, stream)
    assert capsys.readouterr().out == ""
    graph.replay()
    assert capsys.readouterr().out == "hello 1\nhello 2\n"
