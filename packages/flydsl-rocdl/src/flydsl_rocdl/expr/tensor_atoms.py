"""Copies by the tensor data mover: tiles in memory and in LDS, shared by waves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import require
from flydsl.expr.copying import CopyAtom, make_copy_atom
from flydsl.expr.layouts import IntTupleValue
from flydsl.expr.numeric import Boolean, Int32, Int64
from flydsl.expr.pointers import ptrtoint
from flydsl.expr.tensors import Tensor
from flydsl_rocdl.arch.tensor import EXTENTS, SIZES, STRIDES
from flydsl_rocdl.atoms.tensor import TDM
from flydsl_rocdl.expr.access import amd_facts
from flydsl_rocdl.expr.cluster import wave_id
from flydsl_rocdl.expr.tensor_tiles import (
    LdsRuns,
    compute_padding_encoding,
    compute_warp_distribution,
    dense_strides,
    lds_runs,
    padded_strides,
)
from flydsl_rocdl.expr.tensor_words import (
    Descriptor,
    descriptor,
    issue,
    known,
    lowest,
    predicate_word,
    tensor_facts,
)

__all__ = [
    "Moved",
    "atom_values",
    "issue_tile",
    "leaves",
    "make_tdm_atom",
    "start",
    "tile_descriptor",
]

_UNBOUNDED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer of a tile, modes from the outermost to the innermost.

    Attributes:
        address: Byte address of the tile's first element in memory, Int64.
        lds: Byte address of the tile in LDS, Int32.
        element: Bytes of an element.
        tile: Extents of the tile.
        strides: In memory, in elements; that of the innermost mode is 1.
        lds_strides: In LDS, in elements.
        extents: Elements that exist from the tile's first on, None for all of the tile.
        waves: Waves that share the tile.
        pad: Elements between explicit pads and of a pad, zeros for none.
        store: Whether it goes to memory.
        valid: Whether to do it: an int or an Int32.
        options: Further descriptor fields.
    """

    address: Any
    lds: Any
    element: int
    tile: tuple[int, ...]
    strides: tuple[Any, ...]
    lds_strides: tuple[int, ...]
    extents: tuple[Any, ...]
    waves: int = 1
    pad: tuple[int, int] = (0, 0)
    store: bool = False
    valid: Any = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def leaves(value: Any) -> tuple[Any, ...]:
    """Return the integers of a shape or stride in order."""
    if isinstance(value, IntTupleValue):
        value = value.to_python()
    if isinstance(value, tuple):
        return tuple(leaf for item in value for leaf in leaves(item))
    return (value,)


def _integer_constant(value: Any) -> int | None:
    owner = value.owner
    if getattr(owner, "name", "") != "arith.constant":
        return None
    number = getattr(owner.attributes["value"], "value", None)
    return number if isinstance(number, int) else None


def atom_values(atom: CopyAtom) -> dict[str, Any]:
    """Return what an atom's state was set to: ints where known, else Int32 or Int64."""
    found: dict[str, Any] = {}
    owner = atom.value.owner
    while getattr(owner, "name", "") == "fly.atom_set_value":
        value = owner.operands[1]
        constant = _integer_constant(value)
        kind = Int64 if str(value.type) == "i64" else Int32
        name = str(owner.attributes["field"].value)
        found.setdefault(name, kind.wrap(value) if constant is None else constant)
        owner = owner.operands[0].owner
    return found


