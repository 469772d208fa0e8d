"""Locks that a forked process finds free."""

from __future__ import annotations

import os
import signal
import threading

from flydsl.locking import ProcessLock


def in_a_child(work) -> int:
    """Run `work` in a forked process of at most ten seconds; return its exit code."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def take(lock):
    with lock, lock:
        pass


def test_threads_exclude_one_another():
    lock = ProcessLock()
    count = 0

    def work():
        nonlocal count
        for _ in range(300):
            with lock:
                before = count
                for _ in range(50):
                    pass
                count = before + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == 1200


def test_another_thread_waits_and_the_same_one_does_not():
    lock, entered = ProcessLock(), threading.Event()

    def work():
        with lock:
            entered.set()

    thread = threading.Thread(target=work)
    with lock, lock:
        thread.start()
        assert not entered.wait(0.1)
    assert entered.wait(10)
    thread.join()


def test_a_forked_process_finds_it_free():
    lock = ProcessLock()
    held, done = threading.Event(), threading.Event()

    def work():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    held.wait()
    assert in_a_child(lambda: take(lock)) == 0
    # And so does one that is forked from that, and has threads that exclude one another.
    assert in_a_child(lambda: os._exit(in_a_child(lambda: take(lock)))) == 0
    done.set()
    thread.join()
    take(lock)
