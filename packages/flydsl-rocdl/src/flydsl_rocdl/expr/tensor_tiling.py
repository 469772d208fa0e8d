"""Copies by the tensor data mover that name their tile by coordinates of a tensor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.copying import CopyAtom, make_copy_atom
from flydsl.expr.layout_functions import crd2idx, make_identity_layout, make_layout
from flydsl.expr.numeric import Int32, Int64
from flydsl.expr.pointers import add_offset, make_view, ptrtoint
from flydsl.expr.tensors import CoordTensor, Tensor
from flydsl.layout import Basis, Layout, idx2crd, size
from flydsl.layout import CoordTensor as StaticCoordTensor
from flydsl_rocdl.arch.tensor import EXTENTS
from flydsl_rocdl.atoms.tensor import TiledTDM
from flydsl_rocdl.expr.tensor_atoms import Moved, atom_values, leaves, option_fields, start, static
from flydsl_rocdl.expr.tensor_tiles import compute_warp_distribution
from flydsl_rocdl.expr.tensor_words import known, predicate_word, tensor_facts

__all__ = [
    "TensorLoad",
    "TensorStore",
    "issue_tiled",
    "make_tiled_tdm_atom",
    "tdm_partition",
]

_COORDINATES = (CoordTensor, StaticCoordTensor)
_SMALLEST = 16
"""Bytes of a wave's part along the innermost mode."""


@dataclass(frozen=True, slots=True)
class TensorLoad:
    """Loading tiles into LDS.

    Attributes:
        cache_modifier: Cache policy bits.
    """

    cache_modifier: int = 0


@dataclass(frozen=True, slots=True)
class TensorStore:
    """Storing tiles from LDS.

    Attributes:
        cache_modifier: Cache policy bits.
    """

    cache_modifier: int = 0


def make_tiled_tdm_atom(
    op: TensorLoad | TensorStore,
    tensor: Any,
    smem_layout: Any,
    tdm_tile: Sequence[int],
    num_warps: int = 1,
    *,
    init_boundary_check: bool = True,
    atomic_barrier: bool = False,
) -> tuple[CopyAtom, CoordTensor]:
    """Return the atom that moves tiles of a tensor, and the tensor of its coordinates.

    Tile the coordinate tensor as the tensor itself would be; a tile of it, or what `tdm_partition`
    makes of it, is one side of the copy.

    Args:
        op: `TensorLoad` or `TensorStore`.
        tensor: Tensor in global memory, of 1 to 5 modes, one of them contiguous.
        smem_layout: Layout of a tile in LDS; the mode contiguous in memory is contiguous here.
        tdm_tile: Extents of what all waves move with one instruction each.
        num_warps: Waves that `tdm_partition` shares a tile between, a power of two.
        init_boundary_check: Load zeros, and store nothing, outside the tensor.
        atomic_barrier: Arrive at an LDS barrier.

    Returns:
        The atom, and the coordinate tensor.

    Raises:
        UserError: The tensor or the tile is not what the hardware moves.
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("make_tiled_tdm_atom")
    if not isinstance(op, (TensorLoad, TensorStore)):
        raise UserTypeError("a tiled tensor transfer is a load or a store", code="FLY-U655",
                            value=op, allowed="TensorLoad(), TensorStore()")  # fmt: skip
    shape, strides = leaves(tensor.shape), leaves(tensor.stride)
    rank = len(shape)
    if rank > len(EXTENTS):
        raise UserValueError("a tensor transfer has 1 to 5 modes", code="FLY-U655", value=rank)
    tile = tuple(tdm_tile)
    if len(tile) != rank:
        raise UserValueError("the tile has the modes of the tensor", code="FLY-U655",
                             value=f"{tile} of {rank} modes")  # fmt: skip
    inner = _innermost(strides)
    _check_part(tile, num_warps, inner, tensor.element.width // 8)
    local = leaves(smem_layout.stride)
    if len(local) == rank and known(local[inner]) != 1 and tile[inner] > 1:
        raise UserValueError(
            "the mode that is contiguous in memory is contiguous in LDS", code="FLY-U656",
            value=f"mode {inner} has stride {local[inner]} in LDS",
        )  # fmt: skip
    operation = TiledTDM(
        rank, isinstance(op, TensorStore), num_warps, op.cache_modifier, init_boundary_check,
        atomic_barrier,
    )  # fmt: skip
    atom = make_copy_atom(operation, tensor.element).set_value("base", Int64(ptrtoint(tensor.iter)))
    for mode, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        atom = atom.set_value(f"stride_{mode}", Int64(stride))
        if init_boundary_check:
            atom = atom.set_value(f"extent_{mode}", Int32(extent))
    return atom, make_view((0,) * rank, make_identity_layout(shape))


def _innermost(strides: Sequence[Any]) -> int:
    found = [k for k, stride in enumerate(strides) if known(stride) == 1]
    if not found:
        raise UserValueError(
            "one mode of a tensor transfer is contiguous", code="FLY-U655", value=tuple(strides),
            allowed="stride 1",
        )  # fmt: skip
    return found[-1]


def _distribution(
    tile: Sequence[int], waves: int, inner: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return waves and parts by mode, the modes but `inner` taken as outer ones in order."""
    order = [*(k for k in range(len(tile)) if k != inner), inner]
    counts, parts = compute_warp_distribution([tile[k] for k in order], waves)
    place = {mode: at for at, mode in enumerate(order)}
    return tuple(counts[place[k]] for k in range(len(tile))), tuple(
        parts[place[k]] for k in range(len(tile))
    )


