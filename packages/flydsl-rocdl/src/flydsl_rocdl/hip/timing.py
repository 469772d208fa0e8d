"""Timing launches with events."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from contextlib import ExitStack

from flydsl_rocdl.hip.core import HipLibrary

__all__ = ["median_milliseconds"]

_WARM_UPS, _BATCHES = 5, 5
_BATCH_MILLISECONDS = 5.0
"""Length of a batch: long enough that the events' resolution does not show."""


def median_milliseconds(library: HipLibrary, run: Callable[[], object], stream: int) -> float:
    """Return the median over batches of the mean time of one run on the current device.

    Args:
        library: HIP.
        run: Launches on `stream`.
        stream: The stream's handle.

    Raises:
        TargetError: HIP reports an error.
    """
    with ExitStack() as kept:
        events = []
        for _ in range(2):
            event = ctypes.c_void_p()
            library.call("hipEventCreateWithFlags", ctypes.byref(event), 0)
            kept.callback(library.call, "hipEventDestroy", event)
            events.append(event)

        def batch(count: int) -> float:
            library.call("hipEventRecord", events[0], stream)
            for _ in range(count):
                run()
            library.call("hipEventRecord", events[1], stream)
            library.call("hipEventSynchronize", events[1])
            elapsed = ctypes.c_float()
            library.call("hipEventElapsedTime", ctypes.byref(elapsed), *events)
            return elapsed.value / count

        once = batch(_WARM_UPS)
        count = min(max(1, round(_BATCH_MILLISECONDS / max(once, 1e-4))), 1000)
        return statistics.median(batch(count) for _ in range(_BATCHES))
