"""What the passes share: finding functions, walking regions, rebuilding operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flydsl import mlir
from flydsl.dialects import fly_types as ft

__all__ = [
    "device_functions",
    "functions",
    "gpu_modules",
    "needs_leaves",
    "rebuild",
    "replace",
    "symbol",
]


def gpu_modules(module: mlir.ir.Module) -> Iterator[Any]:
    """Yield the gpu.module operations."""
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            yield op.operation


def device_functions(module: mlir.ir.Module) -> Iterator[Any]:
    """Yield the gpu.func operations."""
    for gpu_module in gpu_modules(module):
        for op in gpu_module.regions[0].blocks[0].operations:
            if op.operation.name in ("gpu.func", "func.func"):
                yield op.operation


def functions(module: mlir.ir.Module) -> Iterator[Any]:
    """Yield every function with a body: kernels, then host functions."""
    for op in device_functions(module):
        if len(op.regions[0].blocks):
            yield op
    for op in module.body.operations:
        if op.operation.name == "func.func" and len(op.regions[0].blocks):
            yield op.operation


def symbol(op: Any) -> str:
    """Return the symbol name of an operation."""
    return str(mlir.ir.StringAttr(op.attributes["sym_name"]).value)


def needs_leaves(type_: mlir.ir.Type) -> ft.FlyType | None:
    """Return the wrapper of a Fly type that cannot cross a boundary; None for other types."""
    kind = ft.of(type_)
    return None if kind is None or isinstance(kind, ft.PtrType) else kind


def replace(old: Sequence[mlir.ir.Value], new: Sequence[mlir.ir.Value]) -> None:
    """Replace all uses of each old value by the new one of the same position."""
    for before, after in zip(old, new, strict=True):
        before.replace_all_uses_with(after)


def rebuild(
    op: Any, results: Sequence[mlir.ir.Type], operands: Sequence[mlir.ir.Value], **attributes: Any
) -> Any:
    """Create a copy of `op` before it with other results and operands; its blocks move there.

    `op` itself stays, without blocks; the caller replaces its results and erases it.

    Args:
        op: The operation to rebuild.
        results: Result types of the new one.
        operands: Operands of the new one.
        **attributes: Attributes to set instead of the old ones.
    """
    kept = {attr: op.attributes[attr] for attr in op.attributes}
    kept.update(attributes)
    new = mlir.ir.Operation.create(
        op.name,
        results=list(results),
        operands=list(operands),
        attributes=kept,
        regions=len(op.regions),
        ip=mlir.ir.InsertionPoint(op),
        loc=op.location,
    )
    for old_region, new_region in zip(op.regions, new.regions, strict=True):
        for block in list(old_region.blocks):
            block.append_to(new_region)
    return new
