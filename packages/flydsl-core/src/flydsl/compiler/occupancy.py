"""How many workgroups of a compiled launcher a compute unit holds at once."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from flydsl.errors import TargetError, UserValueError
from flydsl.passes.rewriting import functions
from flydsl.runtime import OccupancyModule, present_device

if TYPE_CHECKING:
    from flydsl.compiler.artifact import Artifact
    from flydsl.runtime import Placement

__all__ = ["launch_sizes", "max_blocks"]

_CASTS = frozenset({"arith.index_cast", "arith.extsi", "arith.extui", "arith.trunci"})
_BLOCK, _SHARED = slice(4, 7), 10
"""Groups of the operands of ``gpu.launch_func``: a group for each axis of a block."""


def launch_sizes(module: Any) -> tuple[tuple[str, int | None, int | None], ...]:
    """Return kernel, threads of a block and dynamic shared bytes of every launch of a module.

    None stands for a number that is computed at run time.
    """
    from flydsl.mlir import ir

    found: list[tuple[str, int | None, int | None]] = []

    def note(op: Any) -> Any:
        if op.name == "gpu.launch_func":
            operands = iter(op.operands)
            sizes = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
            groups = [[_known(next(operands)) for _ in range(size)] for size in list(sizes)]
            block = [value for group in groups[_BLOCK] for value in group]
            threads = None if None in block else prod(value or 0 for value in block)
            shared = groups[_SHARED][0] if groups[_SHARED] else 0
            name = str(op.attributes["kernel"]).rpartition("@")[2].strip('"')
            found.append((name, threads, shared))
        return ir.WalkResult.ADVANCE

    with module.context:
        for function in list(functions(module)):
            if function.name == "func.func":
                function.walk(note)
    return tuple(found)


def _known(value: Any) -> int | None:
    """Return the integer that a value always is, or None."""
    from flydsl.mlir import ir

    op = getattr(value.owner, "operation", None)
    while op is not None and op.name in _CASTS:
        op = getattr(op.operands[0].owner, "operation", None)
    if op is None or op.name != "arith.constant":
        return None
    held = op.attributes["value"]
    return int(held.value) if isinstance(held, ir.IntegerAttr) else None


def max_blocks(artifact: Artifact, placement: Placement | None) -> int:
    """Return how many workgroups of the one kernel that a launcher launches a compute unit holds.

    Args:
        artifact: What was compiled.
        placement: Where it is launched; None or an emulator: the first device that could.

    Raises:
        UserValueError: There is not exactly one launch, or its size is not known before it.
        TargetError: There is no device to ask, or its driver refuses.
    """
    allowed = "one launch, with a block and shared memory that are known when it is compiled"
    if len(artifact.launches) != 1:
        raise UserValueError(
            f"{artifact.launcher} does not make exactly one kernel launch",
            code="FLY-U425",
            value=[name for name, _, _ in artifact.launches],
            allowed=allowed,
        )
    name, threads, shared = artifact.launches[0]
    if threads is None or shared is None:
        raise UserValueError(
            f"the {'block' if threads is None else 'shared memory'} of {name} is computed at run "
            "time",
            code="FLY-U425",
            allowed=allowed,
            hint="make what it depends on an fx.Constexpr parameter",
        )
    if placement is None or placement.info.emulated:
        placement = present_device(artifact.code)
    if placement is None:
        raise TargetError(
            "there is no device to ask how many workgroups it holds",
            code="FLY-T453",
            value=str(artifact.code.target),
            hint="`kernels` says how many waves registers and static shared memory allow",
        )
    module = placement.runtime.load(artifact.code, placement.device)
    try:
        if not isinstance(module, OccupancyModule):
            raise TargetError(
                f"the runtime {placement.info.name!r} does not tell how many workgroups fit",
                code="FLY-T453",
            )
        return module.active_blocks(name, threads, shared)
    finally:
        module.unload()