def make_tdm_atom(
    tensor: Any,
    tensor_extents: Sequence[Any],
    strides: Sequence[Any] | None = None,
    *,
    num_warps: int = 1,
    **options: Any,
) -> CopyAtom:
    """Return the copy atom of a tensor's tiles.

    Args:
        tensor: Tensor in global memory that the tiles are of; it gives rank, element and strides.
        tensor_extents: Elements that exist from the first of a tile on, by mode; None for the whole
            tile. For tiles elsewhere set ``extent_<mode>`` in the copy.
        strides: Elements between the places of each mode but the innermost (which may follow as 1
            or None); None takes the tensor's.
        num_warps: Waves that share a tile.
        **options: Further parameters of `TDM`.

    Raises:
        UserError: Ranks differ, or a parameter is out of range.
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("make_tdm_atom")
    shape, own = leaves(tensor.shape), leaves(tensor.stride)
    rank = len(shape)
    if rank > len(EXTENTS):
        raise UserValueError("a tensor transfer has 1 to 5 modes", code="FLY-U655", value=rank)
    if len(tensor_extents) != rank:
        raise UserValueError("every mode has an extent", code="FLY-U655",
                             value=f"{len(tensor_extents)} extents of {rank} modes")  # fmt: skip
    given = list(own if strides is None else strides)
    if strides is not None and len(given) == rank:
        last = given.pop()
        if last is not None and known(last) != 1:
            raise _not_contiguous(last)
    elif strides is None and known(given.pop()) != 1:
        raise _not_contiguous(own[-1])
    if len(given) != rank - 1:
        raise UserValueError("every mode but the innermost has a stride", code="FLY-U655",
                             value=f"{len(given)} strides of {rank} modes")  # fmt: skip
    atom = make_copy_atom(TDM(rank, num_warps, **options), tensor.element)
    for mode, extent in enumerate(tensor_extents):
        if extent is not None:
            atom = atom.set_value(f"extent_{mode}", Int32(extent))
    for mode, stride in enumerate(given):
        if stride is not None:
            atom = atom.set_value(f"stride_{mode}", Int64(stride))
    return atom


def _not_contiguous(stride: Any) -> UserValueError:
    return UserValueError(
        "the innermost mode of a tensor transfer is contiguous", code="FLY-U655", value=stride,
        allowed="stride 1", hint="order the modes so that the contiguous one is last",
    )  # fmt: skip


def _sides(src: Any, dst: Any) -> tuple[Tensor, Tensor, bool]:
    """Return (tensor in memory, tensor in LDS, whether it is a store)."""
    spaces = [x.kind.space if isinstance(x, Tensor) else "" for x in (src, dst)]
    if spaces == ["global", "shared"]:
        return src, dst, False
    if spaces == ["shared", "global"]:
        return dst, src, True
    raise UserTypeError(
        "a tensor transfer goes between global and shared memory", code="FLY-U655",
        value=" to ".join(s or "no tensor" for s in spaces),
    )  # fmt: skip


def static(values: Sequence[Any], what: str) -> tuple[int, ...]:
    """Return numbers that must be known while tracing.

    Raises:
        UserValueError: One is not.
    """
    found = [known(v) for v in values]
    if any(v is None for v in found):
        raise UserValueError(f"{what} must be known when compiling", code="FLY-U655",
                             value=tuple(values))  # fmt: skip
    return tuple(v for v in found if v is not None)


def issue_tile(atom: CopyAtom, src: Any, dst: Any, pred: Any) -> None:
    """Issue a copy with a `TDM` atom; see there.

    Raises:
        UserError: The tensors do not hold one tile, or LDS is laid out differently.
        TargetError: The architecture has no tensor data mover.
    """
    tensor_facts("a tensor transfer")
    op, state = atom.operation, atom_values(atom)
    memory, lds, store = _sides(src, dst)
    tile = static(leaves(memory.shape), "the extents of a tile")
    if len(tile) != op.rank or leaves(lds.shape) != tile:
        raise UserValueError(
            f"both sides of this copy hold a tile of {op.rank} modes", code="FLY-U655",
            value=f"{memory.shape} and {lds.shape}",
        )  # fmt: skip
    own = leaves(memory.stride)
    strides = [state.get(f"stride_{k}", own[k]) for k in range(op.rank - 1)]
    if known(own[-1]) != 1 and tile[-1] != 1:
        raise _not_contiguous(own[-1])
    extents = [state.get(f"extent_{k}") for k in range(op.rank)]
    bytes_each = memory.element.width // 8
    address = ptrtoint(memory.iter)
    bump = state.get("imm_offset", 0)
    if known(bump) != 0:
        address = Int64(address) + Int64(bump) * bytes_each
    start(
        Moved(
            address=address,
            lds=ptrtoint(lds.iter),
            element=bytes_each,
            tile=tile,
            strides=(*strides, 1),
            lds_strides=static(leaves(lds.stride), "the strides of a tile in LDS"),
            extents=tuple(None if known_unbounded(e) else e for e in extents),
            waves=op.num_warps,
            pad=(op.pad_interval, op.pad_amount),
            store=store,
            valid=1 if pred is None else predicate_word(pred),
            options=option_fields(op, state),
        ),
        op.cache_modifier,
    )


def known_unbounded(extent: Any) -> bool:
    """Return whether an extent bounds nothing."""
    return extent is None or known(extent) == _UNBOUNDED


def option_fields(op: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the descriptor fields of an atom's options.

    Raises:
        UserValueError: It arrives at a barrier without an address.
    """
    fields: dict[str, Any] = {"workgroup_mask": state.get("workgroup_mask", 0)}
    if getattr(op, "early_timeout", False):
        fields["early_timeout"] = 1
    if op.atomic_barrier:
        if "barrier_address" not in state:
            raise UserValueError("the barrier of a tensor transfer has no address",
                                 code="FLY-U655", value="atomic_barrier=True",
                                 allowed="barrier_address=… in the copy")  # fmt: skip
        where = state["barrier_address"]
        number = known(where)
        fields["barrier"] = 1
        fields["barrier_address"] = Int32(where) >> 3 if number is None else number >> 3
    return fields


def start(moved: Moved, cache_modifier: int) -> None:
    """Issue a transfer."""
    issue(tile_descriptor(moved), moved.store, cache_modifier)


