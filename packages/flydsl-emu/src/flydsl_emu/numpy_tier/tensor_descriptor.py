"""Descriptors of the tensor data mover: what their words mean, and which bytes a transfer moves.

A tile has up to five dimensions; dimension 0 is contiguous in memory, and the tile is dense in LDS
but for padding. Words, by group (public descriptions of the descriptor in AMD's kernel libraries
and in LLVM's AMDGPU dialect):

==== =================================================================================
0.0  bits 1:0 1 for a valid transfer, 0 for none; 30 wide row numbers; 31 gather
0.1  LDS byte address
0.2  address, low word; 0.3 its bits 56:32, and 2 in bits 31:30
1.0  15:0 workgroups; 17:16 log2 of the element's bytes; 18 barrier; 19 iterate; 20 pad;
     24:22 log2 of the dwords between pads, less 1; 31:25 dwords of a pad, less 1
1.1  15:0 barrier address; then extents 0 and 1 (32 bits each), sizes 0, 1, 2 of the tile
     (16 bits each), strides 1 and 2 (48 bits each), without gaps
2.0  extent 2, extent 3 (32 bits each), stride 3 (48 bits), size 3 (16 bits)
3.0  stride 4 (48 bits), extent 4 (32 bits), size 4 (16 bits)
==== =================================================================================

Extents, from the tile's first element on, bound what exists in memory: a load puts zeros for the
rest, a store leaves it out. In gather mode the tile's rows are those whose numbers groups 2 and 3
hold, size 1 says how many, and extent 1 bounds the numbers. Pads exist when loading only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.execution.faults import KernelFault

__all__ = ["TensorTransfer", "decoded"]

Array = Any

_TYPE = 2


@dataclass(frozen=True, slots=True)
class TensorTransfer:
    """One transfer.

    Attributes:
        lds: Byte address of the tile in LDS.
        address: Of the first element in memory.
        element: Bytes of an element.
        extents: Elements that exist, by dimension.
        sizes: Of the tile, by dimension.
        strides: In elements, by dimension.
        rows: Row numbers of a gathered tile, else empty.
        pad: Dwords between pads and of a pad, zeros for none.
        workgroups: Bits of the cluster's workgroups that a load serves; 0 is the wave's own.
    """

    lds: int
    address: int
    element: int
    extents: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    rows: tuple[int, ...]
    pad: tuple[int, int]
    workgroups: int

    def places(self) -> tuple[Array, Array, Array]:
        """Return, for each element: its byte in LDS, its address, and whether it exists."""
        count = int(np.prod(self.sizes))
        number = np.arange(count, dtype=np.int64)
        exists = np.ones(count, np.bool_)
        address = np.full(count, self.address, np.int64)
        rest = number
        for at, (extent, size, stride) in enumerate(
            zip(self.extents, self.sizes, self.strides, strict=True)
        ):
            coordinate = rest % size
            rest = rest // size
            if at == 1 and self.rows:
                coordinate = np.array(self.rows, np.int64)[coordinate]
            exists &= coordinate < extent
            address += coordinate * stride * self.element
        local = number * self.element
        interval, amount = self.pad
        if interval:
            local = local + local // (4 * interval) * (4 * amount)
        return self.lds + local, address, exists


def _field(words: Sequence[int], first: int, bits: int) -> int:
    total = sum(word << 32 * k for k, word in enumerate(words))
    return total >> first & ((1 << bits) - 1)


def _bits(word: int, first: int, count: int) -> int:
    return word >> first & ((1 << count) - 1)


def decoded(groups: Sequence[Sequence[int]], store: bool) -> TensorTransfer | None:
    """Return what a descriptor of two or four groups says; None when it is not to be done.

    Raises:
        KernelFault: The descriptor is not one of a tile, or asks for what is not modelled.
    """
    zero, one, two, three = (*groups, (0, 0, 0, 0), (0, 0, 0, 0))[:4]
    if not _bits(zero[0], 0, 2):
        return None
    if _bits(zero[3], 30, 2) != _TYPE or _bits(zero[0], 0, 2) != 1:
        raise KernelFault("a tensor descriptor is not valid", "FLY-U740")
    for bit, what in ((18, "LDS barriers of tensor transfers"), (19, "iterated tensor transfers")):
        if _bits(one[0], bit, 1):
            raise KernelFault(f"the emulator does not model {what}", "FLY-T705")
    extents = [_field(one, 48, 32), _field(one, 80, 32)]
    sizes = [_field(one, 112, 16), _field(one, 128, 16)]
    strides = [1, _field(one, 160, 48)]
    rows: tuple[int, ...] = ()
    if _bits(zero[0], 31, 1):
        wide = bool(_bits(zero[0], 30, 1))
        numbers = [_bits(word, shift, 32 if wide else 16)
                   for word in (*two, *three) for shift in ((0,) if wide else (0, 16))]  # fmt: skip
        if not 0 < sizes[1] <= len(numbers):
            raise KernelFault("a gathered tile has a wrong number of rows", "FLY-U740")
        rows = tuple(numbers[: sizes[1]])
    else:
        extents += [two[0], two[1], _field(three, 48, 32)]
        sizes += [_field(one, 144, 16), _bits(two[3], 16, 16), _field(three, 80, 16)]
        strides += [_field(one, 208, 48), _field(two, 64, 48), _field(three, 0, 48)]
    rank = max((k + 1 for k, size in enumerate(sizes) if size), default=0)
    if rank == 0 or not all(sizes[:rank]):
        raise KernelFault("a tensor descriptor has no tile", "FLY-U740")
    padded = _bits(one[0], 20, 1) and not store
    return TensorTransfer(
        lds=zero[1],
        address=zero[2] | _bits(zero[3], 0, 25) << 32,
        element=1 << _bits(one[0], 16, 2),
        extents=tuple(extents[:rank]),
        sizes=tuple(sizes[:rank]),
        strides=tuple(strides[:rank]),
        rows=rows,
        pad=(2 << _bits(one[0], 22, 3), _bits(one[0], 25, 7) + 1) if padded else (0, 0),
        workgroups=0 if store else _bits(one[0], 0, 16),
    )
