"""``flydsl run``: runs a Python script, its launches checked by the sanitizer if wanted."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from flydsl.config import scope
from flydsl.errors import UserError, UserOSError
from flydsl_emu.cli.report_command import run_script

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["add", "run"]


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "run",
        help="run a script, with its emulated launches checked for hazards",
        description="Run a Python script. With --sanitize every launch that its main thread makes "
        "in the emulator is checked; the findings are printed at the end, on standard error, and "
        "the exit code is 1 if there are any.",
    )
    parser.add_argument("--sanitize", action="store_true", help="check the launches")
    parser.add_argument(
        "--checks",
        default="all",
        metavar="LIST",
        help="checks to make: all (default), or wait,race,init,oob,barrier",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the findings to a file as JSON; - for standard output"
    )
    parser.add_argument("--target", help="architecture to compile for, as FLYDSL_TARGET")
    parser.add_argument("file", help="Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the script; return 1 if the sanitizer finds anything.

    Raises:
        UserError: There is no such script, or no such check.
        FlyDSLError: A launch failed and no finding says why.
    """
    with ExitStack() as stack:
        if args.target:
            stack.enter_context(scope(FLYDSL_TARGET=args.target))
        if not args.sanitize:
            if args.json or args.checks != "all":
                raise UserError(
                    "--checks and --json belong to --sanitize",
                    code="FLY-U739",
                    hint="add --sanitize",
                )
            run_script(args.file, args.arguments)
            return 0
        stack.enter_context(scope(FLYDSL_DEBUG_INFO=True))
        return _sanitized(args)


def _sanitized(args: argparse.Namespace) -> int:
    from flydsl_emu.sanitizer import sanitize

    with sanitize(args.checks, action="collect") as report:
        try:
            run_script(args.file, args.arguments, apart=args.json == "-")
        except BaseException:
            # What was found before the script failed often says why.
            if report:
                print(report, file=sys.stderr)
            raise
    if args.json == "-":
        print(report.to_json(indent=2))
    elif args.json:
        try:
            with open(args.json, "w", encoding="utf-8") as file:
                file.write(report.to_json(indent=2) + "\n")
        except OSError as error:
            print(report, file=sys.stderr)
            raise UserOSError.of(
                error, "the findings cannot be written", args.json, code="FLY-U525"
            ) from error
    print(f"sanitizer: {report}", file=sys.stderr)
    return 1 if report else 0