def _check_part(tile: Sequence[int], waves: int, inner: int, element: int) -> None:
    counts, parts = _distribution(tile, waves, inner)
    if any(t % c for t, c in zip(tile, counts, strict=True)):
        raise UserValueError("waves share a tile in equal parts", code="FLY-U655",
                             value=f"{waves} waves, tile {tuple(tile)}")  # fmt: skip
    if parts[inner] * element < _SMALLEST and tile[inner] > 1:
        raise UserValueError(
            f"a wave's part of a tile has at least {_SMALLEST} bytes along the contiguous mode",
            code="FLY-U655", value=f"{parts[inner]} elements of {element} bytes",
        )  # fmt: skip


def tdm_partition(
    atom: CopyAtom, warp_coord: Any, warp_layout: Any, s: Any, g: Any
) -> tuple[Tensor, CoordTensor]:
    """Return a wave's share of tiles in LDS and of their coordinates.

    Args:
        atom: Atom of `make_tiled_tdm_atom`.
        warp_coord: This wave's coordinate in `warp_layout`, uniform over the wave.
        warp_layout: Layout of the waves; its values are 0 to n - 1, each once, where n is the
            atom's number of waves.
        s: Tensor in LDS whose first mode is a tile.
        g: Coordinate tensor whose first mode is a tile.

    Returns:
        Both with the shape ((what one instruction moves, instructions), rest…).

    Raises:
        UserError: The layout is no bijection, or the tensors have no such tiles.
    """
    op = atom.operation
    if not isinstance(op, TiledTDM):
        raise UserTypeError("tdm_partition takes an atom of make_tiled_tdm_atom", code="FLY-U655",
                            value=op)  # fmt: skip
    layout = warp_layout if isinstance(warp_layout, Layout) else Layout(warp_layout, None)
    count = size(layout)
    if not isinstance(count, int) or sorted(
        layout(idx2crd(n, layout.shape)) for n in range(count)
    ) != list(range(op.num_warps)):
        raise UserValueError(
            "the waves of a partition are numbered once each", code="FLY-U655", value=str(layout),
            allowed=f"a layout of 0 to {op.num_warps - 1}",
        )  # fmt: skip
    if not isinstance(g, _COORDINATES) or not isinstance(s, Tensor) or s.kind.space != "shared":
        raise UserTypeError("a partition is of tiles in LDS and of their coordinates",
                            code="FLY-U655", value=(s, g))  # fmt: skip
    wave = _wave_number(warp_coord, layout)
    strides = [known(atom_values(atom)[f"stride_{k}"]) for k in range(op.rank)]
    inner = _innermost([0 if x is None else x for x in strides])
    tile = static(_first(leaves(_extents(g)[0][0]), op.rank), "the extents of a tile")
    counts, parts = _distribution(tile, op.num_warps, inner)
    if any(t % c for t, c in zip(tile, counts, strict=True)):
        raise UserValueError("waves share a tile in equal parts", code="FLY-U655",
                             value=f"{op.num_warps} waves, tile {tile}")  # fmt: skip
    where, rest = [], wave
    for own, part in zip(reversed(counts), reversed(parts), strict=True):
        where.append((rest % own) * part if own > 1 else 0)
        rest = rest // own if own > 1 else rest
    where.reverse()
    return _share(s, parts, where), _share(g, parts, where)


