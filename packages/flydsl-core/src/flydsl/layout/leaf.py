"""The leaves of the layout algebra and the arithmetic that every algorithm uses on them.

A leaf is a Python int of any size, or a `DynamicLeaf`: an integer known only later, of which the
width (32 or 64 bits) and one divisor are known now. `Dyn` is the symbolic leaf that type inference
uses; the lowering passes define another that wraps an SSA value.

Algorithms never look inside a leaf. They call the functions of this module and decide only on
static ints, widths and divisors, so inference with `Dyn` and lowering with SSA leaves take the same
path and get the same types. Folding of mixed operands (``x * 0``, ``x + 0``, ``x // 1``, remainders
known to be 0, ...) is done here, once; a leaf class only implements `DynamicLeaf.emit`.

Division and remainder round towards minus infinity, as in Python. Width rule: a result has 64 bits
when a dynamic operand has, or when a static operand does not fit 32 bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal, TypeAlias, TypeGuard

from flydsl.errors import UserValueError

__all__ = [
    "Dyn",
    "DynamicLeaf",
    "Leaf",
    "LeafOp",
    "Truth",
    "add",
    "bitand",
    "bitor",
    "ceildiv",
    "divides",
    "divisor_of",
    "eq",
    "floordiv",
    "ge",
    "gt",
    "is_dynamic",
    "is_static",
    "land",
    "le",
    "lt",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "ne",
    "neg",
    "product",
    "shl",
    "shr",
    "sub",
    "widen",
    "width_of",
    "xor",
]

LeafOp: TypeAlias = Literal[
    "add",
    "sub",
    "mul",
    "floordiv",
    "ceildiv",
    "mod",
    "min",
    "max",
    "xor",
    "and",
    "or",
    "shl",
    "shr",
    "lt",
    "le",
    "eq",
    "ne",
]


class DynamicLeaf(ABC):
    """An integer that is not known yet.

    Subclasses carry the value and implement `emit`. `width` and `divisor` must be the ones that the
    functions of this module computed, never better ones: the types of the program depend on them.

    Attributes:
        width: 32 or 64 bits, signed; 1 for the result of a comparison.
        divisor: A positive int that divides the value.
    """

    __slots__ = ("divisor", "width")

    width: int
    divisor: int

    def __init__(self, width: int = 32, divisor: int = 1) -> None:
        if width not in (1, 32, 64) or type(width) is not int:
            raise UserValueError(
                "a dynamic integer has an unsupported width",
                code="FLY-U100",
                value=width,
                allowed="32 or 64 (1 for a truth value)",
            )
        if type(divisor) is not int or divisor < 1:
            raise UserValueError(
                "a dynamic integer has an invalid known divisor",
                code="FLY-U100",
                value=divisor,
                allowed="a positive int",
            )
        self.width = width
        self.divisor = divisor

    @abstractmethod
    def emit(self, op: LeafOp, a: Leaf, b: Leaf, width: int, divisor: int) -> DynamicLeaf:
        """Return the leaf of ``a op b``, which has exactly the given `width` and `divisor`.

        At least one operand is dynamic (`self` is one of them); the other may be an int or narrower
        than the operation. `width` is the width to compute in, which is also that of the result,
        except for a comparison (lt, le, eq, ne): its result is a truth value of width 1 and the
        operands are to be compared in the wider of their own widths. The folds that need no code
        were tried before, so implementations need not look for them; whether a division becomes a
        shift is theirs to decide, from the divisors of `a` and `b`.
        """

    @abstractmethod
    def extend(self) -> DynamicLeaf:
        """Return the same value (and divisor) in 64 bits; only called on a 32-bit leaf."""

    def __str__(self) -> str:
        parts = [] if self.width == 32 else [f"i{self.width}"]
        if self.divisor != 1:
            parts.append(f"div={self.divisor}")
        return "?{" + " ".join(parts) + "}" if parts else "?"

    def __add__(self, other: object) -> Leaf:
        return add(self, other) if isinstance(other, int | DynamicLeaf) else NotImplemented

    def __radd__(self, other: object) -> Leaf:
        return add(other, self) if isinstance(other, int) else NotImplemented

    def __sub__(self, other: object) -> Leaf:
        return sub(self, other) if isinstance(other, int | DynamicLeaf) else NotImplemented

    def __rsub__(self, other: object) -> Leaf:
        return sub(other, self) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: object) -> Leaf:
        return mul(self, other) if isinstance(other, int | DynamicLeaf) else NotImplemented

    def __rmul__(self, other: object) -> Leaf:
        return mul(other, self) if isinstance(other, int) else NotImplemented

    def __floordiv__(self, other: object) -> Leaf:
        return floordiv(self, other) if isinstance(other, int | DynamicLeaf) else NotImplemented

    def __rfloordiv__(self, other: object) -> Leaf:
        return floordiv(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: object) -> Leaf:
        return mod(self, other) if isinstance(other, int | DynamicLeaf) else NotImplemented

    def __rmod__(self, other: object) -> Leaf:
        return mod(other, self) if isinstance(other, int) else NotImplemented


class Dyn(DynamicLeaf):
    """A symbolic leaf: nothing but a width and a divisor. Two with the same two are equal."""

    __slots__ = ()

    def emit(self, op: LeafOp, a: Leaf, b: Leaf, width: int, divisor: int) -> Dyn:  # noqa: ARG002
        """Return the symbolic result; see `DynamicLeaf.emit`."""
        return Dyn(1 if op in ("lt", "le", "eq", "ne") else width, divisor)

    def extend(self) -> Dyn:
        """Return the 64-bit leaf of the same divisor."""
        return Dyn(64, self.divisor)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Dyn) and self.width == other.width and self.divisor == other.divisor
        )

    def __hash__(self) -> int:
        return hash((Dyn, self.width, self.divisor))

    def __repr__(self) -> str:
        return f"Dyn({self.width}, {self.divisor})"


Leaf: TypeAlias = int | DynamicLeaf
Truth: TypeAlias = bool | DynamicLeaf

_I32_MIN, _I32_MAX = -(2**31), 2**31 - 1
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


def is_static(x: object) -> TypeGuard[int]:
    """Return whether `x` is a Python int."""
    return isinstance(x, int)


def is_dynamic(x: object) -> TypeGuard[DynamicLeaf]:
    """Return whether `x` is a value known only later."""
    return isinstance(x, DynamicLeaf)


def divisor_of(x: Leaf) -> int:
    """Return the largest known divisor of `x`; 0 for the int 0, which every integer divides."""
    return abs(x) if isinstance(x, int) else x.divisor


def width_of(x: Leaf) -> int:
    """Return the bits that `x` needs in dynamic arithmetic: 32 or 64.

    Raises:
        UserError: A static int does not fit 64 bits.
    """
    if not isinstance(x, int):
        return x.width
    if _I32_MIN <= x <= _I32_MAX:
        return 32
    if _I64_MIN <= x <= _I64_MAX:
        return 64
    raise UserValueError(
        "an integer that takes part in run-time arithmetic does not fit 64 bits",
        code="FLY-U100",
        value=x,
    )


def divides(a: Leaf, b: Leaf) -> bool:
    """Return whether `a` is a static int other than 0 that is known to divide `b`."""
    return isinstance(a, int) and a != 0 and divisor_of(b) % a == 0


def _emit(op: LeafOp, a: Leaf, b: Leaf, divisor: int) -> DynamicLeaf:
    maker = a if isinstance(a, DynamicLeaf) else b
    assert isinstance(maker, DynamicLeaf)
    return maker.emit(op, a, b, max(width_of(a), width_of(b)), divisor or 1)


def add(a: Leaf, b: Leaf) -> Leaf:
    """Return a + b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        if a == 0:
            return b
    elif isinstance(b, int) and b == 0:
        return a
    return _emit("add", a, b, math.gcd(divisor_of(a), divisor_of(b)))


