"""Every call of HIP fails once, in everything that the runtime offers.

Each time there is an exception that names HIP's error, nothing that HIP has made stays behind, the
device, the capture mode and HIP's last error are as before, and the same can be done again.
"""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.driver import cache_of
from flydsl.errors import TargetError, UserError
from flydsl_rocdl.hip import HipRuntime, peers
from flydsl_rocdl.hip.streams import HipStream

KERNEL = """
gpu.module @m {
  gpu.func @k(%n: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    gpu.return
  }
}
"""
OUT_OF_MEMORY = 2


class Kept:
    """What a user holds and releases when something has failed."""

    def __init__(self):
        self.closers = []

    def __call__(self, thing, close):
        self.closers.append(close)
        return thing

    def release(self):
        while self.closers:
            self.closers.pop()()


def module(runtime, code, kept):
    loaded = runtime.load(code, 1)
    kept(loaded, loaded.unload)
    loaded.function("k")
    loaded.active_blocks("k", 64)
    loaded.unload()


def memory(runtime, code, kept):
    address = runtime.allocate(64, 1)
    kept(address, lambda: runtime.free(address, 1))
    runtime.copy_to_device(address, b"1234", 1)
    assert runtime.copy_from_device(address, 4, 1) == b"1234"


def streams(runtime, code, kept):
    first = HipStream(runtime, 1)
    kept(first, first.close)
    second = HipStream(runtime, 0)
    kept(second, second.close)
    start = first.record()
    kept(start, start.close)
    second.wait(start)
    end = second.record()
    kept(end, end.close)
    end.synchronize()
    assert end.milliseconds_since(start) == 1.5
    second.synchronize()
    end.close()
    second.close()


def graph(runtime, code, kept):
    stream = HipStream(runtime, 1)
    kept(stream, stream.close)
    with stream.capture() as captured:
        kept(captured, captured.close)
        loaded = runtime.load(code, 1)
        kept(loaded, loaded.unload)
    captured.launch(stream)
    captured.close()


def sharing(runtime, code, kept):
    address = runtime.allocate(64, 1)
    kept(address, lambda: runtime.free(address, 1))
    handle = peers.export_shared(runtime, address, 1)
    opened = peers.open_shared(runtime, handle, 1)
    kept(opened, lambda: peers.close_shared(runtime, opened, 1))
    peers.enable_peer_access(runtime, 1, 0)


def timing(runtime, code, kept):
    runtime.measure(lambda: None, 1)


RETURNS = (b"hipSetDevice", b"hipThreadExchangeStreamCaptureMode")
"""A failure of these may keep the runtime from going back to where the caller was."""
RELEASES = (b"hipModuleUnload", b"hipFree", b"hipEventDestroy", b"hipGraphDestroy")
"""What HIP itself does not release stays."""


@pytest.mark.parametrize("use", [module, memory, streams, graph, sharing, timing])
def test_every_call_may_fail(runtime, stub, build, use):
    stub.devices("gfx942", "gfx942")
    code = build(KERNEL)
    kept = Kept()
    stub.fail_after(2**40, 0)
    use(runtime, code, kept)
    calls = stub.calls
    assert calls > 4
    kept.release()
    live, before = stub.live, stub.state
    for count in range(calls):
        # What is asked once in a process may fail, too.
        runtime._specs.clear()
        stub.fail_after(count, OUT_OF_MEMORY)
        with pytest.raises(TargetError, match=r"hipErrorUnknown \(2\)"):
            use(runtime, code, kept)
        failed = stub.library.stub_failed()
        stub.fail_after(2**40, 0)
        if failed in RETURNS:
            stub.restore(before[0])
        assert stub.state == before, failed
        kept.release()
        left = stub.live - live
        assert left == 0 or (failed in RELEASES and use in (graph, timing) and left == 1), failed
        live += left
    use(runtime, code, kept)
    kept.release()
    assert (stub.live, stub.state) == (live, before)


@flyc.kernel
def printing_kernel(X: fx.Tensor):
    fx.printf("{}", X[0])


@flyc.jit
def printing(X: fx.Tensor, stream: fx.Stream):
    printing_kernel(X).launch(grid=1, block=64, stream=stream)


@pytest.mark.parametrize("prints", [False, True])
def test_the_first_call_may_fail_anywhere(hip_for_host, stub, launch, prints, monkeypatch):
    function = printing if prints else launch
    x = np.zeros(64, np.float32)
    live = stub.library.stub_live
    for count in range(100):
        modules = live(0)
        monkeypatch.setattr(function, "state", None)
        stub.fail_after(count, OUT_OF_MEMORY)
        failed = ""
        try:
            function(x, None)
        except TargetError as error:
            failed = str(error)
        reached = stub.calls > count
        stub.fail_after(2**40, 0)
        stub.restore(0)
        assert stub.state == (0, 0, 0, 0)
        assert bool(failed) == reached
        # What has been loaded is kept for the next call, and so is the ring buffer for output.
        assert live(0) == modules + len(cache_of(function)._loaded), stub.library.stub_failed()
        assert live(1) <= 1
        if not reached:
            break
    assert 3 < count < 99


def test_a_later_call_may_fail_anywhere(hip_for_host, stub, launch):
    stub.devices("gfx942", "gfx942")
    x = np.zeros(64, np.float32)
    launch(x, None)
    stub.library.hipSetDevice(1)
    before = stub.state
    stub.fail_after(2**40, 0)
    launch(x, None)
    calls = stub.calls
    # Which device is current, there, the launch, and back.
    assert calls == 4
    for count in range(calls):
        stub.fail_after(count, 719)
        with pytest.raises(TargetError, match=r"hipErrorLaunchFailure \(719\)"):
            launch(x, None)
        stub.library.hipSetDevice(1)
        assert stub.state == before
    launches = stub.launches
    launch(x, None)
    assert stub.launches == launches + 1
    stub.library.hipSetDevice(0)


def test_what_is_closed_is_not_used(hip_for_host, runtime, stub, launch):
    """A closed stream must not become the null stream."""
    stream, other = HipStream(runtime), HipStream(runtime)
    event = other.record()
    with other.capture() as captured, pytest.raises(UserError, match="graph is closed"):
        captured.launch(other)
    x = np.zeros(64, np.float32)
    launch(x, stream)
    for closed in (stream, event, captured):
        closed.close()
    launches = stub.launches
    for use in (
        lambda: launch(x, stream),
        stream.synchronize,
        stream.record,
        lambda: stream.wait(other.record()),
        lambda: stream.capture().__enter__(),
        lambda: other.wait(event),
        event.synchronize,
        lambda: event.milliseconds_since(event),
        lambda: captured.launch(other),
    ):
        with pytest.raises(UserError, match="is closed"):
            use()
    assert stub.launches == launches


def test_a_missing_library_is_explained_anew(tmp_path):
    """The error of one caller must not grow, nor keep the line of another."""
    runtime = HipRuntime(str(tmp_path / "libamdhip64.so.7"))
    seen = []
    for line in (1, 2):
        with pytest.raises(TargetError, match="cannot be loaded") as caught:
            runtime.library  # noqa: B018 - the property raises
        assert caught.value.location is None
        caught.value.with_location(line)
        depth, entry = 0, caught.value.__traceback__
        while entry is not None:
            depth, entry = depth + 1, entry.tb_next
        seen.append(depth)
    assert seen[1] <= seen[0]
    assert "FLYDSL_HIP_LIBRARY" in caught.value.hint
