"""Launch limits that every target states in the same terms."""

from __future__ import annotations

from math import prod

from flydsl.errors import TargetError
from flydsl.plugins.payloads import LaunchShape
from flydsl.plugins.protocols import Target

__all__ = ["check_limits"]


def check_limits(target: Target, shape: LaunchShape) -> None:
    """Check the known parts of a launch against `target`'s block, grid and shared-memory limits.

    Raises:
        TargetError: A limit is exceeded; names the kernel, the value and the limit.
    """
    threads = prod(extent for extent in shape.block if extent is not None)
    if threads > target.max_threads_per_block:
        raise TargetError(
            f"kernel {shape.kernel!r} is launched with {threads} threads per block",
            code="FLY-T510",
            value=shape.block,
            allowed=f"at most {target.max_threads_per_block} threads on {target.name}",
        )
    for axis, extent, limit in zip("xyz", shape.grid, target.max_grid, strict=True):
        if extent is not None and extent > limit:
            raise TargetError(
                f"kernel {shape.kernel!r} is launched with {extent} blocks along {axis}",
                code="FLY-T511",
                value=shape.grid,
                allowed=f"at most {limit} along {axis} on {target.name}",
            )
    if shape.shared_bytes is not None and shape.shared_bytes > target.shared_capacity:
        raise TargetError(
            f"kernel {shape.kernel!r} needs {shape.shared_bytes} bytes of shared memory",
            code="FLY-T512",
            value=shape.shared_bytes,
            allowed=f"at most {target.shared_capacity} bytes per block on {target.name}",
            hint="used: " + "; ".join(shape.shared_uses) if shape.shared_uses else "",
        )
