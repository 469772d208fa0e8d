"""`DiskCache`: a folder of checked, atomically written entries, shared by processes.

An entry is a file: magic, SHA-256 of the key and of what follows, length and text of a JSON header
for listings, payload. It appears by a rename, so readers see all of it or nothing, and one that
does not match its digest (a full disk, a power cut, another hand) is removed and counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from flydsl.config import core as settings
from flydsl.errors import UserOSError

__all__ = ["DiskCache", "Entry", "Verified", "disk_cache", "warn_if_no_folder"]

_MEBIBYTE = 1 << 20

_MAGIC = b"FLYDSL\x00\x02"
_HEAD, _LENGTH = struct.Struct("<8s32sI"), struct.Struct("<I")
_SUFFIX, _UNFINISHED = ".entry", ".tmp"
_TOUCH_SECONDS = 3600.0
"""How stale the time of last use may be: a write per hit would be most of a hit's cost."""
_LOCK_SECONDS = 600.0
_LEAVE = 0.9
"""Cleaning up leaves this part of the limit, so that not every write cleans up."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as listings show it.

    Attributes:
        key: Hexadecimal key.
        path: The file.
        size: Bytes.
        used: Time of the last use, in seconds since the epoch, to about an hour.
        header: What `DiskCache.store` was given.
    """

    key: str
    path: Path
    size: int
    used: float
    header: Mapping[str, str]


class Verified(NamedTuple):
    """What `DiskCache.verify` found.

    Attributes:
        sound: How many entries are as they were written.
        removed: How many were damaged and have been removed.
        left: How many cannot be read, or are damaged and cannot be removed.
    """

    sound: int
    removed: int
    left: int


class _File(NamedTuple):
    path: Path
    size: int
    used: float


