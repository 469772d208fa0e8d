"""``flydsl cache``: lists, checks and empties the cache on disk."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from flydsl.caching import disk_cache

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = ["add", "run"]


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "cache",
        help="list, check or empty the cache of compiled launchers",
        description="List, check or empty the cache of compiled launchers. "
        "`verify` removes damaged entries and exits with 1 if there were any.",
    )
    parser.add_argument("action", choices=("ls", "clear", "verify"))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what is asked; return 1 if damaged entries were found."""
    store = disk_cache()
    if args.action == "clear":
        removed = store.clear()
        _print(args, {"folder": str(store.root), "removed": removed}, f"removed {removed} entries")
        return 0
    if args.action == "verify":
        sound, damaged = store.verify()
        text = f"{sound} sound entries, {damaged} damaged ones removed"
        _print(args, {"folder": str(store.root), "sound": sound, "removed": damaged}, text)
        return 1 if damaged else 0
    entries = sorted(store.entries(), key=lambda entry: entry.used, reverse=True)
    rows: list[dict[str, Any]] = [
        {
            "key": entry.key,
            "bytes": entry.size,
            "used": time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used)),
            **entry.header,
        }
        for entry in entries
    ]
    total = sum(entry.size for entry in entries)
    lines = [
        f"{row['key'][:12]}  {row['bytes']:>9}  {row['used']}  {row.get('target', '')}  "
        f"{row.get('name', '')}"
        for row in rows
    ]
    lines.append(f"{len(rows)} entries, {total / 2**20:.1f} of {store.limit // 2**20} MiB")
    found = {"folder": str(store.root), "limit": store.limit, "entries": rows}
    _print(args, found, "\n".join(lines))
    return 0


def _print(args: argparse.Namespace, found: dict[str, object], text: str) -> None:
    print(json.dumps(found, indent=2) if args.json else f"{found['folder']}: {text}")
