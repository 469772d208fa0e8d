"""What a launch that was refused before HIP saw it did wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.errors import FlyDSLError, TargetError, UserError
from flydsl.runtime.abi import FlyLaunch
from flydsl_rocdl.hip.trampoline import BAD_BLOCK, BAD_CLUSTER, BAD_GRID, BAD_LDS, BAD_PARTS

if TYPE_CHECKING:
    from flydsl_rocdl.hip.core import HipKernel

__all__ = ["refusal"]


def refusal(status: int, launch: FlyLaunch, kernel: HipKernel | None) -> FlyDSLError | None:
    """Return the exception for a negative result of the native launch function, if it is known.

    Args:
        status: The result.
        launch: What was to be launched.
        kernel: The loaded kernel, if it is known.
    """
    block, grid = tuple(launch.block), tuple(launch.grid)
    if status == BAD_BLOCK and kernel is not None:
        return UserError(
            "workgroup size out of range",
            code="FLY-U650",
            value=block,
            allowed=f"1 to {kernel.max_threads} threads, as the kernel was compiled",
        )
    if status == BAD_GRID:
        return UserError(
            "the grid has too many threads along one axis",
            code="FLY-U651",
            value=f"{grid} workgroups of {block}",
            allowed="workgroups times threads below 2**32 along each axis",
        )
    if status == BAD_LDS and kernel is not None:
        return UserError(
            "the launch asks for more LDS than a workgroup can have",
            code="FLY-U652",
            value=f"{kernel.lds_static} static + {launch.dynamic_lds} dynamic bytes",
            allowed=f"{kernel.lds_capacity} bytes",
        )
    if status == BAD_PARTS:
        return UserError(
            "the grid is not whole clusters",
            code="FLY-U654",
            value=f"grid {grid}, clusters of {tuple(launch.cluster)}",
            allowed="grids that clusters divide along each axis",
        )
    if status == BAD_CLUSTER:
        return TargetError(
            "this version of HIP cannot launch clusters",
            code="FLY-T652",
            value=tuple(launch.cluster),
            hint="hipDrvLaunchKernelEx came with ROCm 7",
        )
    return None