class DiskCache:
    """Entries under one folder, by hexadecimal key.

    Args:
        root: The folder; made when something is stored.
        limit: Bytes that the entries may take together; the least recently used ones go first.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root = root
        self.limit = limit

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / f"{key}{_SUFFIX}"

    def fetch(self, key: str) -> bytes | None:
        """Return the payload stored under `key`, or None; a damaged entry is removed."""
        # Plain text and descriptors: a launch out of the cache fetches several entries.
        path = f"{self.root}/{key[:2]}/{key}{_SUFFIX}"
        try:
            with open(path, "rb", buffering=0) as file:
                used = os.fstat(file.fileno()).st_mtime
                data = file.read()
        except OSError:
            return None
        length = _header_length(key, data)
        if length is None:
            self._remove(Path(path))
            return None
        if time.time() - used > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path)
        return data[_HEAD.size + length :]

    def store(self, key: str, payload: bytes, header: Mapping[str, str]) -> bool:
        """Store a payload; return whether that was possible (the folder may be read-only)."""
        text = json.dumps(dict(header), sort_keys=True).encode()
        rest = text + payload
        digest = hashlib.sha256(key.encode() + _LENGTH.pack(len(text)) + rest).digest()
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.parent / f".{os.urandom(8).hex()}{_UNFINISHED}"
            # As others may read it as the user's mask says: folders are shared.
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_HEAD.pack(_MAGIC, digest, len(text)) + rest)
                new.replace(path)
            except BaseException:
                self._remove(new)
                raise
        except OSError:
            return False
        self._clean()
        return True

    def remove(self, key: str) -> None:
        """Remove what is stored under `key`, if that is possible."""
        self._remove(self._path(key))

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Keep other processes (and threads) from working on `key` inside the block.

        The operating system releases the lock of a process that dies. Where locking is impossible,
        or the holder takes more than ten minutes, the block runs without it: work is done twice.
        """
        from filelock import FileLock, Timeout

        folder = self.root / "locks"
        lock = None
        with contextlib.suppress(OSError, Timeout, NotImplementedError):
            folder.mkdir(parents=True, exist_ok=True)
            # One file for many keys: lock files cannot be removed safely, so there are few.
            lock = FileLock(folder / f"{key[:2]}.lock", timeout=_LOCK_SECONDS)
            lock.acquire()
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def exists(self) -> bool:
        """Return whether there is a folder yet.

        Raises:
            UserOSError: There is something else, or the folder cannot be read.
        """
        try:
            os.scandir(self.root).close()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UserOSError.of(
                error,
                "the cache cannot be read",
                self.root,
                code="FLY-U524",
                allowed="a folder, which is made when something is kept",
                hint=f"{settings.CACHE_DIR.name} names it",
            ) from error
        return True

    def entries(self) -> Iterator[Entry]:
        """Yield every sound entry."""
        for path, size, used in self._files()[0]:
            with contextlib.suppress(OSError):
                key = path.name.removesuffix(_SUFFIX)
                header = _header(key, path.read_bytes())
                if header is not None:
                    yield Entry(key, path, size, used, header)

    def verify(self) -> Verified:
        """Remove every damaged entry, and count."""
        sound = removed = left = 0
        for path, _, _ in self._files()[0]:
            if self.fetch(path.name.removesuffix(_SUFFIX)) is not None:
                sound += 1
            elif os.path.lexists(path):
                left += 1
            else:
                removed += 1
        return Verified(sound, removed, left)

    def clear(self) -> tuple[int, int]:
        """Remove every entry and what killed writers left behind.

        Returns:
            How many entries were removed, and how many could not be.
        """
        entries, unfinished = self._files()
        removed = sum([self._remove(path) for path, _, _ in entries])
        for path, _, _ in unfinished:
            self._remove(path)
        return removed, len(entries) - removed

    def _files(self) -> tuple[list[_File], list[_File]]:
        """Return entries, and what is being written or was left behind by a killed writer."""
        entries: list[_File] = []
        unfinished: list[_File] = []
        for folder in _listed(self.root):
            if len(folder.name) != 2:
                continue
            for item in _listed(Path(folder.path)):
                kind = entries if item.name.endswith(_SUFFIX) else unfinished
                if kind is entries or item.name.endswith(_UNFINISHED):
                    with contextlib.suppress(OSError):
                        status = item.stat(follow_symlinks=False)
                        kind.append(_File(Path(item.path), status.st_size, status.st_mtime))
        return entries, unfinished

    def _clean(self) -> None:
        """Bring the folder below its limit, the least recently used entries first."""
        entries, unfinished = self._files()
        for path, _, changed in unfinished:
            if time.time() - changed > _TOUCH_SECONDS:
                self._remove(path)
        total = sum(size for _, size, _ in entries)
        if total <= self.limit:
            return
        for path, size, _ in sorted(entries, key=lambda file: file.used):
            self._remove(path)
            total -= size
            if total <= _LEAVE * self.limit:
                break

    @staticmethod
    def _remove(path: Path) -> bool:
        """Remove a file; return whether it is gone."""
        try:
            path.unlink(missing_ok=True)
        except OSError:
            return False
        return True


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def warn_if_no_folder(folder: Path, setting: str) -> None:
    """Warn of a setting that names something else than a folder, where nothing can ever be kept.

    One that cannot be written is none: users share folders that only one of them fills.

    Args:
        folder: The folder that there is to be.
        setting: Name of the setting.
    """
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    if there.exists() and not there.is_dir():
        from flydsl.diagnostics import FlyDSLWarning

        warnings.warn(
            f"{setting} names {folder}, but {there} is a file: nothing can be kept, so that every "
            "process compiles again; name a folder",
            FlyDSLWarning,
            stacklevel=2,
        )


def disk_cache() -> DiskCache:
    """Return the cache that the settings name."""
    return DiskCache(settings.CACHE_DIR.get(), settings.CACHE_SIZE.get() * _MEBIBYTE)


def _header_length(key: str, data: bytes) -> int | None:
    """Return the length of an entry's header, or None if the entry's bytes are damaged."""
    if len(data) < _HEAD.size:
        return None
    magic, digest, length = _HEAD.unpack_from(data)
    # The length is part of what the digest covers, and the last field before the rest.
    content = memoryview(data)[_HEAD.size - _LENGTH.size :]
    if magic != _MAGIC:
        return None
    hashing = hashlib.sha256(key.encode())
    hashing.update(content)
    if hashing.digest() != digest:
        return None
    found: int = length
    return found


def _header(key: str, data: bytes) -> dict[str, str] | None:
    """Return the header of an entry's bytes, or None if they are damaged."""
    length = _header_length(key, data)
    if length is None:
        return None
    header: dict[str, str] = json.loads(data[_HEAD.size :][:length])
    return header
