"""How distributions extend FlyDSL: hook specifications, payload types, manager and namespaces.

Modules: `payloads` and `protocols` (what crosses the boundary), `hookspecs` (the hooks),
`manager` (finds and runs plugins), `namespaces` (``fx.<namespace>`` and alias imports).

To write a plugin, make a module with functions marked `hookimpl` and announce it in the
distribution's metadata: ``[project.entry-points.flydsl]`` with ``name = "package.module"``. Parts
of the core that implement hooks are listed in `manager.BUILTIN_PLUGINS` and use the same marker.

Importing this package imports neither pluggy nor a plugin; `hookimpl` and the manager are loaded
when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl.plugins.manager import PluginManager, hookimpl, isolated, plugin_manager

__all__ = ["PluginManager", "hookimpl", "isolated", "plugin_manager"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from flydsl.plugins import manager  # deferred: it imports pluggy

        return getattr(manager, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
