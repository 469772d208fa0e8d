"""Which compiler this is: changes when a package is installed, upgraded or edited.

Nothing is imported for it. Of installed distributions the names (which hold the versions) and times
of their ``*.dist-info`` folders count; of editable ones, and of a core that runs from its sources,
the paths, sizes and times of their modules and data files.

Finding those files costs more than looking at them, so the list is kept on disk with the times of
the folders that it came from: a file that appears, disappears or is renamed changes its folder's.
"""

from __future__ import annotations

import array
import hashlib
import json
import marshal
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flydsl.caching.disk import disk_cache
from flydsl.config import core as settings

__all__ = ["compiler_fingerprint", "loaded_folders"]

_OWN = Path(__file__).parents[1]
_FORMAT = 1
"""Of what is kept on disk."""
_SETTLED_NS = 2_000_000_000
"""A folder younger than this may change again without its time changing."""
_NEVER = -1
"""A time that no folder has."""
_DATA = (".json", ".txt")


class _Listing(NamedTuple):
    """What to look at, and whether it is still all there is.

    Attributes:
        search: Folders of the module search path, their times and the distributions in them.
        sources: Folders of editable sources, their times and their modules and data files.
    """

    search: tuple[tuple[str, int, tuple[str, ...]], ...]
    sources: tuple[tuple[str, int, tuple[str, ...]], ...]


class _Seen:
    """What this process has looked at, for one module search path."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.listing = _listing(path)
        self.texts: dict[tuple[str, ...] | None, str] = {}
        self._folders: dict[str, bytes] = {}
        places = [f"{folder}/{name}" for folder, _, names in self.listing.search for name in names]
        self._installed = repr((sys.version_info[:3], platform.machine(), places)).encode(
            "utf-8", "surrogateescape"
        ) + _status(places)

    def fingerprint(self, folders: tuple[str, ...] | None) -> str:
        """Return the fingerprint with the sources in some folders, or in all."""
        wanted = None if folders is None else frozenset(folders)
        digest = hashlib.sha256(self._installed)
        for folder, _, files in self.listing.sources:
            if wanted is None or folder in wanted:
                status = self._folders.get(folder)
                if status is None:
                    names = "\0".join(files).encode("utf-8", "surrogateescape")
                    status = self._folders[folder] = names + _status(files)
                digest.update(status)
        return digest.hexdigest()


class _Cached:
    """What was seen with the last module search path."""

    seen: _Seen | None = None


def compiler_fingerprint(folders: tuple[str, ...] | None = None) -> str:
    """Return hexadecimal text; collected once for a module search path.

    Args:
        folders: The only folders of editable sources to look into, for what is made by nothing
            else; None for all of them.
    """
    seen = _seen()
    text = seen.texts.get(folders)
    if text is None:
        text = seen.texts[folders] = seen.fingerprint(folders)
    return text


def loaded_folders() -> tuple[str, ...]:
    """Return the folders of editable sources from which this process has loaded any module.

    Folders of data belong to the folder that they are in. Whole folders, because a module may have
    started other processes, which loaded its neighbours.
    """
    loaded = {
        os.path.dirname(file)
        for file in (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        if isinstance(file, str)
    }
    found = []
    for folder, _, files in _seen().listing.sources:
        data = all(file.endswith(_DATA) for file in files)
        if folder in loaded or (data and any(str(p) in loaded for p in Path(folder).parents)):
            found.append(folder)
    return tuple(found)


def _seen() -> _Seen:
    path = tuple(sys.path)
    seen = _Cached.seen
    if seen is None or seen.path != path:
        seen = _Cached.seen = _Seen(path)
    return seen


def _status(paths: Sequence[str]) -> bytes:
    """Return the sizes and times of files and folders; of those that are gone, nothing."""
    try:
        found = [(status.st_size, status.st_mtime_ns) for status in map(os.stat, paths)]
    except OSError:
        found = [(status.st_size, status.st_mtime_ns) for status in _present(paths)]
    return array.array("q", [number for pair in found for number in pair]).tobytes()


def _present(paths: Sequence[str]) -> Iterator[os.stat_result]:
    for path in paths:
        try:
            yield os.stat(path)
        except OSError:
            continue


# Listings ----------------------------------------------------------------------------------------
def _listing(path: tuple[str, ...]) -> _Listing:
    """Return the listing for a module search path, the kept one if it still holds."""
    if not settings.ENABLE_CACHE.get():
        return _scanned(path)
    parts = f"listing {_FORMAT} {path} {_OWN}".encode("utf-8", "surrogateescape")
    key, store = hashlib.sha256(parts).hexdigest(), disk_cache()
    kept = _kept(store.fetch(key))
    if kept is not None and _holds(kept):
        return kept
    listing = _scanned(path)
    store.store(key, marshal.dumps(tuple(listing)), {"name": "modules", "target": ""})
    return listing


def _kept(data: bytes | None) -> _Listing | None:
    try:
        return None if data is None else _Listing(*marshal.loads(data))
    except (ValueError, TypeError, EOFError):
        return None


def _holds(kept: _Listing) -> bool:
    """Return whether a kept listing still lists all there is."""
    if any(_time_of(folder) != changed for folder, changed, _ in kept.sources):
        return False
    # Programs write files beside themselves; in these folders only distributions matter.
    return all(
        _time_of(folder) == changed or (not names and not _distributions(folder))
        for folder, changed, names in kept.search
    )


def _scanned(path: tuple[str, ...]) -> _Listing:
    search, roots = [], []
    own_is_installed = False
    for folder in path:
        changed = _settled(folder)
        names = _distributions(folder)
        search.append((folder, changed, names))
        for name in names:
            own_is_installed |= name.startswith("flydsl_core-") and Path(folder) / "flydsl" == _OWN
            roots += _editable(Path(folder) / name)
    if not own_is_installed and not any(_OWN.is_relative_to(root) for root in roots):
        roots.append(_OWN)
    return _Listing(tuple(search), tuple(part for root in roots for part in _folders(root)))


def _time_of(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _settled(folder: str) -> int:
    """Return a folder's time, or none that will ever be found if it changed just now."""
    changed = _time_of(folder)
    return changed if time.time_ns() - changed > _SETTLED_NS else _NEVER


def _distributions(folder: str) -> tuple[str, ...]:
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ()
    return tuple(sorted(name for name in names if name.endswith(".dist-info")))


def _editable(dist_info: Path) -> list[Path]:
    """Return the sources of an editable distribution with FlyDSL plugins or of FlyDSL itself."""
    from urllib.parse import unquote, urlparse

    try:
        described: Any = json.loads((dist_info / "direct_url.json").read_bytes())
        url = urlparse(str(described.get("url", "")))
        if not described.get("dir_info", {}).get("editable") or url.scheme != "file":
            return []
        plugin = "[flydsl]" in (dist_info / "entry_points.txt").read_text()
    except (OSError, ValueError):
        return []
    root = Path(unquote(url.path))
    source = root / "src"
    return [source if source.is_dir() else root] if plugin else []


def _folders(root: Path) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield every folder under `root` and itself, with its time and the files that count."""
    stack = [str(root)]
    while stack:
        folder = stack.pop()
        changed = _settled(folder)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        files = []
        for entry in entries:
            if entry.name.endswith((".py", *_DATA)):
                files.append(entry.path)
            elif entry.is_dir() and entry.name[0] not in "._":
                stack.append(entry.path)
        yield folder, changed, tuple(files)
