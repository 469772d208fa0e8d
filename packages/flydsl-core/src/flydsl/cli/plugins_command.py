"""``flydsl plugins``: which plugins are there, what became of them, and what they announce."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from flydsl.config import core as settings
from flydsl.errors import FlyDSLError
from flydsl.plugins import PluginManager, plugin_manager

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["add", "describe", "run"]

_KINDS = ("targets", "namespaces", "passes", "runtimes", "kernels")


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plugins",
        help="list plugins and what they announce",
        description="List plugins and what they announce. Exits with 1 if one is unusable.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def describe(manager: PluginManager) -> dict[str, Any]:
    """Return everything the command shows, as JSON-ready values.

    Keys: ``plugins`` (name, module, distribution, version, status, error and per kind the names
    announced), ``problems`` (texts) and ``unmatched`` (disabled names that match no plugin).
    """
    problems = [str(problem) for problem in manager.problems]
    announced: dict[tuple[str, str], str] = {}
    try:
        announced = {key: owner.name for key, owner in manager.announced.owners.items()}
    except FlyDSLError as error:
        problems.append(str(error))
    plugins = []
    for record in manager.records:
        names = {
            kind: [
                name for (k, name), owner in announced.items() if (k, owner) == (kind, record.name)
            ]
            for kind in _KINDS
        }
        plugins.append(
            {
                "name": record.name,
                "module": record.module,
                "distribution": record.distribution,
                "version": record.version,
                "status": record.status,
                "error": repr(record.error) if record.error is not None else "",
                **{kind: found for kind, found in names.items() if found},
            }
        )
    known = {
        name for record in manager.records for name in (record.name, record.distribution) if name
    }
    unmatched = [name for name in settings.PLUGINS_DISABLE.get() if name not in known]
    return {"plugins": plugins, "problems": problems, "unmatched": unmatched}


def run(args: argparse.Namespace) -> int:
    """Print the listing; return 1 if a plugin failed or two clash."""
    found = describe(plugin_manager(strict=False))
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    failed = any(plugin["status"] == "failed" for plugin in found["plugins"])
    return 1 if failed or found["problems"] else 0


def _print(found: dict[str, Any]) -> None:
    for plugin in found["plugins"]:
        origin = f"{plugin['distribution']} {plugin['version']}".strip() or plugin["module"]
        print(f"{plugin['name']}  ({origin})  {plugin['status']}")
        for kind in _KINDS:
            if kind in plugin:
                print(f"    {kind}: {', '.join(plugin[kind])}")
        if plugin["error"]:
            print(f"    error: {plugin['error']}")
    for problem in found["problems"]:
        print(f"problem: {problem}")
    for name in found["unmatched"]:
        print(f"note: {settings.PLUGINS_DISABLE.name} names {name!r}, which is not installed")
