"""Results of searches: written per device and version, with where they come from."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flydsl.autotune.configs import Config
from flydsl.config import core as settings

__all__ = ["Result", "Trial", "fetch", "results_folder", "store"]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one candidate.

    Attributes:
        config: The candidate.
        value: Its cost; None if it was not measured.
        unit: ``"ms"``, or ``"model us"`` where the cost is modelled.
        rejected: Why it was not measured; empty if it was.
        spills: Registers that its kernels spill.
    """

    config: Config
    value: float | None = None
    unit: str = ""
    rejected: str = ""
    spills: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one search.

    Attributes:
        best: The winner.
        trials: Every candidate in the order tried.
        provenance: Device, target, versions, date, key.
    """

    best: Config
    trials: tuple[Trial, ...] = ()
    provenance: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> Result | None:
        """Return the result whose winner is the cheapest trial, or None when none was measured."""
        tried = tuple(trials)
        measured = [trial for trial in tried if trial.value is not None]
        if not measured:
            return None
        return cls(min(measured, key=lambda trial: trial.value or 0.0).config, tried)

    def to_json(self) -> str:
        """Return the result as JSON text."""
        trials = [
            {
                "config": trial.config.to_dict(),
                "value": trial.value,
                "unit": trial.unit,
                "rejected": trial.rejected,
                "spills": trial.spills,
            }
            for trial in self.trials
        ]
        content = {
            "format": _FORMAT,
            "best": self.best.to_dict(),
            "trials": trials,
            "provenance": self.provenance,
        }
        return json.dumps(content, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Return the result that `to_json` described.

        Raises:
            ValueError, KeyError, TypeError: The text is something else.
        """
        content: dict[str, Any] = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"results of format {content['format']}")
        trials = tuple(
            Trial(
                Config.from_dict(trial["config"]),
                trial["value"],
                trial["unit"],
                trial["rejected"],
                trial["spills"],
            )
            for trial in content["trials"]
        )
        return cls(Config.from_dict(content["best"]), trials, content["provenance"])


def results_folder() -> Path:
    """Return where results are kept."""
    return settings.CACHE_DIR.get() / "autotune"


def _path(folder: Path, name: str, key: str) -> Path:
    return folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def fetch(folder: Path, name: str, key: str) -> Result | None:
    """Return the result for a key from a folder of results, if there is a readable one."""
    try:
        result = Result.from_json(_path(folder, name, key).read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if result.provenance.get("key") == key else None


def store(folder: Path | None, name: str, key: str, result: Result) -> Result:
    """Write a result, if there is a folder for it; return it with its date and key."""
    provenance = {**result.provenance, "key": key, "date": time.strftime("%Y-%m-%d")}
    dated = Result(result.best, result.trials, provenance)
    if folder is None:
        return dated
    path = _path(folder, name, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One a thread: others may be writing the same result.
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
        part.write_text(dated.to_json())
        part.replace(path)
    except OSError:
        # A folder that cannot be written costs another search, nothing else.
        return dated
    return dated
