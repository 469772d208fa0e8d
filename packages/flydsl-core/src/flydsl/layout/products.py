"""Checked forms of the tuple functions that the algorithms use unchecked."""

from __future__ import annotations

from flydsl.layout import tuples
from flydsl.layout.composed import ComposedLayout, CoordTensor
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.tuples import IntTuple, normalize

__all__ = [
    "compatible",
    "congruent",
    "has_none",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "weakly_congruent",
]


_LAYOUTS = (Layout, ComposedLayout, CoordTensor)


def _profile(x: object, what: str) -> IntTuple:
    """Return a checked tuple; of a layout its shape."""
    shape = x.shape if isinstance(x, _LAYOUTS) else x
    return None if shape is None else normalize(shape, what, none=True, basis=True)


def congruent(a: object, b: object) -> bool:
    """Return whether both are nested alike; of layouts, their shapes.

    Raises:
        UserError: An operand is neither an integer tuple nor a layout.
    """
    return tuples.congruent(_profile(a, "the first tuple"), _profile(b, "the second tuple"))


def weakly_congruent(a: object, b: object) -> bool:
    """Return whether the nesting of `a` is a prefix of that of `b`; of layouts, their shapes.

    Raises:
        UserError: An operand is neither an integer tuple nor a layout.
    """
    return tuples.weakly_congruent(_profile(a, "the first tuple"), _profile(b, "the second tuple"))


def has_none(x: object) -> bool:
    """Return whether a leaf is None.

    Raises:
        UserError: `x` is no coordinate.
    """
    return x is None or tuples.has_none(normalize(x, "the coordinate", none=True, basis=True))


def compatible(a: object, b: object) -> bool:
    """Return whether every coordinate of shape `a` is provably one of shape `b`.

    Each leaf of `a` must be the size of what it faces in `b`; sizes known only at run time are
    never provably equal.

    Raises:
        UserError: An operand is no integer tuple.
    """
    first, second = (x.shape if isinstance(x, _LAYOUTS) else x for x in (a, b))
    return tuples.compatible(
        normalize(first, "the first shape"), normalize(second, "the second shape")
    )


def int_tuple_product(x: object) -> Leaf:
    """Return the product of all leaves.

    Raises:
        UserError: `x` is no integer tuple.
    """
    return tuples.int_tuple_product(normalize(x, "the tuple"))


def int_tuple_product_each(x: object) -> IntTuple:
    """Return the product of each top-level mode.

    Raises:
        UserError: `x` is no integer tuple.
    """
    return tuples.int_tuple_product_each(normalize(x, "the tuple"))


def int_tuple_product_like(x: object, guide: object) -> IntTuple:
    """Return `x` with everything that faces a leaf of `guide` multiplied together.

    Raises:
        UserError: An operand is no integer tuple, or `guide` is nested where `x` is not.
    """
    return tuples.int_tuple_product_like(
        normalize(x, "the tuple"), normalize(guide, "the guide", none=True)
    )
