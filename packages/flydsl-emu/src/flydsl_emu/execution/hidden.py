"""Values of hidden kernel arguments, by the kind that the metadata names."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from flydsl_emu.codeobject import Kernel
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.host import PRIVATE_APERTURE, SHARED_APERTURE

__all__ = ["hidden_arguments"]


def hidden_arguments(kernel: Kernel, geometry: Geometry, queue: int) -> Iterator[tuple[int, bytes]]:
    """Yield ``(offset, bytes)`` of every hidden argument that has a value.

    Grids are whole workgroups, so remainders are zero. Pointers to services that the emulator does
    not run (host calls, heap, printf buffer) stay null. `queue` is the address of the queue.
    """
    grid, block = geometry.grid, geometry.block
    axes = {"x": 0, "y": 1, "z": 2}
    dimensions = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    values: dict[str, int] = {
        "hidden_grid_dims": dimensions,
        "hidden_dynamic_lds_size": geometry.dynamic_lds,
        "hidden_private_base": PRIVATE_APERTURE,
        "hidden_shared_base": SHARED_APERTURE,
        "hidden_queue_ptr": queue,
    }
    for axis, k in axes.items():
        values[f"hidden_block_count_{axis}"] = grid[k]
        values[f"hidden_group_size_{axis}"] = block[k]
        values[f"hidden_remainder_{axis}"] = 0
        values[f"hidden_global_offset_{axis}"] = 0
    for argument in kernel.arguments:
        if argument.kind in values:
            layout = {2: "<H", 4: "<I", 8: "<Q"}[argument.size]
            yield argument.offset, struct.pack(layout, values[argument.kind])
