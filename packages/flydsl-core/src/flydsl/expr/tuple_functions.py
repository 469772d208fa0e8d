"""``fx.make_int_tuple``, ``fx.shape_div``, … : nested integer tuples.

Their rules are those of the functions of the same name in `flydsl.layout`; `flydsl.expr.layouts`
says when they compute and when they emit an operation.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.emit import located
from flydsl.expr.layouts import IntTupleValue, apply, scalar_result, tuple_value
from flydsl.expr.numeric import Boolean
from flydsl.expr.wrapping import FlyValue, as_operand, is_plain, plain, wrap

__all__ = [
    "ceil_div",
    "depth",
    "elem_less",
    "equal",
    "get_leaves",
    "get_scalar",
    "has_none",
    "int_tuple_add",
    "int_tuple_div",
    "int_tuple_mod",
    "int_tuple_mul",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "int_tuple_sub",
    "make_coord",
    "make_int_tuple",
    "make_shape",
    "make_stride",
    "rank",
    "shape_div",
]


def make_int_tuple(value: Any) -> Any:
    """Return nested integers as an integer tuple; run-time integers may be among them.

    Raises:
        UserError: A leaf is no integer, or a tuple is empty.
    """
    if isinstance(value, FlyValue):
        return value
    if is_plain(value):
        from flydsl import layout

        return layout.make_int_tuple(tuple_value(plain(value)))
    from flydsl.dialects import fly

    with located():
        return wrap(fly.make_int_tuple(as_operand(value)))


def make_shape(*modes: Any) -> Any:
    """Return a shape of the given modes (see `make_int_tuple`)."""
    return make_int_tuple(_modes(modes))


def make_stride(*modes: Any) -> Any:
    """Return a stride of the given modes (see `make_int_tuple`)."""
    return make_int_tuple(_modes(modes))


def make_coord(*modes: Any) -> Any:
    """Return a coordinate of the given modes; None leaves a mode free."""
    value = _modes(modes)
    return tuple_value(plain(value)) if is_plain(value) else make_int_tuple(value)


def _modes(modes: tuple[Any, ...]) -> Any:
    return modes[0] if len(modes) == 1 else modes


def rank(x: Any) -> int:
    """Return the number of top-level modes of a tuple, layout or tensor; 1 for a leaf."""
    if is_plain(x):
        from flydsl import layout

        return layout.rank(tuple_value(plain(x)))
    return len(x) if isinstance(x, (tuple, list)) else int(getattr(x, "rank", 1))


def depth(x: Any) -> int:
    """Return the nesting depth; 0 for a leaf."""
    if is_plain(x):
        from flydsl import layout

        return layout.depth(tuple_value(plain(x)))
    if isinstance(x, (tuple, list)):
        return 1 + max(depth(item) for item in x)
    if isinstance(x, IntTupleValue):
        return depth(x.kind.value)
    return int(getattr(x, "depth", 0))


def get_scalar(x: Any) -> Any:
    """Return a single integer as a Python int or numeric.

    Raises:
        UserError: `x` is a tuple.
    """
    return scalar_result(apply("get_scalar", x))


def get_leaves(x: Any, dynamic_only: bool = False) -> tuple[Any, ...]:
    """Return the leaves of a tuple or layout in reading order; only run-time ones if asked."""
    if is_plain(x):
        from flydsl import layout

        return layout.get_leaves(tuple_value(plain(x)), dynamic_only)
    if isinstance(x, IntTupleValue):
        x = x.to_python()
    elif isinstance(x, FlyValue):
        x = _parts(x)
    if isinstance(x, (tuple, list)):
        return tuple(leaf for item in x for leaf in get_leaves(item, dynamic_only))
    return (x,)


_PARTS = {
    "composed_layout": ("composed_get_inner", "composed_get_offset", "composed_get_outer"),
    "layout": ("get_shape", "get_stride"),
    "coord_tensor": ("get_iter", "get_layout"),
    "memref": ("get_layout",),
}


def _parts(x: FlyValue) -> tuple[Any, ...]:
    """Return what the text of a layout or tensor consists of, in reading order."""
    names = _PARTS.get(x.kind.mnemonic)
    if names is None:
        raise UserTypeError("this object has no integer leaves", code="FLY-U116", value=x)
    return tuple(apply(name, x) for name in names)


def has_none(x: Any) -> bool:
    """Return whether a coordinate leaves a mode free."""
    if is_plain(x):
        from flydsl import layout

        return layout.has_none(tuple_value(plain(x)))
    return isinstance(x, (tuple, list)) and any(has_none(item) for item in x)


def int_tuple_add(a: Any, b: Any) -> Any:
    """Return ``a + b`` leaf by leaf; extra modes of the longer operand pass through."""
    return apply("int_tuple_add", a, b)


def int_tuple_sub(a: Any, b: Any) -> Any:
    """Return ``a - b`` leaf by leaf."""
    return apply("int_tuple_sub", a, b)


def int_tuple_mul(a: Any, b: Any) -> Any:
    """Return ``a * b`` leaf by leaf."""
    return apply("int_tuple_mul", a, b)


def int_tuple_div(a: Any, b: Any) -> Any:
    """Return ``a // b`` leaf by leaf, towards minus infinity."""
    return apply("int_tuple_div", a, b)


def int_tuple_mod(a: Any, b: Any) -> Any:
    """Return ``a % b`` leaf by leaf, with the divisor's sign."""
    return apply("int_tuple_mod", a, b)


def int_tuple_product(x: Any) -> Any:
    """Return the product of all leaves."""
    return apply("int_tuple_product", x)


def int_tuple_product_each(x: Any) -> Any:
    """Return the product of each top-level mode."""
    return apply("int_tuple_product_each", x)


def int_tuple_product_like(x: Any, guide: Any) -> Any:
    """Return products that follow the nesting of `guide`."""
    return apply("int_tuple_product_like", x, guide)


def shape_div(a: Any, b: Any) -> Any:
    """Return the shape `a` divided by `b`; one must divide the other."""
    return apply("shape_div", a, b)


def ceil_div(a: Any, b: Any) -> Any:
    """Return ``a / b`` leaf by leaf, rounded up."""
    return apply("ceil_div", a, b)


def elem_less(a: Any, b: Any) -> Any:
    """Return whether every leaf of `a` is less than the one of `b`."""
    return _truth(apply("elem_less", a, b))


def equal(a: Any, b: Any) -> Any:
    """Return whether two tuples have the same profile and leaves."""
    return _truth(apply("equal", a, b))


def _truth(value: Any) -> Any:
    return Boolean.static(value) if isinstance(value, bool) else value