def sub(a: Leaf, b: Leaf) -> Leaf:
    """Return a - b."""
    if isinstance(b, int):
        if isinstance(a, int):
            return a - b
        if b == 0:
            return a
    return _emit("sub", a, b, math.gcd(divisor_of(a), divisor_of(b)))


def neg(a: Leaf) -> Leaf:
    """Return -a."""
    return sub(0, a)


def mul(a: Leaf, b: Leaf) -> Leaf:
    """Return a * b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a * b
        a, b = b, a
    if isinstance(b, int):
        if b == 0:
            return 0
        if b == 1:
            return a
    return _emit("mul", a, b, divisor_of(a) * divisor_of(b))


def product(a: Leaf, b: Leaf) -> Leaf:
    """Return a * b for sizes and compact strides, which must not wrap.

    A run-time result has 64 bits unless it is one of the operands or 0.
    """
    if (isinstance(a, int) and (isinstance(b, int) or a in (0, 1))) or (b in (0, 1)):
        return mul(a, b)
    return mul(widen(a), widen(b))


def _check_divisor(b: Leaf) -> None:
    if isinstance(b, int) and b == 0:
        raise UserValueError("division by zero in layout arithmetic", code="FLY-U102", value=b)


def floordiv(a: Leaf, b: Leaf) -> Leaf:
    """Return a / b rounded down.

    Raises:
        UserError: b is the int 0.
    """
    _check_divisor(b)
    if isinstance(a, int):
        if isinstance(b, int):
            return a // b
        if a == 0:
            return 0
        return _emit("floordiv", a, b, 1)
    if isinstance(b, int):
        if b == 1:
            return a
        return _emit("floordiv", a, b, a.divisor // abs(b) if a.divisor % b == 0 else 1)
    return _emit("floordiv", a, b, 1)


def mod(a: Leaf, b: Leaf) -> Leaf:
    """Return a - b * floordiv(a, b), which has the sign of b.

    Raises:
        UserError: b is the int 0.
    """
    _check_divisor(b)
    if isinstance(a, int):
        if isinstance(b, int):
            return a % b
        if a == 0:
            return 0
    elif isinstance(b, int) and a.divisor % b == 0:
        return 0
    return _emit("mod", a, b, math.gcd(divisor_of(a), divisor_of(b)))


def ceildiv(a: Leaf, b: Leaf) -> Leaf:
    """Return a / b rounded up.

    Raises:
        UserError: b is the int 0.
    """
    _check_divisor(b)
    if isinstance(a, int):
        if isinstance(b, int):
            return -(-a // b)
        if a == 0:
            return 0
    elif isinstance(b, int) and a.divisor % b == 0:
        return floordiv(a, b)
    return _emit("ceildiv", a, b, 1)


def minimum(a: Leaf, b: Leaf) -> Leaf:
    """Return the smaller of a and b."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _emit("min", a, b, math.gcd(divisor_of(a), divisor_of(b)))


