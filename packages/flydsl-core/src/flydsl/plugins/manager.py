"""The plugin manager: created on first use, one per process (tests may install another).

It registers the parts of the core that implement hooks, then the plugins of installed
distributions, checks them against the hook specifications and answers questions about what they
announce. The owner of everything announced is known, so conflicts name both sides.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import pluggy

from flydsl.config import core as settings
from flydsl.errors import CompilerBug, FlyDSLError, TargetError
from flydsl.locking import ProcessLock
from flydsl.plugins import discovery, hookspecs
from flydsl.plugins.announced import Announcements, clash
from flydsl.plugins.discovery import PluginRecord

__all__ = [
    "BUILTIN_PLUGINS",
    "PluginManager",
    "hookimpl",
    "isolated",
    "load_dotted",
    "plugin_manager",
]

hookimpl = pluggy.HookimplMarker("flydsl")
"""Marks a function as the implementation of the hook of the same name."""

ANNOUNCING = (
    "flydsl_targets",
    "flydsl_expr_namespaces",
    "flydsl_passes",
    "flydsl_device_runtimes",
    "flydsl_kernels",
)
"""Collect hooks without arguments, whose results are attributed to plugins; not to be wrapped."""

BUILTIN_PLUGINS: tuple[str, ...] = (
    "flydsl.targets.builtin",
    "flydsl.passes.builtin",
    "flydsl.compiler.builtin",
    "flydsl.cli.builtin",
)
"""Modules of the core that implement hooks; each must be cheap to import."""


class PluginManager:
    """Registered plugins and what they announce.

    Attributes:
        hook: Call a hook through it: ``manager.hook.flydsl_detect_device()``.
        records: Every plugin found, whatever became of it.
        problems: Errors that make the set of plugins unusable: unknown hooks, clashing names.
    """

    def __init__(self) -> None:
        self._pluggy = pluggy.PluginManager("flydsl")
        self._pluggy.add_hookspecs(hookspecs)
        self._owners: dict[int, PluginRecord] = {}
        self.records: tuple[PluginRecord, ...] = ()
        self.problems: tuple[FlyDSLError, ...] = ()
        self.caches: dict[str, dict[Any, Any]] = {}

    @property
    def hook(self) -> pluggy.HookRelay:
        """The relay that calls every registered implementation of a hook."""
        return self._pluggy.hook

    def register(self, plugin: object, record: PluginRecord) -> None:
        """Register a loaded plugin.

        A plugin with a hook that does not exist, or one whose arguments do not match, is left out
        and recorded in `problems`.
        """
        problem = self._unusable_hook(plugin, record)
        if problem is None:
            try:
                # pluggy stops half-way at a mismatch and leaves earlier hooks in place.
                trial = pluggy.PluginManager("flydsl")
                trial.add_hookspecs(hookspecs)
                trial.register(plugin)
                self._pluggy.register(plugin, name=f"{record.name} ({record.distribution})")
            except ValueError as error:
                problem = TargetError(
                    f"{record.owner} cannot be registered: {error}", code="FLY-T502"
                )
                problem.__cause__ = error
            except pluggy.PluginValidationError as error:
                problem = TargetError(
                    f"{record.owner} implements a hook with the wrong arguments: {error}",
                    code="FLY-T503",
                )
                problem.__cause__ = error
        if problem is None:
            self._owners[id(plugin)] = record
            self.records += (record,)
        else:
            failed = discovery.PluginRecord(
                record.name, record.module, record.distribution, record.version, "failed", problem
            )
            self.records += (failed,)
            self.problems += (problem,)

    def load_builtins(self) -> None:
        """Register the parts of the core named in `BUILTIN_PLUGINS`."""
        for module in BUILTIN_PLUGINS:
            record = PluginRecord(module, module, status="builtin")
            self.register(importlib.import_module(module), record)

    def load_installed(self) -> None:
        """Find, import and register the plugins of installed distributions."""
        loaded: dict[str, PluginRecord] = {}
        for record in discovery.discover(settings.PLUGINS_DISABLE.get()):
            if record.status == "disabled":
                self.records += (record,)
                continue
            rival = loaded.setdefault(record.name, record)
            if rival is not record:
                self.problems += (clash("plugin name", record.name, rival, record),)
                continue
            done, plugin = discovery.load(record)
            if done.status == "failed":
                self.records += (done,)
            else:
                self.register(plugin, done)

    def trace(self, write: Callable[[str], object]) -> None:
        """Report every hook call and its results through `write`."""
        self._pluggy.trace.root.setwriter(lambda text: write(text) and None)
        self._pluggy.enable_tracing()

    def has_listeners(self, hook: str) -> bool:
        """Return whether any plugin implements `hook`, so that idle hooks cost nothing."""
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        return bool(caller.get_hookimpls())

    def failed(self) -> tuple[PluginRecord, ...]:
        """Return the plugins that could not be imported or registered."""
        return tuple(record for record in self.records if record.status == "failed")

    @cached_property
    def announced(self) -> Announcements:
        """What the plugins announce: targets, namespaces, passes, runtimes, kernels.

        Raises:
            TargetError: Two plugins announce one name, or an announcement is malformed.
        """
        return Announcements.collect(self)

    def collect(self, hook: str, **arguments: object) -> Sequence[tuple[PluginRecord, Any]]:
        """Call one of `ANNOUNCING` and return each result with the plugin that gave it.

        In registration order, core first; results of None are left out. pluggy's own call returns
        results without their owners, hence the loop.
        """
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        out: list[tuple[PluginRecord, Any]] = []
        for implementation in caller.get_hookimpls():
            values = [arguments[name] for name in implementation.argnames]
            result = implementation.function(*values)
            record = self._owners[id(implementation.plugin)]
            self._pluggy.trace(f"{hook} of {record.owner} --> {result!r}")
            if result is not None:
                out.append((record, result))
        return out

    def cache(self, name: str) -> dict[Any, Any]:
        """Return a dictionary that lives as long as this set of plugins does."""
        return self.caches.setdefault(name, {})

    def raise_problems(self) -> None:
        """Raise the first of `problems`, if any."""
        if self.problems:
            raise self.problems[0]

    def _unusable_hook(self, plugin: object, record: PluginRecord) -> FlyDSLError | None:
        # Checked before registering, because pluggy's check_pending cannot name the plugin's origin
        # and leaves the hook behind.
        known = hookspecs.__all__
        for name in dir(plugin):
            options = self._pluggy.parse_hookimpl_opts(plugin, name)
            if options is None or options.get("optionalhook"):
                continue
            hook = options.get("specname") or name
            if hook not in known or hook == "hookspec":
                close = get_close_matches(hook, known, n=3)
                return TargetError(
                    f"{record.owner} implements the hook {hook!r}, which does not exist",
                    code="FLY-T501",
                    allowed=", ".join(close) if close else "see flydsl.plugins.hookspecs",
                    hint="correct the plugin, or set FLYDSL_PLUGINS_DISABLE to its name",
                )
            if hook in ANNOUNCING and (options["wrapper"] or options["hookwrapper"]):
                return TargetError(
                    f"{record.owner} wraps {hook}, which may only be implemented", code="FLY-T503"
                )
        return None


def load_dotted(reference: str, what: str = "plugin") -> Any:
    """Return the object that ``"module:attribute"`` names.

    Args:
        reference: Module and attribute.
        what: What it is, for the message.

    Raises:
        CompilerBug: It cannot be imported although a plugin announced it.
    """
    module_name, _, attribute = reference.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
        for part in filter(None, attribute.split(".")):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise CompilerBug(
            f"the {what} {reference!r} was announced but cannot be loaded: {error}",
            code="FLY-B502",
        ) from error
    return target


class _Holder:
    """The process's manager and the lock under which it is made."""

    def __init__(self) -> None:
        self.lock = ProcessLock()
        self.manager: PluginManager | None = None


