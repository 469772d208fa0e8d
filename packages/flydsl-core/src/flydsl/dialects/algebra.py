"""Every pure layout operation as a function on Python values: one line per operation.

The functions are those of `flydsl.layout`, lifted over `View` (the algebra acts on the layout and
moves the pointer). They run twice, on the same path: with symbolic leaves to infer result types,
and with SSA leaves in `fly-layout-lowering`. To add an operation, add its form to `definition.OPS`
and a line to `ALGEBRA`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from flydsl import layout as fl
from flydsl.dialects import tiled
from flydsl.dialects.fly_types import CopyAtomType, MmaAtomType, PtrType
from flydsl.dialects.views import View, make_view
from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.leaf import Leaf

__all__ = ["ALGEBRA", "layout_of"]

Function = Callable[..., Any]


def layout_of(x: Any) -> Any:
    """Return the layout of a tensor; a layout is its own."""
    return x.layout if isinstance(x, View | fl.CoordTensor) else x


def _lifted(fn: Function) -> Function:
    """Apply `fn` to the layout of a view, or to the value itself."""

    def run(x: Any, *rest: Any, **keywords: Any) -> Any:
        if isinstance(x, View):
            return x.mapped(fn, *rest, **keywords)
        return fn(x, *rest, **keywords)

    return run


def _of_layout(fn: Function) -> Function:
    """Apply `fn` to the layout of a tensor and forget the pointer."""

    def run(x: Any, *rest: Any, **keywords: Any) -> Any:
        return fn(layout_of(x), *rest, **keywords)

    return run


def _slice(src: Any, coord: Any) -> Any:
    return src.sliced(coord) if isinstance(src, View) else fl.slice(src, coord)


def _view(iterator: Any, layout: Any) -> Any:
    if hasattr(iterator, "moved"):
        return make_view(iterator, layout)
    return fl.CoordTensor(iterator, layout)


def _iterator(tensor: Any) -> Any:
    return tensor.pointer if isinstance(tensor, View) else fl.get_iter(tensor)


def _layout(tensor: Any) -> Any:
    return tensor.layout if isinstance(tensor, View) else fl.get_layout(tensor)


def _leaf(x: Any, what: str) -> Leaf:
    if not isinstance(x, int | fl.DynamicLeaf):
        raise UserTypeError(f"{what} is not a single integer", code="FLY-U318", value=str(x))
    leaf: Leaf = x
    return leaf


def _add_offset(pointer: Any, offset: Any) -> Any:
    if not hasattr(pointer, "moved"):
        return fl.int_tuple_add(pointer, offset)
    return pointer.moved(_leaf(offset, "a pointer offset"))


def _apply_swizzle(pointer: Any, swizzle: fl.Swizzle) -> Any:
    kind: PtrType = pointer.type
    if kind.swizzle is not None:
        raise UserValueError(
            "the pointer is swizzled already", code="FLY-U317", value=str(kind.swizzle)
        )
    return pointer.retyped(PtrType(kind.element, kind.space, kind.alignment, swizzle))


def _recast(src: Any, *, new_type_bits: int, old_type_bits: int) -> Any:
    return fl.recast_layout(src, old_type_bits, new_type_bits)


def _get(x: Any, *, mode: tuple[int, ...]) -> Any:
    for index in mode:
        x = x.mapped(fl.get, index) if isinstance(x, View) else fl.get(x, index)
    return x


def _many(fn: Function) -> Function:
    """``append`` and ``prepend``: the optional attribute `n` is the rank to reach."""

    def run(x: Any, element: Any, *, n: int | None = None) -> Any:
        return _lifted(fn)(x, element, n)

    return run


def _tiled_atom(x: Any) -> Any:
    return x.atom


def _tiled_layout(x: Any) -> Any:
    return x.layout_tv


_LIFTED = (
    "coalesce",
    "composition",
    "logical_divide",
    "zipped_divide",
    "tiled_divide",
    "flat_divide",
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
    "tile_to_shape",
)
_QUERIES = (
    "size",
    "cosize",
    "coshape",
    "coprofile",
    "complement",
    "right_inverse",
    "left_inverse",
    "nullspace",
    "make_layout_like",
    "make_fragment_layout_like",
    "crd2idx",
)
_TUPLES = (
    "make_layout",
    "make_ordered_layout",
    "make_identity_layout",
    "make_composed_layout",
    "int_tuple_add",
    "int_tuple_sub",
    "int_tuple_mul",
    "int_tuple_div",
    "int_tuple_mod",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "shape_div",
    "ceil_div",
    "elem_less",
    "equal",
    "idx2crd",
    "get_flat_coord",
    "get_1d_coord",
)

ALGEBRA: Mapping[str, Function] = MappingProxyType(
    {
        **{name: _lifted(getattr(fl, name)) for name in _LIFTED},
        **{name: _of_layout(getattr(fl, name)) for name in _QUERIES},
        **{name: getattr(fl, name) for name in _TUPLES},
        "crd2idx": lambda coord, layout: fl.crd2idx(coord, layout_of(layout)),
        "make_view": _view,
        "get_iter": _iterator,
        "get_layout": _layout,
        "get_shape": _of_layout(fl.get_shape),
        "get_stride": _of_layout(fl.get_stride),
        "max_common_layout": lambda a, b: fl.max_common_layout(layout_of(a), layout_of(b)),
        "get_scalar": lambda x: _leaf(x, "the tuple"),
        "composed_get_inner": fl.composed_get_inner,
        "composed_get_offset": fl.composed_get_offset,
        "composed_get_outer": fl.composed_get_outer,
        "get": _get,
        "slice": _slice,
        "dice": _of_layout(fl.dice),
        "select": lambda x, *, indices: _lifted(fl.select)(x, indices),
        "take": lambda x, *, begin, end: _lifted(fl.take)(x, begin, end),
        "group": lambda x, *, begin, end: _lifted(fl.group)(x, begin, end),
        "append": _many(fl.append),
        "prepend": _many(fl.prepend),
        "recast_layout": _lifted(_recast),
        "add_offset": _add_offset,
        "apply_swizzle": _apply_swizzle,
        "get_copy_atom": _tiled_atom,
        "get_mma_atom": _tiled_atom,
        "get_layout_tv": _tiled_layout,
        "make_tiled_copy": tiled.make_tiled_copy,
        "make_tiled_mma": tiled.make_tiled_mma,
        "tiled_copy_partition_src": tiled.partition_src,
        "tiled_copy_partition_dst": tiled.partition_dst,
        "tiled_copy_retile": tiled.retile,
        "tiled_mma_partition": tiled.mma_partition,
        "tiled_mma_partition_shape": tiled.mma_partition_shape,
    }
)
"""Operation name -> function of the operands' Python values, attributes as keywords."""

AtomTypes = CopyAtomType | MmaAtomType
