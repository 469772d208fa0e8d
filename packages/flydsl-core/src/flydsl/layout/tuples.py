"""Integer tuples: nested tuples of leaves, the shapes, strides and coordinates of layouts.

A tuple is a leaf (int or run-time integer, in strides also a `Basis`, in coordinates also None, the
wildcard) or a non-empty Python tuple of tuples. Functions here take the structure as given; what
comes from a user passes through `normalize` first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex, TypeAlias, cast

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.leaf import DynamicLeaf, Leaf

__all__ = [
    "IntTuple",
    "ceil_div",
    "compatible",
    "congruent",
    "elem_less",
    "equal",
    "flatten",
    "format_tuple",
    "has_none",
    "int_tuple_add",
    "int_tuple_div",
    "int_tuple_mod",
    "int_tuple_mul",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "int_tuple_sub",
    "is_static_tuple",
    "make_int_tuple",
    "map_tuple",
    "normalize",
    "shape_div",
    "single_leaf",
    "unflatten",
    "weakly_congruent",
]

# The recursion is spelled Any: a precise alias makes every call site a cast.
IntTuple: TypeAlias = Any

_MAX_DEPTH = 32
_MAX_RANK = 4096


def normalize(
    x: object, what: str, *, none: bool = False, basis: bool = False, _depth: int = 0
) -> IntTuple:
    """Return `x` with lists as tuples and int-like leaves as ints, checked.

    Args:
        x: What the user passed.
        what: Its name in error messages, such as ``"shape"``.
        none: Whether None leaves are allowed.
        basis: Whether `Basis` leaves are allowed.

    Raises:
        UserError: A leaf is of another kind, a tuple is empty, too long or too deep.
    """
    if type(x) is int or isinstance(x, DynamicLeaf):
        return x
    if isinstance(x, tuple | list):
        if not 0 < len(x) <= _MAX_RANK or _depth >= _MAX_DEPTH:
            raise UserValueError(
                f"{what} holds an empty tuple" if not x else f"{what} is too long or too deep",
                code="FLY-U110",
                allowed=f"1 to {_MAX_RANK} entries per tuple, nested up to {_MAX_DEPTH} deep",
            )
        return tuple(normalize(e, what, none=none, basis=basis, _depth=_depth + 1) for e in x)
    if (x is None and none) or (isinstance(x, Basis) and basis):
        return x
    return _int_like(x, what, none)


def _int_like(x: object, what: str, none: bool) -> int:
    """Return the int that an IntEnum member, a NumPy integer or the like stands for."""
    index = None if isinstance(x, bool) else getattr(type(x), "__index__", None)
    if index is not None:
        try:
            return int(operator.index(cast(SupportsIndex, x)))
        except TypeError:
            pass
    allowed = "int, run-time integer" + (", None" if none else "") + " or a tuple of these"
    if x is None:
        raise UserTypeError(f"{what} is None", code="FLY-U101", allowed=allowed)
    kind = UserValueError if isinstance(x, float) else UserTypeError
    raise kind(
        f"{what} holds something else than integers", code="FLY-U101", value=x, allowed=allowed
    )


def single_leaf(x: object, what: str) -> Leaf:
    """Return `x`, checked to be one integer.

    Raises:
        UserError: It is a tuple or no integer.
    """
    if type(x) is int or isinstance(x, DynamicLeaf):
        return x
    out = normalize(x, what)
    if isinstance(out, tuple):
        raise UserTypeError(f"{what} is not a single integer", code="FLY-U101", value=out)
    return out  # type: ignore[no-any-return]


def make_int_tuple(x: object) -> IntTuple:
    """Return `x` as a checked integer tuple; None is allowed inside a tuple only.

    Raises:
        UserError: See `normalize`.
    """
    return normalize(x, "the tuple", none=isinstance(x, tuple | list))


def format_tuple(x: IntTuple) -> str:
    """Return the canonical text, for example ``(4,(?{div=8},*))``."""
    if isinstance(x, tuple):
        return "(" + ",".join(format_tuple(e) for e in x) + ")"
    return "*" if x is None else str(x)


def flatten(x: IntTuple) -> tuple[Any, ...]:
    """Return the leaves in pre-order."""
    if not isinstance(x, tuple):
        return (x,)
    for e in x:
        if isinstance(e, tuple):
            return tuple(leaf_ for e in x for leaf_ in flatten(e))
    return x


def unflatten(flat: Iterator[Any], profile: IntTuple) -> IntTuple:
    """Return a tuple nested like `profile` with leaves taken from `flat` in pre-order."""
    if isinstance(profile, tuple):
        return tuple(unflatten(flat, p) for p in profile)
    return next(flat)


def map_tuple(fn: Callable[[Any], Any], x: IntTuple) -> IntTuple:
    """Return `x` with `fn` applied to each leaf."""
    return tuple(map_tuple(fn, e) for e in x) if isinstance(x, tuple) else fn(x)


def is_static_tuple(x: IntTuple) -> bool:
    """Return whether no leaf is a run-time integer."""
    if isinstance(x, tuple):
        return all(is_static_tuple(e) for e in x)
    return not isinstance(x.value if isinstance(x, Basis) else x, DynamicLeaf)


def has_none(x: IntTuple) -> bool:
    """Return whether a leaf is None."""
    return any(has_none(e) for e in x) if isinstance(x, tuple) else x is None


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Return whether both are nested alike."""
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple)
            and len(a) == len(b)
            and all(congruent(x, y) for x, y in zip(a, b, strict=True))
        )
    return not isinstance(b, tuple)


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """Return whether the nesting of `a` is a prefix of that of `b` (its leaves may face tuples)."""
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple)
            and len(a) == len(b)
            and all(weakly_congruent(x, y) for x, y in zip(a, b, strict=True))
        )
    return True


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Return whether every coordinate of shape `a` is provably one of shape `b`.

    Each leaf of `a` must be the size of what it faces in `b`; sizes known only at run time are
    never provably equal.
    """
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple)
            and len(a) == len(b)
            and all(compatible(x, y) for x, y in zip(a, b, strict=True))
        )
    size = int_tuple_product(b)
    return isinstance(a, int) and isinstance(size, int) and a == size


def int_tuple_product(x: IntTuple) -> Leaf:
    """Return the product of all leaves, in 64 bits if it is one of several at run time."""
    if not isinstance(x, tuple):
        return x  # type: ignore[no-any-return]
    out: Leaf = 1
    for e in x:
        out = leaf.product(out, int_tuple_product(e) if isinstance(e, tuple) else e)
    return out


def int_tuple_product_each(x: IntTuple) -> IntTuple:
    """Return the product of each top-level mode."""
    return tuple(int_tuple_product(e) for e in x) if isinstance(x, tuple) else x


def int_tuple_product_like(x: IntTuple, guide: IntTuple) -> IntTuple:
    """Return `x` with everything that faces a leaf of `guide` multiplied together.

    Raises:
        UserError: `guide` is nested where `x` is not.
    """
    if not isinstance(guide, tuple):
        return int_tuple_product(x)
    if not isinstance(x, tuple) or len(x) != len(guide):
        raise _mismatch("the product's guide is nested otherwise than the tuple", x, guide)
    return tuple(int_tuple_product_like(e, g) for e, g in zip(x, guide, strict=True))


def _mismatch(message: str, a: IntTuple, b: IntTuple) -> UserError:
    return UserValueError(
        message, code="FLY-U103", hint=f"the profiles are {format_tuple(a)} and {format_tuple(b)}"
    )


def _elementwise(op: Callable[[Leaf, Leaf], Leaf], a: IntTuple, b: IntTuple) -> IntTuple:
    """Apply `op` leaf by leaf; modes that only one of the two has pass through.

    A leaf against a tuple meets its first mode.
    """
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return op(a, b)
    a = a if isinstance(a, tuple) else (a,)
    b = b if isinstance(b, tuple) else (b,)
    short = min(len(a), len(b))
    head = tuple(_elementwise(op, x, y) for x, y in zip(a[:short], b[:short], strict=True))
    return head + a[short:] + b[short:]


def _arguments(a: object, b: object) -> tuple[IntTuple, IntTuple]:
    return normalize(a, "the first operand"), normalize(b, "the second operand")


def int_tuple_add(a: object, b: object) -> IntTuple:
    """Return a + b leaf by leaf; modes that only one has pass through, a leaf meets mode 0."""
    return _elementwise(leaf.add, *_arguments(a, b))


def int_tuple_sub(a: object, b: object) -> IntTuple:
    """Return a - b leaf by leaf; modes that only one has pass through, a leaf meets mode 0."""
    return _elementwise(leaf.sub, *_arguments(a, b))


def int_tuple_mul(a: object, b: object) -> IntTuple:
    """Return a * b leaf by leaf; modes that only one has pass through, a leaf meets mode 0."""
    return _elementwise(leaf.mul, *_arguments(a, b))


def int_tuple_div(a: object, b: object) -> IntTuple:
    """Return a / b rounded down leaf by leaf; else as `int_tuple_add`.

    Raises:
        UserError: A leaf of `b` is the int 0.
    """
    return _elementwise(leaf.floordiv, *_arguments(a, b))


def int_tuple_mod(a: object, b: object) -> IntTuple:
    """Return the remainder of `int_tuple_div`, with the sign of `b`.

    Raises:
        UserError: A leaf of `b` is the int 0.
    """
    return _elementwise(leaf.mod, *_arguments(a, b))


def shape_div(a: object, b: object) -> IntTuple:
    """Return the shape `a` divided by `b` where one divides the other.

    A leaf `b` consumes the modes of `a` from the left; a tuple `b` divides mode by mode; a leaf `a`
    is divided by the whole size of `b`. For leaves: a / b if b divides a, 1 if a divides b. Where
    that cannot be decided before run time it is assumed.

    Raises:
        UserError: Neither divides the other, or the profiles do not fit.
    """
    return _shape_div(*_arguments(a, b), _divide_exactly)


def ceil_div(a: object, b: object) -> IntTuple:
    """Return `a` divided by `b`, rounded up, with the profile rules of `shape_div`.

    Raises:
        UserError: A divisor is 0, or the profiles do not fit.
    """
    return _shape_div(*_arguments(a, b), leaf.ceildiv)


def _divide_exactly(a: Leaf, b: Leaf) -> Leaf:
    if isinstance(a, int) and isinstance(b, int):
        if b != 0 and a % b == 0:
            return a // b
        if a != 0 and b % a == 0:
            return 1 if a * b > 0 else -1
        raise UserValueError(
            f"shape division: neither of {a} and {b} divides the other", code="FLY-U105"
        )
    # Exact when b divides a, and 1 when a divides b: the two cases the rule allows.
    return leaf.ceildiv(a, b)


def _shape_div(a: IntTuple, b: IntTuple, op: Callable[[Leaf, Leaf], Leaf]) -> IntTuple:
    if isinstance(b, tuple):
        if not isinstance(a, tuple):
            return op(a, int_tuple_product(b))
        if len(a) < len(b):
            raise _mismatch("shape division: the divisor has more modes", a, b)
        head = tuple(_shape_div(x, y, op) for x, y in zip(a[: len(b)], b, strict=True))
        return head + a[len(b) :]
    if not isinstance(a, tuple):
        return op(a, b)
    out = []
    for mode in a:
        out.append(_shape_div(mode, b, op))
        b = op(b, int_tuple_product(mode))
    return tuple(out)


def elem_less(a: object, b: object) -> leaf.Truth:
    """Return whether each leaf of `a` is less than its counterpart in `b`.

    Raises:
        UserError: The profiles are not congruent.
    """
    x, y = _arguments(a, b)
    if not congruent(x, y):
        raise _mismatch("elem_less compares tuples of one profile", x, y)
    out: leaf.Truth = True
    for p, q in zip(flatten(x), flatten(y), strict=True):
        out = leaf.land(out, leaf.lt(p, q))
    return out


def equal(a: object, b: object) -> leaf.Truth:
    """Return whether both have the same profile and leaves."""
    x, y = _arguments(a, b)
    if not congruent(x, y):
        return False
    out: leaf.Truth = True
    for p, q in zip(flatten(x), flatten(y), strict=True):
        out = leaf.land(out, leaf.eq(p, q))
    return out
