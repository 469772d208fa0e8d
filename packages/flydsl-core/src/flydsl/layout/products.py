"""Checked forms of the tuple functions that the algorithms use unchecked."""

from __future__ import annotations

from flydsl.layout import tuples
from flydsl.layout.leaf import Leaf
from flydsl.layout.tuples import IntTuple, normalize

__all__ = [
    "compatible",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
]


def compatible(a: object, b: object) -> bool:
    """Return whether every coordinate of shape `a` is provably one of shape `b`.

    Each leaf of `a` must be the size of what it faces in `b`; sizes known only at run time are
    never provably equal.

    Raises:
        UserError: An operand is no integer tuple.
    """
    return tuples.compatible(normalize(a, "the first shape"), normalize(b, "the second shape"))


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
