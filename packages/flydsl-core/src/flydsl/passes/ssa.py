"""SSA leaves: the layout algebra on run-time values, emitted as few arith operations as possible.

A leaf computed by the algebra is a node; its operations are emitted only when its value is asked
for, before the operation that was being lowered when the node was made (so the value dominates
whatever that operation's result reaches). Equal nodes in one scope are one node.

Divisions become shifts and masks for powers of two, and unsigned divisions where both operands are
known not to be negative: thread and block ids, extents, sums and products of such, remainders.
"""

from __future__ import annotations

from typing import Any

from flydsl import mlir
from flydsl.dialects.building import parsed
from flydsl.errors import CompilerBug
from flydsl.layout.leaf import DynamicLeaf, Leaf, LeafOp, widen

__all__ = ["Emitter", "SsaLeaf", "known_nonnegative"]

_NONNEGATIVE_SOURCES = frozenset(
    f"gpu.{name}"
    for name in (
        "thread_id",
        "block_id",
        "block_dim",
        "grid_dim",
        "global_id",
        "lane_id",
        "subgroup_id",
        "num_subgroups",
        "subgroup_size",
        "cluster_id",
        "cluster_block_id",
    )
)
_PRESERVING = frozenset(
    f"arith.{name}"
    for name in (
        "addi",
        "muli",
        "index_cast",
        "extsi",
        "divui",
        "divsi",
        "minsi",
        "remsi",
        "select",
    )
)
_ALWAYS = frozenset(f"arith.{name}" for name in ("extui", "index_castui"))


def known_nonnegative(value: mlir.ir.Value, depth: int = 6) -> bool:
    """Return whether an integer value is known not to be negative, assuming no overflow."""
    owner = value.owner
    if isinstance(owner, mlir.ir.Block):
        parent = owner.owner
        if parent.name != "scf.for" or mlir.ir.BlockArgument(value).arg_number != 0:
            return False
        return known_nonnegative(parent.operands[0], depth - 1)
    name = owner.name
    if name in _NONNEGATIVE_SOURCES or name in _ALWAYS:
        return True
    if name == "arith.constant":
        attr = owner.attributes["value"]
        return isinstance(attr, mlir.ir.IntegerAttr) and attr.value >= 0
    if depth == 0:
        return False
    if name in _PRESERVING:
        operands = list(owner.operands)[1 if name == "arith.select" else 0 :]
        return all(known_nonnegative(x, depth - 1) for x in operands)
    if name in ("arith.andi", "arith.maxsi", "arith.remui"):
        return any(known_nonnegative(x, depth - 1) for x in owner.operands)
    if name in ("arith.shrui", "arith.shrsi"):
        return known_nonnegative(owner.operands[0], depth - 1)
    return False


class SsaLeaf(DynamicLeaf):
    """A run-time integer: an SSA value, or a node that becomes one when asked for."""

    __slots__ = ("_value", "emitter", "node", "nonnegative")

    def __init__(
        self,
        emitter: Emitter,
        width: int,
        divisor: int,
        value: mlir.ir.Value | None = None,
        *,
        node: tuple[Any, ...] = (),
        nonnegative: bool = False,
    ) -> None:
        # The base class validates widths and divisors, which are computed here: skip it.
        self.width = width
        self.divisor = divisor
        self.emitter = emitter
        self._value = value
        self.node = node
        self.nonnegative = nonnegative

    def emit(self, op: LeafOp, a: Leaf, b: Leaf, width: int, divisor: int) -> SsaLeaf:
        """See `DynamicLeaf.emit`."""
        return self.emitter.node(op, a, b, width, divisor)

    def extend(self) -> SsaLeaf:
        """See `DynamicLeaf.extend`."""
        return self.emitter.node("extend", self, 0, 64, self.divisor)

    @property
    def value(self) -> mlir.ir.Value:
        """The SSA value; emits the operations that compute it if that has not happened."""
        if self._value is None:
            self._value = self.emitter.emit(self)
        return self._value


