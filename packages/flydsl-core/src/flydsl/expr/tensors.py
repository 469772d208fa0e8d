"""`Tensor`: a pointer with a layout; and coordinate tensors, which have no memory."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import IRValue
from flydsl.expr.coordinates import checked_coordinate
from flydsl.expr.emit import located
from flydsl.expr.enums import AddressSpace
from flydsl.expr.layouts import apply, scalar_result, tuple_value
from flydsl.expr.numeric import BY_TEXT, Numeric
from flydsl.expr.pointers import element_class
from flydsl.expr.stored import stored
from flydsl.expr.unbounded import Unbounded
from flydsl.expr.vector import Vector
from flydsl.expr.wrapping import FlyValue, as_operand, is_plain, plain, register_wrapper

__all__ = [
    "CoordTensor",
    "Tensor",
    "make_fragment_like",
    "make_rmem_tensor",
    "memref_alloca",
    "memref_load",
    "memref_load_vec",
    "memref_store",
    "memref_store_vec",
]


class _View(Unbounded, FlyValue):
    """What tensors in memory and coordinate tensors share."""

    __slots__ = ()

    @property
    def _layout_kind(self) -> Any:
        raise NotImplementedError

    @property
    def shape(self) -> Any:
        """The shape: ints, tuples, or traced values where an extent is known only at run time."""
        kind = self._layout_kind
        return scalar_result(kind.shape if kind.is_static_shape else apply("get_shape", self))

    @property
    def stride(self) -> Any:
        """The stride, like `shape`."""
        kind = self._layout_kind
        return scalar_result(kind.stride if kind.is_static else apply("get_stride", self))

    @property
    def layout(self) -> Any:
        """The layout."""
        kind = self._layout_kind
        return kind if kind.is_static else apply("get_layout", self)

    @property
    def iter(self) -> Any:
        """The pointer, or the base coordinate of a coordinate tensor."""
        return apply("get_iter", self)

    @property
    def rank(self) -> int:
        """Number of modes."""
        return int(self._layout_kind.rank)

    @property
    def depth(self) -> int:
        """Nesting depth of the shape."""
        return int(self._layout_kind.depth)

    @property
    def is_static(self) -> bool:
        """Whether the layout is known while tracing."""
        return bool(self._layout_kind.is_static)

    def _coordinate(self, coordinate: Any) -> Any:
        """Check a coordinate against the shape and return it with tuples for lists."""
        return checked_coordinate(coordinate, self)


class Tensor(_View):
    """Memory seen through a layout.

    Indexing with a coordinate loads and stores elements; with None entries it slices. Stored
    numbers must have the element class (Python numbers are converted).

    Attributes:
        element: Numeric class of the elements.
    """

    __slots__ = ("element",)

    def __init__(
        self, value: IRValue, kind: Any = None, element: type[Numeric] | None = None
    ) -> None:
        super().__init__(value, kind)
        self.element = BY_TEXT[self.kind.element] if element is None else element

    def __bool__(self) -> bool:
        raise UserTypeError(
            "a tensor is neither true nor false",
            code="FLY-U250",
            hint="compare an element, or decide with an fx.Constexpr argument; `is None` asks "
            "whether there is a tensor",
        )

    def __len__(self) -> int:
        raise UserTypeError(
            "a tensor has no Python length",
            code="FLY-U250",
            hint="X.shape[0] is the extent of its first mode, fx.size(X) its number of elements",
        )

    @property
    def _layout_kind(self) -> Any:
        return self.kind.layout

    @property
    def dtype(self) -> type[Numeric]:
        """Numeric class of the elements."""
        return self.element

    element_type = dtype

    @property
    def address_space(self) -> AddressSpace | str:
        """The address space; a target's own space by its name."""
        return AddressSpace.named(self.kind.space)

    memspace = address_space

    @property
    def alignment(self) -> int:
        """Bytes that the address of the first element is a multiple of."""
        return int(self.kind.alignment)

    @property
    def leading_dim(self) -> int:
        """Index of the first mode with stride one.

        Raises:
            UserTypeError: No mode has a static stride of one.
        """
        stride = self.kind.layout.stride
        for index, item in enumerate(stride if isinstance(stride, tuple) else (stride,)):
            if isinstance(item, int) and item == 1:
                return index
        raise UserTypeError("no mode is contiguous", code="FLY-U250", value=str(self.kind))

    def __getitem__(self, coordinate: Any) -> Any:
        """Load the element at a coordinate, or slice where the coordinate has None.

        Raises:
            UserError: The coordinate does not fit the shape.
        """
        point = self._coordinate(coordinate)
        if _has_free(point):
            return apply("slice", self, point)
        return _load(self, point)

    def __setitem__(self, coordinate: Any, value: Any) -> None:
        """Store an element at a coordinate; with None entries a vector over the slice.

        Raises:
            UserTypeError: The value is not of the element class.
        """
        point = self._coordinate(coordinate)
        if _has_free(point):
            part = apply("slice", self, point)
            part.store(value) if isinstance(value, Vector) else part.fill(value)
            return
        _store(value, self, point)

    def load(self) -> Vector:
        """Load the whole tensor (static shape) as a vector."""
        return memref_load_vec(self)

    def store(self, value: Any) -> None:
        """Store a vector over the whole tensor."""
        memref_store_vec(value, self)

    def fill(self, value: Any) -> None:
        """Store one number in every element (static shape)."""
        count = apply("size", self)
        memref_store_vec(Vector.filled((count,), value, self.element), self)

    def __fly_rebuild__(self, values: list[IRValue]) -> Tensor:
        return Tensor(values[0], None, self.element)

    def __fly_key__(self) -> object:
        return (f"Tensor[{self.element.__name__}]", str(self.kind))


