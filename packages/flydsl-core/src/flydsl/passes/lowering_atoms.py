"""`fly-layout-lowering`, part three: copies and gemms unroll into atom calls on pointers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import attribute, decode, segments
from flydsl.dialects.checks import split_instructions, split_predicate, static_size
from flydsl.dialects.elements import storage_bits
from flydsl.dialects.fly_memory import element_type, natural_alignment
from flydsl.dialects.tiled import traversal
from flydsl.dialects.views import View
from flydsl.errors import UserValueError
from flydsl.layout.leaf import divisor_of
from flydsl.passes.lowering_memory import access_pointer, load_view, store_view
from flydsl.passes.pointers import SsaPointer

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.passes.layout_lowering import Lowering

__all__ = ["ATOM_HANDLERS", "Atom"]

Handler = Callable[["Lowering", Any], None]


class Atom:
    """An atom or tiled operation while lowering.

    Attributes:
        kind: Its type.
        value: The SSA value of the copy or MMA atom (with its state), None if it is static.
    """

    __slots__ = ("kind", "value")

    def __init__(self, kind: ft.FlyType, value: ir.Value | None = None) -> None:
        self.kind = kind
        self.value = value

    @property
    def atom_type(self) -> ft.CopyAtomType | ft.MmaAtomType:
        """The copy or MMA atom's own type."""
        kind: Any = self.kind
        tiled = isinstance(kind, ft.TiledCopyType | ft.TiledMmaType)
        found: ft.CopyAtomType | ft.MmaAtomType = kind.atom if tiled else kind
        return found

    def value_in(self, low: Lowering) -> ir.Value:
        """Return the SSA value of the atom; a static one is made at the start of the function."""
        if self.value is not None:
            return self.value
        kind = self.atom_type
        found = low.atoms.get(kind)
        if found is None:
            from flydsl.mlir import ir

            name = "make_copy_atom" if isinstance(kind, ft.CopyAtomType) else "make_mma_atom"
            found = ir.Operation.create(
                "fly." + name,
                results=[kind.ir],
                ip=ir.InsertionPoint.at_block_begin(low.entry),
                loc=low.emitter.anchor.location,
            ).result
            low.atoms[kind] = found
        return found


def _modes(x: Any) -> list[Any]:
    layout = x.layout
    return [layout] if layout.is_leaf else list(layout.modes())


def _contiguous(view: View, what: str, atom: ft.CopyAtomType) -> SsaPointer:
    """Return the pointer to the values of one instruction, which must be neighbours.

    Raises:
        UserError: They are not.
    """
    layout = view.layout
    outer = layout
    while isinstance(outer, fl.ComposedLayout):
        outer = outer.outer
    flat = fl.coalesce(outer)
    one = isinstance(flat.shape, int) and flat.shape == 1
    if not one and not (flat.is_leaf and isinstance(flat.stride, int) and flat.stride == 1):
        raise UserValueError(
            f"the values of one {atom.operation} are not contiguous in {what}",
            code="FLY-U333",
            value=str(layout),
            allowed="stride 1",
            hint="use a narrower copy, or a layout whose first mode is contiguous",
        )
    if isinstance(layout, fl.ComposedLayout) and not one:
        _check_swizzle(layout, int(flat.shape), what, atom)
    pointer: SsaPointer = view.at(_origin(layout.shape))
    return pointer


def _check_swizzle(layout: Any, values: int, what: str, atom: ft.CopyAtomType) -> None:
    """Raise UserError when a swizzle would tear the values of one instruction apart."""
    inner = layout.inner
    # The run must start at a multiple of its length to stay within one block of the swizzle.
    kept = (
        isinstance(inner, fl.Swizzle)
        and (1 << inner.base) % values == 0
        and divisor_of(layout.offset) % values == 0
    )
    if not kept or isinstance(layout.outer, fl.ComposedLayout):
        raise UserValueError(
            f"the values of one {atom.operation} are not contiguous in {what}",
            code="FLY-U333",
            value=str(layout),
            allowed=f"a swizzle whose base keeps {values} elements together",
        )


def _origin(shape: Any) -> Any:
    return tuple(_origin(s) for s in shape) if isinstance(shape, tuple) else 0


def _first_predicate(low: Lowering, pred: Any) -> ir.Value:
    """Return the i1 of a truth value or of the first element of a register tensor."""
    if isinstance(pred, View):
        pointer = access_pointer(low, pred.at(_origin(pred.layout.shape)))
        return _truth(low, pointer, pred)
    value: ir.Value = pred
    return value


