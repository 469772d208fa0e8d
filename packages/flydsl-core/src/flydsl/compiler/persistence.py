"""Compiled launchers on disk: what identifies one, and how it is written and found again.

A key covers everything that the scan of the program finds (`flydsl.frontend.Dependencies`), the
arguments, the target, the options, what plugins add, and the compiler itself. An entry also lists
the functions that only the trace reached; a hit compares them too. A program that refers to
objects whose content cannot be told, or that was compiled for debugging, is not kept.
"""

from __future__ import annotations

import hashlib
import pickle
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from flydsl.caching import (
    DiskCache,
    compiler_fingerprint,
    disk_cache,
    keep,
    warn_if_no_folder,
)
from flydsl.config import core as settings
from flydsl.errors import UserRuntimeError, UserValueError

if TYPE_CHECKING:
    from flydsl.compiler.artifact import Artifact
    from flydsl.compiler.driver import Call
    from flydsl.frontend import Dependencies, JitFunction

__all__ = ["Persistence", "persistence_for"]


class Persistence:
    """The place of one specialisation on disk.

    Args:
        function: The launcher.
        call: A call of it.
        store: The cache; None keeps nothing.
    """

    def __init__(self, function: JitFunction, call: Call, store: DiskCache | None) -> None:
        self._store = store
        self._name, self._target = function.name, call.target.name
        self._dependencies = function.dependencies().given_by(call.specs.values())
        self._key = None if store is None else _key(function, call, self._dependencies)

    def fetch(self) -> tuple[Artifact, Dependencies] | None:
        """Return the artifact and its dependencies, if it is there and what the program says."""
        if self._store is None or self._key is None:
            return None
        data = self._store.fetch(self._key)
        if data is None:
            return None
        try:
            reached, lines, artifact = pickle.loads(data)  # noqa: S301 - our own, checked by digest
        except Exception:  # noqa: BLE001 - written by another version: compile again
            return None
        functions = [function.resolve() for function in reached]
        if None in functions or lines != _lines(artifact):
            return None
        return artifact, self._dependencies.extended(filter(None, functions))

    def store(self, artifact: Artifact, dependencies: Any) -> None:
        """Keep an artifact, if it can be found again."""
        reached = dependencies.reached
        if self._store is None or self._key is None or not all(f.portable for f in reached):
            return
        data = pickle.dumps((reached, _lines(artifact), artifact), protocol=5)
        if not keep(self._key, data, {"name": self._name, "target": self._target}):
            warn_if_no_folder(self._store.root, settings.CACHE_DIR.name)

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from compiling the same inside a ``with`` block."""
        if self._store is None or self._key is None:
            return nullcontext()
        return self._store.lock(self._key)

    def require(self) -> None:
        """Refuse to compile if only what was compiled before may run.

        Raises:
            UserRuntimeError: ``FLYDSL_RUNTIME_RUN_ONLY`` is set.
        """
        if not settings.RUN_ONLY.get():
            return
        raise UserRuntimeError(
            f"{self._name} is not in the cache, and {settings.RUN_ONLY.name} forbids compiling",
            code="FLY-U465",
            value=f"{self._name} for {self._target}",
            hint=f"compile it once without the variable; the cache is {settings.CACHE_DIR.get()}"
            if self._key is not None
            else "it refers to objects that cannot be compared in another process, so it is never "
            "cached; pass plain values instead",
        )


def _lines(artifact: Artifact) -> tuple[str, ...]:
    """Return the source lines that the program's output names.

    Positions are no part of a key, so that a comment added above a kernel costs nothing; but what a
    kernel reports must name the line where the code is now.
    """
    if not artifact.sites:
        return ()
    import linecache

    found = [site.location for site in artifact.sites if site.location is not None]
    return tuple(linecache.getline(place.file, place.line) for place in found)


def persistence_for(function: JitFunction, call: Call) -> Persistence:
    """Return where a call's artifact is on disk, as the settings say.

    Raises:
        UserValueError: Dumps are wanted, which come from compiling, but compiling is forbidden.
    """
    options = call.options
    wanted = settings.ENABLE_CACHE.get() and not options.dump_ir and not options.debug_info
    if settings.RUN_ONLY.get() and not wanted:
        raise UserValueError(
            f"{settings.RUN_ONLY.name} forbids compiling, which this call needs",
            code="FLY-U466",
            hint="unset it, or do not ask for dumps, line tables or a disabled cache",
        )
    return Persistence(function, call, disk_cache() if wanted else None)


def _key(function: JitFunction, call: Call, dependencies: Dependencies) -> str | None:
    """Return the hexadecimal key of a call, or None if another process cannot compute it."""
    from flydsl.frontend.dependencies import value_identity
    from flydsl.targets import fingerprints

    plugins = _plugins()
    if not dependencies.portable or dependencies.given_digest is None or plugins is None:
        return None
    parts = [
        compiler_fingerprint(),
        function.function.__module__,
        function.qualname,
        dependencies.digest,
        dependencies.given_digest,
        call.key.target,
        call.key.options,
        *fingerprints(call.target),
        *plugins,
    ]
    for item in (*call.key.signature, function.instance):
        identity = value_identity(item)
        if identity is None:
            return None
        parts.append(identity)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _plugins() -> tuple[str, ...] | None:
    """Return the active plugins; None if one of them is not from an installed distribution."""
    from flydsl.plugins.manager import plugin_manager

    active = [record for record in plugin_manager().records if record.status == "active"]
    if any(not record.distribution for record in active):
        return None
    return tuple(f"{record.name}={record.module}" for record in active)
