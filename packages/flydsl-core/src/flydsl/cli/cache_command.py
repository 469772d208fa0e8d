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
        "`verify` removes damaged entries and exits with 1 if there were any; `clear` does if it "
        "cannot remove everything.",
    )
    parser.add_argument("action", choices=("ls", "clear", "verify"))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what is asked; return 1 if entries were damaged, or cannot be read or removed.

    Raises:
        UserOSError: The cache is no folder, or cannot be read.
    """
    store = disk_cache()
    nothing = "" if store.exists() else "; there is no such folder yet"
    if args.action == "clear":
        removed, left = store.clear()
        text = f"removed {removed} entries" + (f", {left} cannot be removed" if left else "")
        _print(args, {"folder": str(store.root), "removed": removed, "left": left}, text + nothing)
        return 1 if left else 0
    if args.action == "verify":
        found = store.verify()
        text = f"{found.sound} sound entries, {found.removed} damaged ones removed"
        text += f", {found.left} cannot be read or removed" if found.left else ""
        _print(args, {"folder": str(store.root), **found._asdict()}, text + nothing)
        return 1 if found.removed or found.left else 0
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
    lines.append(f"{len(rows)} entries, {total / 2**20:.1f} of {store.limit // 2**20} MiB{nothing}")
    listing = {"folder": str(store.root), "limit": store.limit, "entries": rows}
    _print(args, listing, "\n".join(lines))
    return 0


def _print(args: argparse.Namespace, found: dict[str, object], text: str) -> None:
    print(json.dumps(found, indent=2) if args.json else f"{found['folder']}: {text}")