def _truth(low: Lowering, pointer: ir.Value, pred: View) -> ir.Value:
    from flydsl.mlir import ir

    element = pred.pointer.type.element
    loaded = low.create("fly.ptr_load", [element_type(element)], [pointer]).result
    if element == "i1":
        return loaded
    zero = low.create(
        "arith.constant",
        [loaded.type],
        [],
        {"value": ir.IntegerAttr.get(loaded.type, 0)},
    ).result
    ne = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)
    return low.create("arith.cmpi", [element_type("i1")], [loaded, zero], {"predicate": ne}).result


def _predicate_operand(low: Lowering, op: Any) -> Any:
    if len(op.operands) < 4:
        return None
    value = op.operands[3]
    return value if ft.of(value.type) is None else low.get(value)


def _call(low: Lowering, atom: Atom, src: View, dst: View, pred: Any) -> None:
    """Emit one ``fly.copy_atom_call`` on pointers."""
    kind = atom.atom_type
    assert isinstance(kind, ft.CopyAtomType)
    pointers = []
    for view, what in ((src, "the source"), (dst, "the destination")):
        if view.pointer.type.space == "register" and not _is_packed(view):
            return _call_through_vector(low, atom, src, dst, pred)
        if kind.operation.whole_tile:
            pointers.append(view.at(_origin(view.layout.shape)).value)
        else:
            pointers.append(access_pointer(low, _contiguous(view, what, kind)))
    operands = [atom.value_in(low), *pointers]
    if pred is not None:
        operands.append(_first_predicate(low, pred))
    low.create("fly.copy_atom_call", [], operands)
    return None


def _is_packed(view: View) -> bool:
    flat = fl.coalesce(view.layout) if isinstance(view.layout, fl.Layout) else None
    if flat is None or not flat.is_leaf:
        return False
    return bool(flat.shape == 1 or flat.stride == 1)


