"""`Vector`: several numbers of one class in one value, with a logical shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from flydsl.errors import UserIndexError, UserTypeError, UserValueError
from flydsl.expr import lanes, reductions
from flydsl.expr.ambient import IRType, IRValue, require
from flydsl.expr.annotations import AnnotationObject
from flydsl.expr.enums import ReductionOp
from flydsl.expr.numeric import Numeric
from flydsl.expr.numeric.base import RUN_TIME, is_numeric_class

__all__ = ["Vector", "VectorAlias", "vector_alias"]

Shape = tuple[Any, ...]


def numel(shape: Any) -> int:
    """Return the number of elements of a possibly nested shape."""
    if isinstance(shape, (tuple, list)):
        return math.prod(numel(item) for item in shape)
    return int(shape)


class Vector(lanes.Lanes):
    """A vector value; arithmetic and comparison are elementwise.

    Elements are in row-major order of `shape`. Operands promote like numbers; scalars broadcast,
    and shapes broadcast from their last extents as in NumPy.

    Args:
        value: An IR vector, a Vector, or a list of numbers.
        shape: Extents; default: one, the number of elements.
        dtype: Numeric class of the elements; default: that of the list's common type, or the signed
            class of the IR type.
    """

    __slots__ = ()

    def __init__(self, value: Any, shape: Any = None, dtype: type[Numeric] | None = None) -> None:
        if isinstance(value, (list, tuple)):
            value, dtype = lanes.gather(value, dtype)
        elif isinstance(value, Vector):
            dtype, shape = dtype or value.dtype, shape or value.shape
            value = value.value
        count, kind = lanes.vector_parts(value, dtype)
        extents: Shape = (
            (count,)
            if shape is None
            else tuple(shape if isinstance(shape, (tuple, list)) else (shape,))
        )
        super().__init__(value, extents, kind)
        if self.numel != count:
            raise UserValueError(
                "the shape does not hold the vector's elements",
                code="FLY-U244",
                value=self.shape,
                allowed=f"{count} elements",
            )

    def __class_getitem__(cls, parameters: Any) -> VectorAlias:
        """Return the type ``Vector[dtype, lanes or shape]``."""
        dtype, shape = parameters
        return vector_alias(dtype, tuple(shape) if isinstance(shape, (tuple, list)) else (shape,))

    element_type = property(lambda self: self.dtype, doc="Numeric class of the elements.")

    def ir_value(self) -> IRValue:
        """Return the flat IR vector."""
        return self.value

    def __fly_values__(self) -> list[IRValue]:
        return [self.value]

    def __fly_rebuild__(self, values: list[IRValue]) -> Vector:
        return Vector(values[0], self.shape, self.dtype)

    def __fly_key__(self) -> object:
        return (f"Vector[{self.dtype.__name__}, {self.shape}]",)

    def __fly_select__(self, condition: Any, yes: Any, no: Any) -> Vector:
        chosen: Vector = lanes.select(condition, yes, no)
        return chosen

    def __repr__(self) -> str:
        return f"Vector[{self.dtype.__name__}, {self.shape}]({RUN_TIME})"

    def __len__(self) -> int:
        return int(numel(self.shape[:1]))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __bool__(self) -> bool:
        raise UserTypeError(
            "a vector has no single truth value",
            code="FLY-U203",
            hint="reduce it, or index one element",
        )

    __hash__ = object.__hash__

    # Elements

    def __getitem__(self, index: Any) -> Any:
        """Return an element or, where the index holds None, the vector of what is left.

        Raises:
            UserIndexError: A static index is out of range.
        """
        path = index if isinstance(index, tuple) else (index,)
        flat = lanes.flat_extents(self.shape)
        if len(path) == 1 and len(flat) > 1 and path[0] is not None:
            path = (*path, *(None,) * (len(flat) - 1))
        if len(path) != len(flat):
            raise UserIndexError(
                "the index has another rank than the vector",
                code="FLY-U245",
                value=index,
                allowed=f"{len(flat)} entries",
            )
        checked = tuple(_checked_index(i, n) for i, n in zip(path, flat, strict=True))
        if all(item is not None for item in checked):
            return lanes.element(self, _row_major(checked, flat))
        return lanes.sub_vector(self, checked, flat)

    def reshape(self, shape: Any) -> Vector:
        """Return the same elements in another shape.

        Raises:
            UserValueError: The number of elements differs.
        """
        return Vector(self.value, shape, self.dtype)

    def broadcast_to(self, shape: Any) -> Vector:
        """Return the vector repeated to `shape`, as in NumPy.

        Raises:
            UserValueError: The shapes are incompatible.
        """
        return lanes.broadcast(self, lanes.flat_extents(shape))

    def shuffle(self, other: Vector, mask: Sequence[int]) -> Vector:
        """Return elements picked from this vector followed by `other`.

        Raises:
            UserIndexError: A mask entry is out of range.
        """
        return lanes.shuffle(self, other, tuple(mask))

    def to(self, dtype: type[Numeric], rounding_mode: object = None) -> Vector:
        """Convert every element, by the rules for numbers."""
        return lanes.convert(self, dtype, rounding_mode)

    def bitcast(self, dtype: type[Numeric]) -> Vector:
        """Reinterpret the bits as elements of another class; the lane count follows.

        Raises:
            UserTypeError: The total width is no multiple of the new elements.
        """
        return lanes.bitcast(self, dtype)

    def select(self, yes: Any, no: Any) -> Vector:
        """Return elements of `yes` where this is true, else of `no`."""
        chosen: Vector = lanes.select(self, yes, no)
        return chosen

    def reduce(
        self,
        op: ReductionOp | str,
        init_val: Any = None,
        reduction_profile: Any = None,
        *,
        fastmath: Any = None,
    ) -> Any:
        """Return the reduction over all elements, or over the modes that a profile names.

        Args:
            op: ``"add"``, ``"mul"``, ``"max"``, ``"min"`` or a `ReductionOp`. Maximum and minimum
                of floats are NaN if any element is.
            init_val: Value to start from.
            reduction_profile: Not supported any more; pass None.
            fastmath: Floating-point flags for the reduction.

        Raises:
            UserValueError: No such reduction.
        """
        if reduction_profile is not None:
            raise UserValueError(
                "reduce() takes no reduction profile",
                code="FLY-U246",
                value=reduction_profile,
                hint="index the vector and reduce the parts",
            )
        return reductions.reduce(self, op, init_val, fastmath)

    # Construction

    @classmethod
    def from_elements(cls, elements: Sequence[Any], dtype: type[Numeric] | None = None) -> Vector:
        """Return the vector of the given numbers.

        Raises:
            UserValueError: The list is empty.
        """
        return cls(list(elements), None, dtype)

    @classmethod
    def filled(cls, shape: Any, value: Any, dtype: type[Numeric]) -> Vector:
        """Return a vector with `value` in every element."""
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        return cls(lanes.splat(value, dtype, numel(extents)), extents, dtype)

    @classmethod
    def filled_like(
        cls, template: Vector, value: Any, dtype: type[Numeric] | None = None
    ) -> Vector:
        """Return a vector of the template's shape with `value` in every element."""
        return cls.filled(template.shape, value, dtype or template.dtype)

    @classmethod
    def zeros_like(cls, template: Vector, dtype: type[Numeric] | None = None) -> Vector:
        """Return zeros in the template's shape."""
        return cls.filled_like(template, 0, dtype)


