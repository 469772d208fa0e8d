"""Creating Fly operations: attributes, segment sizes, and Python values as operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly_types as ft
from flydsl.dialects.definition import OPS
from flydsl.dialects.infer import result_type, type_of
from flydsl.errors import UserTypeError
from flydsl.layout.tuples import normalize
from flydsl.mlir import context_state

__all__ = [
    "Builder",
    "Operand",
    "as_value",
    "attribute",
    "create",
    "decode",
    "int_tuple",
    "ordered_leaves",
    "parsed",
    "segments",
    "static",
]

_STATIC = (
    ft.FlyType,
    fl.Layout,
    fl.ComposedLayout,
    fl.CoordTensor,
    fl.Swizzle,
    fl.CoordSwizzle,
    fl.Tile,
)

Operand: TypeAlias = Any
"""An ``ir.Value``, or a Python value that `as_value` turns into one."""


def attribute(value: Any) -> mlir.ir.Attribute:
    """Return the MLIR attribute of an int (i64), a tuple of ints, a bool, a str or an attribute."""
    cache = context_state().attributes
    key = (type(value), value)
    found = cache.get(key)
    if found is None:
        if isinstance(value, mlir.ir.Attribute):
            return value
        if isinstance(value, bool):
            found = mlir.ir.BoolAttr.get(value)
        elif isinstance(value, int):
            found = mlir.ir.IntegerAttr.get(mlir.ir.IntegerType.get_signless(64), value)
        elif isinstance(value, str):
            found = mlir.ir.StringAttr.get(value)
        else:
            found = mlir.ir.DenseI64ArrayAttr.get(list(value))
        cache[key] = found
    return found


def parsed(text: str) -> mlir.ir.Attribute:
    """Return the attribute that `text` spells, parsed once per context."""
    cache = context_state().attributes
    key = ("parsed", text)
    found = cache.get(key)
    if found is None:
        found = cache[key] = mlir.ir.Attribute.parse(text)
    return found


def decode(value: mlir.ir.Attribute) -> Any:
    """Return the Python value of an attribute that `attribute` can make."""
    cache = context_state(value.context).attributes
    found = cache.get(value)
    if found is None:
        if isinstance(
            value, mlir.ir.IntegerAttr | mlir.ir.StringAttr | mlir.ir.BoolAttr | mlir.ir.FloatAttr
        ):
            found = value.value
        elif isinstance(value, mlir.ir.TypeAttr):
            found = str(value.value)
        elif isinstance(value, mlir.ir.DenseI64ArrayAttr | mlir.ir.DenseI32ArrayAttr):
            found = tuple(value)
        else:
            found = value
        cache[value] = found
    return found


def segments(sizes: Sequence[int]) -> mlir.ir.Attribute:
    """Return the attribute of operand or result segment sizes."""
    cache = context_state().attributes
    key = ("segments", *sizes)
    found = cache.get(key)
    if found is None:
        found = cache[key] = mlir.ir.DenseI32ArrayAttr.get(list(sizes))
    return found


def create(
    name: str,
    results: Sequence[mlir.ir.Type],
    operands: Sequence[mlir.ir.Value],
    attributes: Mapping[str, mlir.ir.Attribute] | None = None,
) -> mlir.ir.Operation:
    """Create ``fly.<name>`` at the ambient insertion point."""
    return mlir.ir.Operation.create(
        "fly." + name,
        results=results,
        operands=operands,
        attributes=attributes,  # type: ignore[arg-type,unused-ignore]
    )


def static(value: Any) -> mlir.ir.Value:
    """Return the SSA value of a static Python value or type wrapper (``fly.static``).

    Raises:
        UserError: It holds a run-time leaf.
    """
    kind = type_of(value)
    if "?" in str(kind):
        raise UserTypeError(
            "a value with run-time parts is used where a static one is needed",
            code="FLY-U320",
            value=str(kind),
        )
    return create("static", (kind.ir,), ()).result


_PLANNED_RANK = 8
"""Longest tuples whose type is looked up by its leaves."""


def _collect(x: Any, found: list[mlir.ir.Value]) -> Any:
    """Return nested `x` with leaves for its integer values, which are appended to `found`."""
    if isinstance(x, tuple | list):
        return tuple(_collect(e, found) for e in x)
    if x is None or isinstance(x, int | fl.Basis):
        return x
    if not isinstance(x, mlir.ir.Value):
        return normalize(x, "the tuple")
    kind = ft.of(x.type)
    if isinstance(kind, ft.IntTupleType) and not isinstance(kind.value, tuple):
        if isinstance(kind.value, int):
            return kind.value
        leaf = kind.value
        x = create("get_scalar", (mlir.ir.IntegerType.get_signless(leaf.width),), (x,)).result
        found.append(x)
        return leaf
    text = str(x.type)
    if text == "index":
        x = mlir.arith.index_cast(mlir.ir.IntegerType.get_signless(64), x)
    elif text in ("i8", "i16"):
        x = mlir.arith.extsi(mlir.ir.IntegerType.get_signless(32), x)
    elif text not in ("i32", "i64"):
        raise UserTypeError(
            "a tuple holds a value that is no integer of at most 64 bits",
            code="FLY-U318",
            value=text,
        )
    found.append(x)
    return fl.Dyn(64 if text in ("i64", "index") else 32)


def ordered_leaves(values: Sequence[mlir.ir.Value]) -> tuple[list[mlir.ir.Value], tuple[int, int]]:
    """Return integer values with the i32 ones first, and how many there are of each width."""
    narrow = [v for v in values if str(v.type) == "i32"]
    wide = [v for v in values if str(v.type) != "i32"]
    return narrow + wide, (len(narrow), len(wide))


def int_tuple(x: Any, op: str = "make_int_tuple") -> mlir.ir.Value:
    """Return the ``!fly.int_tuple`` of nested ints, None, basis strides and integer values.

    Raises:
        UserError: A leaf is of another kind, or a tuple is empty.
    """
    plan, found = _planned(x)
    if plan is not None:
        kind, order, sizes = plan
        operands = [found[place] for place in order]
        return create(op, (kind,), operands, {"operandSegmentSizes": sizes}).result
    found = []
    value = normalize(_collect(x, found), "the tuple", none=True, basis=True)
    kind = ft.IntTupleType(value).ir
    if not found:
        return create("static", (kind,), ()).result
    operands, counts = ordered_leaves(found)
    return create(op, (kind,), operands, {"operandSegmentSizes": segments(counts)}).result


def _planned(x: Any) -> tuple[tuple[mlir.ir.Type, tuple[int, ...], Any] | None, list[Any]]:
    """Return how to build a flat tuple of ints and i32 or i64 values, and these values.

    The plan is the result's type, the order of the operands and their segment sizes; None for any
    other tuple, or one without values.
    """
    if type(x) is not tuple:
        return None, []
    state = context_state()
    widths = state.attributes.get("integer widths")
    if widths is None:
        integer = mlir.ir.IntegerType.get_signless
        widths = state.attributes["integer widths"] = {integer(32): 32, integer(64): 64}
    key: list[Any] = ["tuple"]
    found: list[mlir.ir.Value] = []
    for item in x:
        if type(item) is int:
            key.append(item)
            continue
        width = widths.get(item.type) if isinstance(item, mlir.ir.Value) else None
        if width is None:
            return None, []
        key.append((width,))
        found.append(item)
    if not found or len(x) > _PLANNED_RANK:
        return None, []
    names = tuple(key)
    plan = state.attributes.get(names)
    if plan is None:
        leaves = [item[0] for item in names if type(item) is tuple]
        value = tuple(fl.Dyn(item[0]) if type(item) is tuple else item for item in names[1:])
        order = sorted(range(len(leaves)), key=leaves.__getitem__)
        sizes = segments((leaves.count(32), leaves.count(64)))
        plan = ft.IntTupleType(value).ir, tuple(order), sizes
        state.attributes[names] = plan
    return plan, found


def as_value(x: Operand) -> mlir.ir.Value:
    """Return `x` as an SSA value: values as they are, Python tuples and layouts as operations.

    Raises:
        UserError: `x` is of a kind that has no Fly value.
    """
    if isinstance(x, mlir.ir.Value):
        return x
    if isinstance(x, int | tuple | list) or x is None:
        return int_tuple(x)
    if not isinstance(x, _STATIC):
        if hasattr(x, "explain_use"):
            # A placeholder of the expression language for a value that is gone knows why.
            x.explain_use()
        raise UserTypeError(
            "a layout operation has an operand of a kind it cannot use",
            code="FLY-U319",
            value=x,
            allowed="integers, tuples, layouts, tiles, swizzles and values of these",
        )
    return static(x)


class Builder:
    """Builds one pure operation of the algebra; its result type is inferred and cached.

    Calling it takes the operands (values, or Python values as in `as_value`) and the operation's
    attributes as keywords, and returns the result value.
    """

    __slots__ = ("name", "optional")

    def __init__(self, name: str) -> None:
        self.name = name
        self.optional = any(slot.endswith("?") for slot in OPS[name].operands)

    def __repr__(self) -> str:
        return f"fly.{self.name}({', '.join(OPS[self.name].operands)})"

    def __call__(self, *operands: Operand, **attributes: Any) -> mlir.ir.Value:
        """Create the operation.

        Raises:
            UserError: The operands do not fit the operation.
        """
        if self.optional and operands[-1] is None:
            operands = operands[:-1]
        values = [x if isinstance(x, mlir.ir.Value) else as_value(x) for x in operands]
        types = [v.type for v in values]
        for name, value in attributes.items():
            if isinstance(value, list):
                attributes[name] = tuple(value)
        cache = context_state().attributes
        key = (self.name, tuple(attributes.items()), *types) if attributes else (self.name, *types)
        found = cache.get(key)
        if found is None:
            attributes = {k: v for k, v in attributes.items() if v is not None}
            result = result_type(self.name, types, attributes)
            found = (result,), {k: attribute(v) for k, v in attributes.items()} or None
            cache[key] = found
        return create(self.name, found[0], values, found[1]).result
