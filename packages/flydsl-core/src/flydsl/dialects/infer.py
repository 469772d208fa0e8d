"""Result types: run the algebra on values of which only the type is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl.dialects.algebra import ALGEBRA
from flydsl.dialects.fly_types import (
    ComposedLayoutType,
    CoordTensorType,
    FlyType,
    IntTupleType,
    LayoutType,
    MemRefType,
    PtrType,
    SwizzleType,
    TileType,
    of,
)
from flydsl.dialects.views import InferredPointer, View, view_type
from flydsl.errors import CompilerBug, UserTypeError
from flydsl.layout.leaf import width_of

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = ["SCALAR_RESULTS", "result_type", "symbolic", "type_of", "value_of_type"]

SCALAR_RESULTS = frozenset({"get_scalar", "elem_less", "equal"})
"""Operations whose result is a builtin integer and no Fly value."""

_WIDTHS = {"i32": 32, "i64": 64, "index": 64}


def value_of_type(kind: FlyType) -> Any:
    """Return the Python value that a type describes, with symbolic leaves."""
    match kind:
        case IntTupleType():
            return kind.value
        case LayoutType() | ComposedLayoutType():
            return kind.layout
        case MemRefType():
            return View(InferredPointer(kind.pointer), kind.layout)
        case PtrType():
            return InferredPointer(kind)
        case CoordTensorType():
            return kind.tensor
        case SwizzleType():
            return kind.swizzle
        case TileType():
            return kind.tile
    return kind  # atoms and tiled operations are their own description


def symbolic(type_: ir.Type) -> Any:
    """Return the Python value of an operand of that type; an integer is a run-time leaf.

    Raises:
        UserError: The type is neither a Fly type nor i32, i64 or index.
    """
    kind = of(type_)
    if kind is not None:
        return value_of_type(kind)
    width = _WIDTHS.get(str(type_))
    if width is None:
        raise UserTypeError(
            "a layout operation has an operand of a type it cannot use",
            code="FLY-U319",
            value=str(type_),
            allowed="integers of 32 or 64 bits, layouts, tuples and tensors",
        )
    return fl.Dyn(width)


def type_of(value: Any) -> FlyType:
    """Return the Fly type of a Python value of the algebra."""
    if isinstance(value, FlyType):
        return value
    if isinstance(value, View):
        return view_type(value)
    makers: tuple[tuple[Any, Any], ...] = (
        (fl.Layout, LayoutType),
        (fl.ComposedLayout, ComposedLayoutType),
        (fl.CoordTensor, CoordTensorType),
        ((fl.Swizzle, fl.CoordSwizzle), SwizzleType),
        (fl.Tile, TileType),
        ((int, tuple, fl.DynamicLeaf, fl.Basis, type(None)), IntTupleType),
    )
    for kind, make in makers:
        if isinstance(value, kind):
            made: FlyType = make(value)
            return made
    pointed = getattr(value, "type", None)
    if isinstance(pointed, PtrType):
        return pointed
    raise CompilerBug(f"no Fly type describes {value!r}", code="FLY-B312")


def result_type(name: str, types: Sequence[ir.Type], attributes: Mapping[str, Any]) -> ir.Type:
    """Return the result type of the algebra operation `name`.

    Args:
        name: Key of `ALGEBRA`.
        types: Operand types.
        attributes: Attribute values as Python values.

    Raises:
        UserError: The operands do not fit the operation.
    """
    value = ALGEBRA[name](*(symbolic(t) for t in types), **attributes)
    if name in SCALAR_RESULTS:
        from flydsl.mlir import ir

        if isinstance(value, bool):
            return ir.IntegerType.get_signless(1)
        return ir.IntegerType.get_signless(width_of(value))
    return type_of(value).ir
