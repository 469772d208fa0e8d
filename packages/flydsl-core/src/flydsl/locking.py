"""`ProcessLock`: a lock that a forked process finds free, whoever held it at the fork."""

from __future__ import annotations

import os
import threading

__all__ = ["ProcessLock"]


class ProcessLock:
    """A re-entrant lock between the threads of one process, for ``with``.

    A thread that holds a lock while another thread forks does not exist in the new process, and
    would hold an ordinary lock there for ever.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks = {os.getpid(): threading.RLock()}

    def _own(self) -> threading.RLock:
        process = os.getpid()
        found = self._locks.get(process)
        # Of several threads that find none, all take the one that was set first.
        return self._locks.setdefault(process, threading.RLock()) if found is None else found

    def __enter__(self) -> None:
        self._own().acquire()

    def __exit__(self, *exception: object) -> None:
        self._own().release()
