"""``flydsl.runtime.device``: what is known of the device and of architectures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from flydsl.errors import TargetError, UserRuntimeError
from flydsl.plugins.manager import plugin_manager
from flydsl.runtime.choice import open_runtime
from flydsl.targets import choose_target, create_target, known_targets

__all__ = [
    "SMEM_CAPACITY_MAP",
    "check_smem_capacity",
    "get_rocm_arch",
    "get_rocm_device_count",
    "get_warp_size",
    "is_rdna_arch",
]


class _Capacities(Mapping[str, int]):
    """Shared memory of each known architecture in bytes."""

    def __getitem__(self, arch: str) -> int:
        if arch not in tuple(self):
            raise KeyError(arch)
        return create_target(arch).shared_capacity

    def __iter__(self) -> Iterator[str]:
        return (info.name for info in known_targets())

    def __len__(self) -> int:
        return len(known_targets())


SMEM_CAPACITY_MAP: Mapping[str, int] = _Capacities()
"""Architecture -> bytes of shared memory of one block."""


def get_rocm_arch() -> str:
    """Return the architecture that is compiled for: the setting's, else the device's.

    Raises:
        TargetError: Neither is known.
    """
    return choose_target().arch


def get_rocm_device_count() -> int:
    """Return the number of devices that the installed runtimes drive, without emulated ones."""
    count = 0
    for info in plugin_manager().announced.runtimes.values():
        if not info.emulated:
            with suppress(TargetError):  # no driver: no device
                count += open_runtime(info).device_count()
    return count


def is_rdna_arch(arch: str | None = None) -> bool:
    """Return whether the warps of an architecture have 32 threads."""
    return get_warp_size(arch) == 32


def get_warp_size(arch: str | None = None) -> int:
    """Return the threads per warp of an architecture; default: the one compiled for."""
    return create_target(arch).warp_size if arch else choose_target().warp_size


def check_smem_capacity(allocated_bytes: int, arch: str | None = None) -> None:
    """Check a block's shared memory.

    Raises:
        UserRuntimeError: The architecture has less.
    """
    target = create_target(arch) if arch else choose_target()
    if allocated_bytes > target.shared_capacity:
        raise UserRuntimeError(
            "the block needs more shared memory than the target has",
            code="FLY-U259",
            value=allocated_bytes,
            allowed=f"at most {target.shared_capacity} bytes on {target.arch}",
        )
