"""Finds plugins among installed distributions and imports them, recording every failure."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["ENTRY_POINT_GROUP", "PluginRecord", "discover", "load"]

ENTRY_POINT_GROUP = "flydsl"


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """One plugin and what became of it.

    Attributes:
        name: Entry-point name; for a part of the core, its module.
        module: Module (with optional attribute) that the entry point names.
        distribution: Distribution that provides it; empty when unknown.
        version: That distribution's version.
        status: ``"active"``, ``"builtin"``, ``"disabled"`` or ``"failed"``.
        error: The exception that importing it raised.
    """

    name: str
    module: str
    distribution: str = ""
    version: str = ""
    status: Literal["active", "builtin", "disabled", "failed"] = "active"
    error: BaseException | None = None

    @property
    def owner(self) -> str:
        """Name and origin, for messages: ``plugin 'toy' of flydsl-toy 1.0``."""
        if self.status == "builtin":
            return f"the core ({self.module})"
        origin = f" of {self.distribution} {self.version}".rstrip() if self.distribution else ""
        return f"plugin {self.name!r}{origin}"


def discover(disabled: Iterable[str]) -> tuple[PluginRecord, ...]:
    """Return a record per ``flydsl`` entry point, sorted by name, without importing any.

    An entry point that the search path lists twice (an editable install beside its sources) counts
    once.

    Args:
        disabled: Entry-point or distribution names to mark as disabled.
    """
    off = {_canonical(name) for name in disabled}
    found: dict[tuple[str, str, str], PluginRecord] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        distribution = point.dist.name if point.dist else ""
        version = point.dist.version if point.dist else ""
        is_off = _canonical(point.name) in off or _canonical(distribution) in off
        record = PluginRecord(
            point.name,
            point.value,
            distribution,
            version,
            "disabled" if is_off else "active",
        )
        found.setdefault((point.name, point.value, _canonical(distribution)), record)
    return tuple(sorted(found.values(), key=lambda record: (record.name, record.distribution)))


def load(record: PluginRecord) -> tuple[PluginRecord, object | None]:
    """Import the plugin of `record`.

    Returns:
        The record and the plugin object, or the record marked as failed and None. Only
        `KeyboardInterrupt` gets through: a plugin may fail in any way while it is imported.
    """
    module_name, _, attribute = record.module.partition(":")
    try:
        plugin: object = importlib.import_module(module_name.strip())
        for part in filter(None, attribute.strip().split(".")):
            plugin = getattr(plugin, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - reported with the plugin's name
        return replace(record, status="failed", error=error), None
    return record, plugin


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
