"""The ``flydsl`` command.

Modules: `app` (argument parsing, exit codes), `builtin` (adds the core's commands through
`flydsl_cli_commands`, as plugins do), one ``*_command`` module per command, `probes` (what
``flydsl doctor`` examines). To add a command, write a module with ``add(subparsers)`` and a
function ``run(args) -> int``, and name it in `builtin`.

Exit codes: 0 all is well, 1 the command found a problem or failed, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``flydsl`` with `argv` (default: the process's arguments) and return the exit code."""
    from flydsl.cli.app import run

    return run(argv)
