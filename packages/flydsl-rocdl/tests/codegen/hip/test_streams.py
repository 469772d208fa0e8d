"""Streams, events and graphs through the stand-in for HIP."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.errors import TargetError
from flydsl_rocdl.hip.streams import HipStream


def test_a_stream_is_passed_to_launchers(hip_for_host, runtime, stub, launch):
    stream = HipStream(runtime)
    launch(np.zeros(64, np.float32), stream)
    assert stub.last.stream == stream.cuda_stream != 0
    stream.synchronize()
    stub.fail(719)
    with pytest.raises(TargetError, match="unspecified launch failure"):
        stream.synchronize()
    stream.close()
    stream.close()


def test_events_order_and_time_work(runtime, stub):
    first, second = HipStream(runtime), HipStream(runtime)
    start = first.record()
    second.wait(start)
    assert stub.library.stub_call() == b"hipStreamWaitEvent"
    end = second.record()
    end.synchronize()
    assert end.milliseconds_since(start) == 1.5
    end.close()
    end.close()


def test_a_captured_graph_replays(hip_for_host, runtime, stub, launch):
    stream = HipStream(runtime)
    x = np.zeros(64, np.float32)
    launch(x, stream)
    with stream.capture() as graph:
        launch(x, stream)
        assert stub.last.captured == 1
        # A module that is first needed during a capture can still be loaded.
        launch(np.zeros(64, np.float64).astype(np.float32)[::1], stream)
    before = stub.launches
    graph.launch(stream)
    graph.launch(stream)
    assert stub.launches == before + 2
    launch(x, stream)
    assert stub.last.captured == 0
    graph.close()
    graph.close()


def test_an_error_inside_a_capture_ends_it(hip_for_host, runtime, stub, launch):
    stream = HipStream(runtime)
    with pytest.raises(ZeroDivisionError), stream.capture():
        raise ZeroDivisionError
    launch(np.zeros(64, np.float32), stream)
    assert stub.last.captured == 0
