"""Which compiler this is: changes when a package is installed, upgraded or edited.

Nothing is imported for it. Of installed distributions the names (which hold the versions) and times
of their ``*.dist-info`` folders count; of editable ones, and of a core that runs from its sources,
the paths, sizes and times of their modules.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

__all__ = ["compiler_fingerprint"]

_OWN = Path(__file__).parents[1]


class _Cached:
    """The last result and the module search path that it belongs to."""

    path: tuple[str, ...] = ()
    text = ""


def compiler_fingerprint() -> str:
    """Return hexadecimal text; collected once for a module search path."""
    path = tuple(sys.path)
    if _Cached.path != path or not _Cached.text:
        digest = hashlib.sha256(f"{sys.version_info[:3]}{platform.machine()}".encode())
        for line in _lines(path):
            digest.update(line.encode("utf-8", "surrogateescape"))
        _Cached.text, _Cached.path = digest.hexdigest(), path
    return _Cached.text


def _lines(path: tuple[str, ...]) -> Iterator[str]:
    own_is_installed = False
    for folder in path:
        try:
            entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if not entry.name.endswith(".dist-info"):
                continue
            yield f"{entry.name} {entry.stat().st_mtime_ns}\n"
            own_is_installed |= entry.name.startswith("flydsl_core-") and (
                Path(folder) / "flydsl" == _OWN
            )
            yield from _editable(Path(entry.path))
    if not own_is_installed:
        yield from _modules(_OWN)


def _editable(dist_info: Path) -> Iterator[str]:
    """Yield the modules of an editable distribution with FlyDSL plugins or of FlyDSL itself."""
    try:
        described = json.loads((dist_info / "direct_url.json").read_bytes())
    except (OSError, ValueError):
        return
    url = urlparse(str(described.get("url", "")))
    if not described.get("dir_info", {}).get("editable") or url.scheme != "file":
        return
    try:
        plugin = "[flydsl]" in (dist_info / "entry_points.txt").read_text()
    except OSError:
        plugin = False
    if plugin:
        root = Path(unquote(url.path))
        source = root / "src"
        yield from _modules(source if source.is_dir() else root)


def _modules(root: Path) -> Iterator[str]:
    """Yield a line for every Python file under a folder."""
    stack = [str(root)]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith((".py", ".json", ".txt")):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}\n"
            elif entry.is_dir() and entry.name[0] not in "._":
                stack.append(entry.path)
