"""The search: compile, prune by resources, check numbers, then measure."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flydsl.autotune.comparing import differences
from flydsl.autotune.configs import Config
from flydsl.autotune.memory import Snapshot
from flydsl.autotune.results import Result, Trial
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import FlyDSLError, UserRuntimeError, UserTypeError

__all__ = ["Candidate", "Check", "Measure", "Rules", "cost_of", "prepared", "reason", "search"]

Measure = Callable[[Callable[[], object]], Any]
"""Returns the cost of a run and its unit, or only the cost."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that compiled.

    Attributes:
        config: The candidate.
        run: Launches it with the call's arguments.
        spills: Registers that its kernels spill.
        shared: The device that it runs on, which other processes may use; empty if it is emulated.
    """

    config: Config
    run: Callable[[], object]
    spills: int
    shared: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """How results are compared.

    Attributes:
        tolerance: See `flydsl.autotune.comparing.differences`.
        reference: Computes, with the call's arguments by name, what candidates have to agree with;
            None takes what the first one that runs computes.
        written: Names of the arguments that candidates write to; None if that is not known.
    """

    tolerance: float | None = None
    reference: Callable[[Mapping[str, Any]], object] | None = None
    written: Collection[str] | None = None


def reason(error: Exception) -> str:
    """Return what an exception says, in one line."""
    if isinstance(error, FlyDSLError):
        return error.message
    return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")


def cost_of(measured: Any) -> tuple[float, str]:
    """Return cost and unit of what was measured.

    Raises:
        UserTypeError: That is no number.
    """
    value, unit = measured if isinstance(measured, tuple) and len(measured) == 2 else (measured, "")
    try:
        cost = float(value)
    except (TypeError, ValueError):
        cost = math.nan
    if not math.isfinite(cost):
        raise UserTypeError(
            f"do_bench returned {measured!r}, which is no cost",
            code="FLY-U477",
            value=measured,
            allowed="a finite number, or one and its unit",
        )
    return cost, str(unit)


def prepared(
    configs: Sequence[Config], prepare: Callable[[Config], Candidate]
) -> tuple[list[tuple[int, Candidate]], dict[int, Trial], Exception | None]:
    """Compile candidates and leave out those that spill where another does not.

    Returns:
        The candidates left with their numbers, the trials of the others, and the last error.
    """
    ready: list[tuple[int, Candidate]] = []
    trials: dict[int, Trial] = {}
    last: Exception | None = None
    for index, config in enumerate(configs):
        try:
            ready.append((index, prepare(config)))
        except Exception as error:  # noqa: BLE001 - the program may raise anything while it is traced
            trials[index] = Trial(config, rejected=f"does not compile: {reason(error)}")
            last = error
    if any(candidate.spills == 0 for _, candidate in ready):
        # Spilling never pays where another candidate needs none of it.
        for index, candidate in ready:
            if candidate.spills:
                trials[index] = Trial(
                    candidate.config, rejected="spills registers", spills=candidate.spills
                )
        ready = [(index, candidate) for index, candidate in ready if not candidate.spills]
    return ready, trials, last


class Check:
    """Runs candidates from the same contents, and compares what they leave.

    Args:
        before: What the tensors hold.
        arguments: The call's arguments by name, for the reference.
        rules: How results are compared.
    """

    def __init__(self, before: Snapshot, arguments: Mapping[str, Any], rules: Rules) -> None:
        self._before, self._rules = before, rules
        self.wanted: dict[str, Any] | None = None
        self._start: dict[str, Any] | None = None
        if rules.reference is not None:
            self._settle(lambda: rules.reference and rules.reference(arguments))

    def _settle(self, run: Callable[[], object]) -> None:
        """Take what `run` leaves as what is wanted.

        Results that are there already, say from an earlier call, must not make a candidate pass
        that does not write them.
        """
        self._before.restore()
        run()
        found = self._before.contents()
        start = self._before.disturbed(found) if self._rules.written is not None else {}
        if start:
            self._before.restore(start)
            run()
            found = self._before.contents()
            self._start = start
        self.wanted = found

    def wrong(self, candidate: Candidate) -> str:
        """Run a candidate and return what is wrong with its results; empty if nothing is."""
        if self.wanted is None:
            self._settle(candidate.run)
            return ""
        self._before.restore(self._start)
        candidate.run()
        return differences(self._before.contents(), self.wanted, self._rules.tolerance)


def search(
    configs: Sequence[Config],
    prepare: Callable[[Config], Candidate],
    arguments: Mapping[str, Any],
    measure: Measure,
    rules: Rules,
) -> Result:
    """Return the fastest candidate whose results agree with those of the first that runs.

    What tensors hold is as before when this returns.

    Args:
        configs: The candidates; the first one that runs gives the results to agree with.
        prepare: Compiles a candidate.
        arguments: The call's arguments by name.
        measure: Returns the cost of a run.
        rules: How results are compared.

    Raises:
        UserRuntimeError: No candidate runs; caused by the last one's error.
    """
    ready, trials, last = prepared(configs, prepare)
    before = Snapshot(arguments, rules.written)
    try:
        check = Check(before, arguments, rules)
        for index, candidate in ready:
            try:
                wrong = check.wrong(candidate)
            except Exception as error:  # noqa: BLE001 - so may a hook of the candidate
                trials[index] = Trial(candidate.config, rejected=f"fails: {reason(error)}")
                last = error
                continue
            if wrong:
                trials[index] = _wrong(candidate, wrong, rules)
                continue
            before.restore()
            try:
                value, unit = cost_of(measure(candidate.run))
            except FlyDSLError as error:
                trials[index] = Trial(candidate.config, rejected=f"fails: {error.message}")
                last = error
                continue
            trials[index] = Trial(candidate.config, value, unit, spills=candidate.spills)
    finally:
        before.restore()
    ordered = tuple(trials[index] for index in sorted(trials))
    result = Result.of(ordered)
    if result is None:
        reasons = "; ".join(f"{trial.config}: {trial.rejected}" for trial in ordered)
        raise UserRuntimeError(
            "none of the configurations runs", code="FLY-U472", value=reasons or "no candidates"
        ) from last
    return result


def _wrong(candidate: Candidate, wrong: str, rules: Rules) -> Trial:
    other = "first one" if rules.reference is None else "reference"
    warnings.warn(
        f"autotune: {candidate.config} computes other results than the {other}: {wrong}",
        FlyDSLWarning,
        stacklevel=2,
    )
    return Trial(candidate.config, rejected=f"wrong results: {wrong}")
