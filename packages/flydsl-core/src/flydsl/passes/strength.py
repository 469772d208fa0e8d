"""Strength reduction of leaf operations by bounds and divisibility, before anything is emitted.

Each rule returns what an operation equals: an int, or a leaf. The rules are the identities of
floor division: ``(k b + r) // b == k`` and ``(k b + r) % b == r`` for r in [0, b), nested divisions
and remainders by multiples of one another, digits that are put together again (``x % p + x // p *
p == x``), and bit operations that change nothing. Two more save
width: what provably fits 32 bits is computed there, and the quotient of a small number by a
constant is a product and a shift (`magic`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from flydsl.layout import leaf
from flydsl.layout.leaf import Leaf, divisor_of
from flydsl.passes.ranges import full, of_operation

if TYPE_CHECKING:
    from flydsl.passes.ssa import SsaLeaf

__all__ = ["magic", "reduced", "resolved"]

_I32: Final = full(32)
_TERMS: Final = 8
"""Terms of a sum that are looked at: a bound, so that lowering stays linear."""
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "add": leaf.add,
        "sub": leaf.sub,
        "mul": leaf.mul,
        "floordiv": leaf.floordiv,
        "ceildiv": leaf.ceildiv,
        "mod": leaf.mod,
        "and": leaf.bitand,
        "or": leaf.bitor,
        "xor": leaf.xor,
        "min": leaf.minimum,
        "max": leaf.maximum,
        "lt": leaf.lt,
        "le": leaf.le,
        "eq": leaf.eq,
        "ne": leaf.ne,
    }
)
"""What is computed in 32 bits where operands and result fit."""
_COMPARISONS: Final = frozenset({"lt", "le", "eq", "ne"})


def magic(divisor: int, highest: int) -> tuple[int, int] | None:
    """Return (m, s) with ``x // divisor == x * m >> s`` for 0 <= x <= highest, in 32 bits.

    With ``e = m divisor - 2**s`` the product exceeds the quotient's multiple of 2**s by x e /
    divisor, which is too little to reach the next as long as ``highest e < 2**s``.
    """
    for shift in range(32):
        m = -(-(1 << shift) // divisor)
        if m * highest >= 1 << 32:
            return None
        if highest * (m * divisor - (1 << shift)) < 1 << shift:
            return m, shift
    return None


def _bounds(x: Leaf) -> tuple[int, int]:
    if isinstance(x, int):
        return x, x
    found: tuple[int, int] = x.bounds  # type: ignore[attr-defined]
    return found


def _inside(x: Leaf, low: int, high: int) -> bool:
    bounds = _bounds(x)
    return low <= bounds[0] and bounds[1] <= high


def resolved(x: Leaf) -> Leaf:
    """Return the int or leaf that a leaf is another name of."""
    node = getattr(x, "node", ())
    while node and node[0] in ("same", "constant"):
        x = node[1]
        node = getattr(x, "node", ())
    return x


def _operation(x: Leaf, op: str) -> tuple[Leaf, Leaf] | None:
    """Return the operands of a leaf that is the node ``a op b``."""
    node = getattr(resolved(x), "node", ())
    return (node[1], node[2]) if node and node[0] == op else None


def _by_constant(x: Leaf, op: str) -> tuple[Leaf, int] | None:
    found = _operation(x, op)
    if found is None:
        return None
    a, b = found
    if isinstance(b, int):
        return a, b
    return (b, a) if isinstance(a, int) and op in ("add", "mul") else None


def _terms(x: Leaf) -> list[Leaf]:
    """Return the terms of a sum, at most `_TERMS`."""
    out: list[Leaf] = [x]
    at = 0
    while at < len(out) and len(out) < _TERMS:
        pair = _operation(out[at], "add")
        if pair is None:
            at += 1
        else:
            out[at : at + 1] = list(pair)
    return out


def _quotient(x: Leaf, b: int) -> Leaf | None:
    """Return x / b if that is exact and needs no division; `x` is a multiple of `b`."""
    if isinstance(x, int):
        return x // b
    scaled = _by_constant(x, "mul")
    if scaled is None:
        return None
    a, c = scaled
    if c % b == 0:
        return leaf.mul(a, c // b)
    if c > 0 and b % c == 0 and divisor_of(a) % (b // c) == 0:
        return _quotient(a, b // c)
    return None


def _sum(terms: list[Leaf]) -> Leaf:
    total: Leaf = 0
    for term in terms:
        total = leaf.add(total, term)
    return total


def _split(x: Leaf, b: int) -> tuple[list[Leaf], list[Leaf]]:
    """Split a sum into terms that `b` divides and the others, a constant by its remainder."""
    whole: list[Leaf] = []
    rest: list[Leaf] = []
    for term in _terms(x):
        if isinstance(term, int):
            whole.append(term - term % b)
            rest.append(term % b)
        else:
            (whole if divisor_of(term) % b == 0 else rest).append(term)
    return [t for t in whole if t != 0], [t for t in rest if t != 0]


def _rest_inside(rest: list[Leaf], b: int) -> bool:
    bounds = [_bounds(term) for term in rest]
    return sum(low for low, _ in bounds) >= 0 and sum(high for _, high in bounds) < b


def _floordiv(a: Leaf, b: Leaf) -> Leaf | None:
    if not isinstance(b, int):
        return 0 if _bounds(a)[0] >= 0 and _bounds(a)[1] < _bounds(b)[0] else None
    if b <= 0:
        return None
    low, high = _bounds(a)
    if low // b == high // b:
        return low // b
    nested = _by_constant(a, "floordiv")
    if nested is not None and nested[1] > 0 and nested[1] * b <= _I32[1]:
        return leaf.floordiv(nested[0], nested[1] * b)
    scaled = _by_constant(a, "mul")
    if scaled is not None and scaled[1] > 0 and b % scaled[1] == 0:
        return leaf.floordiv(scaled[0], b // scaled[1])
    whole, rest = _split(a, b)
    if whole and _rest_inside(rest, b):
        parts = [_quotient(term, b) for term in whole]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            return _sum(known)
    return None


def _mod(a: Leaf, b: Leaf) -> Leaf | None:
    if not isinstance(b, int):
        return a if _bounds(a)[0] >= 0 and _bounds(a)[1] < _bounds(b)[0] else None
    if b <= 0:
        return None
    low, high = _bounds(a)
    if low // b == high // b:
        return leaf.sub(a, low // b * b)
    nested = _by_constant(a, "mod")
    if nested is not None and nested[1] % b == 0:
        return leaf.mod(nested[0], b)
    scaled = _by_constant(a, "mul")
    if scaled is not None and scaled[1] > 0 and b % scaled[1] == 0:
        return leaf.mul(leaf.mod(scaled[0], b // scaled[1]), scaled[1])
    whole, rest = _split(a, b)
    if not whole:
        return None
    if not rest:
        return 0
    total = _sum(rest)
    if isinstance(total, int) or _rest_inside(rest, b):
        return total if not isinstance(total, int) else total % b
    return leaf.mod(total, b)


def _ceildiv(a: Leaf, b: Leaf, width: int) -> Leaf | None:
    if not isinstance(b, int) or b <= 0:
        return None
    low, high = _bounds(a)
    if -(-low // b) == -(-high // b):
        return -(-low // b)
    if low < 0 or high + b - 1 > full(width)[1]:
        return None
    return leaf.floordiv(leaf.add(a, b - 1), b)


def _bits(a: Leaf, b: Leaf) -> Leaf | None:
    """``a & b`` with a constant mask: nothing, everything, or fewer terms."""
    if isinstance(a, int):
        a, b = b, a
    if not isinstance(b, int) or b < 0:
        return None
    bits = b.bit_length()
    if b == (1 << bits) - 1:
        return leaf.mod(a, b + 1) if b else 0
    lowest = b & -b
    low, high = _bounds(a)
    if low >= 0 and (high < lowest or b == 0):
        return 0
    return None


def _shift(a: Leaf, b: Leaf) -> Leaf | None:
    if not isinstance(b, int):
        return None
    low, high = _bounds(a)
    return low >> b if low >> b == high >> b else None


def _choice(op: str, a: Leaf, b: Leaf) -> Leaf | None:
    (alow, ahigh), (blow, bhigh) = _bounds(a), _bounds(b)
    if ahigh <= blow:
        return a if op == "min" else b
    if bhigh <= alow:
        return b if op == "min" else a
    return None


def _comparison(op: str, a: Leaf, b: Leaf) -> int | None:
    (alow, ahigh), (blow, bhigh) = _bounds(a), _bounds(b)
    if op == "lt":
        return 1 if ahigh < blow else 0 if alow >= bhigh else None
    if op == "le":
        return 1 if ahigh <= blow else 0 if alow > bhigh else None
    if ahigh < blow or bhigh < alow:
        return 0 if op == "eq" else 1
    if alow == ahigh == blow == bhigh:
        return 1 if op == "eq" else 0
    return None


def _linear(op: str, a: Leaf, b: Leaf, width: int) -> Leaf | None:
    """Gather the constants of sums and products."""
    if isinstance(a, int):
        a, b = b, a
    if not isinstance(b, int):
        return None
    if op == "mul" and b == 0:
        return 0
    nested = _by_constant(a, op)
    if nested is None:
        return None
    constant = nested[1] * b if op == "mul" else nested[1] + b
    if not _inside(constant, *full(width)):
        return None
    if op == "add" and constant == 0:
        return nested[0]
    return (leaf.mul if op == "mul" else leaf.add)(nested[0], constant)


def _digit(x: Leaf) -> tuple[Leaf, int, int] | None:
    """Return (y, p, c) of ``y % p * c``."""
    scaled = _by_constant(x, "mul") or (x, 1)
    digit = _by_constant(scaled[0], "mod")
    return (digit[0], digit[1], scaled[1]) if digit is not None and digit[1] > 0 else None


def _joined(low: Leaf, high: Leaf) -> Leaf | None:
    """Put digits together: ``y % p * c + y // p [% q] * (p c)`` is ``y [% (p q)] * c``."""
    first, scaled = _digit(low), _by_constant(high, "mul")
    if first is None or scaled is None:
        return None
    y, p, c = first
    number, weight = scaled
    if weight != p * c:
        return None
    digit = _by_constant(number, "mod")
    whole = _by_constant(number if digit is None else digit[0], "floordiv")
    if whole is None or whole[1] != p or resolved(whole[0]) is not resolved(y):
        return None
    if digit is None:
        return leaf.mul(y, c)
    return leaf.mul(leaf.mod(y, p * digit[1]), c) if digit[1] > 0 else None