def tile_descriptor(moved: Moved) -> Descriptor:
    """Return the descriptor of this wave's part of a tile.

    Raises:
        UserError: The tile is not laid out in LDS as the hardware writes it.
    """
    _, part = compute_warp_distribution(moved.tile, moved.waves)
    lds_strides, explicit = _lds_strides(moved)
    runs = explicit if lds_strides is None else lds_runs(part, lds_strides)
    fields = dict(moved.options)
    valid, address, lds = moved.valid, moved.address, moved.lds
    sizes: list[Any] = list(part)
    extents = list(moved.extents)
    if moved.waves > 1:
        where, valid = _own_part(moved, valid)
        address = Int64(address) + _dot(where, moved.strides, Int64) * moved.element
        lds = Int32(lds) + _dot(where, lds_strides or moved.tile, Int32) * moved.element
        for k, offset in enumerate(where):
            if moved.tile[k] % part[k]:
                left = _positive(moved.tile[k] - offset)
                sizes[k] = lowest(part[k], left)
                valid = Int32(valid) & Int32(Boolean(left > 0))
            if extents[k] is not None:
                extents[k] = Int32(extents[k]) - offset
    bounds = [s if e is None else _nonnegative(e) for s, e in zip(sizes, extents, strict=True)]
    if runs.run and moved.store:  # what the hardware would take for the gap does not exist
        _check_store(runs, part)
        bounds[-1] = lowest(bounds[-1], part[-1])
        sizes[-1] = part[-1] + runs.gap
    elif runs.run:
        codes = compute_padding_encoding(runs.run, runs.gap, moved.element)
        fields |= {"pad": 1, "pad_interval": codes[0], "pad_amount": codes[1]}
    fields |= {
        "valid": valid,
        "lds_address": lds,
        "address": address,
        "element": moved.element.bit_length() - 1,
    }
    for k, (size, bound) in enumerate(zip(reversed(sizes), reversed(bounds), strict=True)):
        fields[SIZES[k]] = size
        fields[EXTENTS[k]] = bound
    for k, stride in enumerate(reversed(moved.strides[:-1])):
        fields[STRIDES[k]] = stride
    return descriptor(fields)


def _nonnegative(bound: Any) -> Any:
    number = known(bound)
    return _positive(bound) if number is None else max(0, number)


def _lds_strides(moved: Moved) -> tuple[tuple[int, ...] | None, LdsRuns]:
    """Return the tile's strides in LDS; None where only the explicit pads say how it lies."""
    interval, amount = moved.pad
    if not interval:
        return moved.lds_strides, LdsRuns()
    explicit = LdsRuns(interval, amount)
    padded = padded_strides(moved.tile, interval, amount)
    dense = dense_strides(moved.tile)
    known_layouts = (dense, padded) if padded is not None else (dense,)
    if moved.lds_strides not in known_layouts:
        raise UserValueError(
            "the pads of a tensor transfer contradict the layout of its tile in LDS",
            code="FLY-U656", value=moved.lds_strides,
            allowed=" or ".join(str(x) for x in known_layouts),
        )  # fmt: skip
    if padded is None and moved.waves > 1:
        raise UserValueError(
            "waves can share a tile with pads only where they fall between its rows",
            code="FLY-U656", value=f"tile {moved.tile} with pads after {interval} elements",
        )  # fmt: skip
    return padded, explicit


def _check_store(runs: LdsRuns, part: Sequence[int]) -> None:
    if runs.run != part[-1]:
        raise UserValueError(
            "a tensor store reads LDS with gaps only after each row", code="FLY-U656",
            value=f"gaps after {runs.run} elements, rows of {part[-1]}",
        )  # fmt: skip


def _own_part(moved: Moved, valid: Any) -> tuple[list[Any], Any]:
    """Return where this wave's part starts, by mode, and whether it has one."""
    waves, part = compute_warp_distribution(moved.tile, moved.waves)
    wave = wave_id()
    if _most_waves() > moved.waves:
        valid = Int32(valid) & Int32(Boolean(wave < moved.waves))
    where: list[Any] = [0] * len(waves)
    rest = wave & (moved.waves - 1)
    for k, own in _innermost_first(waves):
        if own > 1:
            where[k] = Int32((rest & (own - 1)) * part[k])
            rest = Int32(rest >> own.bit_length() - 1)
    return where, valid


def _most_waves() -> int:
    """Return how many waves a workgroup has at most."""
    facts = amd_facts("a tensor transfer")
    kernel = require("a tensor transfer").kernel
    block = None if kernel is None else kernel.block
    threads = facts.max_threads_per_block if block is None else prod(block)
    return -(-threads // facts.wave_size)


def _innermost_first(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    return reversed(list(enumerate(values)))


def _dot(where: Sequence[Any], strides: Sequence[Any], kind: Any) -> Any:
    total = kind(0)
    for offset, stride in zip(where, strides, strict=True):
        if known(offset) != 0:
            total = total + kind(offset) * kind(stride)
    return total


def _positive(value: Any) -> Int32:
    number = Int32(value)
    return Int32((number > 0).select(number, Int32(0)))