def _first(values: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    if len(values) != rank:
        raise UserValueError("the first mode of a partition is one tile", code="FLY-U655",
                             value=values, allowed=f"{rank} extents")  # fmt: skip
    return values


def _wave_number(coordinate: Any, layout: Layout) -> Any:
    if isinstance(coordinate, tuple):
        total: Any = 0
        for item, stride in zip(leaves(coordinate), leaves(layout.stride), strict=True):
            total = total + item * stride
        return total
    number = known(coordinate)
    if number is not None:
        return layout(number)
    found = crd2idx(coordinate, layout)
    return found.__fly_scalar__() if hasattr(found, "__fly_scalar__") else found


def _base(coordinates: Any) -> tuple[Any, ...]:
    """Return the first coordinate of a coordinate tensor, traced or not."""
    if isinstance(coordinates, StaticCoordTensor):
        return leaves(coordinates.base)
    return leaves(coordinates.iter)


def _extents(tensor: Any) -> tuple[Any, Any]:
    """Return shape and stride of a tensor, traced or not."""
    source = tensor.layout if isinstance(tensor, StaticCoordTensor) else tensor
    return source.shape, source.stride


def _share(tensor: Any, parts: Sequence[int], where: Sequence[Any]) -> Any:
    """Return a tensor of tiles with a wave's part as ((part, 1), rest…)."""
    shape, strides = _extents(tensor)
    own = leaves(strides[0]) if not isinstance(strides[0], Basis) else (strides[0],)
    rest_shape = tuple(shape[k] for k in range(1, len(shape)))
    rest_stride = tuple(strides[k] for k in range(1, len(shape)))
    layout = make_layout(((tuple(parts), 1), *rest_shape), ((own, 0), *rest_stride))
    if isinstance(tensor, _COORDINATES):
        base = list(_base(tensor))
        for stride, offset in zip(own, where, strict=True):
            at = stride.modes[0]
            base[at] = base[at] + offset * stride.value
        return make_view(tuple(base), layout)
    moved: Any = 0
    for stride, offset in zip(own, where, strict=True):
        moved = moved + offset * stride
    return make_view(add_offset(tensor.iter, moved), layout)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A mode of a tile: extent, the tensor's mode and step in it, and the step in LDS."""

    extent: int
    mode: int
    step: int
    local: int


def issue_tiled(atom: CopyAtom, src: Any, dst: Any, pred: Any) -> None:
    """Issue a copy with an atom of `make_tiled_tdm_atom`.

    Raises:
        UserError: The sides are not a tile of coordinates and one in LDS that fit each other.
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("a tensor transfer")
    op, state = atom.operation, atom_values(atom)
    coordinates, lds = (dst, src) if op.store else (src, dst)
    if not isinstance(coordinates, _COORDINATES) or not isinstance(lds, Tensor) or (
        lds.kind.space != "shared"
    ):  # fmt: skip
        way = "from LDS to coordinates" if op.store else "from coordinates to LDS"
        raise UserTypeError(f"this tensor transfer goes {way}", code="FLY-U655", value=(src, dst))
    if "base" not in state:
        raise UserValueError("this atom was not made by make_tiled_tdm_atom", code="FLY-U655",
                             value=str(op))  # fmt: skip
    found = _leaves(coordinates, lds)
    tile, turns = _tile(found, op.rank)
    bytes_each = lds.element.width // 8
    strides = [state[f"stride_{k}"] for k in range(op.rank)]
    inner = _innermost(strides)
    outer = sorted(
        (k for k in range(op.rank) if k != inner),
        key=lambda k: -(tile[k].local if tile[k].extent > 1 else 0),
    )
    order = [*outer, inner]
    for steps, local in turns:
        place = [c + s for c, s in zip(_base(coordinates), steps, strict=True)]
        address: Any = Int64(state["base"])
        for k in range(op.rank):
            address = address + Int64(place[k]) * Int64(strides[k]) * bytes_each
        bump = state.get("imm_offset", 0)
        if known(bump) != 0:
            address = address + Int64(bump) * bytes_each
        extents = [
            Int32(state[f"extent_{k}"]) - Int32(place[k]) if f"extent_{k}" in state else None
            for k in range(op.rank)
        ]
        start(
            Moved(
                address=address,
                lds=Int32(ptrtoint(lds.iter)) + local * bytes_each,
                element=bytes_each,
                tile=tuple(tile[k].extent for k in order),
                strides=(*(strides[k] for k in order[:-1]), 1),
                lds_strides=tuple(tile[k].local for k in order),
                extents=tuple(extents[k] for k in order),
                store=op.store,
                valid=1 if pred is None else predicate_word(pred),
                options=option_fields(op, state),
            ),
            op.cache_modifier,
        )


def _leaves(coordinates: Any, lds: Tensor) -> list[_Leaf]:
    shape, stride = _extents(coordinates)
    extents = static(leaves(shape), "the extents of a tile")
    steps, local = leaves(stride), static(leaves(lds.stride), "strides in LDS")
    if static(leaves(lds.shape), "the extents of a tile") != extents:
        raise UserValueError(
            "both sides of a tensor transfer hold the same tile", code="FLY-U655",
            value=f"{shape} and {lds.shape}",
        )  # fmt: skip
    found = []
    for extent, step, stride in zip(extents, steps, local, strict=True):
        if extent == 1:
            continue
        value = step.value if isinstance(step, Basis) and len(step.modes) == 1 else None
        if not isinstance(value, int):
            raise UserValueError("a tile of coordinates has one mode of the tensor in each of its"
                                 " own", code="FLY-U655", value=str(step))  # fmt: skip
        found.append(_Leaf(extent, step.modes[0], value, stride))
    return found


def _tile(found: Sequence[_Leaf], rank: int) -> tuple[list[_Leaf], Iterator[tuple[list[int], int]]]:
    """Return what one instruction moves, by mode, and the steps of all instructions."""
    tile, repeated = [], []
    for mode in range(rank):
        own = sorted((x for x in found if x.mode == mode), key=lambda x: x.step)
        if own and own[0].step == 1:
            tile.append(own[0])
            repeated += own[1:]
        else:
            tile.append(_Leaf(1, mode, 1, 0))
            repeated += own

    def turns() -> Iterator[tuple[list[int], int]]:
        for numbers in itertools.product(*(range(x.extent) for x in repeated)):
            steps, local = [0] * rank, 0
            for n, x in zip(numbers, repeated, strict=True):
                steps[x.mode] += n * x.step
                local += n * x.local
            yield steps, local

    return tile, turns()