def _nonnegative(op: str, a: Leaf, b: Leaf) -> bool:
    left = a >= 0 if isinstance(a, int) else bool(getattr(a, "nonnegative", False))
    right = b >= 0 if isinstance(b, int) else bool(getattr(b, "nonnegative", False))
    if op in ("add", "mul", "floordiv", "ceildiv", "min", "or", "xor"):
        return left and right
    if op in ("and", "max"):
        return left or right
    if op == "mod":
        return right
    return left if op in ("shl", "shr", "extend") else False


class Emitter:
    """Makes leaves for one function and emits their operations.

    Attributes:
        anchor: The operation being lowered; nodes made now are emitted before it.
    """

    def __init__(self, entry: mlir.ir.Block) -> None:
        self._entry = entry
        self.anchor: Any = None
        self._scopes: list[dict[tuple[Any, ...], Any]] = [{}]
        self._constants: dict[tuple[int, int], mlir.ir.Value] = {}
        self._types = {w: mlir.ir.IntegerType.get_signless(w) for w in (1, 32, 64)}
        self._nsw = parsed("#arith.overflow<nsw>")
        self._nonneg = mlir.ir.UnitAttr.get()
        self._start: Any = None
        self._unknown: Any = mlir.ir.Location.unknown()
        wide = self._types[64]
        self._predicates = {code: mlir.ir.IntegerAttr.get(wide, code) for code in _COMPARE.values()}

    def push(self) -> None:
        """Enter a nested region: nodes made from now on are not seen outside."""
        self._scopes.append({})

    def pop(self) -> None:
        """Leave a nested region."""
        self._scopes.pop()

    def lookup(self, key: tuple[Any, ...]) -> Any:
        """Return what an enclosing scope has stored under `key`, or None."""
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

    def store(self, key: tuple[Any, ...], value: Any) -> None:
        """Store `value` for the current scope."""
        self._scopes[-1][key] = value

    def leaf(
        self, value: mlir.ir.Value, width: int, divisor: int = 1, *, nonnegative: bool = False
    ) -> SsaLeaf:
        """Return the leaf of an SSA value of i32 or i64."""
        key = ("leaf", value, divisor)
        found: SsaLeaf | None = self.lookup(key)
        if found is None or (nonnegative and not found.nonnegative):
            known = nonnegative or known_nonnegative(value)
            found = SsaLeaf(self, width, divisor, value, nonnegative=known)
            self.store(key, found)
        return found

    def node(self, op: str, a: Leaf, b: Leaf, width: int, divisor: int) -> SsaLeaf:
        """Return the leaf of ``a op b`` without emitting anything.

        Nodes that its emission will need are made here as well: a node found by `lookup` is older,
        so it is emitted before this one's anchor, which would not hold at the time of emission.
        """
        if width == 64 and op != "extend":
            a, b = widen(a), widen(b)
        left = a if isinstance(a, int) else id(a)
        right = b if isinstance(b, int) else id(b)
        key = (op, left, right, isinstance(a, int), isinstance(b, int), width)
        found: SsaLeaf | None = self.lookup(key)
        if found is None:
            bits = 1 if op in _COMPARE else width
            known = _nonnegative(op, a, b)
            quotient = None
            if op == "mod" and not _is_power_of_two(b) and not _nonnegative("add", a, b):
                quotient = self.node("floordiv", a, b, width, 1)
            node = (op, a, b, width, quotient, self.anchor)
            found = SsaLeaf(self, bits, divisor, node=node, nonnegative=known)
            self.store(key, found)
        return found

    def constant(self, value: int, width: int) -> mlir.ir.Value:
        """Return an integer constant at the start of the function."""
        key = (value, width)
        found = self._constants.get(key)
        if found is None:
            if self._start is None:
                self._start = mlir.ir.InsertionPoint.at_block_begin(self._entry)
            type_ = self._types[width]
            op = mlir.ir.Operation.create(
                "arith.constant",
                results=[type_],
                attributes={"value": mlir.ir.IntegerAttr.get(type_, value)},
                ip=self._start,
                loc=self._unknown,
            )
            found = self._constants[key] = op.result
        return found

    def value_of(self, x: Leaf, width: int) -> mlir.ir.Value:
        """Return the SSA value of a leaf in the given width.

        Raises:
            CompilerBug: The leaf is symbolic, or wider.
        """
        if isinstance(x, int):
            return self.constant(x, width)
        if not isinstance(x, SsaLeaf):
            raise CompilerBug("a symbolic leaf reached the lowering", code="FLY-B320")
        if x.width == width:
            return x.value
        if x.width == 32 and width == 64:
            return x.extend().value
        raise CompilerBug(f"an i{x.width} value is used as i{width}", code="FLY-B320")

    def _op(
        self, name: str, width: int, operands: list[mlir.ir.Value], anchor: Any, **attrs: Any
    ) -> mlir.ir.Value:
        op = mlir.ir.Operation.create(
            "arith." + name,
            results=[self._types[width]],
            operands=operands,
            attributes=attrs or None,
            ip=mlir.ir.InsertionPoint(anchor),
            loc=anchor.location,
        )
        return op.result

    def emit(self, leaf: SsaLeaf) -> mlir.ir.Value:
        """Emit the operations of a node before its anchor and return the value."""
        op, a, b, width, quotient, anchor = leaf.node
        if op == "extend":
            if a.nonnegative:
                return self._op("extui", 64, [a.value], anchor, nonNeg=self._nonneg)
            return self._op("extsi", 64, [a.value], anchor)
        x = self.value_of(int(a) if isinstance(a, int) else a, width)
        if op in ("floordiv", "mod", "ceildiv"):
            return self._divide(op, x, b, quotient, leaf)
        y = self.value_of(int(b) if isinstance(b, int) else b, width)
        if op in _COMPARE:
            return self._op("cmpi", 1, [x, y], anchor, predicate=self._predicates[_COMPARE[op]])
        if op in ("add", "sub", "mul"):
            return self._op(op + "i", width, [x, y], anchor, overflowFlags=self._nsw)
        if op == "shr":
            return self._op("shrui" if leaf.nonnegative else "shrsi", width, [x, y], anchor)
        return self._op(_BITS[op], width, [x, y], anchor)

    def _divide(
        self, op: str, x: mlir.ir.Value, b: Leaf, quotient: SsaLeaf | None, leaf: SsaLeaf
    ) -> mlir.ir.Value:
        width, anchor = leaf.node[3], leaf.node[-1]
        positive = _nonnegative("add", leaf.node[1], b)
        if isinstance(b, int) and _is_power_of_two(b):
            low = self.constant(b - 1, width)
            if op == "mod":
                return self._op("andi", width, [x, low], anchor)
            if op == "ceildiv" and not positive:
                return self._op("ceildivsi", width, [x, self.constant(b, width)], anchor)
            if op == "ceildiv":
                # Unsigned: the sum of two non-negative numbers has room in the top bit.
                x = self._op("addi", width, [x, low], anchor)
            shift = self.constant(b.bit_length() - 1, width)
            return self._op("shrui" if positive else "shrsi", width, [x, shift], anchor)
        y = self.value_of(b, width)
        if op == "ceildiv" and positive:
            less = self._op("subi", width, [y, self.constant(1, width)], anchor)
            x = self._op("addi", width, [x, less], anchor)
            return self._op("divui", width, [x, y], anchor)
        if op == "ceildiv":
            return self._op("ceildivsi", width, [x, y], anchor)
        if quotient is not None:
            product = self._op("muli", width, [quotient.value, y], anchor)
            return self._op("subi", width, [x, product], anchor)
        if op == "mod":
            return self._op("remui", width, [x, y], anchor)
        return self._op("divui" if positive else "floordivsi", width, [x, y], anchor)


def _is_power_of_two(x: Leaf) -> bool:
    return isinstance(x, int) and x > 0 and x & (x - 1) == 0


_COMPARE = {"eq": 0, "ne": 1, "lt": 2, "le": 3}
_BITS = {"and": "andi", "or": "ori", "xor": "xori", "shl": "shli", "min": "minsi", "max": "maxsi"}
