"""``fx.congruent``, ``fx.is_injective``, ``fx.max_common_vector``, …: what layouts have in common.

The answers are known while tracing, so they are plain Python values: of run-time extents and
strides only the known divisors count. Questions that these do not decide are refused.
"""

from __future__ import annotations

from typing import Any

from flydsl.expr.layouts import apply, tuple_value
from flydsl.expr.numeric import Numeric
from flydsl.expr.wrapping import FlyValue, as_operand, plain

__all__ = [
    "compatible",
    "congruent",
    "described",
    "is_bijective",
    "is_injective",
    "is_profile_congruent",
    "is_profile_weakly_congruent",
    "is_surjective",
    "make_layout_tv",
    "max_common_layout",
    "max_common_vector",
    "nullspace",
    "weakly_congruent",
]


def described(x: Any) -> Any:
    """Return a value as an object of `flydsl.layout`, with symbols for what is known at run time.

    A tensor gives its layout.
    """
    from flydsl import layout
    from flydsl.dialects.algebra import layout_of
    from flydsl.dialects.infer import value_of_type

    if isinstance(x, FlyValue):
        return layout_of(value_of_type(x.kind))
    if isinstance(x, (tuple, list)):
        return tuple(described(item) for item in x)
    if isinstance(x, Numeric) and not x.is_static():
        as_operand(x)  # refuses what is no integer
        return layout.Dyn(64 if x.width == 64 else 32)
    return layout_of(tuple_value(plain(x)))


def congruent(a: Any, b: Any) -> bool:
    """Return whether two tuples are nested alike; of layouts and tensors, their shapes."""
    from flydsl import layout

    return layout.congruent(described(a), described(b))


def weakly_congruent(a: Any, b: Any) -> bool:
    """Return whether leaves of `a` face leaves or tuples of `b`, and its tuples tuples alike."""
    from flydsl import layout

    return layout.weakly_congruent(described(a), described(b))


is_profile_congruent = congruent
is_profile_weakly_congruent = weakly_congruent


def compatible(a: Any, b: Any) -> bool:
    """Return whether every coordinate of shape `a` provably is one of shape `b`."""
    from flydsl import layout

    return layout.compatible(described(a), described(b))


def is_injective(x: Any) -> bool:
    """Return whether no two coordinates of a layout have the same value.

    Raises:
        UserError: It depends on run-time values.
    """
    from flydsl import layout

    return layout.is_injective(described(x))


def is_surjective(x: Any) -> bool:
    """Return whether a layout reaches every number below its cosize.

    Raises:
        UserError: It depends on run-time values.
    """
    from flydsl import layout

    return layout.is_surjective(described(x))


def is_bijective(x: Any) -> bool:
    """Return whether a layout is injective and surjective.

    Raises:
        UserError: It depends on run-time values.
    """
    from flydsl import layout

    return layout.is_bijective(described(x))


def max_common_vector(a: Any, b: Any) -> int:
    """Return how many elements two layouts or tensors keep next to one another, in one order.

    It is how many elements one access may move between them, alignment aside.
    """
    from flydsl import layout

    return layout.max_common_vector(described(a), described(b))


def max_common_layout(a: Any, b: Any) -> Any:
    """Return the largest v with ``a(v(i)) == b(v(i)) == i``."""
    return apply("max_common_layout", a, b)


def nullspace(x: Any) -> Any:
    """Return the layout of the coordinates that differ only in modes of stride 0."""
    return apply("nullspace", x)


def make_layout_tv(thr_layout: Any, val_layout: Any) -> tuple[Any, Any]:
    """Return (tile shape, layout from (thread, value) to the position in the tile).

    Raises:
        UserError: A layout is not static, or the two leave gaps.
    """
    from flydsl import layout

    return layout.make_layout_tv(described(thr_layout), described(val_layout))
