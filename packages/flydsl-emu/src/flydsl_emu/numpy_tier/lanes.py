"""The lane operations of the vector API on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.numpy_tier.arithmetic import Arithmetic
from flydsl_emu.numpy_tier.state import State, pack_mask, unpack_mask

__all__ = ["Lanes"]

Array = Any


@cache
def _static(lanes: tuple[int, ...]) -> Array:
    return np.array(lanes, np.intp)


class Lanes(Arithmetic):
    """Shuffles, ballots and masks over the waves of a batch."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.lane_count = state.lanes
        self._last_lane = np.uint32(state.lanes - 1)
        self._lane_id = np.arange(state.lanes, dtype=np.uint32).reshape(1, state.lanes)
        self.rows = np.arange(state.waves)

    def exec(self) -> Array:
        """Implement `VectorApi.exec`."""
        return self.state.exec

    def lane_id(self) -> Array:
        """Implement `VectorApi.lane_id`."""
        return self._lane_id

    def spread(self, x: Array) -> Array:
        """Return a value as a full ``(waves, lanes)`` array."""
        if np.shape(x) == (self.state.waves, self.lane_count):
            return x
        return np.broadcast_to(x, (self.state.waves, self.lane_count))

    def shuffle(self, x: Array, lanes: Sequence[int] | Array) -> Array:
        """Implement `VectorApi.shuffle`."""
        full = self.spread(x)
        if isinstance(lanes, (tuple, list)):
            return full[:, _static(tuple(lanes))]
        index = np.bitwise_and(self.spread(lanes), self._last_lane).astype(np.intp)
        return np.take_along_axis(full, index, 1)

    def read_lane(self, x: Array, lane: Array) -> Array:
        """Implement `VectorApi.read_lane`."""
        index = np.broadcast_to(np.bitwise_and(lane, self._last_lane), (self.state.waves, 1))[:, 0]
        return self.spread(x)[self.rows, index.astype(np.intp)][:, None]

    def write_lane(self, x: Array, element: Array, lane: Array) -> Array:
        """Implement `VectorApi.write_lane`."""
        index = np.broadcast_to(np.bitwise_and(lane, self._last_lane), (self.state.waves, 1))[:, 0]
        out = np.array(self.spread(x))
        out[self.rows, index.astype(np.intp)] = np.broadcast_to(element, (self.state.waves, 1))[
            :, 0
        ]
        return out

    def first_lane(self, mask: Array) -> Array:
        """Implement `VectorApi.first_lane`."""
        return self.spread(mask).argmax(axis=1).astype(np.uint32)[:, None]

    def any(self, mask: Array) -> Array:
        """Implement `VectorApi.any`."""
        return self.spread(mask).any(axis=1, keepdims=True)

    def ballot(self, mask: Array) -> Array:
        """Implement `VectorApi.ballot`."""
        words = pack_mask(self.spread(mask))
        return words.astype(np.uint64) if words.shape[1] == 1 else words.view(np.uint64)

    def lanes(self, bits: Array) -> Array:
        """Implement `VectorApi.lanes`."""
        words = np.ascontiguousarray(np.broadcast_to(bits, (self.state.waves, 1)))
        halves = words.view(np.uint32)
        return unpack_mask(*(halves[:, k : k + 1] for k in range(self.state.mask_words)))

    def rarely(
        self, condition: Array, rare: Callable[[], Array], usual: Array, _what: str
    ) -> Array:
        """Implement `VectorApi.rarely`."""
        return np.where(condition, rare(), usual) if np.any(condition) else usual

    def require(self, condition: Array, message: str) -> None:
        """Implement `VectorApi.require`."""
        state = self.state
        good = np.broadcast_to(condition, (state.waves, 1))[:, 0]
        if good.all():
            return
        bad = ~good & state.live & state.mask.any(axis=1)
        if state.active is not None:
            bad &= state.active
        if bad.any():
            text = f"the emulator does not model {message}"
            raise KernelFault(text, "FLY-T705", int(np.argmax(bad)))
