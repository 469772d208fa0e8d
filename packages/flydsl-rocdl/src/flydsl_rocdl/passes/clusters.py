"""Clusters of workgroups: what the back end may know of a kernel's launches.

A kernel is told the size of its clusters where all launches in the module agree on one: LLVM then
computes workgroup numbers from it, and without clusters from nothing. Elsewhere the kernel finds
out when it runs.
"""

from __future__ import annotations

from typing import Any

from flydsl import mlir
from flydsl_rocdl.passes.lowering import constant_of

__all__ = ["cluster_attributes"]

_FIRST, _COUNT = 7, 3
"""Which operands of ``gpu.launch_func`` are the cluster's size: after token, grid and block."""


def cluster_attributes(module: Any) -> dict[str, str]:
    """Return the value of ``amdgpu-cluster-dims`` by kernel, of kernels whose launches agree."""
    found: dict[str, set[tuple[int, ...] | None]] = {}

    def note(op: Any) -> Any:
        if op.name == "gpu.launch_func":
            kernel = str(op.attributes["kernel"]).rpartition("@")[2].strip('"')
            found.setdefault(kernel, set()).add(_dimensions(op))
        return mlir.ir.WalkResult.ADVANCE

    module.operation.walk(note)
    out = {}
    for kernel, sizes in found.items():
        (size, *others) = sizes
        if not others and size is not None:
            out[kernel] = ",".join(str(n) for n in size)
    return out


def _dimensions(op: Any) -> tuple[int, ...] | None:
    """Return the cluster's size, zeros where there is none, None where it is not a constant."""
    sizes = list(op.attributes["operandSegmentSizes"])
    if not sizes[_FIRST]:
        return (0,) * _COUNT
    start = sum(sizes[:_FIRST])
    values = [constant_of(op.operands[start + k]) for k in range(_COUNT)]
    if any(value is None for value in values):
        return None
    known = tuple(int(value) for value in values if value is not None)
    return (0,) * _COUNT if known == (1,) * _COUNT else known
