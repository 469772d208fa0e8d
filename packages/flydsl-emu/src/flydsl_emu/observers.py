"""Who watches launches: objects that see the batches of a launch on the numpy tier.

A watcher is a function that is asked once per launch of the context and answers with an
`Observer`, or None when the launch is of no interest. `watching` puts one in place for a block.
Without watchers a launch pays for one look at a context variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from flydsl_emu.dispatch import LoadedKernel
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.numpy_tier.engine import Batch

__all__ = ["Observer", "Observers", "Watcher", "observers_of", "watching"]


class Observer(Protocol):
    """Sees one launch."""

    def batch(self, batch: Batch) -> None:
        """Attach to a batch that is about to run; ``batch.first`` is its first workgroup."""
        ...

    def finished(self, record: LaunchRecord | None) -> None:
        """Note the end of the launch; `record` is None when it failed."""
        ...


Watcher = Callable[[LoadedKernel, Geometry, tuple[Allocation, ...]], Observer | None]
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("flydsl_emu_watchers", default=())


class Observers:
    """Several observers of one launch as one."""

    def __init__(self, members: list[Observer]) -> None:
        self.members = members

    def batch(self, batch: Batch) -> None:
        """Attach all of them."""
        for member in self.members:
            member.batch(batch)

    def finished(self, record: LaunchRecord | None) -> None:
        """Tell all of them."""
        for member in self.members:
            member.finished(record)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Ask `watcher` about every launch of the block."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def observers_of(
    kernel: LoadedKernel, geometry: Geometry, allocations: tuple[Allocation, ...]
) -> Observers | None:
    """Return the observers that the context's watchers name for a launch, or None."""
    watchers = _watchers.get()
    if not watchers:
        return None
    found = [made for w in watchers if (made := w(kernel, geometry, allocations)) is not None]
    # The sanitizer may run an instruction more than once: what it runs must be the plain one.
    found.sort(key=lambda observer: not getattr(observer, "innermost", False))
    return Observers(found) if found else None
