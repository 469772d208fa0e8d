"""``flydsl report``: what kernels execute (``--run script.py``) or consist of (``file.hsaco``)."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flydsl.config import scope
from flydsl.errors import TargetError, UserError

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["add", "run", "run_script"]


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "report",
        help="report what kernels execute in the emulator, or what a code object consists of",
        description="With --run: run a Python script and report every launch of the emulator that "
        "its main thread makes. Otherwise: report the kernels of code objects without running "
        "them. Durations come from a model; they are no measurements.",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--kernel", default="", metavar="NAME", help="only kernels that begin so")
    parser.add_argument(
        "--mca", action="store_true", help="let llvm-mca analyse the loops of code objects"
    )
    parser.add_argument(
        "--run", action="store_true", dest="script", help="the file is a Python script to run"
    )
    parser.add_argument("file", help="script with --run, else a code object")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="arguments of the script, or further files"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the reports.

    Raises:
        UserError: A file cannot be read, or no launch was made.
        TargetError: A file is no code object that the emulator decodes.
    """
    if args.script:
        from flydsl_emu.report import collect

        with scope(FLYDSL_DEBUG_INFO=True), collect() as reports:
            run_script(args.file, args.arguments, apart=args.json)
        found: list[Any] = list(reports)
    else:
        found = _static([args.file, *args.arguments], args.mca)
    found = [r for r in found if r.kernel.startswith(args.kernel)]
    if not found:
        raise UserError(
            "there is nothing to report", code="FLY-U725", value=args.kernel or args.file
        )
    if args.json:
        print(json.dumps([json.loads(r.to_json()) for r in found], indent=2))
    else:
        print("\n\n".join(map(str, found)))
    return 0


def _static(files: Sequence[str], analysed: bool) -> list[Any]:
    from flydsl_emu.report import static_reports
    from flydsl_emu.report.mca import find_program

    mca = find_program() if analysed else None
    if analysed and mca is None:
        raise UserError(
            "llvm-mca is not installed",
            code="FLY-U725",
            value="--mca",
            hint="install LLVM's tools, or name it with FLYDSL_EMU_LLVM_MCA",
        )
    found: list[Any] = []
    for file in files:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise UserError(
                f"cannot read the file: {error.strerror}",
                code="FLY-U725",
                value=file,
                hint="options go before the file" if file.startswith("-") else "",
            ) from error
        try:
            found += static_reports(data, mca=mca)
        except TargetError as error:
            if file.endswith(".py") and not error.hint:
                error.hint = f"to report what a script launches: flydsl report --run {file}"
            raise
    return found


def run_script(file: str, arguments: Sequence[str], *, apart: bool = False) -> None:
    """Run a Python script as the interpreter would, with these arguments.

    Args:
        file: The script.
        arguments: What it finds in ``sys.argv``.
        apart: Whether what it prints goes to standard error: a program reads standard output.

    Raises:
        UserError: There is no such file.
        SystemExit: The script ended with an exit code other than 0.
    """
    if not Path(file).is_file():
        raise UserError("there is no such script", code="FLY-U725", value=file)
    with _command_line(file, arguments), redirect_stdout(sys.stderr if apart else sys.stdout):
        try:
            runpy.run_path(file, run_name="__main__")
        except SystemExit as ending:
            if ending.code not in (None, 0):
                raise


@contextmanager
def _command_line(file: str, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, sys.path[:]
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
