"""Scales that change along k: per row of A and per 128 x 128 of B, for 128 columns of A each."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.epilogue import Finish
from flydsl_kernels.gemm.device.windows import load_elements, wide, window
from flydsl_kernels.gemm.plan import GemmPlan

__all__ = ["factors", "scaled"]


def _loaded(tensor: Any, layer: Any, first: Any, row: Any, block: Any) -> Any:
    """Load the scale of row `first` + `row` and a block along k; zero past the last row."""
    offset = wide(layer) * tensor.stride[0] + wide(first) * tensor.stride[1]
    extent = wide(fx.Int32(tensor.shape[1]) - first) * tensor.stride[1]
    source = window(tensor.iter, offset * 4, extent * 4)
    place = (row * fx.Int32(tensor.stride[1]) + block) * 4
    return load_elements(source, place, fx.Float32, 1)[0]


def factors(plan: GemmPlan, finish: Finish, m: Any, n: Any, k: Any) -> tuple[list[Any], list[Any]]:
    """Return the scales of a wave's tiles along M, a lane's own, and along N, for column `k` of A.

    Args:
        plan: The plan.
        finish: The workgroup's place, and the scales.
        m: The lane's first row within the workgroup's tile.
        n: The wave's first column within the workgroup's tile.
        k: Column of A.
    """
    block = k // plan.block
    extras, layer = finish.extras, finish.layer
    rows = [
        _loaded(extras.scale_a, layer, finish.row, m + i * 16, block) for i in range(plan.tiles_m)
    ]
    found: dict[int, Any] = {}
    columns = []
    for j in range(plan.tiles_n):
        # The rules see to it that a wave begins a block, or is within one.
        at = j * 16 // plan.block
        if at not in found:
            number = (finish.column + n) // plan.block + at
            found[at] = _loaded(extras.scale_b, layer, fx.Int32(0), number, block)
        columns.append(found[at])
    return rows, columns


def scaled(acc: Any, part: Any, rows: list[Any], columns: list[Any]) -> Any:
    """Return sums plus a tile's sums times the scales."""
    return [
        [
            total + new.to(fx.Float32) * (row * column)
            for total, new, column in zip(totals, news, columns, strict=True)
        ]
        for totals, news, row in zip(acc, part, rows, strict=True)
    ]
