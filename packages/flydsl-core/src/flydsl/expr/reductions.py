"""Combining the elements of a vector."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserValueError
from flydsl.expr.enums import ReductionOp
from flydsl.expr.extremes import extreme
from flydsl.expr.fast import flags
from flydsl.expr.lanes import Lanes, element
from flydsl.expr.numeric import as_numeric

__all__ = ["reduce"]


def reduce(a: Lanes, op: ReductionOp | str, init_val: Any, fastmath: Any) -> Any:
    """Combine all elements with ``add``, ``mul``, ``max`` or ``min``, in a balanced tree.

    Raises:
        UserValueError: No such reduction.
    """
    name = getattr(op, "value", op)
    if isinstance(name, str):
        name = name.lower().removesuffix("f").removesuffix("i")
    if name not in ("add", "mul", "max", "min"):
        raise UserValueError(
            "no such reduction", code="FLY-U246", value=op, allowed="add, mul, max, min"
        )
    with flags(fastmath):
        items: list[Any] = [element(a, index) for index in range(a.numel)]
        if init_val is not None:
            items.insert(0, as_numeric(init_val))
        while len(items) > 1:
            pairs = [_combine(name, items[i], items[i + 1]) for i in range(0, len(items) - 1, 2)]
            items = pairs + ([items[-1]] if len(items) % 2 else [])
    return items[0]


def _combine(name: str, a: Any, b: Any) -> Any:
    if name == "add":
        return a + b
    return a * b if name == "mul" else extreme(name, a, b)
