"""Hook implementations of the emulator; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import RuntimeInfo

__all__ = ["flydsl_device_runtimes"]


@hookimpl
def flydsl_device_runtimes() -> Sequence[RuntimeInfo]:
    """Announce the emulator."""
    return (
        RuntimeInfo(
            name="emu",
            factory="flydsl_emu.runtime:create",
            formats=("hsaco",),
            device_types=("cpu",),
            emulated=True,
            default_target="gfx942",
        ),
    )
