"""Imports by another name: ``flydsl.expr.<namespace>`` of plugins, and alias paths.

One meta-path finder, installed by ``import flydsl`` before all others, answers for names below
``flydsl.`` only. It maps such a name to an existing module, so that every spelling gives the same
module object: ``fx.toy``, ``from flydsl.expr import toy``, ``import flydsl.expr.toy.atoms`` and
``import flydsl_toy.expr.atoms``. Names that are files of the core are left to the ordinary import.

This module must stay light: the plugin manager and the alias table are loaded only for a name that
the ordinary import does not know.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["KNOWN_NAMESPACES", "expr_attribute", "install", "legacy_attribute"]

KNOWN_NAMESPACES: Mapping[str, str] = {"rocdl": "flydsl-rocdl", "nvvm": "flydsl-nvvm"}
"""Distribution to install for the namespaces of our own plugins."""

_EXPR = "flydsl.expr."
_ALIAS_TABLE = "flydsl.compat"
_LEGACY_NAMES = "flydsl.compat.names"


class _AliasLoader:
    """Gives an existing module to an import of another name."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            module = importlib.import_module(self._target)
        except ModuleNotFoundError as error:
            if error.name is not None and (self._target + ".").startswith(error.name + "."):
                raise ModuleNotFoundError(
                    f"No module named {spec.name!r}: it stands for {self._target!r}, "
                    f"where {error.name!r} is not there",
                    name=spec.name,
                ) from error
            raise
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just put the alias's spec on the module; the module keeps its own,
        # or relative imports and reload would resolve against the alias.
        module.__spec__ = self._own_spec


class _GroupLoader:
    """Makes the empty package above an alias whose parent does not exist itself."""

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "Holds import aliases (see flydsl.compat)."


class _Finder:
    """The meta-path finder."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if not fullname.startswith("flydsl."):
            return None
        parent_name, _, tail = fullname.rpartition(".")
        parent = sys.modules.get(parent_name)
        if parent is not None and parent.__name__ != parent_name:
            table = importlib.import_module(_ALIAS_TABLE)
            known = table.target_of(fullname)
            if known is not None:
                return _alias(fullname, known)
            # The parent is an alias, so the ordinary finders would load a second copy of the child.
            return _alias(fullname, f"{parent.__name__}.{tail}")
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.origin is not None:
            return found
        if tail.startswith("__"):
            return None
        return _compat_spec(fullname) or _namespace_spec(fullname) or found

    def invalidate_caches(self) -> None:
        """Nothing is cached here."""


def install() -> None:
    """Put the finder before all others, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def expr_attribute(name: str) -> object:
    """Return the namespace module ``flydsl.expr.<name>``; for ``__getattr__`` of that package.

    Raises:
        UserAttributeError: There is no such name; says what is close or what to install. If a
            plugin of that name failed to import, says why.
    """
    # Interpreter and tool probes (__path__, __wrapped__, ...) must not load plugins.
    if name.startswith("_"):
        raise AttributeError(f"module 'flydsl.expr' has no attribute {name!r}")
    with suppress(AttributeError):
        return legacy_attribute("flydsl.expr", name)
    try:
        return importlib.import_module(_EXPR + name)
    except ModuleNotFoundError as error:
        if error.name != _EXPR + name:
            raise
        raise _no_attribute(name) from error


def legacy_attribute(module: str, name: str) -> Any:
    """Return a name of `module` that only existing kernels use; it warns.

    Raises:
        AttributeError: There is none.
    """
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return importlib.import_module(_LEGACY_NAMES).legacy_attribute(module, name)


def _no_attribute(name: str) -> AttributeError:
    from flydsl.diagnostics import user_location
    from flydsl.errors import UserAttributeError

    return UserAttributeError(
        f"module 'flydsl.expr' has no attribute {name!r}",
        code="FLY-U508",
        hint=_advice(name, dir(sys.modules["flydsl.expr"])),
        location=user_location(),
    )


def _alias(fullname: str, target: str) -> ModuleSpec:
    return ModuleSpec(fullname, _AliasLoader(target), origin=f"alias of {target}")  # type: ignore[arg-type]


def _compat_spec(fullname: str) -> ModuleSpec | None:
    table = importlib.import_module(_ALIAS_TABLE)
    aliases: Mapping[str, str] = table.ALIASES
    target = aliases.get(fullname)
    if target is not None:
        table.warn_of_path(fullname)
        return _alias(fullname, target)
    if any(name.startswith(fullname + ".") for name in aliases):
        return ModuleSpec(fullname, _GroupLoader(), origin="aliases", is_package=True)  # type: ignore[arg-type]
    if table.is_public(fullname):
        there = ", ".join(table.available(fullname)) or "nothing"
        raise ModuleNotFoundError(
            f"No module named {fullname!r}: this path of the public API is not provided; "
            f"there is {there}",
            name=fullname,
        )
    return None


def _namespace_spec(fullname: str) -> ModuleSpec | None:
    name = fullname.removeprefix(_EXPR)
    if name == fullname or "." in name:
        return None
    from flydsl.plugins.manager import plugin_manager

    module = plugin_manager().announced.namespaces.get(name)
    if module is not None:
        return _alias(fullname, module)
    if name in KNOWN_NAMESPACES or _failure(name):
        raise ModuleNotFoundError(
            f"No module named {fullname!r}: {_advice(name, ())}", name=fullname
        )
    return None


def _failure(name: str) -> str:
    from flydsl.plugins.manager import plugin_manager

    for record in plugin_manager().records:
        if record.name == name and record.status == "failed":
            return f"{record.owner} failed to import: {record.error!r}"
        if record.name == name and record.status == "disabled":
            return f"{record.owner} is disabled by FLYDSL_PLUGINS_DISABLE"
    return ""


def _advice(name: str, known: Sequence[str]) -> str:
    """Say why the namespace `name` is not there, or which of `known` may be meant."""
    failure = _failure(name)
    if failure:
        return failure
    if name in KNOWN_NAMESPACES:
        return f"it comes with a plugin; run: pip install {KNOWN_NAMESPACES[name]}"
    from difflib import get_close_matches

    from flydsl.plugins.manager import plugin_manager

    names = [word for word in known if not word.startswith("_")]
    close = get_close_matches(name, [*names, *plugin_manager().announced.namespaces], n=3)
    return f"did you mean {' or '.join(close)}?" if close else ""