_HOLDER = _Holder()


def in_use() -> bool:
    """Return whether this process has a manager already."""
    return _HOLDER.manager is not None


def plugin_manager(*, strict: bool = True) -> PluginManager:
    """Return the manager, creating it and loading the installed plugins on the first call.

    Args:
        strict: Raise if the set of plugins is unusable; tools that show it pass False.

    Raises:
        TargetError: A plugin implements an unknown hook, or two clash.
        UserError: A setting that the manager reads is malformed.
    """
    manager = _HOLDER.manager
    if manager is None:
        with _HOLDER.lock:
            manager = _HOLDER.manager
            if manager is None:
                manager = _create()
                _HOLDER.manager = manager
    if strict:
        manager.raise_problems()
    return manager


@contextmanager
def isolated(*plugins: object, installed: bool = False) -> Iterator[PluginManager]:
    """Replace the process's manager inside a ``with`` block, for tests.

    Args:
        plugins: Modules or objects with hook implementations, besides the core's own.
        installed: Load the installed distributions' plugins too.

    Raises:
        TargetError: One of `plugins` is unusable.
    """
    manager = PluginManager()
    manager.load_builtins()
    if installed:
        manager.load_installed()
    for plugin in plugins:
        name = str(getattr(plugin, "__name__", type(plugin).__name__))
        manager.register(plugin, PluginRecord(name, name))
    manager.raise_problems()
    with _HOLDER.lock:
        before, _HOLDER.manager = _HOLDER.manager, manager
    try:
        yield manager
    finally:
        with _HOLDER.lock:
            _HOLDER.manager = before


def _create() -> PluginManager:
    manager = PluginManager()
    if settings.PLUGINS_TRACE.get():
        manager.trace(sys.stderr.write)
    manager.load_builtins()
    manager.load_installed()
    return manager
