"""The search: compile, prune by resources, check numbers, then measure."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flydsl.autotune.configs import Config
from flydsl.autotune.memory import Snapshot, differences
from flydsl.autotune.results import Result, Trial
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import FlyDSLError, UserRuntimeError

__all__ = ["Candidate", "search"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that compiled.

    Attributes:
        config: The candidate.
        run: Launches it with the call's arguments.
        spills: Registers that its kernels spill.
    """

    config: Config
    run: Callable[[], object]
    spills: int


def search(
    configs: Sequence[Config],
    prepare: Callable[[Config], Candidate],
    arguments: Mapping[str, Any],
    measure: Callable[[Callable[[], object]], tuple[float, str]],
    tolerance: float | None = None,
) -> Result:
    """Return the fastest candidate whose results agree with those of the first that runs.

    What tensors hold is as before when this returns.

    Args:
        configs: The candidates; the first one that runs gives the results to agree with.
        prepare: Compiles a candidate.
        arguments: The call's arguments by name.
        measure: Returns the cost of a run and its unit.
        tolerance: See `flydsl.autotune.memory.differences`.

    Raises:
        UserRuntimeError: No candidate runs; caused by the last one's error.
    """
    trials: dict[int, Trial] = {}
    ready: list[tuple[int, Candidate]] = []
    last: FlyDSLError | None = None
    for index, config in enumerate(configs):
        try:
            ready.append((index, prepare(config)))
        except FlyDSLError as error:
            trials[index] = Trial(config, rejected=f"does not compile: {error.message}")
            last = error
    if any(candidate.spills == 0 for _, candidate in ready):
        # Spilling never pays where another candidate needs none of it.
        for index, candidate in ready:
            if candidate.spills:
                trials[index] = Trial(
                    candidate.config, rejected="spills registers", spills=candidate.spills
                )
        ready = [(index, candidate) for index, candidate in ready if not candidate.spills]
    before = Snapshot(arguments)
    wanted: dict[str, Any] | None = None
    try:
        for index, candidate in ready:
            before.restore()
            try:
                candidate.run()
                found = before.contents()
                wrong = "" if wanted is None else differences(found, wanted, tolerance)
                if wrong:
                    trials[index] = _wrong(candidate, wrong)
                    continue
                wanted = found if wanted is None else wanted
                value, unit = measure(candidate.run)
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


def _wrong(candidate: Candidate, wrong: str) -> Trial:
    warnings.warn(
        f"autotune: {candidate.config} computes other results than the first one: {wrong}",
        FlyDSLWarning,
        stacklevel=2,
    )
    return Trial(candidate.config, rejected=f"wrong results: {wrong}")