def maximum(a: Leaf, b: Leaf) -> Leaf:
    """Return the larger of a and b."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return _emit("max", a, b, math.gcd(divisor_of(a), divisor_of(b)))


def _low_bit(x: Leaf) -> int:
    """Return the largest power of two known to divide `x`; 0 for the int 0."""
    known = divisor_of(x)
    return known & -known


def xor(a: Leaf, b: Leaf) -> Leaf:
    """Return the bitwise exclusive or of a and b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a ^ b
        a, b = b, a
    if isinstance(b, int) and b == 0:
        return a
    return _emit("xor", a, b, math.gcd(_low_bit(a), _low_bit(b)))


def bitor(a: Leaf, b: Leaf) -> Leaf:
    """Return the bitwise or of a and b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a | b
        a, b = b, a
    if isinstance(b, int) and b == 0:
        return a
    return _emit("or", a, b, math.gcd(_low_bit(a), _low_bit(b)))


def bitand(a: Leaf, b: Leaf) -> Leaf:
    """Return the bitwise and of a and b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a & b
        a, b = b, a
    if isinstance(b, int) and (b == 0 or 0 < b < _low_bit(a)):
        return 0
    return _emit("and", a, b, max(_low_bit(a), _low_bit(b)))


def _check_count(count: int) -> None:
    if not 0 <= count < 64:
        raise UserValueError(
            "a shift count is out of range", code="FLY-U100", value=count, allowed="0 to 63"
        )


def shl(a: Leaf, count: int) -> Leaf:
    """Return a * 2**count.

    Raises:
        UserError: count is not an int in 0..63.
    """
    _check_count(count)
    if isinstance(a, int):
        return a << count
    return a if count == 0 else _emit("shl", a, count, a.divisor << count)


def shr(a: Leaf, count: int) -> Leaf:
    """Return a / 2**count rounded down (an arithmetic shift).

    Raises:
        UserError: count is not an int in 0..63.
    """
    _check_count(count)
    if isinstance(a, int):
        return a >> count
    if count == 0:
        return a
    return _emit("shr", a, count, a.divisor >> count if _low_bit(a) >> count else 1)


def lt(a: Leaf, b: Leaf) -> Truth:
    """Return a < b."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    return _emit("lt", a, b, 1)


def le(a: Leaf, b: Leaf) -> Truth:
    """Return a <= b."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return _emit("le", a, b, 1)


def gt(a: Leaf, b: Leaf) -> Truth:
    """Return a > b."""
    return lt(b, a)


def ge(a: Leaf, b: Leaf) -> Truth:
    """Return a >= b."""
    return le(b, a)


def eq(a: Leaf, b: Leaf) -> Truth:
    """Return a == b; False when the known divisor of one excludes the other."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a == b
        a, b = b, a
    if isinstance(b, int) and b % a.divisor:
        return False
    return _emit("eq", a, b, 1)


def ne(a: Leaf, b: Leaf) -> Truth:
    """Return a != b; True when the known divisor of one excludes the other."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a != b
        a, b = b, a
    if isinstance(b, int) and b % a.divisor:
        return True
    return _emit("ne", a, b, 1)


def land(a: Truth, b: Truth) -> Truth:
    """Return the logical and of two truth values."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return _emit("and", a, b, 1)


def widen(x: Leaf) -> Leaf:
    """Return `x` in 64 bits; ints and 64-bit leaves are returned as they are."""
    return x.extend() if isinstance(x, DynamicLeaf) and x.width == 32 else x
