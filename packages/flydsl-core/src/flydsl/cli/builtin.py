"""Adds the core's commands."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from flydsl.plugins.manager import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["flydsl_cli_commands"]

_COMMANDS = (
    "flydsl.cli.plugins_command",
    "flydsl.cli.doctor_command",
    "flydsl.cli.opt_command",
    "flydsl.cli.layout_command",
    "flydsl.cli.cache_command",
    "flydsl.cli.compile_command",
    "flydsl.cli.tune_command",
)


@hookimpl(tryfirst=True)
def flydsl_cli_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add every module of `_COMMANDS`."""
    for module in _COMMANDS:
        importlib.import_module(module).add(subparsers)
