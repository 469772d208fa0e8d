"""Hook implementations of the emulator; imported by the plugin manager, so it stays light."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import RuntimeInfo

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["flydsl_cli_commands", "flydsl_device_runtimes"]

_COMMANDS = ("flydsl_emu.cli.report_command", "flydsl_emu.cli.run_command")


@hookimpl
def flydsl_cli_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add every module of `_COMMANDS`."""
    for module in _COMMANDS:
        importlib.import_module(module).add(subparsers)


@hookimpl
def flydsl_device_runtimes() -> Sequence[RuntimeInfo]:
    """Announce the emulator."""
    return (
        RuntimeInfo(
            name="emu",
            factory="flydsl_emu.runtime:create",
            formats=("hsaco",),
            device_types=("cpu",),
            emulated=True,
            default_target="gfx942",
        ),
    )
