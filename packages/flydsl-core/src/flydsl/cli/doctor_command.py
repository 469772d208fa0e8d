"""``flydsl doctor``: examines the installation and says what to do about what is wrong."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["add", "run"]


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="examine the installation",
        description="Examine versions, libraries, plugins, devices and the environment. "
        "Exits with 1 if something will not work.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report; return 1 if a finding has status ``fail``."""
    from flydsl.cli.probes import examine

    findings = examine()
    if args.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            print(f"[{finding.status:>4}] {finding.topic}: {finding.detail}")
            if finding.hint:
                print(f"       -> {finding.hint}")
    return 1 if any(finding.status == "fail" for finding in findings) else 0
