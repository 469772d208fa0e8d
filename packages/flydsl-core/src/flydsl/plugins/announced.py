"""What plugins announce, gathered once per manager, with the owner of every name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from flydsl.errors import TargetError
from flydsl.plugins.discovery import PluginRecord
from flydsl.plugins.payloads import KernelEntry, RuntimeInfo, TargetInfo

__all__ = ["Announcements", "clash"]

T = TypeVar("T")


class _Collector(Protocol):
    def collect(self, hook: str, **arguments: object) -> Sequence[tuple[PluginRecord, Any]]: ...


@dataclass(frozen=True, slots=True)
class Announcements:
    """Names announced by plugins, in registration order.

    Attributes:
        targets: Architectures by name.
        namespaces: Module path of each ``fx`` namespace.
        passes: ``"module:function"`` of each pass.
        runtimes: Device runtimes by name.
        kernels: Ready kernels by ``family.name``.
        owners: ``(kind, name)`` to the plugin that announced it; kinds as the attributes above.
    """

    targets: Mapping[str, TargetInfo]
    namespaces: Mapping[str, str]
    passes: Mapping[str, str]
    runtimes: Mapping[str, RuntimeInfo]
    kernels: Mapping[str, KernelEntry]
    owners: Mapping[tuple[str, str], PluginRecord]

    @classmethod
    def collect(cls, manager: _Collector) -> Announcements:
        """Ask all plugins.

        Raises:
            TargetError: Two plugins (or one, twice) announce the same name; names the owners.
        """
        owners: dict[tuple[str, str], PluginRecord] = {}

        def gather(kind: str, hook: str, expected: type[T]) -> Mapping[str, T]:
            out: dict[str, T] = {}
            for record, result in manager.collect(hook):
                for name, value in _items(kind, result, expected, record):
                    if name in out:
                        what = {"passes": "pass"}.get(kind, kind.removesuffix("s"))
                        raise clash(what, name, owners[kind, name], record)
                    out[name] = value
                    owners[kind, name] = record
            return MappingProxyType(out)

        targets = gather("targets", "flydsl_targets", TargetInfo)
        return cls(
            targets=MappingProxyType(
                {
                    name: info
                    if info.distribution
                    else replace(info, distribution=owners["targets", name].distribution)
                    for name, info in targets.items()
                }
            ),
            namespaces=gather("namespaces", "flydsl_expr_namespaces", str),
            passes=gather("passes", "flydsl_passes", str),
            runtimes=gather("runtimes", "flydsl_device_runtimes", RuntimeInfo),
            kernels=gather("kernels", "flydsl_kernels", KernelEntry),
            owners=MappingProxyType(owners),
        )


def _items(
    kind: str, result: object, expected: type[T], record: PluginRecord
) -> Iterable[tuple[str, T]]:
    pairs: list[tuple[object, object]]
    if isinstance(result, Mapping):
        pairs = list(result.items())
    elif isinstance(result, (list, tuple)):
        pairs = [(_key(value), value) for value in result]
    else:
        pairs = [("", result)]
    out: list[tuple[str, T]] = []
    for name, value in pairs:
        if not isinstance(name, str) or not name or not isinstance(value, expected):
            raise TargetError(
                f"{record.owner} announces {kind} in a form that cannot be used",
                code="FLY-T505",
                value=value,
                allowed=f"{expected.__name__} values, as flydsl.plugins.hookspecs says",
            )
        out.append((name, value))
    return out


def _key(value: object) -> object:
    name = getattr(value, "name", "")
    return f"{value.family}.{name}" if isinstance(value, KernelEntry) else name


def clash(what: str, name: str, first: PluginRecord, second: PluginRecord) -> TargetError:
    """Return the error for two plugins (or one, twice) that claim `name`."""
    return TargetError(
        f"the {what} {name!r} is claimed by {first.owner} and by {second.owner}",
        code="FLY-T504",
        hint="uninstall one of them, or set FLYDSL_PLUGINS_DISABLE to leave one out",
    )
