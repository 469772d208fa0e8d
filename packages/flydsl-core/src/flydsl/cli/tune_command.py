"""``flydsl tune``: searches configurations of a tuned launcher on many workers."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flydsl.errors import UserOSError, UserTypeError

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from flydsl.autotune import Trial

__all__ = ["add", "run"]


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "tune",
        help="search configurations of a tuned launcher",
        description="Try every configuration for every problem, check the results against one "
        "another, and keep the fastest. Exits with 1 if no configuration of a problem runs.",
    )
    parser.add_argument("launcher", help="module:name of an @autotune launcher")
    parser.add_argument(
        "--problems",
        required=True,
        help="module:name of a function that returns a list of argument tuples",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--scheduler", default="", help="address of a Dask scheduler, instead")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=600.0,
        help="seconds that a configuration may take to compile, and as many to run, before its "
        "process is ended and it is left out; 0 for no limit, and none on a Dask cluster "
        "(default: 600)",
    )
    parser.add_argument("-o", "--output", type=Path, help="folder of results to ship")
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1e6:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    """Search, print and keep the results.

    Raises:
        UserOSError: The folder for results cannot be written.
        UserError: Something that is named does not exist, or is another thing.
    """
    from flydsl.autotune import Autotuned
    from flydsl.autotune.workers import Task, Workers, named, search_on

    # What the program prints is none of the command's output.
    with contextlib.redirect_stdout(sys.stderr):
        tuned, problems = named(args.launcher), list(named(args.problems)())
    if not isinstance(tuned, Autotuned):
        raise UserTypeError(
            f"{args.launcher} is not decorated with @autotune", code="FLY-U475", value=tuned
        )
    if args.output is not None:
        # A search may take hours: what cannot be kept is said before.
        try:
            args.output.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=args.output).close()
        except OSError as error:
            raise UserOSError.of(
                error, "results cannot be written", args.output, code="FLY-U525", allowed="a folder"
            ) from error
    status = 0
    with Workers(max(1, args.workers), args.scheduler, args.timeout) as workers:
        for index, arguments in enumerate(problems):
            configs = tuned.candidates(tuple(arguments))
            tried = [config.to_dict() for config in configs]
            tasks = [
                Task(args.launcher, args.problems, index, content)
                for content in ([None, *tried] if tuned.has_reference else tried)
            ]
            print(f"problem {index}: {len(tried)} configurations")
            result = search_on(workers, tasks, tuned.tolerance, _print)
            if result is None:
                print("  none runs")
                status = 1
                continue
            kept = tuned.keep(tuple(arguments), result, args.output)
            print(f"  best: {kept.best}")
    return status


def _print(trial: Trial) -> None:
    cost = trial.rejected or f"{trial.value:.4g} {trial.unit}"
    print(f"  {trial.config}: {cost}", flush=True)
