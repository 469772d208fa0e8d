"""Finding the AMD GPU of this machine without ROCm: the kernel driver's topology in sysfs.

Source: the Linux ``amdkfd`` driver, ``/sys/class/kfd/kfd/topology/nodes/<n>/properties``; CPU nodes
have ``simd_count 0``, and the version entry holds major * 10000 + minor * 100 + step.
"""

from __future__ import annotations

from pathlib import Path

from flydsl.plugins.payloads import TargetSpec
from flydsl_rocdl.arch import KFD_VERSION_KEY, KNOWN, from_kfd_version
from flydsl_rocdl.settings import VISIBLE_DEVICES
from flydsl_rocdl.target import BACKEND

__all__ = ["KFD_NODES", "current_device", "gpu_architectures"]

KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def _properties(path: Path) -> dict[str, int]:
    out = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            out[name] = int(value)
    return out


def gpu_architectures(nodes: Path = KFD_NODES) -> tuple[str, ...]:
    """Return the architecture of every AMD GPU in device order; empty without the driver."""
    try:
        folders = sorted(nodes.iterdir(), key=lambda p: int(p.name) if p.name.isdigit() else 0)
    except OSError:
        return ()
    out = []
    for folder in folders:
        try:
            properties = _properties(folder / "properties")
        except OSError:
            continue
        version = properties.get(KFD_VERSION_KEY, 0)
        if properties.get("simd_count", 0) and version:
            out.append(from_kfd_version(version))
    return tuple(out)


def current_device(nodes: Path = KFD_NODES) -> TargetSpec | None:
    """Return the current device's architecture; None without one or when it is not supported."""
    found = gpu_architectures(nodes)
    visible = VISIBLE_DEVICES.get()
    index = int(visible[0]) if visible and visible[0].isdigit() else 0
    if index >= len(found) or found[index] not in KNOWN:
        return None
    return TargetSpec(BACKEND, found[index])
