"""Which compiler this is: changes when a package is installed, upgraded or edited.

Nothing is imported for it. Of installed distributions the names (which hold the versions) and times
of their ``*.dist-info`` folders count: of those with FlyDSL plugins as they are, of others as they
were when the folder around them last changed, which installing does. Of editable ones, and of a
core that runs from its sources, the paths, sizes and times of their modules and data files count.

Finding those files costs more than looking at them, so the list is kept on disk with the times of
the folders that it came from: a file that appears, disappears or is renamed changes its folder's.

All that is looked at once in a process, when the compiler is imported: its modules are from then,
and what is edited later has no part in what they make.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import itertools
import json
import marshal
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flydsl.caching.disk import disk_cache
from flydsl.config import core as settings
from flydsl.errors import UserValueError

__all__ = [
    "SourcesState",
    "compiler_changed",
    "compiler_fingerprint",
    "keep",
    "loaded_folders",
    "look_at_compiler",
    "sources_hold",
    "sources_state",
]

_OWN = Path(__file__).parents[1]
_FORMAT = 3
"""Of what is kept on disk."""
_SETTLED_NS = 2_000_000_000
"""A folder younger than this may change again without its time changing."""
_NEVER = -1
"""A time that no folder has."""
_DATA = (".json", ".txt")


class _Search(NamedTuple):
    """Folders of the module search path and the distributions in them, as they were found.

    Attributes:
        folders: Folders, their times and the distributions in them.
        status: For each folder, `_status` of these distributions.
        watched: For each folder, those that may have FlyDSL plugins or are FlyDSL: looked at every
            time. Installing any other changes the time of the folder that it is in.
    """

    folders: tuple[tuple[str, int, tuple[str, ...]], ...]
    status: tuple[bytes, ...]
    watched: tuple[tuple[str, ...], ...]


_Sources = tuple[tuple[str, int, tuple[str, ...]], ...]
"""Folders of editable sources, their times and their modules and data files."""


class SourcesState(NamedTuple):
    """Editable sources as they were, as plain values.

    Attributes:
        folders: See `compiler_fingerprint`.
        fingerprint: What that gave.
    """

    folders: tuple[str, ...] | None
    fingerprint: str


class _Seen:
    """What this process has looked at; nothing is looked at twice."""

    def __init__(self) -> None:
        self._texts: dict[tuple[object, ...], str] = {}
        self._installed: dict[str, bytes] = {}
        self._sources: dict[str, bytes] = {}
        self._listings: dict[tuple[str, ...], _Sources] = {}

    def fingerprint(self, path: tuple[str, ...], folders: tuple[str, ...] | None) -> str:
        """Return the fingerprint for a search path, with the sources in some folders, or in all."""
        text = self._texts.get((path, folders))
        if text is None:
            facts = repr((sys.version_info[:3], platform.machine()))
            parts = [facts.encode(), *filter(None, self._distributions(path))]
            if folders is None:
                parts += [self._source(part) for part in self.listing(path)]
            elif folders:
                parts += self._chosen(path, folders)
            text = hashlib.sha256(b"\0".join(parts)).hexdigest()
            self._texts[path, folders] = text
        return text

    def listing(self, path: tuple[str, ...]) -> _Sources:
        """Return the sources on a search path."""
        places = self._places(path)
        found = self._listings.get(places)
        if found is None:
            found = self._listings[places] = _sources(places)
        return found

    def look(self, path: tuple[str, ...]) -> None:
        """Look at what is installed and, if it has been listed before, at the sources."""
        self.fingerprint(path, ())
        places = self._places(path)
        listing = _listed(places)
        if listing is not None:
            self._listings[places] = listing
            for part in listing:
                self._source(part)

    def _places(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the folders of a search path in which anything is installed."""
        found = zip(path, self._distributions(path), strict=True)
        return tuple(folder for folder, installed in found if installed)

    def _distributions(self, path: tuple[str, ...]) -> list[bytes]:
        """Return what is installed in each folder of a search path."""
        new = tuple(folder for folder in path if folder not in self._installed)
        if new and self._installed:
            # Added by a program, usually without distributions: not worth an entry on disk.
            self._installed |= dict.fromkeys(itertools.filterfalse(_distributions, new), b"")
            new = tuple(folder for folder in new if folder not in self._installed)
        if new:
            search = _search(new)
            for part, status, watched in zip(*search, strict=True):
                folder, _, names = part
                text = repr((folder, names)) if names else ""
                facts = text.encode("utf-8", "surrogateescape") + status + _status(watched)
                self._installed[folder] = facts
        return [self._installed[folder] for folder in path]

    def _source(self, part: tuple[str, int, tuple[str, ...]]) -> bytes:
        """Return the names, sizes and times of the sources in a folder, hashed."""
        folder, _, files = part
        found = self._sources.get(folder)
        if found is None:
            names = "\0".join((folder, *files)).encode("utf-8", "surrogateescape")
            found = self._sources[folder] = hashlib.sha256(names + _status(files)).digest()
        return found

    def _chosen(self, path: tuple[str, ...], folders: tuple[str, ...]) -> list[bytes]:
        """Return what `_source` does for some folders; nothing for those without sources."""
        if not self._sources.keys() >= set(folders):
            for part in self.listing(path):
                if part[0] in folders:
                    self._source(part)
        return [self._sources[folder] for folder in folders if folder in self._sources]


