"""The layout algebra in expressions: plain objects where everything is known, Fly operations else.

Outside a trace, and inside one for operands that are all known, the functions return objects of
`flydsl.layout` (ints, tuples, `Layout`, …). As soon as one operand is a run-time value they emit
the Fly operation of the same name and return a traced value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flydsl.errors import UserIndexError, UserTypeError
from flydsl.expr.ambient import IRValue, current
from flydsl.expr.emit import located
from flydsl.expr.numeric import Numeric
from flydsl.expr.numeric.promote import as_numeric
from flydsl.expr.wrapping import (
    FlyValue,
    as_operand,
    is_plain,
    plain,
    register_wrapper,
    wrap,
)

__all__ = ["IntTupleValue", "LayoutValue", "apply", "is_static_object", "tuple_value"]


def is_static_object(value: object) -> bool:
    """Return whether a value is a layout, swizzle, tile or similar that is known while tracing."""
    return type(value).__module__.startswith(("flydsl.layout.", "flydsl.dialects."))


def apply(name: str, *operands: Any, **attributes: Any) -> Any:
    """Apply the operation `name` of the layout algebra.

    Args:
        name: Name of the Fly operation.
        *operands: DSL values, Python values or plain layout objects.
        **attributes: Attributes of the operation.

    Raises:
        UserError: The operands do not fit the operation.
    """
    if current() is None or all(is_plain(operand) for operand in operands):
        from flydsl.dialects.algebra import ALGEBRA

        values = [tuple_value(plain(operand)) for operand in operands]
        return ALGEBRA[name](*values, **attributes)
    from flydsl.dialects import fly

    element = next((x.element for x in operands if hasattr(x, "element")), None)
    with located():
        result = getattr(fly, name)(*[as_operand(operand) for operand in operands], **attributes)
    return wrap(result, element)


def tuple_value(value: Any) -> Any:
    """Return nested lists as tuples, everything else as it is."""
    if isinstance(value, list):
        return tuple(tuple_value(item) for item in value)
    return value


class IntTupleValue(FlyValue):
    """A nested tuple of integers, at least one of them a run-time value.

    A single integer takes part in arithmetic and comparisons like a number.
    """

    __slots__ = ()

    @property
    def rank(self) -> int:
        """Number of top-level entries; 1 for a single integer."""
        value = self.kind.value
        return len(value) if isinstance(value, tuple) else 1

    @property
    def is_leaf(self) -> bool:
        """Whether it is a single integer."""
        return not isinstance(self.kind.value, tuple)

    def to_python(self) -> Any:
        """Return nested Python tuples of ints and numerics."""
        if self.is_leaf:
            return self.__fly_scalar__()
        return tuple(item.to_python() if isinstance(item, IntTupleValue) else item for item in self)

    def __len__(self) -> int:
        if self.is_leaf:
            raise UserTypeError("a single integer has no length", code="FLY-U237", value=self)
        return self.rank

    def __getitem__(self, mode: int) -> Any:
        if self.is_leaf or not -self.rank <= mode < self.rank:
            raise UserIndexError(
                "there is no such entry",
                code="FLY-U237",
                value=mode,
                allowed=f"0 to {self.rank - 1} of {self.kind}",
            )
        item = apply("get", self, mode=(mode % self.rank,))
        if isinstance(item, IntTupleValue) and item.is_leaf:
            return item.__fly_scalar__()
        return item

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __fly_scalar__(self) -> Numeric:
        if not self.is_leaf:
            raise UserTypeError(
                "a tuple is used where one integer is expected", code="FLY-U237", value=self
            )
        with located():
            from flydsl.dialects import fly

            number = as_numeric(fly.get_scalar(self.value))
        assert number is not None
        return number

    def __hash__(self) -> int:
        return id(self)

    def to(self, dtype: Any) -> Any:
        """Convert a single integer to a numeric class."""
        return self.__fly_scalar__().to(dtype)


def _forward(name: str) -> None:
    def method(self: IntTupleValue, *others: Any) -> Any:
        return getattr(self.__fly_scalar__(), name)(*others)

    method.__name__ = name
    setattr(IntTupleValue, name, method)


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"),
    *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rand", "ror", "rxor"),
    *("eq", "ne", "lt", "le", "gt", "ge", "neg", "bool", "int", "index"),
):
    _forward(f"__{_name}__")


class LayoutValue(FlyValue):
    """A layout with at least one run-time extent or stride."""

    __slots__ = ()

    @property
    def shape(self) -> Any:
        """The shape."""
        return apply("get_shape", self)

    @property
    def stride(self) -> Any:
        """The stride.

        Raises:
            UserError: A composed layout has none.
        """
        return apply("get_stride", self)

    @property
    def rank(self) -> int:
        """Number of modes."""
        return int(self.kind.layout.rank)

    @property
    def depth(self) -> int:
        """Nesting depth of the shape."""
        return int(self.kind.layout.depth)

    @property
    def is_leaf(self) -> bool:
        """Whether the shape is a single integer."""
        return bool(self.kind.layout.is_leaf)

    @property
    def is_static(self) -> bool:
        """Whether every extent and stride is known while tracing (never)."""
        return False

    @property
    def is_static_shape(self) -> bool:
        """Whether every extent is known while tracing."""
        return bool(self.kind.layout.is_static_shape)

    def __getitem__(self, mode: Any) -> Any:
        path = tuple(mode) if isinstance(mode, (tuple, list)) else (mode,)
        if not -self.rank <= path[0] < self.rank:
            raise UserIndexError(
                "there is no such mode",
                code="FLY-U237",
                value=mode,
                allowed=f"0 to {self.rank - 1} of {self.kind}",
            )
        return apply("get", self, mode=(path[0] % self.rank, *path[1:]))

    def __call__(self, *coordinate: Any) -> Any:
        """Evaluate the layout at a coordinate, or slice it where a coordinate is None."""
        return call_layout(self, coordinate)

    def get_hier_coord(self, index: Any) -> Any:
        """Return the coordinate of a linear index, nested as the shape."""
        return apply("idx2crd", index, self)

    def get_flat_coord(self, index: Any) -> Any:
        """Return the coordinate of a linear index, one entry per mode."""
        return apply("get_flat_coord", index, self)

    def get_1d_coord(self, index: Any) -> Any:
        """Return the colexicographic position of a linear index."""
        return apply("get_1d_coord", index, self)


def call_layout(layout: Any, coordinate: Sequence[Any]) -> Any:
    """Evaluate or slice `layout` (plain or traced) at a coordinate."""
    point = coordinate[0] if len(coordinate) == 1 else tuple(coordinate)
    if _has_none(point):
        return apply("slice", layout, point)
    return scalar_result(apply("crd2idx", point, layout))


def _has_none(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_none(item) for item in value)
    return value is None


def scalar_result(value: Any) -> Any:
    """Return a single run-time integer as a numeric, everything else as it is."""
    if isinstance(value, IntTupleValue) and value.is_leaf:
        return value.__fly_scalar__()
    return value


def _int_tuple(value: IRValue, kind: Any, element: Any) -> Any:
    del element
    return kind.value if "?" not in str(kind) else IntTupleValue(value, kind)


def _layout(value: IRValue, kind: Any, element: Any) -> Any:
    del element
    return kind.layout if "?" not in str(kind) else LayoutValue(value, kind)


def _swizzle(value: IRValue, kind: Any, element: Any) -> Any:
    del value, element
    return kind.swizzle


def _tile(value: IRValue, kind: Any, element: Any) -> Any:
    del value, element
    return kind.tile


register_wrapper("int_tuple", _int_tuple)
register_wrapper("layout", _layout)
register_wrapper("composed_layout", _layout)
register_wrapper("swizzle", _swizzle)
register_wrapper("tile", _tile)
