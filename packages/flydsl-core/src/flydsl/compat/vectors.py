"""Legacy builders of ``fx.vector``, on `Vector`; result types may be IR types or `fx.Vector[…]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl.compat.operations import as_value, numeric_class
from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.numeric import BY_TEXT
from flydsl.expr.pointers import ptr_load, ptr_store
from flydsl.expr.vector import Vector, VectorAlias, vector_alias

__all__ = [
    "bitcast",
    "broadcast",
    "constant_vector",
    "extract",
    "from_elements",
    "insert",
    "load_op",
    "reduction",
    "shuffle",
    "store",
    "vector_type",
]


def vector_type(kind: Any) -> VectorAlias:
    """Return the vector type that an IR vector type or a vector type of fx stands for.

    Raises:
        UserTypeError: It is no vector type.
    """
    if isinstance(kind, VectorAlias):
        return kind
    text = str(kind)
    *extents, element = text.removeprefix("vector<").rstrip(">").split("x", text.count("x"))
    if not text.startswith("vector<") or element not in BY_TEXT:
        raise UserTypeError("this is no vector type", code="FLY-U244", value=text)
    return vector_alias(BY_TEXT[element], tuple(int(extent) for extent in extents))


def _vector(value: Any) -> Vector:
    found = as_value(value)
    if not isinstance(found, Vector):
        raise UserTypeError("this is no vector", code="FLY-U244", value=value)
    return found


def _position(static: Sequence[Any] | None, dynamic: Sequence[Any] | None) -> Any:
    """Return the one position that the two lists hold (dynamic entries stand for placeholders)."""
    given = list(dynamic or ()) or list(static or ())
    if len(given) != 1:
        raise UserValueError("give one position", code="FLY-U245", value=(static, dynamic))
    return given[0] if isinstance(given[0], int) else as_value(given[0])


def extract(
    source: Any, static_position: Sequence[Any] | None = None, dynamic_position: Any = None
) -> Any:
    """Return one element of a flat vector."""
    return _vector(source)[_position(static_position, dynamic_position)]


def insert(
    value: Any,
    dest: Any,
    static_position: Sequence[Any] | None = None,
    dynamic_position: Any = None,
) -> Vector:
    """Return a flat vector with one element replaced."""
    vector, at = _vector(dest), _position(static_position, dynamic_position)
    number = as_value(value)
    if isinstance(at, int):
        items = list(vector)
        items[at] = number
        return Vector(items, vector.shape, vector.dtype)
    items = [(at == place).select(number, item) for place, item in enumerate(vector)]
    return Vector(items, vector.shape, vector.dtype)


def broadcast(kind: Any, value: Any) -> Vector:
    """Return a vector with one number in every element."""
    found = vector_type(kind)
    return Vector.filled(found.shape, as_value(value), found.dtype)


def constant_vector(value: Any, dtype: Any) -> Vector:
    """Return a vector with one number in every element.

    Args:
        value: The number.
        dtype: A vector type (``fx.Vector[dtype, n]`` or an IR vector type).
    """
    kind = vector_type(dtype)
    return Vector.filled(kind.shape, value, kind.dtype)


def bitcast(kind: Any, value: Any) -> Vector:
    """Reinterpret the bits of a vector as another vector type."""
    found = vector_type(kind)
    cast = _vector(value).bitcast(found.dtype)
    if cast.numel != found.lanes:
        raise UserTypeError(
            "the vector types differ in width", code="FLY-U244", value=str(kind),
            allowed=f"{cast.numel} elements",
        )  # fmt: skip
    return cast.reshape(found.shape)


def from_elements(kind: Any, elements: Sequence[Any]) -> Vector:
    """Return the vector of the given numbers."""
    found = vector_type(kind)
    return Vector([as_value(item) for item in elements], found.shape, found.dtype)


def shuffle(a: Any, b: Any, mask: Sequence[int]) -> Vector:
    """Return elements picked from `a` followed by `b`."""
    return _vector(a).shuffle(_vector(b), mask)


_SIGNS = {"maxsi": "", "minsi": "", "maxui": "u", "minui": "u"}
_KINDS = {"maximumf": "max", "minimumf": "min"}


def reduction(dtype: Any, kind: Any, value: Any) -> Any:
    """Return the reduction of a vector: ``add``, ``mul``, ``maxsi``, ``maxui``, ``maximumf``, …."""
    name = str(getattr(kind, "name", kind)).rpartition(".")[2].rstrip(">").lower()
    vector, result = _vector(value), numeric_class(dtype)
    if name in _SIGNS:
        ordered = vector.bitcast(BY_TEXT[_SIGNS[name] + vector.dtype.ir_text])
        return ordered.reduce(name[:3]).bitcast(result)
    return vector.reduce(_KINDS.get(name, name)).to(result)


def _element(memory: Any, indices: Sequence[Any]) -> Any:
    """Return the pointer to an element of a tensor."""
    from flydsl.expr.layout_functions import crd2idx

    items = [item if isinstance(item, int) else as_value(item) for item in indices]
    coordinate = tuple(items) if len(items) > 1 else items[0]
    return memory.iter + crd2idx(coordinate, memory.layout)


def load_op(kind: Any, memory: Any, indices: Sequence[Any]) -> Any:
    """Load consecutive elements of a tensor in memory, from a coordinate on."""
    return ptr_load(_element(memory, indices), vector_type(kind))


def store(value: Any, memory: Any, indices: Sequence[Any]) -> None:
    """Store a vector to consecutive elements of a tensor in memory, from a coordinate on."""
    ptr_store(_vector(value), _element(memory, indices))
