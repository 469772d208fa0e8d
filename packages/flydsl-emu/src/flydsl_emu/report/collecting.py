"""Collecting reports of launches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flydsl.plugins.manager import plugin_manager
from flydsl_emu.dispatch import LoadedKernel
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.observers import Observer, watching
from flydsl_emu.report.constants import constants_of
from flydsl_emu.report.counting import AccessCounter
from flydsl_emu.report.execution import ExecutionReport, build_report

__all__ = ["collect", "last_report", "remember"]

_CACHE = "emulator reports"


@contextmanager
def collect() -> Iterator[list[ExecutionReport]]:
    """Watch the launches of the block, memory accesses included, and gather their reports.

    Example::

        with flydsl_emu.collect() as reports:
            launch(a, b, c, n)
        print(reports[0])
    """
    reports: list[ExecutionReport] = []

    def watcher(
        kernel: LoadedKernel,
        geometry: Geometry,  # noqa: ARG001
        allocations: tuple[Allocation, ...],  # noqa: ARG001
    ) -> Observer:
        return _Collecting(kernel, reports)

    with watching(watcher):
        yield reports


class _Collecting:
    """Counts the accesses of one launch and adds its report to a list."""

    def __init__(self, kernel: LoadedKernel, reports: list[ExecutionReport]) -> None:
        self._counter = AccessCounter(constants_of(kernel.kernel.arch))
        self._lines = kernel.code.source_line
        self._reports = reports

    def batch(self, batch: Batch) -> None:
        self._counter.batch(batch)

    def finished(self, record: LaunchRecord | None) -> None:
        if record is not None:
            self._reports.append(build_report(record, self._counter, self._lines))
            plugin_manager().cache(_CACHE)["counted"] = (record, self._counter)


def last_report() -> ExecutionReport | None:
    """Return the report of the process's last emulated launch, or None.

    Memory traffic and the modelled time are in it only if the launch ran inside `collect`.
    """
    cache = plugin_manager().cache(_CACHE)
    record: LaunchRecord | None = cache.get("last")
    if record is None:
        return None
    counted, counter = cache.get("counted", (None, None))
    return build_report(record, counter if counted is record else None)


def remember(record: LaunchRecord) -> None:
    """Keep the launch that `last_report` tells about."""
    plugin_manager().cache(_CACHE)["last"] = record
