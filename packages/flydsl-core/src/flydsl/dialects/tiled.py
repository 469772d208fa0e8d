"""Tiled copies and tiled MMAs: how one instruction's thread-value layout tiles a tensor.

A tiled copy has ``layout_tv``: (thread, value) -> linear coordinate in its tile. Partitioning
divides the tensor by the tile, composes the tile with that layout and picks the thread. A tiled MMA
repeats an atom over an arrangement of atoms; partitioning divides by the permutation, then by the
atom. All functions work on layouts, tensors (`View`) and coordinate tensors, static or not.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from flydsl import layout as fl
from flydsl.dialects.checks import static_size
from flydsl.dialects.fly_types import CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType
from flydsl.dialects.views import View
from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.leaf import DynamicLeaf
from flydsl.layout.tuples import flatten

__all__ = [
    "TRAVERSAL_ORDERS",
    "make_tiled_copy",
    "make_tiled_mma",
    "mma_layout_tv",
    "mma_partition",
    "mma_partition_shape",
    "operand_extents",
    "partition_dst",
    "partition_src",
    "retile",
    "thr_layout_vmnk",
    "tile_size_mnk",
    "tiled_copy_for_mma",
    "tiled_copy_tv",
    "traversal",
]

_ORDERS = ("KMN", "KNM", "MKN", "MNK", "NKM", "NMK")
TRAVERSAL_ORDERS: Final = _ORDERS + tuple(f"{order}_Serpentine" for order in _ORDERS)
"""Orders of `gemm`, innermost loop first."""


def _on_layout(x: Any, fn: Any) -> Any:
    """Apply a function of layouts to the layout of a tensor, or to a layout."""
    if isinstance(x, View):
        return x.mapped(fn)
    if isinstance(x, fl.CoordTensor):
        return fl.CoordTensor(x.base, fn(x.layout))
    return fn(x)


def _check_operand(x: Any, what: str) -> None:
    if not isinstance(x, View | fl.CoordTensor | fl.Layout | fl.ComposedLayout):
        raise UserTypeError(f"{what} is no tensor and no layout", code="FLY-U116", value=str(x))


def _check_thread(thread: Any) -> None:
    if isinstance(thread, bool) or not isinstance(thread, int | DynamicLeaf):
        raise UserTypeError("a thread number is one integer", code="FLY-U318", value=str(thread))


def _sliced(x: Any, coord: Any) -> Any:
    return x.sliced(coord) if isinstance(x, View) else fl.slice(x, coord)


def _modes(shape: Any) -> tuple[Any, ...]:
    return shape if isinstance(shape, tuple) else (shape,)


def _wildcards(shape: Any) -> Any:
    return tuple(None for _ in shape) if isinstance(shape, tuple) else None


def _tile_shape(tile: fl.Tile) -> Any:
    """Return the extents of a tile of ints and layouts."""
    shape = tuple(mode if isinstance(mode, int) else fl.size(mode) for mode in tile.modes)
    return shape if len(shape) > 1 else shape[0]


def make_tiled_copy(atom: Any, layout_tv: Any, tile: Any) -> TiledCopyType:
    """Return the tiled copy of an atom.

    Args:
        atom: A copy atom.
        layout_tv: Static layout (thread, value) -> linear coordinate in the tile.
        tile: Extents of the tile, one per mode of the tensors to copy.

    Raises:
        UserError: A part is of another kind, not static, or the atom does not divide the values.
    """
    if not isinstance(atom, CopyAtomType):
        raise UserTypeError("a tiled copy needs a copy atom", code="FLY-U325", value=str(atom))
    if isinstance(tile, tuple):
        tile = fl.make_tile(*tile)
    if not isinstance(layout_tv, fl.Layout) or layout_tv.rank != 2 or not layout_tv.is_static:
        raise UserValueError(
            "a tiled copy needs a static (thread, value) layout",
            code="FLY-U330",
            value=str(layout_tv),
        )
    if not isinstance(tile, fl.Tile):
        raise UserTypeError("a tiled copy needs a tile", code="FLY-U330", value=str(tile))
    threads, values = (fl.size(mode) for mode in layout_tv.modes())
    reference = atom.operation.ref_tv(atom.bits)
    for have, need, what in (
        (threads, fl.size(fl.get(reference, 0)), "threads"),
        (values, fl.size(fl.get(reference, 1)), "values"),
    ):
        if have % need:
            raise UserValueError(
                f"the {what} of a tiled copy are no whole number of instructions",
                code="FLY-U330",
                value=have,
                allowed=f"a multiple of {need}",
            )
    if not _covers(layout_tv, static_size(tile, "the tile")):
        raise UserValueError(
            "the threads and values of a tiled copy do not cover its tile",
            code="FLY-U330",
            value=f"{layout_tv} on {tile}",
        )
    return TiledCopyType(atom, layout_tv, tile)


def _named(layout: Any) -> list[tuple[int, int]]:
    """Return the (stride, extent) of the modes that tell elements apart, smallest stride first."""
    pairs = zip(flatten(layout.shape), flatten(layout.stride), strict=True)
    return sorted((d, s) for s, d in pairs if s != 1 and d != 0)


def _covers(layout: Any, size: int) -> bool:
    """Return whether a static layout takes every value below `size`, repeated by strides of 0.

    Sums of multiples cover a range without overlap only if each stride is the size covered by the
    smaller ones (de Bruijn's number systems).
    """
    covered = 1
    for stride, extent in _named(layout):
        if stride != covered:
            return False
        covered *= extent
    return covered == size


def _apart(layout: Any) -> bool:
    """Return whether a static layout with positive strides gives every coordinate its own value."""
    reached = 0
    for stride, extent in _named(layout):
        if stride <= reached:
            return False
        reached += stride * (extent - 1)
    named = 1
    for _, extent in _named(layout):
        named *= extent
    return bool(named == fl.size(layout))


def tiled_copy_tv(tiled: TiledCopyType, target_tv: fl.Layout) -> fl.Layout:
    """Return (thread, value) -> linear coordinate in the tile, for one side of a tiled copy.

    Args:
        tiled: The tiled copy.
        target_tv: The operation's source or destination layout.
    """
    reference = tiled.atom.operation.ref_tv(tiled.atom.bits)
    to_target = fl.composition(fl.right_inverse(reference), target_tv)
    counts = tuple(fl.size(mode) for mode in reference.modes())
    atom_tv = fl.zipped_divide(tiled.layout_tv, counts)
    target = fl.composition(atom_tv, fl.make_tile(to_target, None))
    # ((atom thread, atom value), (rest of threads, rest of values)) -> (threads, values)
    threads, values = (
        _pair(a, b) for a, b in zip(target[0].modes(), target[1].modes(), strict=True)
    )
    return _pair(fl.coalesce(threads), fl.coalesce(values, (1, 1)))


def _partition(tiled: TiledCopyType, x: Any, thread: Any, target_tv: fl.Layout) -> Any:
    _check_operand(x, "what a tiled copy partitions")
    _check_thread(thread)
    tv = tiled_copy_tv(tiled, target_tv)
    divided = _on_layout(x, lambda layout: fl.zipped_divide(layout, tiled.tile))
    composed = _on_layout(divided, lambda layout: fl.composition(layout, fl.make_tile(tv, None)))
    return _sliced(composed, ((thread, None), _wildcards(composed.shape[1])))


def partition_src(tiled: TiledCopyType, src: Any, thread: Any) -> Any:
    """Return thread `thread`'s part of the source: (values, rest of each mode…)."""
    return _partition(tiled, src, thread, tiled.atom.operation.src_tv(tiled.atom.bits))


def partition_dst(tiled: TiledCopyType, dst: Any, thread: Any) -> Any:
    """Return thread `thread`'s part of the destination: (values, rest of each mode…)."""
    return _partition(tiled, dst, thread, tiled.atom.operation.dst_tv(tiled.atom.bits))


def _grouped(shape: Any, stride: Any, count: int) -> fl.Layout:
    """Return the layout of index // count for a static layout; neighbours in a group merge.

    Raises:
        UserError: A mode straddles groups.
    """
    if isinstance(shape, tuple):
        return _pair(*(_grouped(s, d, count) for s, d in zip(shape, stride, strict=True)))
    if stride % count == 0:
        return fl.Layout(shape, stride // count)
    within = count // stride
    if count % stride == 0 and within % shape == 0:
        return fl.Layout(1, 0)
    if count % stride == 0 and shape % within == 0:
        return fl.Layout(shape // within, 1)
    raise UserValueError(
        "the fragment's values do not fit the tiled copy's layout",
        code="FLY-U330",
        value=f"{shape}:{stride}",
        allowed=f"whole groups of {count}",
    )


def retile(tiled: TiledCopyType, x: Any) -> Any:
    """Return a fragment (values, rest…) of another tiling rearranged for this copy's values."""
    _check_operand(x, "the fragment")
    threads = static_size(fl.get(tiled.layout_tv, 0))
    atom_values = fl.size(fl.get(tiled.atom.operation.ref_tv(tiled.atom.bits), 1))
    values = static_size(_modes(x.shape)[0], "mode 0 of the fragment")
    shape = _tile_shape(tiled.tile)
    inverse = fl.composition(fl.right_inverse(tiled.layout_tv), fl.make_ordered_layout(shape, 0))
    # linear coordinate in the tile -> which group of `values` values holds it
    groups = _grouped(inverse.shape, inverse.stride, threads * values)
    per_value = fl.logical_product(fl.Layout(values, 1), fl.right_inverse(groups))
    order = fl.zipped_divide(per_value, fl.Layout(atom_values, 1))
    extents = (values, *_modes(fl.int_tuple_product_each(groups.shape)))

    def rearrange(layout: Any) -> Any:
        divided = fl.zipped_divide(layout, extents)
        return fl.composition(divided, fl.make_tile(order, None))

    out = _on_layout(x, rearrange)
    # ((values of one instruction, instructions), (1, rest…)): the values' own rest has one element
    rest = _wildcards(out.shape[1])
    return _sliced(out, (None, (0, *rest[1:]) if isinstance(rest, tuple) else 0))


def make_tiled_mma(atom: Any, atom_layout: Any, permutation: Any = None) -> TiledMmaType:
    """Return the tiled MMA of an atom.

    Args:
        atom: An MMA atom.
        atom_layout: Static layout of atoms over (M, N, K); a shorter one is filled with 1:0.
        permutation: Tiler per M, N, K: None, extent or layout.

    Raises:
        UserError: A part is of another kind or not static.
    """
    if not isinstance(atom, MmaAtomType):
        raise UserTypeError("a tiled MMA needs an MMA atom", code="FLY-U325", value=str(atom))
    if not isinstance(atom_layout, fl.Layout) or not atom_layout.is_static or atom_layout.rank > 3:
        raise UserValueError(
            "a tiled MMA needs a static atom layout of rank 3",
            code="FLY-U331",
            value=str(atom_layout),
        )
    if atom_layout.is_leaf:
        atom_layout = fl.Layout((atom_layout.shape,), (atom_layout.stride,))
    if atom_layout.rank < 3:
        atom_layout = fl.append(atom_layout, fl.Layout(1, 0), 3)
    if permutation is None:
        modes: tuple[Any, ...] = ()
    else:
        modes = permutation.modes if isinstance(permutation, fl.Tile) else _modes(permutation)
    if len(modes) > 3:
        raise UserValueError(
            "a permutation has more than three modes", code="FLY-U331", value=str(permutation)
        )
    padded = fl.make_tile(*(*modes, *(None,) * (3 - len(modes))))
    if not _apart(atom_layout):
        raise UserValueError(
            "two atoms of a tiled MMA have the same number",
            code="FLY-U331",
            value=str(atom_layout),
            allowed="strides that number every place in M, N, K differently",
        )
    for axis, mode in enumerate(padded.modes):
        _check_permutation(mode, "MNK"[axis], _core(atom, atom_layout, axis))
    return TiledMmaType(atom, atom_layout, padded)


def _core(atom: MmaAtomType, atom_layout: fl.Layout, axis: int) -> int:
    """Return the extent along an axis that the atoms cover without a permutation."""
    return atom.operation.shape_mnk[axis] * static_size(fl.get(atom_layout, axis))


def _check_permutation(mode: Any, letter: str, core: int) -> None:
    if mode is None:
        return
    size = static_size(mode, "a permutation")
    if size % core:
        raise UserValueError(
            f"the permutation along {letter} is no whole number of atoms",
            code="FLY-U331",
            value=size,
            allowed=f"a multiple of {core}",
        )
    if isinstance(mode, fl.Layout) and not _covers(mode, size):
        raise UserValueError(
            f"the permutation along {letter} does not take every place once",
            code="FLY-U331",
            value=str(mode),
            allowed=f"a layout onto 0 to {size - 1}",
        )


def thr_layout_vmnk(tiled: TiledMmaType) -> Any:
    """Return (thread in atom, atom along M, N, K) -> thread number."""
    return fl.tiled_product(tiled.atom.operation.thr_layout(), tiled.atom_layout)


_AXES: Final = {"A": (0, 2), "B": (1, 2), "C": (0, 1), "D": (0, 1)}


def _axes(operand: str) -> tuple[int, int]:
    if operand not in _AXES:
        raise UserValueError(
            "no such MMA operand", code="FLY-U331", value=operand, allowed=", ".join(_AXES)
        )
    return _AXES[operand]


def mma_partition(tiled: TiledMmaType, x: Any, thread: Any, *, operand_id: str) -> Any:
    """Return thread `thread`'s part of a tile of an operand: (values, rest of each mode…).

    Args:
        tiled: The tiled MMA.
        x: Tensor whose first two modes are (M, K) for A, (N, K) for B, (M, N) for C and D.
        thread: Thread number.
        operand_id: ``"A"``, ``"B"``, ``"C"`` or ``"D"``.
    """
    axes = _axes(operand_id)
    _check_operand(x, "what a tiled MMA partitions")
    _check_thread(thread)
    arranged = _on_layout(x, lambda layout: _arranged(tiled, layout, operand_id))
    coord = fl.get_flat_coord(thread, thr_layout_vmnk(tiled))
    atoms = tuple(coord[axis + 1] for axis in axes)
    rest = _wildcards(arranged.shape[1][1])
    return _sliced(arranged, ((coord[0], atoms), (None, rest)))


def _arranged(tiled: TiledMmaType, layout: Any, operand_id: str) -> Any:
    """Return a tile as ((thread in atom, atoms along both axes), (value, rest of each mode…))."""
    axes = _axes(operand_id)
    operation = tiled.atom.operation
    permutation = fl.make_tile(*_permutations(tiled, operand_id))
    packed = operation.columns_per_place(operand_id)
    extents = (operation.shape_mnk[axes[0]], operation.shape_mnk[axes[1]] // packed)
    inner = tuple(fl.Layout(fl.size(fl.get(tiled.atom_layout, axis)), 1) for axis in axes)
    permuted = fl.logical_divide(layout, permutation)
    divided = fl.zipped_divide(permuted, fl.make_tile(*extents))
    valued = fl.composition(divided, fl.make_tile(operation.layout_tv(operand_id), None))
    return _zipped(valued, lambda rest: fl.logical_divide(rest, fl.make_tile(*inner)))


def _permutations(tiled: TiledMmaType, operand_id: str) -> list[Any]:
    """Return the permutations of an operand's two modes; of packed columns only extents exist."""
    first, second = (tiled.permutation.modes[axis] for axis in _axes(operand_id))
    packed = tiled.atom.operation.columns_per_place(operand_id)
    if packed == 1 or second is None:
        return [first, second]
    if not isinstance(second, int):
        raise UserValueError(
            f"the packed columns of operand {operand_id} cannot be permuted",
            code="FLY-U331",
            value=str(second),
            allowed="None or an extent for K",
        )
    return [first, second // packed]


def operand_extents(tiled: TiledMmaType, operand_id: str) -> tuple[int, int]:
    """Return the extents of an operand's tile in one step of the tiled MMA."""
    first, second = (tile_size_mnk(tiled)[axis] for axis in _axes(operand_id))
    return first, second // tiled.atom.operation.columns_per_place(operand_id)


def tile_size_mnk(tiled: TiledMmaType) -> tuple[int, int, int]:
    """Return the extents M, N, K that one step of the tiled MMA covers."""
    sizes = []
    for axis, mode in enumerate(tiled.permutation.modes):
        core = _core(tiled.atom, tiled.atom_layout, axis)
        sizes.append(core if mode is None else static_size(mode))
    return sizes[0], sizes[1], sizes[2]


def mma_layout_tv(tiled: TiledMmaType, operand_id: str) -> fl.Layout:
    """Return (thread, value) -> linear coordinate in the tile of an operand.

    Threads that differ only along the axis that the operand lacks hold the same values.
    """
    axes = _axes(operand_id)
    extents = operand_extents(tiled, operand_id)
    arranged = _arranged(tiled, fl.make_ordered_layout(extents, 0), operand_id)
    threads, values = arranged.modes()
    thread_in_atom, atoms = threads.modes()
    vmnk = thr_layout_vmnk(tiled)
    along = [fl.Layout(fl.size(vmnk[axis + 1]), 0) for axis in range(3)]
    for axis, mode in zip(axes, atoms.modes(), strict=True):
        along[axis] = mode
    by_number = fl.composition(_pair(thread_in_atom, *along), fl.right_inverse(vmnk))
    return _pair(by_number, values)


def tiled_copy_for_mma(atom: CopyAtomType, tiled: TiledMmaType, operand_id: str) -> TiledCopyType:
    """Return the tiled copy that gives each thread the values it holds of an MMA operand."""
    extents = operand_extents(tiled, operand_id)
    return TiledCopyType(atom, mma_layout_tv(tiled, operand_id), fl.make_tile(*extents))


def _pair(*modes: fl.Layout) -> fl.Layout:
    """Return the layout with the given layouts as its modes."""
    return fl.Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _zipped(layout: Any, divide: Any) -> Any:
    """Gather thread and atoms in mode 0, value and the rest in mode 1."""
    if isinstance(layout, fl.ComposedLayout):
        return layout.with_outer(_zipped(layout.outer, divide))
    (thread, value), rest = layout[0].modes(), divide(layout[1])
    pairs = rest.modes()
    atoms = [mode[0] for mode in pairs[:2]]
    others = [mode[1] for mode in pairs[:2]] + list(pairs[2:])
    return _pair(_pair(thread, _pair(*atoms)), _pair(value, _pair(*others)))


def mma_partition_shape(tiled: TiledMmaType, shape: Any, *, operand_id: str) -> Any:
    """Return the shape of one thread's part of a tile of that shape."""
    layout = fl.make_ordered_layout(shape, 0)
    return mma_partition(tiled, layout, 0, operand_id=operand_id).shape


def traversal(
    order: str, layout: fl.Layout | None, extents: tuple[int, int, int]
) -> list[tuple[int, int, int]]:
    """Return the (m, n, k) steps of `gemm`.

    Args:
        order: One of `TRAVERSAL_ORDERS`; empty for ``"NMK"``.
        layout: Step -> linear tile number (M fastest, then N, then K); overrides the order.
        extents: Tiles along M, N, K.

    Raises:
        UserError: The layout does not visit every tile exactly once.
    """
    count = extents[0] * extents[1] * extents[2]
    if layout is not None:
        steps = [fl.crd2idx(i, layout) for i in range(static_size(layout))]
        if sorted(steps) != list(range(count)):
            raise UserValueError(
                "a traversal layout does not visit every tile exactly once",
                code="FLY-U326",
                value=str(layout),
                allowed=f"a permutation of {count} tiles",
            )
        m, n = extents[0], extents[1]
        return [(i % m, i // m % n, i // (m * n)) for i in steps]
    letters, _, serpentine = (order or "NMK").partition("_")
    inner, middle, outer = ("MNK".index(letter) for letter in letters)
    out = []
    lines = product(range(extents[outer]), range(extents[middle]))
    for turn, (o, i) in enumerate(lines):
        # On odd outer steps the middle loop, and on odd passes the inner loop, runs backwards.
        j = extents[middle] - 1 - i if serpentine and o % 2 else i
        line = range(extents[inner])
        for k in reversed(line) if serpentine and turn % 2 else line:
            step = [0, 0, 0]
            step[outer], step[middle], step[inner] = o, j, k
            out.append((step[0], step[1], step[2]))
    return out
