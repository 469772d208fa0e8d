"""`FunctionCache`: what one launcher has been compiled to, in memory.

Two levels. Artifacts are found by `CompileKey` and know nothing of devices or Python objects, so a
disk cache can supply them. Closures are found by the types of the arguments and hold an artifact
loaded on a device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from flydsl.compiler.dispatch import Live
from flydsl.locking import ProcessLock

if TYPE_CHECKING:
    from flydsl.compiler.artifact import Artifact, CompileKey
    from flydsl.compiler.loading import LoadedArtifact

__all__ = ["FunctionCache"]


class FunctionCache:
    """The compilations of one launcher.

    Attributes:
        lock: Held while compiling, so that concurrent calls compile once.
        live: What the generated front reads; see `flydsl.compiler.dispatch`.
        front: The generated front, once there is one.
        hints: Compile hints stored on the function by ``flyc.compile[hints](function)``.
        compiled: Whether this process has compiled anything for the launcher.
        hits, misses: Look-ups of artifacts so far (launches through the front do not look up).
    """

    def __init__(self) -> None:
        self.lock = ProcessLock()
        self.live = Live()
        self.front: Callable[..., object] | None = None
        self.hints: Mapping[str, object] = {}
        self.compiled = False
        self.hits = 0
        self.misses = 0
        self._artifacts: dict[CompileKey, Artifact] = {}
        self._loaded: dict[tuple[CompileKey, str], LoadedArtifact] = {}
        self._closures: dict[tuple[CompileKey, Hashable], tuple[Callable[..., object], ...]] = {}
        self._dependencies: Any = None
        self._manager: object = None
        self._current_manager: Callable[[], object] = bool

    def set_hints(self, hints: Mapping[str, object]) -> None:
        """Use other compile hints from now on; what was compiled with the old ones stays."""
        with self.lock:
            self.hints = dict(hints)
            self.live.table = {}

    def refresh(self) -> None:
        """Forget everything if the program or the set of plugins has changed since."""
        if self._dependencies is not None and not self._unchanged():
            self.clear()

    def _unchanged(self) -> bool:
        # Another manager means other passes and targets; tests replace it.
        return self._current_manager() is self._manager and self._dependencies.unchanged()

    def clear(self) -> None:
        """Forget everything."""
        self._artifacts.clear()
        self._loaded.clear()
        self._closures.clear()
        self._dependencies = None
        self.live.table = {}
        self.live.settings = None
        self.live.unchanged = bool

    @property
    def used(self) -> bool:
        """Whether anything has been compiled or found for the launcher."""
        return self._dependencies is not None

    @property
    def only_scanned(self) -> bool:
        """Whether the scan of the program found everything that traces reached."""
        return self._dependencies is not None and not self._dependencies.reached

    def started(self, dependencies: Any) -> None:
        """Note what a launch depends on that needed no artifact (see `quickstart`)."""
        self._current_manager = _manager_if_any
        self._manager = None
        self._dependencies = dependencies

    def artifact(self, key: CompileKey) -> Artifact | None:
        """Return what `key` was compiled to, counting a hit or a miss."""
        found = self._artifacts.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def store(self, key: CompileKey, artifact: Artifact, dependencies: Any) -> None:
        """Keep a compilation and what the program was traced from."""
        self._artifacts[key] = artifact
        from flydsl.plugins.manager import plugin_manager

        self._current_manager = plugin_manager
        self._manager = plugin_manager()
        if self._dependencies is None:
            self._dependencies = dependencies
        else:
            # Another specialisation may have reached more than the ones before.
            self._dependencies = _Both(self._dependencies, dependencies)

    def loaded(
        self, key: CompileKey, place: str, make: Callable[[], LoadedArtifact]
    ) -> LoadedArtifact:
        """Return an artifact loaded on the device called `place`, by `make` the first time."""
        found = self._loaded.get((key, place))
        if found is None:
            found = self._loaded[key, place] = make()
        return found

    def closures(
        self,
        key: CompileKey,
        form: Hashable,
        make: Callable[[], tuple[Callable[..., object], ...]],
    ) -> tuple[Callable[..., object], ...]:
        """Return the closures of an artifact, made by `make` the first time.

        Args:
            key: The artifact's key.
            form: The device, and the Python form of the arguments that the closures read.
            make: Generates the closures.
        """
        found = self._closures.get((key, form))
        if found is None:
            found = self._closures[key, form] = make()
        return found

    def publish(
        self,
        kinds: tuple[object, ...],
        closures: tuple[Callable[..., object], ...],
        settings: object,
    ) -> None:
        """Let the front find `closures` for arguments of these types and compile-time values."""
        live = self.live
        if live.settings != settings:
            live.table = {}
            live.settings = settings
        if self._dependencies is not None:
            live.unchanged = self._unchanged
        known = live.table.setdefault(kinds, [])
        known += [closure for closure in closures if closure not in known]


def _manager_if_any() -> object:
    """Return the process's plugin manager without making one."""
    module = sys.modules.get("flydsl.plugins.manager")
    return module.plugin_manager() if module is not None and module.in_use() else None


class _Both:
    """Two sets of dependencies; unchanged if both are."""

    def __init__(self, first: Any, second: Any) -> None:
        # Equal digests are the same program: most specialisations add nothing.
        self._parts = {
            part.digest if part.portable else id(part): part
            for part in (*_parts(first), *_parts(second))
        }

    @property
    def reached(self) -> tuple[Any, ...]:
        return tuple(item for part in self._parts.values() for item in part.reached)

    def unchanged(self) -> bool:
        return all(part.unchanged() for part in self._parts.values())


def _parts(dependencies: Any) -> tuple[Any, ...]:
    return tuple(dependencies._parts.values()) if type(dependencies) is _Both else (dependencies,)
