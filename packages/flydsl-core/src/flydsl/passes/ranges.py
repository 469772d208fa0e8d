"""What integers a value can be: bounds of SSA values and of operations on bounded operands.

Bounds are pairs of ints, lowest and highest. Address arithmetic is taken not to overflow, so sums
and products stay within the bounds of their width; whatever was computed modulo its width (masks,
unsigned shifts and remainders of possibly negative numbers) is bounded by the operation alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from flydsl import mlir

if TYPE_CHECKING:
    from flydsl.plugins.protocols import Target

__all__ = ["Bounds", "Ranges", "full", "of_operation"]

Bounds: TypeAlias = tuple[int, int]
"""Lowest and highest value."""

_DEPTH: Final = 32
_AXES: Final = {"x": 0, "y": 1, "z": 2}
_SAME: Final = frozenset({"arith.index_cast", "arith.extsi"})
_HIGHEST: Final = 2**31 - 1


def full(width: int) -> Bounds:
    """Return the bounds of a signed integer of `width` bits (of a truth value: 0 and 1)."""
    if width == 1:
        return 0, 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _clip(low: int, high: int, width: int) -> Bounds:
    least, most = full(width)
    low, high = max(low, least), min(high, most)
    return (low, high) if low <= high else (least, most)


def _corners(a: Bounds, b: Bounds, function: Callable[[int, int], int]) -> Bounds:
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def _bits(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of an or or exclusive or of numbers that are not negative."""
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def of_operation(op: str, a: Bounds, b: Bounds, width: int) -> Bounds:
    """Return the bounds of ``a op b``, an operation of `flydsl.layout.leaf`."""
    function = _OPERATIONS.get(op)
    if function is None:
        return full(1 if op in ("lt", "le", "eq", "ne") else width)
    found = function(a, b)
    return full(width) if found is None else _clip(*found, width)