def _checked_index(index: Any, extent: int) -> Any:
    scalar = index.__fly_scalar__() if hasattr(index, "__fly_scalar__") else index
    if isinstance(scalar, Numeric) and scalar.is_static():
        scalar = scalar.value
    if isinstance(scalar, bool) or (scalar is not None and not isinstance(scalar, (int, Numeric))):
        raise UserTypeError("a vector is indexed by integers or None", code="FLY-U245", value=index)
    if isinstance(scalar, int):
        if not -extent <= scalar < extent:
            raise UserIndexError(
                "the index is out of range",
                code="FLY-U245",
                value=scalar,
                allowed=f"0 to {extent - 1}",
            )
        return scalar % extent
    return scalar


def _row_major(index: Sequence[Any], extents: Sequence[int]) -> Any:
    position: Any = 0
    for item, extent in zip(index, extents, strict=True):
        position = position * extent + item
    return position


class VectorAlias(AnnotationObject):
    """A vector type such as ``fx.Float32x4``: calling it makes a vector of that type."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: type[Numeric], shape: Shape) -> None:
        self.dtype = dtype
        self.shape = shape

    @property
    def lanes(self) -> int:
        """Number of elements."""
        return numel(self.shape)

    @property
    def width(self) -> int:
        """Bits of the whole vector."""
        return self.lanes * self.dtype.width

    @property
    def ir_type(self) -> IRType:
        """The IR type in the current trace."""
        return require("a vector type").type(f"vector<{self.lanes}x{self.dtype.ir_text}>")

    def __call__(self, value: Any) -> Vector:
        """Return a vector of a scalar (splat), a list of exactly this length, or a vector.

        Raises:
            UserValueError: The length differs.
        """
        if isinstance(value, (list, tuple)):
            if len(value) != self.lanes:
                raise UserValueError(
                    f"{self!r} takes {self.lanes} elements", code="FLY-U244", value=len(value)
                )
            return Vector(list(value), self.shape, self.dtype)
        if isinstance(value, Vector):
            return value.to(self.dtype).reshape(self.shape)
        if str(getattr(value, "type", "")).startswith("vector<"):
            return Vector(value, self.shape, self.dtype)
        return Vector.filled(self.shape, value, self.dtype)

    def __repr__(self) -> str:
        return f"fx.Vector[{self.dtype.__name__}, {self.shape}]"


@cache
def vector_alias(dtype: type[Numeric], shape: Shape) -> VectorAlias:
    """Return the vector type of a class and shape.

    Raises:
        UserTypeError: `dtype` is not a numeric class.
    """
    if not is_numeric_class(dtype):
        raise UserTypeError("a vector type needs a numeric class", code="FLY-U244", value=dtype)
    return VectorAlias(dtype, shape)


def _binary(op: str, swapped: bool = False) -> Any:
    def method(self: Vector, other: Any) -> Any:
        return lanes.binary(op, other, self) if swapped else lanes.binary(op, self, other)

    return method


def _comparison(op: str) -> Any:
    return lambda self, other: lanes.comparison(op, self, other)


for _name, _op in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv",
    "mod": "mod", "and": "and", "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shr",
}.items():  # fmt: skip
    setattr(Vector, f"__{_name}__", _binary(_op))
    setattr(Vector, f"__r{_name}__", _binary(_op, True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Vector, f"__{_name}__", _comparison(_name))
for _name in ("neg", "abs", "invert"):
    setattr(Vector, f"__{_name}__", lambda self, _op=_name: lanes.unary(_op, self))


def __getattr__(name: str) -> Any:
    """Return a name that only existing kernels use, with a warning (`flydsl.compat`)."""
    from flydsl.plugins.namespaces import legacy_attribute

    return legacy_attribute(__name__, name)
