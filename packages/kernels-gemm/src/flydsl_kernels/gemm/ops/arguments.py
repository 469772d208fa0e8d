"""Bias, residual and scales of a product in the form that kernels take."""

from __future__ import annotations

from typing import Any, Protocol

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.arrays import aligned, as_output, broadcast, stacked
from flydsl_kernels.gemm.problem import SCALE_BLOCK, Operand, Scaling, scaling_of

__all__ = ["Scales", "bias_of", "residual_of", "scales_of"]

__flydsl_internal__ = True  # errors are at the line of the caller


class Scales(Protocol):
    """What has scales: the optional arguments of a product."""

    @property
    def scale_a(self) -> Any:
        """Scales of A, or None."""

    @property
    def scale_b(self) -> Any:
        """Scales of B, or None."""

    @property
    def scale_out(self) -> Any:
        """Divisors of the result, or None."""


def residual_of(
    array: Any, like: Any, shape: tuple[int, int, int], c: Operand
) -> tuple[Any, Operand]:
    """Return the residual as a stack, and how wide accesses to it and to C may be."""
    arrays.check_same_library(array, like, "residual")
    arrays.check_dtype(array, ("float32", "bfloat16", "float16"), "residual")
    if tuple(array.shape[-2:]) != shape[1:]:
        arrays.check_shape(array, shape[1:], "residual")
    plain = broadcast(array, (*array.shape[:-2], *shape[1:]))
    strides = arrays.strides(plain)
    if shape[2] > 1 and strides[-1] != 1:
        plain = arrays.contiguous(plain)
    batch = 1
    for extent in plain.shape[:-2]:
        batch *= int(extent)
    if batch not in (1, shape[0]):
        arrays.check_shape(array, shape, "residual")
    stack, where = as_output(plain, (batch, *shape[1:]), "residual")
    step = where.leading * stack.itemsize
    least = min(c.alignment, where.alignment, step & -step if step else 16)
    return stacked(stack, shape[0]), Operand(c.k_major, c.leading, least)


def bias_of(array: Any, like: Any, batch: int, columns: int) -> Any:
    """Return the bias as (batch, N, 1)."""
    arrays.check_same_library(array, like, "bias")
    arrays.check_dtype(array, ("float32", "bfloat16", "float16"), "bias")
    if array.ndim == 2:
        arrays.check_shape(array, (batch, columns), "bias")
    else:
        arrays.check_shape(array, (columns,), "bias")
    # With no columns, -1 would not say how many rows there are.
    found = aligned(array).reshape(batch if array.ndim == 2 else 1, columns, 1)
    return broadcast(found, (batch, columns, 1))


def scales_of(
    like: Any, request: Scales, extents: tuple[int, int, int, int]
) -> tuple[Scaling, tuple[Any, Any, Any]]:
    """Return which scales there are, and each as (batch, rows or 1, blocks or 1)."""
    if request.scale_a is None and request.scale_b is None and request.scale_out is None:
        return scaling_of(), (None, None, None)
    batch, m, n, k = extents
    blocks = k // SCALE_BLOCK
    grid = (-(-n // SCALE_BLOCK), blocks)
    last = () if request.scale_b is None else tuple(request.scale_b.shape[-2:])
    blocked = k > 0 and last == grid and grid != (n, 1)
    kinds, found = [], []
    for name, array, rows, block in (
        ("scale_a", request.scale_a, m, (m, blocks)),
        ("scale_b", request.scale_b, n, grid),
        ("scale_out", request.scale_out, m, None),
    ):
        kind, scale = _scale(array, like, name, (batch, rows, block if blocked else None))
        kinds.append(kind)
        found.append(scale)
    return scaling_of(*kinds), (found[0], found[1], found[2])


def _scale(
    array: Any, like: Any, what: str, wanted: tuple[int, int, tuple[int, int] | None]
) -> tuple[str, Any]:
    """Return the kind of a scale, and the scale as (batch, rows or 1, blocks or 1)."""
    if array is None:
        return "", None
    batch, rows, block = wanted
    arrays.check_same_library(array, like, what)
    arrays.check_dtype(array, ("float32",), what)
    shape = tuple(int(extent) for extent in array.shape)
    plain = aligned(array)
    if shape in ((), (1,)):
        return "tensor", broadcast(plain.reshape(1, 1, 1), (batch, 1, 1))
    for lead in ((), (batch,)):
        count = batch if lead else 1
        if block is not None and shape == (*lead, *block):
            return "block", broadcast(plain.reshape(count, *block), (batch, *block))
        if block is None and shape in ((*lead, rows), (*lead, rows, 1)):
            return "row", broadcast(plain.reshape(count, rows, 1), (batch, rows, 1))
    allowed = f"(), (1,), ({rows},)" if block is None else str(block)
    raise UserValueError(
        f"{what} has a shape that no kind of scale has", code="FLY-U911", value=shape,
        allowed=allowed + ", also with the batch before it",
    )  # fmt: skip
