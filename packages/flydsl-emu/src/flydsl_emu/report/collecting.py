"""Collecting reports of launches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flydsl.plugins.manager import plugin_manager
from flydsl_emu.codeobject import Kernel
from flydsl_emu.numpy_tier import LaunchRecord
from flydsl_emu.report.counting import AccessCounter
from flydsl_emu.report.execution import ExecutionReport, build_report
from flydsl_emu.report.model import CONSTANTS

__all__ = ["collect", "deliver", "last_report", "wanted"]

_collectors: ContextVar[tuple[list[ExecutionReport], ...]] = ContextVar(
    "flydsl_emu_collectors", default=()
)
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
    token = _collectors.set((*_collectors.get(), reports))
    try:
        yield reports
    finally:
        _collectors.reset(token)


def last_report() -> ExecutionReport | None:
    """Return the report of the process's last emulated launch, or None.

    Memory traffic and the modelled time are in it only if the launch ran inside `collect`.
    """
    latest = plugin_manager().cache(_CACHE).get("last")
    if latest is None:
        return None
    record, counter = latest
    return build_report(record, counter)


def wanted(kernel: Kernel) -> AccessCounter | None:
    """Return a counter for a launch that somebody watches, else None."""
    if not _collectors.get():
        return None
    constants = CONSTANTS[kernel.arch]
    return AccessCounter(int(constants["line"].value), int(constants["lds_banks"].value))


def deliver(record: LaunchRecord, counter: AccessCounter | None) -> None:
    """Hand a finished launch to the collectors."""
    plugin_manager().cache(_CACHE)["last"] = (record, counter)
    collectors = _collectors.get()
    if collectors:
        report = build_report(record, counter)
        for reports in collectors:
            reports.append(report)
