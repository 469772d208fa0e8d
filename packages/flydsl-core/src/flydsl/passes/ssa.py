"""SSA leaves: the layout algebra on run-time values, emitted as few arith operations as possible.

A leaf computed by the algebra is a node; its operations are emitted only when its value is asked
for, before the operation that was being lowered when the node was made (so the value dominates
whatever that operation's result reaches). Equal nodes in one scope are one node.

`strength` reduces nodes by what is known of their operands (`ranges`, divisors); divisions that
remain become shifts and masks for powers of two, products and shifts for small numbers, and
unsigned divisions where both operands are known not to be negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl import mlir
from flydsl.dialects.building import parsed
from flydsl.errors import CompilerBug
from flydsl.layout.leaf import DynamicLeaf, Leaf, LeafOp, widen
from flydsl.passes.ranges import Bounds, Ranges, full, of_operation
from flydsl.passes.strength import magic, reduced, resolved

if TYPE_CHECKING:
    from flydsl.plugins.protocols import Target

__all__ = ["Emitter", "SsaLeaf"]


class SsaLeaf(DynamicLeaf):
    """A run-time integer: an SSA value, or a node that becomes one when asked for.

    Attributes:
        node: ``(op, a, b, width, quotient, anchor)`` of an operation; ``("same", leaf)`` and
            ``("constant", int)`` for what a rule found; empty for a given value.
        bounds: Lowest and highest value.
        narrow: The 32-bit leaf of the same value, for a 64-bit one that is known to have it.
    """

    __slots__ = ("_value", "bounds", "emitter", "narrow", "node")

    def __init__(
        self,
        emitter: Emitter,
        width: int,
        divisor: int,
        value: mlir.ir.Value | None = None,
        *,
        node: tuple[Any, ...] = (),
        bounds: Bounds,
    ) -> None:
        # The base class validates widths and divisors, which are computed here: skip it.
        self.width = width
        self.divisor = divisor
        self.emitter = emitter
        self._value = value
        self.node = node
        self.bounds = bounds
        self.narrow: SsaLeaf | None = None

    @property
    def nonnegative(self) -> bool:
        """Whether the value is known not to be negative."""
        return self.bounds[0] >= 0

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


def _bounds(x: Leaf) -> Bounds:
    if isinstance(x, int):
        return x, x
    return x.bounds if isinstance(x, SsaLeaf) else full(x.width)


class Emitter:
    """Makes leaves for one function and emits their operations.

    Attributes:
        anchor: The operation being lowered; nodes made now are emitted before it.
    """

    def __init__(
        self, entry: mlir.ir.Block, function: Any = None, target: Target | None = None
    ) -> None:
        self._entry = entry
        self._ranges = Ranges(function, target)
        self.anchor: Any = None
        self._scopes: list[dict[tuple[Any, ...], Any]] = [{}]
        self._constants: dict[tuple[int, int], mlir.ir.Value] = {}
        self._types = {w: mlir.ir.IntegerType.get_signless(w) for w in (1, 32, 64)}
        self._nsw = parsed("#arith.overflow<nsw>")
        self._nuw = parsed("#arith.overflow<nuw>")
        self._nonneg = mlir.ir.UnitAttr.get()
        self._start: Any = None
        self._unknown: Any = mlir.ir.Location.unknown()
        wide = self._types[64]
        self._predicates = {code: mlir.ir.IntegerAttr.get(wide, code) for code in COMPARE.values()}

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
            low, high = self._ranges.of(value)
            low = max(low, 0) if nonnegative else low
            found = SsaLeaf(self, width, divisor, value, bounds=(low, max(low, high)))
            self._note_narrow(found, value)
            self.store(key, found)
        return found

    def fits_i32(self, value: mlir.ir.Value) -> bool:
        """Return whether an SSA value is known to fit 32 bits."""
        low, high = self._ranges.of(value)
        return full(32)[0] <= low and high <= full(32)[1]

    def _note_narrow(self, leaf: SsaLeaf, value: mlir.ir.Value) -> None:
        """Remember the 32-bit value that a 64-bit one was extended from."""
        owner = value.owner
        name = getattr(owner, "name", "")
        if leaf.width != 64 or name not in ("arith.extsi", "arith.extui"):
            return
        source = owner.operands[0]
        if str(source.type) == "i32" and (name == "arith.extsi" or self._ranges.of(source)[0] >= 0):
            leaf.narrow = self.leaf(source, 32)

    def node(self, op: str, a: Leaf, b: Leaf, width: int, divisor: int) -> SsaLeaf:
        """Return the leaf of ``a op b`` without emitting anything.

        Nodes that its emission will need are made here as well: a node found by `lookup` is older,
        so it is emitted before this one's anchor, which would not hold at the time of emission.
        """
        if width == 64 and op != "extend":
            a, b = widen(a), widen(b)
        left, right = resolved(a), resolved(b)
        key = (
            op,
            left if isinstance(left, int) else id(left),
            right if isinstance(right, int) else id(right),
            isinstance(a, int),
            isinstance(b, int),
            width,
        )
        found: SsaLeaf | None = self.lookup(key)
        if found is None:
            found = self._node(op, a, b, width, divisor)
            self.store(key, found)
            # The operands' identities are the key, so they must not be freed.
            self.store(("kept", key), (left, right))
        if found.divisor == divisor:
            return found
        # A rule asked for the value before, without its divisor, or the other way round.
        known = (*key, divisor)
        other: SsaLeaf | None = self.lookup(known)
        if other is None:
            other = self._alias(found, found.width, divisor, found.bounds)
            self.store(known, other)
        return other

    def _node(self, op: str, a: Leaf, b: Leaf, width: int, divisor: int) -> SsaLeaf:
        bits = 1 if op in COMPARE else width
        bounds = of_operation(op, _bounds(a), _bounds(b), width)
        same = reduced(op, a, b, width)
        if same is None and bounds[0] == bounds[1]:
            same = bounds[0]
        if same is not None:
            return self._alias(same, bits, divisor, bounds)
        quotient = None
        if op == "mod" and not is_power_of_two(b) and not _unsigned_mod(a, b):
            quotient = self.node("floordiv", a, b, width, 1)
        node = (op, a, b, width, quotient, self.anchor)
        found = SsaLeaf(self, bits, divisor, node=node, bounds=bounds)
        if op == "extend":
            found.narrow = a if isinstance(a, SsaLeaf) else None
        return found

    def _alias(self, same: Leaf, width: int, divisor: int, bounds: Bounds) -> SsaLeaf:
        """Return a leaf of the given width and divisor for what a rule found."""
        if isinstance(same, int):  # a truth value is one too
            same = int(same)
            return SsaLeaf(self, width, divisor, node=("constant", same), bounds=(same, same))
        assert isinstance(same, SsaLeaf)
        if same.width == 32 and width == 64:
            same = same.extend()
        if same.width == width and same.divisor == divisor:
            return same
        low, high = max(bounds[0], same.bounds[0]), min(bounds[1], same.bounds[1])
        found = SsaLeaf(self, width, divisor, node=("same", same), bounds=(low, high))
        found.narrow = same.narrow
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
        if leaf.node[0] == "constant":
            return self.constant(leaf.node[1], leaf.width)
        if leaf.node[0] == "same":
            return self.value_of(leaf.node[1], leaf.width)
        op, a, b, width, quotient, anchor = leaf.node
        if op == "extend":
            if a.nonnegative:
                return self._op("extui", 64, [a.value], anchor, nonNeg=self._nonneg)
            return self._op("extsi", 64, [a.value], anchor)
        x = self.value_of(int(a) if isinstance(a, int) else a, width)
        if op in ("floordiv", "mod", "ceildiv"):
            return self._divide(op, x, b, quotient, leaf)
        y = self.value_of(int(b) if isinstance(b, int) else b, width)
        if op in COMPARE:
            return self._op("cmpi", 1, [x, y], anchor, predicate=self._predicates[COMPARE[op]])
        if op in ("add", "sub", "mul"):
            return self._op(op + "i", width, [x, y], anchor, overflowFlags=self._nsw)
        if op == "shr":
            return self._op("shrui" if leaf.nonnegative else "shrsi", width, [x, y], anchor)
        return self._op(_BITS[op], width, [x, y], anchor)

    def _divide(
        self, op: str, x: mlir.ir.Value, b: Leaf, quotient: SsaLeaf | None, leaf: SsaLeaf
    ) -> mlir.ir.Value:
        a, width, anchor = leaf.node[1], leaf.node[3], leaf.node[-1]
        positive = _bounds(a)[0] >= 0 and _bounds(b)[0] >= 0
        if isinstance(b, int) and is_power_of_two(b):
            return self._shifted(op, x, b, leaf)
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
        found = magic(b, _bounds(a)[1]) if isinstance(b, int) and positive else None
        if found is not None and width == 32:
            factor, shift = (self.constant(_as_signed(n), width) for n in found)
            product = self._op("muli", width, [x, factor], anchor, overflowFlags=self._nuw)
            return self._op("shrui", width, [product, shift], anchor)
        return self._op("divui" if positive else "floordivsi", width, [x, y], anchor)

    def _shifted(self, op: str, x: mlir.ir.Value, b: int, leaf: SsaLeaf) -> mlir.ir.Value:
        """Divide by a power of two."""
        width, anchor = leaf.node[3], leaf.node[-1]
        positive = _bounds(leaf.node[1])[0] >= 0
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


def _unsigned_mod(a: Leaf, b: Leaf) -> bool:
    """Return whether a remainder is one unsigned operation, without the quotient."""
    if _bounds(a)[0] < 0 or _bounds(b)[0] < 0:
        return False
    # Of a small number the quotient is a product and a shift, which the remainder then shares.
    return not isinstance(b, int) or magic(b, _bounds(a)[1]) is None


def _as_signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def is_power_of_two(x: Leaf) -> bool:
    """Return whether `x` is an int and a power of two."""
    return isinstance(x, int) and x > 0 and x & (x - 1) == 0


COMPARE = {"eq": 0, "ne": 1, "lt": 2, "le": 3}
_BITS = {"and": "andi", "or": "ori", "xor": "xori", "shl": "shli", "min": "minsi", "max": "maxsi"}