def _add(a: Leaf, b: Leaf, width: int) -> Leaf | None:
    found = _linear("add", a, b, width)
    if found is not None or isinstance(a, int) or isinstance(b, int):
        return found
    terms = _terms(a)
    for i, term in enumerate(terms):
        joined = _joined(term, b) or _joined(b, term)
        if joined is not None:
            return _sum([*terms[:i], *terms[i + 1 :], joined])
    return None


def _by_kind(op: str, a: Leaf, b: Leaf, width: int) -> Leaf | None:
    match op:
        case "floordiv":
            return _floordiv(a, b)
        case "mod":
            return _mod(a, b)
        case "ceildiv":
            return _ceildiv(a, b, width)
        case "and":
            return _bits(a, b)
        case "shr":
            return _shift(a, b)
        case "min" | "max":
            return _choice(op, a, b)
        case "lt" | "le" | "eq" | "ne":
            return _comparison(op, a, b)
        case "add":
            return _add(a, b, width)
        case "mul":
            return _linear(op, a, b, width)
    return None


def _number(x: Leaf) -> Leaf:
    found = resolved(x)
    return found if isinstance(found, int) else x


def reduced(op: str, a: Leaf, b: Leaf, width: int) -> Leaf | None:
    """Return what ``a op b`` in `width` bits equals, or None if it has to be computed.

    The result may be narrower than `width`, and may know a smaller divisor.
    """
    a, b = _number(a), _number(b)
    if op == "extend":
        return None
    if op == "and" and width == 1:
        return None
    found = _unchanged(op, a, b)
    if found is None and width == 64:
        found = _narrowed(op, a, b)
    return _by_kind(op, a, b, width) if found is None else found


