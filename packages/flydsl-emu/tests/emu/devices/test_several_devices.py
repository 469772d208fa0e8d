"""Communication between emulated devices, each driven by a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
import flydsl_emu.settings
from flydsl.config import scope
from flydsl.errors import TargetError, UserError, UserTypeError

DEVICES = 3
N = 192


@pytest.fixture(autouse=True)
def target() -> Iterator[None]:
    with scope(FLYDSL_TARGET="gfx942", FLYDSL_EMU_DEVICES=DEVICES):
        yield


@flyc.kernel
def all_reduce_kernel(
    table: fx.Tensor, flags: fx.Tensor, out: fx.Tensor, rank: fx.Int32, world: fx.Constexpr[int]
):
    """Publish this rank, wait for the others, and add what the table of addresses points to."""
    i = fx.thread_idx.x
    space = fx.PointerType.get(fx.Float32, "global", 4)
    if i == 0:
        fx.generic_store(
            flags.iter + rank, fx.Int32(1), memory_order=fx.AtomicOrdering.Release,
            syncscope="system",
        )  # fmt: skip
    total = fx.Float32(0.0)
    for peer in fx.range_constexpr(world):
        seen = fx.Int32(0)
        while seen == 0:
            seen = fx.generic_load(
                flags.iter + peer, memory_order=fx.AtomicOrdering.Acquire, syncscope="system"
            )
        total = total + fx.inttoptr(space, table[peer])[i]
    out[i] = total


@flyc.jit
def all_reduce(
    table: fx.Tensor, flags: fx.Tensor, out: fx.Tensor, rank: fx.Int32, world: fx.Constexpr[int]
):
    all_reduce_kernel(table, flags, out, rank, world).launch(grid=(1,), block=(N,))


@pytest.mark.parametrize("tier", ["numpy", "jit"])
def test_all_reduce_by_addresses(tier: str) -> None:
    random = np.random.default_rng(6)
    parts = [random.integers(-9, 9, N).astype(np.float32) for _ in range(DEVICES)]
    table = np.array([p.ctypes.data for p in parts], np.int64)
    flags = np.zeros(DEVICES, np.int32)
    results = [np.zeros(N, np.float32) for _ in range(DEVICES)]
    problems: list[BaseException] = []

    def rank_main(rank: int) -> None:
        try:
            with scope(
                FLYDSL_TARGET="gfx942",
                FLYDSL_EMU_DEVICES=DEVICES,
                FLYDSL_EMU_TIER=tier,
                FLYDSL_DEVICE=f"emu:{rank}",
                FLYDSL_EMU_STEP_LIMIT=50_000_000,
            ):
                all_reduce(table, flags, results[rank], rank, DEVICES)
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            problems.append(error)

    with flydsl_emu.sharing(*parts):
        threads = [threading.Thread(target=rank_main, args=(r,)) for r in range(DEVICES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []
    for result in results:
        assert np.array_equal(result, sum(parts))


def test_a_rank_alone_waits_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flydsl_emu.dispatch.loaded._PATIENCE", 0.3)
    part, out = np.zeros(N, np.float32), np.zeros(N, np.float32)
    table = np.array([part.ctypes.data] * DEVICES, np.int64)
    with (
        flydsl_emu.sharing(part),
        scope(FLYDSL_EMU_TIER="jit"),
        pytest.raises(TargetError, match="forever") as error,
    ):
        all_reduce(table, np.zeros(DEVICES, np.int32), out, 0, DEVICES)
    assert error.value.code == "FLY-U713"


def test_a_fault_before_an_endless_loop_is_reported() -> None:
    out, table = np.zeros(N, np.float32), np.zeros(DEVICES, np.int64)
    with scope(FLYDSL_EMU_TIER="jit"), pytest.raises(UserError) as error:
        all_reduce(table, np.zeros(DEVICES, np.int32), out, 0, DEVICES)
    assert error.value.code == "FLY-U711"


@flyc.kernel
def read_kernel(address: fx.Int64, out: fx.Tensor):
    space = fx.PointerType.get(fx.Int32, "global", 4)
    out[fx.thread_idx.x] = fx.inttoptr(space, address)[fx.thread_idx.x]


@flyc.jit
def read(address: fx.Int64, out: fx.Tensor):
    read_kernel(address, out).launch(grid=(1,), block=(64,))


def test_memory_of_peers_must_be_shared() -> None:
    hidden = np.arange(64, dtype=np.int32)
    out = np.zeros_like(hidden)
    with pytest.raises(UserError) as error:
        read(hidden.ctypes.data, out)
    assert error.value.code == "FLY-U711"
    with flydsl_emu.sharing(hidden):
        read(hidden.ctypes.data, out)
    assert np.array_equal(hidden, out)
    for wrong in ([1, 2], hidden[::2]):
        with pytest.raises(UserTypeError) as type_error, flydsl_emu.sharing(wrong):
            pass
        assert type_error.value.code == "FLY-U727"


def test_shared_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    hidden = torch.arange(64, dtype=torch.int32)
    out = np.zeros(64, np.int32)
    with flydsl_emu.sharing(hidden):
        read(hidden.data_ptr(), out)
    assert np.array_equal(hidden.numpy(), out)


def test_read_only_memory_is_not_written() -> None:
    constant = np.zeros(64, np.int32)
    constant.setflags(write=False)
    with flydsl_emu.sharing(constant), pytest.raises(UserError) as error:
        write(constant.ctypes.data)
    assert error.value.code == "FLY-U716"


@flyc.kernel
def write_kernel(address: fx.Int64):
    space = fx.PointerType.get(fx.Int32, "global", 4)
    fx.inttoptr(space, address)[fx.thread_idx.x] = fx.Int32(1)


@flyc.jit
def write(address: fx.Int64):
    write_kernel(address).launch(grid=(1,), block=(64,))


def test_devices_that_do_not_exist() -> None:
    out = np.zeros(64, np.int32)
    with scope(FLYDSL_DEVICE=f"emu:{DEVICES}"), pytest.raises(TargetError):
        read(out.ctypes.data, out)


def test_a_stream_belongs_to_its_device() -> None:
    runtime: Any = flydsl_emu.emulator()
    stream = runtime.create_stream(device=1)
    out = np.zeros(64, np.int32)
    with (
        runtime.using_stream(stream),
        scope(FLYDSL_DEVICE="emu:0"),
        pytest.raises(UserError, match="no such stream"),
    ):
        read(out.ctypes.data, out)
    with runtime.using_stream(stream), scope(FLYDSL_DEVICE="emu:1"), flydsl_emu.sharing(out):
        read(out.ctypes.data, out)
