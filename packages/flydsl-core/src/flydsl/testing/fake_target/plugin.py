"""The hooks of the toy target; like every plugin module it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import RuntimeInfo, TargetInfo, TargetSpec
from flydsl.plugins.protocols import Target
from flydsl.testing.fake_target.target import ARCH, BACKEND, FORMAT, ToyTarget

__all__ = [
    "flydsl_create_target",
    "flydsl_device_runtimes",
    "flydsl_expr_namespaces",
    "flydsl_parse_target",
    "flydsl_passes",
    "flydsl_targets",
]


@hookimpl
def flydsl_targets() -> Sequence[TargetInfo]:
    """Announce the one architecture."""
    return (TargetInfo(ARCH, BACKEND, "kernels as loops on the host, for tests"),)


@hookimpl
def flydsl_expr_namespaces() -> Mapping[str, str]:
    """Serve ``fx.toy``."""
    return {"toy": "flydsl.testing.fake_target.ops"}


@hookimpl
def flydsl_parse_target(text: str) -> TargetSpec | None:
    """Accept the architecture's name; it has no features."""
    return TargetSpec(BACKEND, ARCH) if text == ARCH else None


@hookimpl
def flydsl_create_target(spec: TargetSpec) -> Target | None:
    """Create the target."""
    return ToyTarget(spec) if spec.backend == BACKEND else None


@hookimpl
def flydsl_passes() -> Mapping[str, str]:
    """Name the lowering pass."""
    return {"convert-fly-to-toy": "flydsl.testing.fake_target.lowering:run"}


@hookimpl
def flydsl_device_runtimes() -> Sequence[RuntimeInfo]:
    """Announce the runtime, which serves host tensors."""
    factory = "flydsl.testing.fake_target.runtime:ToyRuntime"
    return (RuntimeInfo("toy", factory, (FORMAT,), ("cpu",), emulated=True, default_target=ARCH),)
