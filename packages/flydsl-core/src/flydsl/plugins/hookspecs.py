"""Typed specifications of every hook (pluggy project ``flydsl``).

A plugin is a module (or object) whose functions carry `flydsl.plugins.hookimpl` and the names
below. ``collect`` hooks gather one result from every plugin; ``first result`` hooks stop at the
first plugin that does not return None. Hooks that announce things return values or dotted names
(``"module:attribute"``), so that listing them imports nothing. No hook runs on the launch path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pluggy

from flydsl.config import CompileOptions
from flydsl.plugins.payloads import (
    ArgSpec,
    CodeObject,
    CompileEvent,
    Config,
    KernelEntry,
    Pipeline,
    RuntimeInfo,
    TargetInfo,
    TargetSpec,
)
from flydsl.plugins.protocols import MlirModule, Target

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

__all__ = [
    "flydsl_argument",
    "flydsl_cli_commands",
    "flydsl_compile_event",
    "flydsl_create_target",
    "flydsl_detect_device",
    "flydsl_device_runtimes",
    "flydsl_dialects",
    "flydsl_emit",
    "flydsl_expr_namespaces",
    "flydsl_fingerprint",
    "flydsl_kernels",
    "flydsl_parse_target",
    "flydsl_passes",
    "flydsl_pipeline",
    "flydsl_targets",
    "flydsl_tuning_space",
    "hookspec",
]

hookspec = pluggy.HookspecMarker("flydsl")


@hookspec
def flydsl_targets() -> Sequence[TargetInfo]:  # type: ignore[empty-body]
    """Announce architectures. Collect; two plugins announcing one name is an error."""


@hookspec
def flydsl_expr_namespaces() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Map namespaces to modules: ``{"toy": "flydsl_toy.expr"}`` serves ``fx.toy``. Collect."""


@hookspec(firstresult=True)
def flydsl_parse_target(text: str) -> TargetSpec | None:
    """Parse target text such as ``arch:feature+``; None when the architecture is not yours.

    First result. Raise `TargetError` for an own architecture with features it does not have.
    """


@hookspec(firstresult=True)
def flydsl_detect_device() -> TargetSpec | None:
    """Report the architecture of the current device, never a guess. First result."""


@hookspec(firstresult=True)
def flydsl_create_target(spec: TargetSpec) -> Target | None:
    """Create the target for `spec`; None when its backend is not yours. First result."""


@hookspec
def flydsl_dialects(spec: TargetSpec) -> Sequence[str]:  # type: ignore[empty-body]
    """Return dotted names of functions that return IRDL text of dialects for `spec`. Collect."""


@hookspec
def flydsl_passes() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Map pass names to ``"module:function"``, each ``run(module, target, **options)``. Collect."""


@hookspec(firstresult=True)
def flydsl_pipeline(target: Target, options: CompileOptions) -> Pipeline | None:
    """Return the stages for `target`; a wrapper may insert or replace some. First result."""


@hookspec(firstresult=True)
def flydsl_emit(module: MlirModule, target: Target, options: CompileOptions) -> CodeObject | None:
    """Turn the lowered module into a code object. First result."""


@hookspec
def flydsl_device_runtimes() -> Sequence[RuntimeInfo]:  # type: ignore[empty-body]
    """Announce device runtimes. Collect; two plugins announcing one name is an error."""


@hookspec
def flydsl_fingerprint(target: Target) -> str | None:
    """Return text for the cache key that changes when the plugin's output may change. Collect."""


@hookspec(firstresult=True)
def flydsl_argument(value: object, annotation: object) -> ArgSpec | None:
    """Describe how a launcher argument is passed. First result; the core's own answers last."""


@hookspec
def flydsl_kernels() -> Sequence[KernelEntry]:  # type: ignore[empty-body]
    """Announce ready kernels. Collect."""


@hookspec(firstresult=True)
def flydsl_tuning_space(kernel: str, problem: object, target: Target) -> Iterable[Config] | None:
    """Return the configurations worth trying for `problem`, best guess first. First result."""


@hookspec
def flydsl_compile_event(event: CompileEvent) -> None:
    """Observe a compile. Collect; not called at all when nobody implements it."""


@hookspec
def flydsl_cli_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add commands to ``flydsl``; a command sets ``run=function(args) -> int`` as a default."""
