"""Trying candidates on many workers: processes of this machine, or a Dask cluster.

A task names a tuned launcher, one of its problems and a candidate, so that a worker imports the
program and makes the problem itself. It answers with the cost and with what the tensors held after
one run; those are compared here.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from flydsl.autotune.comparing import differences
from flydsl.autotune.configs import Config
from flydsl.autotune.memory import Snapshot, on_host
from flydsl.autotune.results import Result, Trial
from flydsl.autotune.searching import Check, cost_of, reason
from flydsl.autotune.tuner import Autotuned
from flydsl.caching import disk_cache
from flydsl.errors import TargetError, UserRuntimeError, UserTypeError

__all__ = ["Task", "Workers", "named", "search_on"]


@dataclass(frozen=True, slots=True)
class Task:
    """One candidate for one problem.

    Attributes:
        tuned: ``"module:name"`` of the tuned launcher.
        problems: ``"module:name"`` of a function without parameters that returns a sequence of
            argument tuples, the same ones in every process.
        problem: Index of the problem.
        config: `Config.to_dict` of the candidate; None for the launcher's reference.
        limit: Seconds after which the process is ended that prepares the candidate, or that runs
            it; 0 for none. Waiting for the device does not count.
        trace: File that tells that this has happened.
    """

    tuned: str
    problems: str
    problem: int
    config: dict[str, Any] | None
    limit: float = 0.0
    trace: str = os.devnull

    def __call__(self) -> dict[str, Any]:
        """Try the candidate: return its cost and results, or why it is rejected."""
        tuned = named(self.tuned)
        arguments = tuple(list(named(self.problems)())[self.problem])
        try:
            if self.config is None:
                with self.limited():
                    return {"contents": _packed(tuned.expected(arguments))}
            return _tried(tuned, self, arguments)
        except Exception as error:  # noqa: BLE001 - of the program, its hooks, or the measurement
            return {"rejected": f"fails: {reason(error)}"}

    @contextmanager
    def limited(self) -> Iterator[None]:
        """End the process if the ``with`` block takes too long, whatever hangs in there."""
        if not self.limit:
            yield
            return
        with Path(self.trace).open("w") as file:
            # Its thread needs no interpreter, which a launch that hangs may hold.
            faulthandler.dump_traceback_later(self.limit, exit=True, file=file)
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()


def _candidate(tuned: Autotuned, content: Mapping[str, Any], arguments: tuple[Any, ...]) -> Config:
    """Return the launcher's own configuration, which has a hook that no description has."""
    described = Config.from_dict(content)
    return next((c for c in tuned.candidates(arguments) if c == described), described)


def _tried(tuned: Autotuned, task: Task, arguments: tuple[Any, ...]) -> dict[str, Any]:
    assert task.config is not None
    with task.limited():
        config = _candidate(tuned, task.config, arguments)
        candidate, given, measure, rules = tuned.candidate(config, arguments)
        before = Snapshot(given, rules.written)
        check = Check(before, given, replace(rules, reference=None))
    # Candidates compile at the same time, but each has the device to itself.
    with alone_on(candidate.shared), task.limited():
        check.wrong(candidate)
        before.restore()
        value, unit = cost_of(measure(candidate.run))
    contents = _packed(check.wanted or {})
    return {"value": value, "unit": unit, "spills": candidate.spills, "contents": contents}


def alone_on(device: str) -> AbstractContextManager[None]:
    """Keep other processes that tune off a device inside a ``with`` block; "" stands for none."""
    if not device:
        return nullcontext()
    # Locks go by the first two characters of a key; compiles have hexadecimal ones.
    return disk_cache().lock(f"t{device.rpartition(':')[2]}")


def _packed(contents: Mapping[str, Any]) -> bytes:
    """Return contents as bytes: libraries share memory that ends with the process that made it."""
    return pickle.dumps(on_host(contents), protocol=5)


def named(text: str) -> Any:
    """Return the object called ``"module:name"``.

    Raises:
        UserTypeError: The text is malformed, or there is no such object.
    """
    module, colon, name = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name) if colon else None
    except (ImportError, AttributeError) as error:
        raise UserTypeError(
            "there is no such object",
            code="FLY-U475",
            value=text,
            allowed="module:name",
            hint=str(error),
        ) from error
    if found is None:
        raise UserTypeError("an object is named as module:name", code="FLY-U475", value=text)
    return found


def _print_apart() -> None:
    """Send what programs print in this process to standard error: none of it is a result."""
    sys.stdout = sys.stderr


