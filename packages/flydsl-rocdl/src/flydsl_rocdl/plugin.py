"""Hook implementations of the AMD target; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import RuntimeInfo, TargetInfo, TargetSpec
from flydsl.plugins.protocols import Target
from flydsl_rocdl.arch import KNOWN
from flydsl_rocdl.settings import HIP_HOST_TENSORS
from flydsl_rocdl.target import BACKEND, RocdlTarget, parse_target

__all__ = [
    "flydsl_create_target",
    "flydsl_detect_device",
    "flydsl_device_runtimes",
    "flydsl_expr_namespaces",
    "flydsl_parse_target",
    "flydsl_passes",
    "flydsl_targets",
]


@hookimpl
def flydsl_targets() -> Sequence[TargetInfo]:
    """Announce every architecture with facts."""
    return tuple(TargetInfo(f.name, BACKEND, f.summary) for f in KNOWN.values())


@hookimpl
def flydsl_expr_namespaces() -> Mapping[str, str]:
    """Serve ``fx.rocdl``."""
    return {"rocdl": "flydsl_rocdl.expr"}


@hookimpl
def flydsl_parse_target(text: str) -> TargetSpec | None:
    """Parse an AMD target id."""
    return parse_target(text)


@hookimpl
def flydsl_detect_device() -> TargetSpec | None:
    """Look for an AMD GPU in the kernel driver's topology."""
    from flydsl_rocdl.detect import current_device

    return current_device()


@hookimpl
def flydsl_device_runtimes() -> Sequence[RuntimeInfo]:
    """Announce HIP; PyTorch calls AMD GPUs ``cuda`` too."""
    return (
        RuntimeInfo(
            name="hip",
            factory="flydsl_rocdl.hip:create",
            formats=("hsaco",),
            device_types=("cuda", "hip", "cpu") if HIP_HOST_TENSORS.get() else ("cuda", "hip"),
        ),
    )


@hookimpl
def flydsl_create_target(spec: TargetSpec) -> Target | None:
    """Create the target for an AMD architecture."""
    return RocdlTarget.from_spec(spec) if spec.backend == BACKEND else None


@hookimpl
def flydsl_passes() -> Mapping[str, str]:
    """Name the lowering pass."""
    return {"convert-fly-to-rocdl": "flydsl_rocdl.passes.convert:run"}
