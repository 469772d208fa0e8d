"""From sums to stored results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.windows import load_elements, store_elements, wide, window
from flydsl_kernels.gemm.plan import EpiloguePlan
from flydsl_rocdl.kernels.epilogue import activated, quantised

__all__ = ["Extras", "Finish", "corner", "corner_offset", "deliver", "finished"]


@fx.struct
class Extras(fx.Struct):
    """What goes into results besides the product; absent ones are any tensor.

    Attributes:
        bias: (batch, 1, N).
        residual: (batch, M, N).
        scale_a: f32, (batch, M or 1, blocks or 1).
        scale_b: f32, (batch, N or 1, blocks or 1), for blocks (batch, N / 128, blocks).
        scale_out: f32, (batch, M or 1, 1).
    """

    bias: fx.Tensor
    residual: fx.Tensor
    scale_a: fx.Tensor
    scale_b: fx.Tensor
    scale_out: fx.Tensor


@dataclass(frozen=True, slots=True)
class Finish:
    """How a workgroup finishes its results.

    Attributes:
        plan: The compile-time part.
        extras: Bias, residual and scales.
        layer: Matrix of the batch.
        row: First row of the workgroup's tile of C.
        column: Its first column.
        rows: Rows of C.
        columns: Columns of C.
    """

    plan: EpiloguePlan
    extras: Any
    layer: Any
    row: Any
    column: Any
    rows: Any
    columns: Any


def bytes_of(tensor: Any) -> int:
    """Return the bytes of an element of a tensor."""
    return max(1, int(tensor.dtype.width) // 8)


def corner(tensor: Any, layer: Any, finish: Finish) -> Any:
    """Return the window of a matrix of C's shape that begins at the workgroup's tile."""
    offset = wide(layer) * tensor.stride[0] + wide(finish.row) * tensor.stride[1]
    rows, columns = wide(finish.rows - finish.row), wide(finish.columns - finish.column)
    extent = (rows - 1) * tensor.stride[1] + columns
    size = bytes_of(tensor)
    return window(tensor.iter, (offset + wide(finish.column)) * size, extent * size)


def corner_offset(tensor: Any, row: Any, column: Any) -> Any:
    """Return the byte offset of a place in that window, of row and column within the tile."""
    return (row * fx.Int32(tensor.stride[1]) + column) * bytes_of(tensor)


def _along(tensor: Any, first: Any, count: Any, finish: Finish) -> Any:
    """Return the window of a vector of one layer, (batch, count, 1), that begins at `first`."""
    offset = wide(finish.layer) * tensor.stride[0] + wide(first) * tensor.stride[1]
    extent = (wide(count - first) - 1) * tensor.stride[1] + 1
    return window(tensor.iter, offset * bytes_of(tensor), extent * bytes_of(tensor))


def _columns(tensor: Any, column: Any, finish: Finish) -> Any:
    """Load a vector's elements at columns of the tile, as f32; zeros past the last one."""
    source = _along(tensor, finish.column, finish.columns, finish)
    place = column * bytes_of(tensor)
    return load_elements(source, place, tensor.dtype, finish.plan.vector).to(fx.Float32)


def _factor(kind: str, tensor: Any, row: Any, finish: Finish) -> Any:
    """Return a scale that is one number for a row of the tile."""
    if kind == "tensor":
        return (tensor.iter + wide(finish.layer) * tensor.stride[0]).load()
    source = _along(tensor, finish.row, finish.rows, finish)
    return (source + row * (fx.Int32(tensor.stride[1]) * 4)).load(tensor.dtype)


def finished(value: Any, row: Any, column: Any, finish: Finish, kind: Any) -> Any:
    """Return results in the output's type.

    Args:
        value: Sums of consecutive columns, f32 or i32.
        row: Their row within the tile.
        column: The first of their columns within the tile.
        finish: What to do.
        kind: Element class of the output.
    """
    plan, extras = finish.plan, finish.extras
    if kind is fx.Int32:
        return value
    out = value.to(fx.Float32)
    if plan.scale_a in ("tensor", "row"):
        out = out * _factor(plan.scale_a, extras.scale_a, row, finish)
    if plan.scale_b == "tensor":
        out = out * _factor("tensor", extras.scale_b, row, finish)
    if plan.scale_b == "row":
        out = out * _columns(extras.scale_b, column, finish)
    if plan.bias:
        out = out + _columns(extras.bias, column, finish)
    out = act(plan.activation, out)
    if plan.residual:
        source = corner(extras.residual, finish.layer, finish)
        place = corner_offset(extras.residual, row, column)
        added = load_elements(source, place, extras.residual.dtype, plan.vector)
        out = out + added.to(fx.Float32)
    if plan.scale_out:
        out = out * (1.0 / _factor(plan.scale_out, extras.scale_out, row, finish))
    return quantised(out, kind) if kind.width == 8 else out.to(kind)


def act(name: str, value: Any) -> Any:
    """Apply an activation to a vector of f32."""
    if name == "gelu_erf":
        return 0.5 * value * (fx.math.erf(value * math.sqrt(0.5)) + 1.0)
    return activated(value, name or "none")


def deliver(value: Any, row: Any, column: Any, finish: Finish, target: Any) -> None:
    """Finish sums of consecutive columns and store those that are in C.

    Args:
        value: The sums.
        row: Their row within the tile.
        column: The first of their columns within the tile.
        finish: What to do.
        target: C, and the window of it that begins at the tile.
    """
    tensor, place = target
    width = finish.plan.vector
    for at in range(0, value.numel, width):
        part = value.shuffle(value, range(at, at + width)) if width < value.numel else value
        here = column + at
        result = finished(part, row, here, finish, tensor.dtype)
        inside = (here < finish.columns - finish.column) & (row < finish.rows - finish.row)
        store_elements(place, corner_offset(tensor, row, here), result, inside)
