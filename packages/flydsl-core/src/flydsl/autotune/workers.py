"""Trying candidates on many workers: processes of this machine, or a Dask cluster.

A task names a tuned launcher, one of its problems and a candidate, so that a worker imports the
program and makes the problem itself. It answers with the cost and with what the tensors held after
one run; those are compared here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from flydsl.autotune.configs import Config
from flydsl.autotune.memory import Snapshot, differences
from flydsl.autotune.results import Result, Trial
from flydsl.autotune.tuner import Autotuned
from flydsl.errors import FlyDSLError, TargetError, UserTypeError

__all__ = ["Task", "named", "search_on", "workers"]


@dataclass(frozen=True, slots=True)
class Task:
    """One candidate for one problem.

    Attributes:
        tuned: ``"module:name"`` of the tuned launcher.
        problems: ``"module:name"`` of a function without parameters that returns a sequence of
            argument tuples, the same ones in every process.
        problem: Index of the problem.
        config: `Config.to_dict` of the candidate.
    """

    tuned: str
    problems: str
    problem: int
    config: dict[str, Any]

    def __call__(self) -> dict[str, Any]:
        """Try the candidate: return its cost, or why it is rejected."""
        tuned, config = named(self.tuned), Config.from_dict(self.config)
        arguments = tuple(list(named(self.problems)())[self.problem])
        try:
            return _tried(tuned, config, arguments)
        except FlyDSLError as error:
            return {"rejected": f"fails: {error.message}"}


def _tried(tuned: Autotuned, config: Config, arguments: tuple[Any, ...]) -> dict[str, Any]:
    candidate, given, measure = tuned.candidate(config, arguments)
    before = Snapshot(given)
    candidate.run()
    contents = before.contents()
    before.restore()
    value, unit = measure(candidate.run)
    return {"value": value, "unit": unit, "spills": candidate.spills, "contents": contents}


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
            "there is no such object", code="FLY-U475", value=text, allowed="module:name"
        ) from error
    if found is None:
        raise UserTypeError("an object is named as module:name", code="FLY-U475", value=text)
    return found


def workers(count: int, scheduler: str = "") -> Executor:
    """Return what runs tasks.

    Args:
        count: Processes of this machine.
        scheduler: Address of a Dask scheduler, instead.

    Raises:
        TargetError: Dask is not installed, or does not answer.
    """
    if not scheduler:
        # Not forked: a child must not inherit a loaded compiler or driver.
        return ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        distributed: Any = importlib.import_module("distributed")
        executor: Executor = distributed.Client(scheduler, timeout="20s").get_executor()
    except (ImportError, OSError) as error:
        raise TargetError(
            "the Dask scheduler cannot be used",
            code="FLY-T475",
            value=f"{scheduler}: {error}",
            hint="pip install distributed, and check the address",
        ) from error
    return executor


def search_on(
    executor: Executor,
    tasks: Sequence[Task],
    tolerance: float | None,
    progress: Callable[[Trial], None] = lambda _: None,
) -> Result | None:
    """Run the tasks of one problem and return the outcome; None if no candidate runs.

    Args:
        executor: What runs them.
        tasks: One a candidate; the first that runs gives the results to agree with.
        tolerance: See `flydsl.autotune.memory.differences`.
        progress: Called with every trial.
    """
    answers = [future.result() for future in [executor.submit(task) for task in tasks]]
    wanted: dict[str, Any] | None = None
    trials = []
    spill_free = any(answer.get("spills") == 0 for answer in answers)
    for task, answer in zip(tasks, answers, strict=True):
        config = Config.from_dict(task.config)
        rejected = str(answer.get("rejected", ""))
        spills = int(answer.get("spills", 0))
        if not rejected and spills and spill_free:
            rejected = "spills registers"
        if not rejected:
            wrong = "" if wanted is None else differences(answer["contents"], wanted, tolerance)
            wanted = answer["contents"] if wanted is None else wanted
            rejected = f"wrong results: {wrong}" if wrong else ""
        value = None if rejected else float(answer["value"])
        trials.append(Trial(config, value, str(answer.get("unit", "")), rejected, spills))
        progress(trials[-1])
    return Result.of(trials)