def _scratch(low: Lowering, view: View) -> View:
    """Return a packed register tensor of the size and element type of `view`."""
    size = static_size(view.layout)
    kind: ft.PtrType = view.pointer.type
    pointer = ft.PtrType(kind.element, "register", natural_alignment(kind.element))
    count = attribute(max(1, -(-size * storage_bits(kind.element) // 8)))
    made = low.create("fly.alloca", [pointer.ir], [], {"bytes": count}).result
    return View(SsaPointer(low.emitter, made, pointer), fl.Layout(size, 1))


def _call_through_vector(low: Lowering, atom: Atom, src: View, dst: View, pred: Any) -> None:
    """Copy through packed registers, because a register tensor is not packed."""
    if src.pointer.type.space == "register" and not _is_packed(src):
        packed = _scratch(low, src)
        store_view(low, load_view(low, src), packed)
        _call(low, atom, packed, dst, pred)
        return
    packed = _scratch(low, dst)
    if pred is not None:
        store_view(low, load_view(low, dst), packed)
    _call(low, atom, src, packed, pred)
    store_view(low, load_view(low, packed), dst)


def _copy_atom_call(low: Lowering, op: Any) -> None:
    atom, src, dst = (low.get(x) for x in list(op.operands)[:3])
    if not isinstance(src, View):
        return
    _call(low, atom, src, dst, _predicate_operand(low, op))
    low.done(op)


def _rest_element(view: View, number: int) -> View:
    """Return mode 0 at element `number` (colexicographic) of the modes after it."""
    modes = _modes(view)
    if len(modes) == 1:
        return view.sliced((None,)) if isinstance(view.layout.shape, tuple) else view
    coordinate: list[Any] = [None]
    for mode in modes[1:]:
        size = static_size(mode)
        coordinate.append(number % size)
        number //= size
    return view.sliced(tuple(coordinate))


def _copy(low: Lowering, op: Any) -> None:
    """Unroll ``fly.copy`` over the modes after mode 0."""
    atom, src, dst = (low.get(x) for x in list(op.operands)[:3])
    pred = _predicate_operand(low, op)
    if atom.atom_type.operation.whole_tile:
        _call(low, atom, src, dst, pred)
        low.done(op)
        return
    kind = atom.atom_type
    values = kind.operation.values(kind.bits)
    rank = len(_modes(src))
    src, dst = (x.mapped(split_instructions, values) for x in (src, dst))
    sizes = [static_size(mode) for mode in _modes(src)[1:]]
    if isinstance(pred, View):
        pred = pred.mapped(split_predicate, rank, values, sizes[0])
    count = 1
    for size in sizes:
        count *= size
    for number in range(count):
        chosen = _rest_element(pred, number) if isinstance(pred, View) else pred
        _call(low, atom, _rest_element(src, number), _rest_element(dst, number), chosen)
    low.done(op)


def _packed_pointer(low: Lowering, view: View) -> ir.Value:
    if _is_packed(view):
        pointer: SsaPointer = view.at(_origin(view.layout.shape))
        return pointer.value
    packed = _scratch(low, view)
    store_view(low, load_view(low, view), packed)
    pointer = packed.pointer
    return pointer.value


def _emit_mma(low: Lowering, atom: Atom, views: list[View], scales: list[Any]) -> None:
    """Emit one ``fly.mma_atom_call`` on pointers: d, a, b, c and scales."""
    d = views[0]
    target = d if _is_packed(d) else _scratch(low, d)
    operands = [atom.value_in(low), target.at(_origin(target.layout.shape)).value]
    operands += [_packed_pointer(low, view) for view in views[1:]]
    given = [s for s in scales if s is not None]
    operands += [_packed_pointer(low, s) if isinstance(s, View) else s for s in given]
    sizes = segments((1, 1, 1, 1, 1, *(int(s is not None) for s in scales)))
    low.create("fly.mma_atom_call", [], operands, {"operandSegmentSizes": sizes})
    if target is not d:
        store_view(low, load_view(low, target), d)


def _scales(low: Lowering, op: Any) -> list[Any]:
    counts = decode(op.attributes["operandSegmentSizes"])
    rest = iter(list(op.operands)[5:])
    found: list[Any] = []
    for count in counts[5:]:
        value = next(rest) if count else None
        is_fly = value is not None and ft.of(value.type) is not None
        found.append(low.get(value) if is_fly else value)
    return found


def _mma_atom_call(low: Lowering, op: Any) -> None:
    atom, *views = (low.get(x) for x in list(op.operands)[:5])
    if not isinstance(views[0], View):
        return
    _emit_mma(low, atom, views, _scales(low, op))
    low.done(op)


def _gemm(low: Lowering, op: Any) -> None:
    """Unroll ``fly.gemm`` into MMA calls in its traversal order."""
    atom, d, a, b, c = (low.get(x) for x in list(op.operands)[:5])
    scales = _scales(low, op)
    if len(_modes(d)) == 1:
        _emit_mma(low, atom, [d, a, b, c], scales)
        low.done(op)
        return
    has_k = len(_modes(a)) == 3
    extents = (
        static_size(_modes(a)[1]),
        static_size(_modes(b)[1]),
        static_size(_modes(a)[2]) if has_k else 1,
    )
    order = decode(op.attributes["traversal_order"]) if "traversal_order" in op.attributes else ""
    layout: Any = None
    if "traversal_layout" in op.attributes:
        layout = fl.parse(decode(op.attributes["traversal_layout"]))
    visited: set[tuple[int, int]] = set()
    for m, n, k in traversal(order, layout, extents):
        tail = (k,) if has_k else ()
        part_a, part_b = a.sliced((None, m, *tail)), b.sliced((None, n, *tail))
        part_d = d.sliced((None, m, n))
        part_c = part_d if (m, n) in visited else c.sliced((None, m, n))
        visited.add((m, n))
        sliced = [_scale_part(s, tile, tail) for s, tile in zip(scales, (m, n), strict=True)]
        _emit_mma(low, atom, [part_d, part_a, part_b, part_c], sliced)
    low.done(op)


def _scale_part(scale: Any, tile: int, tail: tuple[int, ...]) -> Any:
    """Return the scales of one step: a tensor (V, tiles[, K]) is sliced, a scalar is shared."""
    if not isinstance(scale, View) or len(_modes(scale)) == 1:
        return scale
    return scale.sliced((None, tile, *tail)[: len(_modes(scale))])


ATOM_HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "copy_atom_call": _copy_atom_call,
        "copy": _copy,
        "mma_atom_call": _mma_atom_call,
        "gemm": _gemm,
    }
)
"""Operation name -> how `fly-layout-lowering` lowers it."""