class Workers:
    """Runs tasks, each of which may end the process that it runs in.

    Args:
        count: Processes of this machine.
        scheduler: Address of a Dask scheduler, instead.
        limit: Seconds that a candidate may take to be prepared, and as many to run; 0 for no limit.
            Processes of a cluster are not ended: they may run other things.

    Raises:
        TargetError: Dask is not installed, or does not answer.
    """

    def __init__(self, count: int, scheduler: str = "", limit: float = 0.0) -> None:
        self._count, self._limit = count, 0.0 if scheduler else limit
        self._client = _client(scheduler) if scheduler else None
        self._executor = self._open(count)

    def _open(self, count: int) -> Executor:
        if self._client is not None:
            executor: Executor = self._client.get_executor()
            return executor
        # Not forked: a child must not inherit a loaded compiler or driver.
        return ProcessPoolExecutor(count, get_context("spawn"), _print_apart)

    def answers(self, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        """Yield what tasks answer, in order; those whose process ends are rejected."""
        tasks = [replace(task, limit=self._limit) for task in tasks]
        running = deque(self._executor.submit(task) for task in tasks)
        for task in tasks:
            try:
                answer = running.popleft().result()
            except BrokenExecutor:
                # It or one that ran at the same time; so are all that were to follow.
                answer = self._alone(task)
                self._executor = self._open(self._count)
                left = tasks[len(tasks) - len(running) :]
                running = deque(self._executor.submit(one) for one in left)
            except Exception as error:  # noqa: BLE001 - the cluster's, which tries it on several workers
                answer = {"rejected": f"fails: {reason(error)}"}
            yield answer

    def _alone(self, task: Task) -> dict[str, Any]:
        with TemporaryDirectory() as folder, self._open(1) as executor:
            trace = Path(folder, "trace")
            try:
                future = executor.submit(replace(task, trace=str(trace)))
                answer: dict[str, Any] = future.result()
            except BrokenExecutor:
                if trace.exists() and trace.stat().st_size:
                    return {"rejected": f"fails: takes longer than {self._limit:g} s"}
                return {"rejected": "fails: ends the process"}
            return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._executor.shutdown()
        if self._client is not None:
            self._client.close()


def _client(scheduler: str) -> Any:
    try:
        distributed: Any = importlib.import_module("distributed")
        return distributed.Client(scheduler, timeout="20s")
    except (ImportError, OSError, ValueError) as error:
        raise TargetError(
            "the Dask scheduler cannot be used",
            code="FLY-T475",
            value=f"{scheduler}: {error}",
            hint="pip install distributed, and check the address",
        ) from error


def search_on(
    workers: Workers,
    tasks: Sequence[Task],
    tolerance: float | None,
    progress: Callable[[Trial], None] = lambda _: None,
) -> Result | None:
    """Run the tasks of one problem and return the outcome; None if no candidate runs.

    Args:
        workers: What runs them.
        tasks: One a candidate; the first that runs gives the results to agree with, if the first
            task is not that of the reference.
        tolerance: See `flydsl.autotune.comparing.differences`.
        progress: Called with every trial.

    Raises:
        UserRuntimeError: The reference fails.
    """
    wanted: dict[str, Any] | None = None
    trials = []
    for task, answer in zip(tasks, workers.answers(tasks), strict=True):
        rejected = str(answer.get("rejected", ""))
        found = {} if rejected else pickle.loads(answer["contents"])  # noqa: S301 - our own
        if task.config is None:
            if rejected:
                raise UserRuntimeError(f"the reference {rejected}", code="FLY-U472")
            wanted = found
            continue
        config, spills = Config.from_dict(task.config), int(answer.get("spills", 0))
        if not rejected:
            wrong = "" if wanted is None else _wrong(found, wanted, tolerance)
            wanted = found if wanted is None else wanted
            rejected = f"wrong results: {wrong}" if wrong else ""
        value = None if rejected else float(answer["value"])
        trials.append(Trial(config, value, str(answer.get("unit", "")), rejected, spills))
    if any(not trial.rejected and not trial.spills for trial in trials):
        trials = [
            replace(trial, value=None, rejected="spills registers")
            if trial.spills and not trial.rejected
            else trial
            for trial in trials
        ]
    for trial in trials:
        progress(trial)
    return Result.of(trials)


def _wrong(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float | None) -> str:
    """Return what is wrong with the results of a candidate; empty if nothing is."""
    missing, more = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    if missing:
        return f"{min(missing)} is not written"
    if more:
        return f"{min(more)} is written"
    return differences(found, wanted, tolerance)
