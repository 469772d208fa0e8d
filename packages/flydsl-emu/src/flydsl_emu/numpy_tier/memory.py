"""The memory operations of the vector API on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.execution.host import (
    FIRST,
    PRIVATE_APERTURE,
    SHARED_APERTURE,
    Allocations,
    flat_view,
)
from flydsl_emu.numpy_tier.matrices import Matrices
from flydsl_emu.numpy_tier.state import State
from flydsl_emu.semantics.atomics import OPERATIONS

__all__ = ["LocalMemory", "MemoryAccess", "Watch"]

Array = Any

_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}

Observer = Callable[[str, Array, int, Array, bool], None]


class Watch(Protocol):
    """Sees accesses in detail, before they happen.

    `offsets` are byte offsets of the accessing lanes in the space's array (for ``"global"``: in
    host memory from address `FIRST`), `lanes` their flat numbers in the batch, None for all.
    """

    def read(self, space: str, offsets: Array, total: int, lanes: Array | None) -> None:
        """See a load of `total` bytes per lane."""
        ...

    def write(
        self, space: str, offsets: Array, size: int, values: Sequence[Array], lanes: Array | None
    ) -> None:
        """See a store of the low `size` bytes of each value, one after the other."""
        ...

    def update(self, space: str, offsets: Array, size: int, lanes: Array | None) -> None:
        """See an atomic access of `size` bytes."""
        ...


@dataclass(slots=True)
class LocalMemory:
    """LDS of all workgroups, or scratch of all lanes, in one array of bytes.

    Attributes:
        data: ``uint8``, `stride` bytes for each owner.
        base: Byte offset of each lane's owner, ``(waves, 1)`` or ``(waves, lanes)``.
        size: Bytes that an owner may use.
        code: Error code of an access beyond them.
        name: For messages.
    """

    data: Array
    base: Array
    size: int
    code: str
    name: str


class MemoryAccess(Matrices):
    """Loads, stores and atomics.

    Args:
        state: Registers.
        allocations: Host memory that the kernel may touch.
        lds: LDS.
        scratch: Private segment.
    """

    def __init__(
        self, state: State, allocations: Allocations, lds: LocalMemory, scratch: LocalMemory
    ) -> None:
        super().__init__(state)
        self.buffers = {}
        self.products = None
        self.allocations = allocations
        self.local = {"lds": lds, "scratch": scratch}
        self.observe: Observer | None = None
        self.watch: Watch | None = None

    def _lanes(self, mask: Array | None) -> Array | None:
        """Return the flat indices of the lanes that access; None for all of them."""
        state = self.state
        if mask is None:
            return None if state.full else np.flatnonzero(state.mask)
        if state.full and mask.all():
            return None
        return np.flatnonzero(np.logical_and(state.mask, mask))

    def _chosen(self, x: Array, lanes: Array | None) -> Array:
        full = self.spread(x)
        return (
            full.reshape(-1)
            if lanes is None
            else full[lanes // self.lane_count, lanes % self.lane_count]
        )

    def _locate(
        self, space: str, address: Array, lanes: Array | None, total: int, write: bool
    ) -> tuple[Array | None, Array]:
        """Return the bytes array (None for host memory) and byte offsets of the accesses."""
        chosen = self._chosen(address, lanes)
        if self.observe is not None and chosen.size:
            self.observe(space, chosen, total, self._waves(lanes), write)
        if space == "global":
            bad = self.allocations.check(chosen, total, write)
            if bad is not None:
                fault = self.allocations.explain(int(chosen[bad]), total, write)
                raise self._placed(fault, lanes, bad)
            return None, chosen.view(np.int64) - FIRST
        local = self.local[space]
        offsets = chosen.astype(np.int64)
        if offsets.size and int(offsets.max()) + total > local.size:
            bad = int(np.argmax(offsets + total > local.size))
            verb = "write" if write else "read"
            text = (
                f"{verb} of {total} bytes at {local.name} offset {int(offsets[bad]):#x}; "
                f"the kernel has {local.size} bytes of {local.name}"
            )
            fault = AccessFault(text, local.code, space, int(offsets[bad]), total, write)
            raise self._placed(fault, lanes, bad)
        return local.data, offsets + self._chosen(local.base, lanes)

    def _waves(self, lanes: Array | None) -> Array:
        """Return the wave of each accessing lane."""
        if lanes is None:
            return np.repeat(self.rows, self.lane_count)
        return lanes // self.lane_count

    def _placed(self, fault: KernelFault, lanes: Array | None, index: int) -> KernelFault:
        flat = index if lanes is None else int(lanes[index])
        fault.wave, fault.lane = divmod(flat, self.lane_count)
        return fault

    # Loads and stores ----------------------------------------------------------------------------
    def load(
        self, space: str, address: Array, size: int, count: int, mask: Array | None = None
    ) -> list[Array]:
        """Implement `VectorApi.load`."""
        if space == "flat":
            return self._flat_load(address, size, count, mask)
        lanes = self._lanes(mask)
        data, offsets = self._locate(space, address, lanes, size * count, False)
        if self.watch is not None:
            self.watch.read(space, offsets, size * count, lanes)
        values = _read(data, offsets, size, count)
        shape = (self.state.waves, self.lane_count)
        if lanes is None:
            return [x.reshape(shape) for x in values]
        out = []
        for x in values:
            full = np.zeros(self.state.waves * self.lane_count, np.uint32)
            full[lanes] = x
            out.append(full.reshape(shape))
        return out

    def store(
        self,
        space: str,
        address: Array,
        size: int,
        values: Sequence[Array],
        mask: Array | None = None,
    ) -> None:
        """Implement `VectorApi.store`."""
        if space == "flat":
            self._flat_store(address, size, values, mask)
            return
        lanes = self._lanes(mask)
        if lanes is not None and not lanes.size:
            return
        data, offsets = self._locate(space, address, lanes, size * len(values), True)
        chosen = [self._chosen(x, lanes) for x in values]
        if self.watch is not None:
            self.watch.write(space, offsets, size, chosen, lanes)
        _write(data, offsets, size, chosen)

    def _apertures(self, address: Array, mask: Array | None) -> list[tuple[str, Array, Array]]:
        """Split flat accesses by space: ``(space, addresses, mask)``."""
        high = np.right_shift(address, np.uint64(32))
        shared, private = np.equal(high, SHARED_APERTURE), np.equal(high, PRIVATE_APERTURE)
        parts = []
        rest = np.logical_not(np.logical_or(shared, private))
        low = address.astype(np.uint32)
        for space, where, offset in (
            ("global", rest, address),
            ("lds", shared, low),
            ("scratch", private, low),
        ):
            if where.any():
                parts.append(
                    (space, offset, where if mask is None else np.logical_and(where, mask))
                )
        return parts

    def _flat_load(self, address: Array, size: int, count: int, mask: Array | None) -> list[Array]:
        total: list[Array] | None = None
        for space, offset, where in self._apertures(address, mask):
            values = self.load(space, offset, size, count, where)
            total = values if total is None else [a | b for a, b in zip(total, values, strict=True)]
        return total or []

    def _flat_store(
        self, address: Array, size: int, values: Sequence[Array], mask: Array | None
    ) -> None:
        for space, offset, where in self._apertures(address, mask):
            self.store(space, offset, size, values, where)

    def load_scalar(
        self, address: Array, count: int, valid: Sequence[Array] | None = None, size: int = 4
    ) -> list[Array]:
        """Implement `VectorApi.load_scalar`."""
        state = self.state
        waves = state.live if state.active is None else state.active
        full = np.broadcast_to(address, (state.waves, 1))[:, 0]
        out = [np.zeros((state.waves, 1), np.uint32) for _ in range(count)]
        checks = (
            [waves]
            if valid is None
            else [waves & np.broadcast_to(v, (state.waves, 1))[:, 0] for v in valid]
        )
        for k in range(count):
            index = np.flatnonzero(checks[min(k, len(checks) - 1)])
            where = full[index] + np.uint64(4 * k)
            if k == 0 or valid is not None:
                total = size if valid is not None else size * count
                bad = self.allocations.check(where, total, False)
                if bad is not None:
                    fault = self.allocations.explain(int(where[bad]), size, False)
                    fault.space, fault.wave = "scalar", int(index[bad])
                    raise fault
            if self.observe is not None:
                self.observe("scalar", where, size, index, False)
            (out[k][index, 0],) = _read(None, where.view(np.int64) - FIRST, size, 1)
        return out

    # Atomics -------------------------------------------------------------------------------------
    def atomic(
        self,
        space: str,
        operation: str,
        address: Array,
        operands: Sequence[Array],
        mask: Array | None,
    ) -> Array:
        """Implement `VectorApi.atomic`."""
        dtype = operands[0].dtype
        if space == "flat":
            parts = self._apertures(address, mask)
            old = np.zeros((self.state.waves, self.lane_count), dtype)
            for part, offset, where in parts:
                got = self.atomic(part, operation, offset, operands, where)
                old = np.where(where, got, old)
            return old
        lanes = self._lanes(mask)
        if lanes is None:
            lanes = np.arange(self.state.waves * self.lane_count)
        size = dtype.itemsize
        data, offsets = self._locate(space, address, lanes, size, True)
        if (offsets & (size - 1)).any():
            bad = int(np.argmax((offsets & (size - 1)) != 0))
            fault = KernelFault(f"an atomic of {size} bytes is not aligned to its size", "FLY-U719")
            raise self._placed(fault, lanes, bad)
        if self.watch is not None:
            self.watch.update(space, offsets, size, lanes)
        memory = flat_view(size) if data is None else data.view(f"u{size}")
        index = offsets >> _SHIFT[size]
        values = [self._chosen(x, lanes) for x in operands]
        old = np.zeros(self.state.waves * self.lane_count, dtype)
        old[lanes] = self._update(memory, index, values, operation)
        return old.reshape(self.state.waves, self.lane_count)

    def _update(self, memory: Array, index: Array, values: list[Array], operation: str) -> Array:
        """Apply the operation element by element, in order; return what was there before."""
        dtype = values[0].dtype
        old = np.zeros(len(index), dtype)
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        first = np.ones(len(index), np.bool_)
        first[1:] = ordered[1:] != ordered[:-1]
        start = np.flatnonzero(first)
        rank = np.arange(len(index)) - np.repeat(start, np.diff(np.append(start, len(index))))
        function = OPERATIONS[operation]
        for turn in range(int(rank.max(initial=-1)) + 1):
            here = order[rank == turn]
            where = index[here]
            before = memory[where].view(dtype)
            old[here] = before
            after = function(self, before, *(x[here] for x in values))
            memory[where] = after.view(memory.dtype)
        return old


def _read(data: Array | None, offsets: Array, size: int, count: int) -> list[Array]:
    """Return `count` elements of `size` bytes from each byte offset, as ``uint32``."""
    step = _SHIFT[size]
    if size > 1 and (offsets & (size - 1)).any():
        source = flat_view(1) if data is None else data
        return [_assemble(source, offsets + k * size, size) for k in range(count)]
    source = flat_view(size) if data is None else data.view(f"u{size}")
    index = offsets >> step
    if size == 4:
        return [source[index + k] if k else source[index] for k in range(count)]
    return [source[index + k].astype(np.uint32) for k in range(count)]


def _assemble(source: Array, offsets: Array, size: int) -> Array:
    total = source[offsets].astype(np.uint32)
    for k in range(1, size):
        total |= source[offsets + k].astype(np.uint32) << np.uint32(8 * k)
    return total


def _write(data: Array | None, offsets: Array, size: int, values: list[Array]) -> None:
    if size > 1 and (offsets & (size - 1)).any():
        target = flat_view(1) if data is None else data
        for k, x in enumerate(values):
            for b in range(size):
                part = np.right_shift(x, np.uint32(8 * b)).astype(np.uint8)
                target[offsets + (k * size + b)] = part
        return
    target = flat_view(size) if data is None else data.view(f"u{size}")
    index = offsets >> _SHIFT[size]
    for k, x in enumerate(values):
        target[index + k if k else index] = x if size == 4 else x.astype(target.dtype)