def _floordiv(a: Bounds, b: Bounds) -> Bounds | None:
    return None if b[0] <= 0 <= b[1] else _corners(a, b, lambda x, y: x // y)


def _ceildiv(a: Bounds, b: Bounds) -> Bounds | None:
    return None if b[0] <= 0 <= b[1] else _corners(a, b, lambda x, y: -(-x // y))


def _mod(a: Bounds, b: Bounds) -> Bounds | None:
    if b[0] <= 0:
        return None
    return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1


def _and(a: Bounds, b: Bounds) -> Bounds | None:
    bounded = [x[1] for x in (a, b) if x[0] >= 0]
    return (0, min(bounded)) if bounded else None


def _or(a: Bounds, b: Bounds) -> Bounds | None:
    return _bits(a, b) if a[0] >= 0 and b[0] >= 0 else None


def _shl(a: Bounds, b: Bounds) -> Bounds | None:
    return (a[0] << b[0], a[1] << b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None


def _shr(a: Bounds, b: Bounds) -> Bounds | None:
    return (a[0] >> b[0], a[1] >> b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None


_OPERATIONS: Mapping[str, Callable[[Bounds, Bounds], Bounds | None]] = MappingProxyType(
    {
        "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
        "mul": lambda a, b: _corners(a, b, lambda x, y: x * y),
        "floordiv": _floordiv,
        "ceildiv": _ceildiv,
        "mod": _mod,
        "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
        "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
        "and": _and,
        "or": _or,
        "xor": _or,
        "shl": _shl,
        "shr": _shr,
        "extend": lambda a, _: a,
    }
)
_ARITH: Mapping[str, str] = MappingProxyType(
    {
        "arith.addi": "add",
        "arith.subi": "sub",
        "arith.muli": "mul",
        "arith.minsi": "min",
        "arith.maxsi": "max",
        "arith.andi": "and",
        "arith.ori": "or",
        "arith.xori": "xor",
        "arith.shli": "shl",
        "arith.shrsi": "shr",
        "arith.floordivsi": "floordiv",
        "arith.ceildivsi": "ceildiv",
    }
)
_UNSIGNED: Mapping[str, str] = MappingProxyType(
    {"arith.divui": "floordiv", "arith.remui": "mod", "arith.shrui": "shr"}
)


def _signed(bounds: Bounds, width: int) -> Bounds | None:
    """Return the bounds of an unsigned result read as signed; None if the top bit may be set."""
    return bounds if bounds[1] <= full(width)[1] else None


def _width(type_: Any) -> int:
    text = str(type_)
    return int(text[1:]) if text[0] == "i" and text[1:].isdigit() else 64


class Ranges:
    """Bounds of the SSA values of one function.

    Args:
        function: The function; its ``known_block_size`` bounds thread indices.
        target: What is compiled for, which bounds indices too; or None.
    """

    def __init__(self, function: Any, target: Target | None) -> None:
        self._known: dict[Any, Bounds] = {}
        self._block: list[int] | None = None
        if function is not None and "known_block_size" in function.attributes:
            self._block = list(mlir.ir.DenseI32ArrayAttr(function.attributes["known_block_size"]))
        self._threads = getattr(target, "max_threads_per_block", None) or _HIGHEST
        self._warp = getattr(target, "warp_size", None) or self._threads
        self._grid = getattr(target, "max_grid", None) or (_HIGHEST,) * 3

    def of(self, value: mlir.ir.Value, depth: int = _DEPTH) -> Bounds:
        """Return the bounds of an integer or index value."""
        found = self._known.get(value)
        if found is None:
            width = _width(value.type)
            bounds = self._bounds(value, width, depth) if depth else None
            found = full(width) if bounds is None else _clip(*bounds, width)
            self._known[value] = found
        return found

    def _bounds(self, value: mlir.ir.Value, width: int, depth: int) -> Bounds | None:
        owner = value.owner
        if isinstance(owner, mlir.ir.Block):
            return self._argument(value, owner, depth)
        name = owner.name
        if name == "arith.constant":
            attribute = owner.attributes["value"]
            if not isinstance(attribute, mlir.ir.IntegerAttr):
                return None
            return (int(attribute.value),) * 2
        if name.startswith("gpu."):
            return self._index(owner, name)
        if name in _SAME:
            return self.of(owner.operands[0], depth - 1)
        if name in ("arith.extui", "arith.index_castui"):
            return _signed(self._unsigned(owner.operands[0], depth), width)
        if name == "arith.select":
            left, right = (self.of(x, depth - 1) for x in list(owner.operands)[1:])
            return min(left[0], right[0]), max(left[1], right[1])
        if name in _ARITH:
            a, b = (self.of(x, depth - 1) for x in owner.operands)
            return of_operation(_ARITH[name], a, b, width)
        if name in _UNSIGNED:
            a, b = (self._unsigned(x, depth) for x in owner.operands)
            return _signed(of_operation(_UNSIGNED[name], a, b, width + 1), width)
        if name in ("arith.divsi", "arith.remsi"):
            return self._truncating(owner, name, depth)
        return None

    def _unsigned(self, value: mlir.ir.Value, depth: int) -> Bounds:
        """Return the bounds of a value read as an unsigned number."""
        low, high = self.of(value, depth - 1)
        return (low, high) if low >= 0 else (0, (1 << _width(value.type)) - 1)

    def _truncating(self, owner: Any, name: str, depth: int) -> Bounds | None:
        a, b = (self.of(x, depth - 1) for x in owner.operands)
        if a[0] < 0 or b[0] <= 0:
            return None
        return of_operation("floordiv" if name == "arith.divsi" else "mod", a, b, 64)

    def _argument(self, value: mlir.ir.Value, block: Any, depth: int) -> Bounds | None:
        """Return the bounds of a loop's index; other block arguments can be anything."""
        parent = block.owner
        if parent.name != "scf.for" or mlir.ir.BlockArgument(value).arg_number != 0:
            return None
        first, last, step = (self.of(x, depth - 1) for x in list(parent.operands)[:3])
        # The body runs only while the index is below the upper bound.
        return (first[0], max(last[1] - 1, first[0])) if step[0] > 0 else None

    def _index(self, owner: Any, name: str) -> Bounds | None:
        if name in ("gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim"):
            text = str(owner.attributes["dimension"])
            axis = _AXES.get(text[text.rindex(" ") + 1 : -1], 0)
            if name == "gpu.block_id":
                return 0, self._grid[axis] - 1
            if name == "gpu.grid_dim":
                return 0, self._grid[axis]
            size = self._threads if self._block is None else self._block[axis]
            if name == "gpu.thread_id":
                return 0, size - 1
            return (1 if self._block is None else size), size
        if name == "gpu.lane_id":
            return 0, self._warp - 1
        if name in ("gpu.subgroup_id", "gpu.num_subgroups", "gpu.subgroup_size"):
            return 0, self._threads
        if name in ("gpu.global_id", "gpu.cluster_id", "gpu.cluster_block_id", "gpu.cluster_dim"):
            return 0, _HIGHEST
        return None
