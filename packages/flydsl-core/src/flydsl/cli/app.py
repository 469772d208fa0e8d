"""Parses the command line, runs a command, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import flydsl
from flydsl import config
from flydsl.errors import FlyDSLError
from flydsl.plugins import plugin_manager

__all__ = ["make_parser", "run"]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with the commands of the core and of every usable plugin."""
    parser = argparse.ArgumentParser(
        prog="flydsl", description="Tools of the FlyDSL kernel compiler."
    )
    parser.add_argument("--version", action="version", version=f"flydsl {flydsl.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    # Not strict: `flydsl plugins` and `flydsl doctor` must run when the set of plugins is broken.
    hook = plugin_manager(strict=False).hook
    try:
        hook.flydsl_cli_commands(subparsers=subparsers)
    except Exception as error:  # noqa: BLE001 - the core's commands come first and stay usable
        print(f"flydsl: a plugin failed to add its commands: {error!r}", file=sys.stderr)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Parse `argv` and run the command; see the package's docstring for the exit codes."""
    try:
        # Importing the compiler keeps listings of what is installed: a command that only looks, at
        # the cache itself perhaps, must leave nothing behind.
        with config.scope(FLYDSL_RUNTIME_ENABLE_CACHE=False):
            parser = make_parser()
        args = parser.parse_args(argv)
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except FlyDSLError as error:
        print(f"flydsl: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) has gone. Point stdout elsewhere, or the interpreter complains
        # when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