class CoordTensor(_View):
    """A view of coordinates: what element each position of a partition stands for."""

    __slots__ = ()

    @property
    def _layout_kind(self) -> Any:
        return self.kind.tensor.layout

    @property
    def dtype(self) -> type[Numeric]:
        """Raise: coordinates have no element class.

        Raises:
            UserTypeError: Always.
        """
        raise UserTypeError("a coordinate tensor has no element type", code="FLY-U250")

    def __getitem__(self, coordinate: Any) -> Any:
        """Return the coordinate at a position, or slice where the position has None."""
        point = self._coordinate(coordinate)
        if _has_free(point):
            return apply("slice", self, point)
        base = apply("get_iter", self)
        moved = apply("crd2idx", point, apply("get_layout", self))
        return scalar_result(apply("int_tuple_add", base, moved))


def _has_free(point: Any) -> bool:
    if isinstance(point, tuple):
        return any(_has_free(item) for item in point)
    return point is None


register_wrapper("memref", Tensor)
register_wrapper("coord_tensor", lambda value, kind, _: CoordTensor(value, kind))


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        hint = ""
        if isinstance(value, CoordTensor):
            hint = "a coordinate tensor has no memory; index it to get coordinates"
        raise UserTypeError(
            "this is not a tensor in memory", code="FLY-U241", value=value, hint=hint
        )
    return value


def _load(source: Tensor, point: Any) -> Numeric:
    """Load the element at a coordinate that is checked already."""
    from flydsl.dialects import fly

    with located():
        return source.element.wrap(fly.memref_load(source.value, as_operand(point)))


def _store(value: Any, target: Tensor, point: Any) -> None:
    """Store an element at a coordinate that is checked already."""
    from flydsl.dialects import fly

    with located():
        item = stored(value, target.element, "the tensor")
        fly.memref_store(item, target.value, as_operand(point))


def memref_load(tensor: Any, coordinate: Any) -> Numeric:
    """Load the element at a coordinate without None."""
    source = _tensor(tensor)
    return _load(source, checked_coordinate(coordinate, source))


def memref_store(value: Any, tensor: Any, coordinate: Any) -> None:
    """Store an element at a coordinate without None.

    Raises:
        UserTypeError: The value is not of the element class.
    """
    target = _tensor(tensor)
    _store(value, target, checked_coordinate(coordinate, target))


def memref_load_vec(tensor: Any) -> Vector:
    """Load a tensor of static shape as a vector, first mode fastest."""
    from flydsl.dialects import fly

    source = _tensor(tensor)
    with located():
        return Vector(fly.memref_load_vec(source.value), None, source.element)


def memref_store_vec(vector: Any, tensor: Any) -> None:
    """Store a vector over a tensor of static shape, first mode fastest.

    Raises:
        UserTypeError: The vector has another element class.
    """
    from flydsl.dialects import fly

    target = _tensor(tensor)
    if not isinstance(vector, Vector):
        vector = Vector(vector)
    with located():
        fly.memref_store_vec(stored(vector, target.element, "the tensor"), target.value)


def memref_alloca(layout: Any, dtype: Any) -> Tensor:
    """Allocate a register tensor (see `make_rmem_tensor`)."""
    return make_rmem_tensor(layout, dtype)


def make_rmem_tensor(shape_or_layout: Any, dtype: Any) -> Tensor:
    """Allocate a register tensor, private to each thread.

    Args:
        shape_or_layout: Static shape (first mode fastest) or layout.
        dtype: Numeric class of the elements.

    Raises:
        UserError: The shape is known only at run time, or `dtype` is no numeric class.
    """
    from flydsl import layout as algebra
    from flydsl.dialects import fly
    from flydsl.dialects.fly_types import MemRefType

    kind = element_class(dtype)
    if not is_plain(shape_or_layout):
        raise UserTypeError(
            "a register tensor needs a shape known while tracing",
            code="FLY-U251",
            value=shape_or_layout,
            hint="pass its extents as fx.Constexpr",
        )
    layout = tuple_value(plain(shape_or_layout))
    if isinstance(layout, (int, tuple)):
        layout = algebra.make_ordered_layout(layout, 0)
    size = max(1, kind.width // 8)
    with located():
        value = fly.memref_alloca(MemRefType(kind.ir_text, "register", layout, size & -size))
    return Tensor(value, None, kind)


def make_fragment_like(x: Any, dtype: Any = None) -> Tensor:
    """Allocate the register tensor with the fragment layout of a layout or tensor.

    Args:
        x: Layout, tensor or coordinate tensor.
        dtype: Numeric class of the elements; default: that of the tensor.

    Raises:
        UserError: No element class is known, or the layout is known only at run time.
    """
    from flydsl.dialects import fly

    kind = element_class(dtype) if dtype is not None else getattr(x, "element", None)
    if kind is None:
        raise UserTypeError(
            "a fragment of a layout needs an element type", code="FLY-U240", value=x
        )
    with located():
        return Tensor(fly.make_fragment_like(as_operand(x), kind.ir_text), None, kind)