def _unchanged(op: str, a: Leaf, b: Leaf) -> Leaf | None:
    """Return the operand that neutral ones leave as it is: numbers that the bounds have found."""
    if isinstance(a, int) and op in ("add", "mul", "or", "xor", "and"):
        a, b = b, a
    if not isinstance(b, int):
        return None
    if b == 0 and op in ("add", "sub", "or", "xor", "shl", "shr"):
        return a
    if b == 1 and op in ("mul", "floordiv", "ceildiv"):
        return a
    return 0 if b == 0 and op in ("mul", "and") else None


def _narrow(x: Leaf) -> Leaf | None:
    """Return a 64-bit leaf as the 32-bit one that it extends, or an int that fits."""
    if isinstance(x, int):
        return x if _inside(x, *_I32) else None
    found: SsaLeaf = x  # type: ignore[assignment]
    return found.narrow if found.width == 64 else found


def _narrowed(op: str, a: Leaf, b: Leaf) -> Leaf | None:
    """Compute in 32 bits what provably fits: operands and result."""
    if op not in _FUNCTIONS:
        return None
    low, high = _narrow(a), _narrow(b)
    if low is None or high is None or (isinstance(low, int) and isinstance(high, int)):
        return None
    if op not in _COMPARISONS and not _exactly_inside(op, a, b):
        return None
    found: Leaf = _FUNCTIONS[op](low, high)
    return found


def _exactly_inside(op: str, a: Leaf, b: Leaf) -> bool:
    """Return whether the result of an operation fits 32 bits, and is not only clipped to them."""
    low, high = of_operation(op, _bounds(a), _bounds(b), 65)
    return _I32[0] <= low and high <= _I32[1]
