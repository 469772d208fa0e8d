"""Layouts evaluated by their definition alone, and run-time leaves whose value a test knows.

Nothing here uses the layout algebra's algorithms, so it can serve as their oracle.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from flydsl.layout import DynamicLeaf, Layout, map_leaves
from flydsl.layout.leaf import Leaf, LeafOp

__all__ = ["KnownLeaf", "coordinates", "flat", "known", "layout_value", "layout_values", "revealed"]

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "ceildiv": lambda x, y: -(-x // y),
    "mod": operator.mod,
    "min": min,
    "max": max,
    "xor": operator.xor,
    "and": operator.and_,
    "or": operator.or_,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}
_COMPARISONS = ("lt", "le", "eq", "ne")


class KnownLeaf(DynamicLeaf):
    """A run-time leaf that carries its value; it checks each claim about the divisor and width.

    Attributes:
        value: What the leaf is at run time.
    """

    __slots__ = ("value",)

    def __init__(self, value: int, divisor: int = 1, width: int = 32) -> None:
        super().__init__(width, divisor)
        if value % divisor:
            raise AssertionError(f"{value} is not a multiple of its known divisor {divisor}")
        if width > 1 and not -(1 << (width - 1)) <= value < 1 << (width - 1):
            raise AssertionError(f"{value} does not fit its {width} bits")
        self.value = value

    def emit(self, op: LeafOp, a: Leaf, b: Leaf, width: int, divisor: int) -> KnownLeaf:
        """Return the result of the operation, carrying its value."""
        result = int(_OPERATIONS[op](known(a), known(b)))
        return KnownLeaf(result, divisor, 1 if op in _COMPARISONS else width)

    def extend(self) -> KnownLeaf:
        """Return the same value in 64 bits."""
        if self.width != 32:
            raise AssertionError(f"a leaf of {self.width} bits is extended")
        return KnownLeaf(self.value, self.divisor, 64)


def known(leaf: Leaf) -> int:
    """Return the value of an int or `KnownLeaf`."""
    if isinstance(leaf, KnownLeaf):
        return leaf.value
    assert isinstance(leaf, int)
    return leaf


def revealed(x: Any) -> Any:
    """Return a layout object with its known leaves replaced by their values."""
    return map_leaves(known, x)


def flat(x: Any) -> list[int]:
    """Return the leaves of nested tuples in order."""
    return [leaf for e in x for leaf in flat(e)] if isinstance(x, tuple) else [x]


def layout_value(layout: Layout, index: int) -> int:
    """Return what a static layout maps a linear coordinate to, by splitting it mode by mode."""
    total = 0
    modes = list(zip(flat(layout.shape), flat(layout.stride), strict=True))
    for extent, stride in modes[:-1]:
        total += index % extent * stride
        index //= extent
    return total + index * modes[-1][1]


def layout_values(layout: Layout) -> list[int]:
    """Return what a static layout maps its linear coordinates to, in order."""
    return [layout_value(layout, i) for i in range(math.prod(flat(layout.shape)))]


def coordinates(shape: Any) -> Iterator[Any]:
    """Yield all coordinates of a static shape, nested like it, the first mode running fastest."""
    if not isinstance(shape, tuple):
        yield from range(shape)
        return
    for reverse in itertools.product(*(list(coordinates(s)) for s in reversed(shape))):
        yield tuple(reversed(reverse))