class _Process:
    """What was seen first counts as long as the process lives: its modules are from then."""

    seen = _Seen()


def compiler_fingerprint(folders: tuple[str, ...] | None = None) -> str:
    """Return hexadecimal text, the same as long as the process lives and has this search path.

    Args:
        folders: The only folders of editable sources to look into, for what is made by nothing
            else; None for all of them.
    """
    return _Process.seen.fingerprint(tuple(sys.path), folders)


def look_at_compiler() -> None:
    """Look at what is installed, and at editable sources if they have been listed before.

    A compiler calls this when it is imported. What is edited later is not what this process runs.
    """
    # A setting that cannot be read is told when it is used.
    with contextlib.suppress(UserValueError):
        _Process.seen.look(tuple(sys.path))


def compiler_changed() -> bool:
    """Return whether the compiler is another one now than when it was looked at first.

    Which of the two made something cannot be told then, so that it should not be kept.
    """
    return _Seen().fingerprint(tuple(sys.path), None) != compiler_fingerprint()


def keep(key: str, payload: bytes, header: Mapping[str, str]) -> bool:
    """Store what this process's compiler made; return whether that was possible.

    Not if the compiler has been edited or installed anew since it was imported: parts that were
    imported later may be of the new one.

    Args:
        key: Hexadecimal text made of `compiler_fingerprint` and what else the payload depends on.
        payload: The content.
        header: What listings show of it.
    """
    return not compiler_changed() and disk_cache().store(key, payload, header)


def sources_state(folders: tuple[str, ...] | None) -> SourcesState:
    """Return the sources in some folders, or all, to compare in another process."""
    return SourcesState(folders, compiler_fingerprint(folders))


def sources_hold(state: SourcesState) -> bool:
    """Return whether sources are as they were; with the same installed distributions."""
    return compiler_fingerprint(state.folders) == state.fingerprint


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
    for folder, _, files in _Process.seen.listing(tuple(sys.path)):
        data = all(file.endswith(_DATA) for file in files)
        if folder in loaded or (data and any(str(p) in loaded for p in Path(folder).parents)):
            found.append(folder)
    return tuple(found)


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
    found, statuses, watched = [], [], []
    for folder in path:
        # Its time first: what appears later changes it.
        changed = _settled(folder)
        names = _distributions(folder)
        found.append((folder, changed, names))
        places = [Path(folder) / name for name in names]
        statuses.append(_status(list(map(str, places))))
        watched.append(tuple(str(place) for place in places if _is_watched(place)))
    search = _Search(tuple(found), tuple(statuses), tuple(watched))
    if any(names for _, _, names in found):
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
    listed = _listed(path)
    if listed is not None:
        return listed
    search, sources = _scanned(path)
    _keep("sources", path, (search, sources))
    return sources


def _listed(path: tuple[str, ...]) -> _Sources | None:
    """Return the editable sources as they were listed; None if that does not hold."""
    kept = _kept("sources", path)
    if kept is not None:
        with contextlib.suppress(TypeError, ValueError):
            search, sources = kept
            same = all(_time_of(folder) == changed for folder, changed, _ in sources)
            if same and all(map(_searched, search)):
                return tuple(sources)
    return None


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
