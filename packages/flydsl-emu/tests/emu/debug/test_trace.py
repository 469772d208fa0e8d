"""Traces, their comparison, and breakpoints."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import flydsl_emu
from flydsl.config import scope
from flydsl.errors import UserError, UserTypeError
from flydsl_emu.debug import Stop, Trace

SOURCE = Path(__file__).with_name("tiled_kernel.py")
N = 32
LINES = SOURCE.read_text().splitlines()


def line_of(text: str) -> int:
    return next(n for n, x in enumerate(LINES, start=1) if text in x)


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("debug_traced_kernel", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["debug_traced_kernel"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True, params=["gfx942", "gfx950", "gfx1100", "gfx1201"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    with scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture
def arrays() -> tuple[Any, Any, Any]:
    random = np.random.default_rng(5)
    a, b = (random.integers(-9, 10, (N, N)).astype(np.float32) for _ in "ab")
    return a, b, np.full((N, N), np.nan, np.float32)


def registers(name: str) -> list[str]:
    """Return the single registers of an operand as text."""
    found = re.fullmatch(r"([a-z_]+)\[(\d+):(\d+)\]", name)
    if found is None:
        return [f"{name}_lo", f"{name}_hi"] if name in ("vcc", "exec") else [name]
    return [f"{found[1]}{k}" for k in range(int(found[2]), int(found[3]) + 1)]


def check_every_read_is_the_last_write(trace: Trace) -> int:
    """A register may only change where a step says that it wrote it."""
    known: dict[str, Any] = {}
    compared = 0
    for step in trace:
        for value in step.reads:
            for name, lanes in zip(registers(value.name), value.values, strict=True):
                if name in known:
                    assert np.array_equal(known[name], lanes), (str(step), name)
                    compared += 1
        for value in step.writes:
            for name, lanes in zip(registers(value.name), value.values, strict=True):
                known[name] = lanes
    return compared


def test_values_follow_the_program(kernels: ModuleType, arrays: Any, target: str) -> None:
    a, b, c = arrays
    trace = flydsl_emu.trace(kernels.launch, (a, b, c, N), workgroup=(1, 0), wave=2)
    assert np.array_equal(c, a @ b)
    assert (trace.arch, trace.workgroup, trace.wave) == (target, (1, 0, 0), 2)
    assert not trace.truncated
    assert trace[-1].text == "s_endpgm"
    assert check_every_read_is_the_last_write(trace) > 100
    (store,) = [s for s in trace if s.text.startswith("global_store")]
    assert store.source is not None
    assert store.source.line == line_of("C[row, column] = total")
    stored = store.reads[-1].values[0].view(np.float32).reshape(-1, 16)
    # Waves of a 16 x 16 workgroup hold four rows of its tile, or two.
    rows = slice(2 * len(stored), 3 * len(stored))
    assert len(stored) == (4 if target.startswith("gfx9") else 2)
    assert np.array_equal(stored, (a @ b)[rows, 16:32])
    loads = trace.at_line(line_of("tile_a[y * TILE + x] = A["), "tiled_kernel.py")
    values = [s.writes[0].values[0] for s in loads if s.text.startswith("global_load")]
    assert len(values) == N // 16
    assert np.array_equal(values[1].view(np.float32).reshape(-1, 16), a[rows, 16:32])
    branches = [s.taken for s in trace if s.taken is not None]
    assert True in branches
    assert False in branches


def test_text_and_json_tell_the_same(kernels: ModuleType, arrays: Any) -> None:
    trace = flydsl_emu.trace(kernels.launch, (*arrays, N), limit=40)
    assert trace.truncated
    assert len(trace) == 40
    text = str(trace)
    assert "the wave went on" in text
    assert "tiled_kernel.py:" in text
    loaded = json.loads(trace.to_json())
    assert [s["text"] for s in loaded["steps"]] == [s.text for s in trace]
    for step, other in zip(trace, loaded["steps"], strict=True):
        assert int(other["exec"], 16) == step.exec
        for value, shown in zip(step.writes, other["writes"], strict=True):
            assert shown["values"] == value.values.T.tolist()


def test_a_kernel_with_its_geometry(kernels: ModuleType, arrays: Any) -> None:
    a, b, c = arrays
    grid, block = (N // 16, N // 16), (16, 16)
    trace = flydsl_emu.trace(kernels.product, (a, b, c, N // 16), grid=grid, block=block)
    assert np.array_equal(c, a @ b)
    assert len(trace) > 100
    with pytest.raises(UserTypeError, match="geometry") as error:
        flydsl_emu.trace(kernels.product, (a, b, c, N // 16))
    assert error.value.code == "FLY-U723"
    with pytest.raises(UserTypeError):
        flydsl_emu.trace(kernels.launch, (a, b, c, N), grid=(1,), block=(16, 16))


def test_a_wave_that_does_not_exist(kernels: ModuleType, arrays: Any) -> None:
    with pytest.raises(UserError, match="no launch to trace"):
        flydsl_emu.trace(kernels.launch, (*arrays, N), workgroup=(2, 0))
    with pytest.raises(UserError, match="no launch to trace"):
        flydsl_emu.trace(kernels.launch, (*arrays, N), wave=8)


def test_traces_of_equal_runs_agree_whatever_the_addresses(
    kernels: ModuleType, arrays: Any
) -> None:
    a, b, c = arrays
    first = flydsl_emu.trace(kernels.launch, (a, b, c, N), wave=1)
    second = flydsl_emu.trace(kernels.launch, (a.copy(), b.copy(), c.copy(), N), wave=1)
    assert first.buffers != second.buffers
    assert flydsl_emu.diff(first, second) is None


def test_the_first_different_value_is_found(kernels: ModuleType, arrays: Any, target: str) -> None:
    a, b, c = arrays
    other = a.copy()
    # The second row of wave 1; column 19 is lane 3 of the second step.
    row = 5 if target.startswith("gfx9") else 3
    other[row, 19] += 1
    first = flydsl_emu.trace(kernels.launch, (a, b, c, N), wave=1)
    second = flydsl_emu.trace(kernels.launch, (other, b, c, N), wave=1)
    found = flydsl_emu.diff(first, second)
    assert found is not None
    assert (found.reason, found.lanes) == ("value", (16 + 3,))
    assert f"tiled_kernel.py:{line_of('tile_a[y * TILE + x] = A[')}" in found.source
    shown = [np.uint32(int(x[0], 16)).view(np.float32) for x in (found.first, found.second)]
    assert shown == [a[row, 19], other[row, 19]]
    assert "global_load" in str(found)
    assert json.loads(found.to_json())["lanes"] == [19]
    later = flydsl_emu.diff(first, second, ignore=lambda s: "global_load" in s.text)
    assert later is not None
    assert later.index > found.index


def test_another_path_and_another_length_are_found(kernels: ModuleType, arrays: Any) -> None:
    a, b, c = arrays
    grid, block = (2, 2), (16, 16)
    long, short = (
        flydsl_emu.trace(kernels.product, (a, b, c, steps), grid=grid, block=block)
        for steps in (2, 1)
    )
    assert flydsl_emu.diff(long, short).reason == "value"
    found = flydsl_emu.diff(long, short, ignore=lambda _: True)
    assert found is not None
    assert found.reason == "branch"
    cut = flydsl_emu.trace(kernels.product, (a, b, c, 2), grid=grid, block=block, limit=50)
    found = flydsl_emu.diff(cut, long)
    assert found is not None
    assert (found.reason, found.index) == ("length", 50)


def test_a_breakpoint_sees_the_workgroups_memory(
    kernels: ModuleType, arrays: Any, target: str
) -> None:
    a, b, c = arrays
    seen: list[tuple[tuple[int, int, int], int]] = []
    tiles: list[Any] = []

    def stop(at: Stop) -> None:
        seen.append((at.workgroup, at.wave))
        assert at.source is not None
        assert at.source.line == line
        if (at.workgroup, at.wave) == ((1, 1, 0), 3):
            tile = at.registers.lds(0, 1024, np.float32).reshape(16, 16)
            if not tiles or not np.array_equal(tile, tiles[-1]):
                tiles.append(tile)
            where = b.ctypes.data + 4 * 7
            assert at.registers.memory(where, 8, np.float32).tolist() == b[0, 7:9].tolist()

    line = max(n for n, x in enumerate(LINES, start=1) if "fx.gpu.barrier()" in x)
    with flydsl_emu.breakpoint_at(stop, line=line, file="tiled_kernel.py"):
        kernels.launch(a, b, c, N)
    waves = 4 if target.startswith("gfx9") else 8
    assert sorted(set(seen)) == sorted({(w, n) for w, _ in seen for n in range(waves)})
    assert len(seen) % (4 * waves * (N // 16)) == 0
    assert np.array_equal(np.concatenate(tiles, axis=1), a[16:32])
    assert np.array_equal(c, a @ b)


def test_a_breakpoint_can_change_registers(kernels: ModuleType, arrays: Any) -> None:
    a, b, c = arrays
    trace = flydsl_emu.trace(kernels.launch, (a, b, c, N))
    (store,) = [s for s in trace if s.text.startswith("global_store")]
    register = int(store.reads[-1].name.removeprefix("v"))

    def stop(at: Stop) -> None:
        lanes = len(at.registers.vgpr(register, np.float32))
        at.registers.set_vgpr(register, np.arange(lanes, dtype=np.float32))

    with flydsl_emu.breakpoint_at(stop, pc=store.pc, workgroup=0, wave=0):
        kernels.launch(a, b, c, N)
    expected = a @ b
    lanes = store.reads[-1].values.shape[1]
    expected[: lanes // 16, :16] = np.arange(lanes).reshape(-1, 16)
    assert np.array_equal(c, expected)


def test_breakpoints_where_there_is_no_code(kernels: ModuleType, arrays: Any) -> None:
    def never(at: Stop) -> None:
        raise AssertionError(at)

    for place in ({"line": 1}, {"pc": 2}, {"pc": 1 << 20}):
        with pytest.raises(UserError, match="no code"), flydsl_emu.breakpoint_at(never, **place):
            kernels.launch(*arrays, N)
    with pytest.raises(UserError, match="at a pc or at"), flydsl_emu.breakpoint_at(never):
        pass
    with flydsl_emu.breakpoint_at(never, line=1, kernel="another"):
        kernels.launch(*arrays, N)


def test_an_exception_of_the_callback_ends_the_launch(kernels: ModuleType, arrays: Any) -> None:
    def fail(at: Stop) -> None:
        raise RuntimeError(f"seen wave {at.wave}")

    with pytest.raises(RuntimeError, match="seen wave 0"), flydsl_emu.breakpoint_at(fail, pc=0):
        kernels.launch(*arrays, N)
    kernels.launch(*arrays, N)
    assert np.array_equal(arrays[2], arrays[0] @ arrays[1])


def test_a_callback_may_not_launch(kernels: ModuleType, arrays: Any) -> None:
    def relaunch(at: Stop) -> None:
        assert at.wave == 0
        kernels.launch(*arrays, N)

    at_start = flydsl_emu.breakpoint_at(relaunch, pc=0)
    with pytest.raises(UserError, match="launched by the function of a breakpoint"), at_start:
        kernels.launch(*arrays, N)
    kernels.launch(*arrays, N)
    assert np.array_equal(arrays[2], arrays[0] @ arrays[1])


def test_accesses_that_a_wave_does_not_have(kernels: ModuleType, arrays: Any) -> None:
    def stop(at: Stop) -> None:
        wave = at.registers
        for access in (
            lambda: wave.vgpr(600),
            lambda: wave.sgpr(-1),
            lambda: wave.lds(2044, 8),
            lambda: wave.memory(1, 4),
            lambda: wave.set_vgpr(0, np.zeros(len(wave.vgpr(0)), np.float64)),
        ):
            with pytest.raises(UserError) as error:
                access()
            assert error.value.code == "FLY-U722"
        checked.append(wave.exec)

    checked: list[int] = []
    with flydsl_emu.breakpoint_at(stop, pc=0, workgroup=0, wave=0):
        kernels.launch(*arrays, N)
    assert checked[0] in ((1 << 64) - 1, (1 << 32) - 1)


def test_a_failed_launch_leaves_its_trace(kernels: ModuleType, arrays: Any) -> None:
    a, b, c = arrays
    small = a[:20].copy()
    with (
        scope(FLYDSL_DEBUG_INFO=True),
        flydsl_emu.tracing(workgroup=(0, 1), wave=1) as traces,
        pytest.raises(UserError) as error,
    ):
        kernels.launch(small, b, c, N)
    assert error.value.code == "FLY-U711"
    (trace,) = traces
    assert trace.truncated
    # The last step is the load of A, whose last rows are missing.
    assert trace[-1].text.startswith("global_load")
    assert trace[-1].writes == ()
    assert trace[-1].source is not None
    assert trace[-1].source.line == line_of("tile_a[y * TILE + x] = A[")
