"""Which compiler this is: changes when a package is installed, upgraded or edited.

Nothing is imported for it. Of installed distributions the names (which hold the versions) and times
of their ``*.dist-info`` folders count: of those with FlyDSL plugins as they are, of others as they
were when the folder around them last changed, which installing does. Of editable ones, and of a
core that runs from its sources, the paths, sizes and times of their modules and data files count.

Finding those files costs more than looking at them, so the list is kept on disk with the times of
the folders that it came from: a file that appears, disappears or is renamed changes its folder's.
"""

from __future__ import annotations

import array
import contextlib
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

__all__ = [
    "SourcesState",
    "compiler_fingerprint",
    "loaded_folders",
    "sources_hold",
    "sources_state",
]

_OWN = Path(__file__).parents[1]
_FORMAT = 2
"""Of what is kept on disk."""
_SETTLED_NS = 2_000_000_000
"""A folder younger than this may change again without its time changing."""
_NEVER = -1
"""A time that no folder has."""
_DATA = (".json", ".txt")


class _Search(NamedTuple):
    """The module search path and the distributions on it, and whether that is still so.

    Attributes:
        folders: Folders, their times and the distributions in them.
        status: `_status` of these distributions.
        watched: Those that may have FlyDSL plugins or are FlyDSL: looked at every time. Installing
            any other changes the time of the folder that it is in.
    """

    folders: tuple[tuple[str, int, tuple[str, ...]], ...]
    status: bytes
    watched: tuple[str, ...]


_Sources = tuple[tuple[str, int, tuple[str, ...]], ...]
"""Folders of editable sources, their times and their modules and data files."""


class SourcesState(NamedTuple):
    """Sources as they were, as plain values.

    Attributes:
        folders: See `compiler_fingerprint`.
        fingerprint: What that gave.
        sources: The folders, their times and the files in them.
        status: Hash of the files' sizes and times.
    """

    folders: tuple[str, ...] | None
    fingerprint: str
    sources: _Sources
    status: bytes


class _Seen:
    """What this process has looked at, for one module search path."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        self.texts: dict[tuple[str, ...] | None, str] = {}
        self._folders: dict[str, bytes] = {}
        self._sources: _Sources | None = None
        search = _search(path)
        names = [[folder, *names] for folder, _, names in search.folders if names]
        facts = repr((sys.version_info[:3], platform.machine(), names))
        self._installed = facts.encode("utf-8", "surrogateescape") + search.status
        self._installed += _status(search.watched)

    @property
    def sources(self) -> _Sources:
        """The sources on this path, listed when they are first asked for."""
        if self._sources is None:
            self._sources = _sources(self.path)
        return self._sources

    def fingerprint(self, folders: tuple[str, ...] | None) -> str:
        """Return the fingerprint with the sources in some folders, or in all."""
        digest = hashlib.sha256(self._installed)
        for folder, _, files in self.chosen(folders):
            status = self._folders.get(folder)
            if status is None:
                names = "\0".join(files).encode("utf-8", "surrogateescape")
                status = self._folders[folder] = names + _status(files)
            digest.update(status)
        return digest.hexdigest()

    def chosen(self, folders: tuple[str, ...] | None) -> _Sources:
        """Return the sources in some folders, or all."""
        if folders is None:
            return self.sources
        wanted = frozenset(folders)
        return tuple(part for part in self.sources if part[0] in wanted) if wanted else ()


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


def sources_state(folders: tuple[str, ...] | None) -> SourcesState:
    """Return the sources in some folders, or all, to compare in another process."""
    sources = _seen().chosen(folders)
    return SourcesState(folders, compiler_fingerprint(folders), sources, _files_status(sources))


def sources_hold(state: SourcesState) -> bool:
    """Return whether sources are as they were; with the same installed distributions."""
    same = all(_time_of(folder) == changed for folder, changed, _ in state.sources)
    if same and _files_status(state.sources) == state.status:
        return True
    # Only the listing can tell whether another file beside them counts.
    return compiler_fingerprint(state.folders) == state.fingerprint


def _files_status(sources: _Sources) -> bytes:
    found = _status([file for _, _, files in sources for file in files])
    return hashlib.sha256(found).digest()


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
    for folder, _, files in _seen().sources:
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
def _search(path: tuple[str, ...]) -> _Search:
    """Return what is installed, as it was kept if that still holds."""
    kept = _kept("search", path)
    if kept is not None:
        with contextlib.suppress(TypeError, ValueError):
            search = _Search(*kept)
            if all(map(_searched, search.folders)):
                return search
    found = []
    for folder in path:
        # Its time first: what appears later changes it.
        changed = _settled(folder)
        found.append((folder, changed, _distributions(folder)))
    places = [Path(folder) / name for folder, _, names in found for name in names]
    watched = tuple(str(place) for place in places if _is_watched(place))
    search = _Search(tuple(found), _status(list(map(str, places))), watched)
    _keep("search", path, tuple(search))
    return search


def _searched(part: tuple[str, int, tuple[str, ...]]) -> bool:
    """Return whether a folder of the search path has the same distributions."""
    folder, changed, names = part
    # Programs write files beside themselves; in these folders only distributions matter.
    return _time_of(folder) == changed or (not names and not _distributions(folder))


def _is_watched(dist_info: Path) -> bool:
    """Return whether a distribution is FlyDSL's or has plugins for it."""
    if dist_info.name.startswith("flydsl"):
        return True
    try:
        return "[flydsl]" in (dist_info / "entry_points.txt").read_text()
    except (OSError, ValueError):
        return False


def _sources(path: tuple[str, ...]) -> _Sources:
    """Return the editable sources, as they were listed if that still holds."""
    kept = _kept("sources", path)
    if kept is not None:
        with contextlib.suppress(TypeError, ValueError):
            search, sources = kept
            same = all(_time_of(folder) == changed for folder, changed, _ in sources)
            if same and all(map(_searched, search)):
                return tuple(sources)
    search, sources = _scanned(path)
    _keep("sources", path, (search, sources))
    return sources


def _listing_key(kind: str, path: tuple[str, ...]) -> str:
    parts = f"{kind} {_FORMAT} {path} {_OWN}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(parts).hexdigest()


def _kept(kind: str, path: tuple[str, ...]) -> Any:
    data = disk_cache().fetch(_listing_key(kind, path)) if settings.ENABLE_CACHE.get() else None
    try:
        return None if data is None else marshal.loads(data)
    except (ValueError, TypeError, EOFError):
        return None


def _keep(kind: str, path: tuple[str, ...], value: Any) -> None:
    if settings.ENABLE_CACHE.get():
        header = {"name": f"modules ({kind})", "target": ""}
        disk_cache().store(_listing_key(kind, path), marshal.dumps(value), header)


def _scanned(path: tuple[str, ...]) -> tuple[_Sources, _Sources]:
    """Return the distributions on the search path and the editable sources, with folders' times."""
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
    return tuple(search), tuple(part for root in roots for part in _folders(root))


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
