"""Registers of all waves of a batch of workgroups."""

from __future__ import annotations

from typing import Any

import numpy as np

from flydsl_emu.decode.instruction import EXEC
from flydsl_emu.semantics.modes import DEFAULT_MODE

__all__ = ["State", "pack_mask", "unpack_mask"]

Array = Any

_FULL = np.uint32(0xFFFFFFFF)
SCALAR_CODES = 256


def pack_mask(mask: Array) -> Array:
    """Return per-lane truth values ``(waves, lanes)`` as dwords ``(waves, lanes / 32)``."""
    packed = np.packbits(mask, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint32)


def unpack_mask(*words: Array) -> Array:
    """Return dword columns ``(waves, 1)`` as per-lane truth values ``(waves, 32 * words)``."""
    joined = np.concatenate(words, axis=1) if len(words) > 1 else np.ascontiguousarray(words[0])
    return np.unpackbits(joined.view(np.uint8), axis=1, bitorder="little").view(np.bool_)


class State:
    """Register files and execution masks.

    Attributes:
        waves: Waves in the batch.
        lanes: Lanes of a wave: 64 or 32.
        mask_words: Scalar registers that hold a lane mask: 2 or 1.
        vector: VGPRs ``[register, wave, lane]``, dwords.
        accumulation: AGPRs, likewise.
        scalar: Scalar operands by encoding ``[code, wave, 1]``: SGPRs, VCC, M0, EXEC, apertures.
        scc: Scalar condition code ``[wave, 1]``.
        exec: EXEC as truth values ``[wave, lane]``.
        active: Waves at the current PC, or None when all live waves are.
        live: Waves that have not ended.
        mask: Lanes that execute now: ``exec`` of active, live waves.
        full: Every lane of every wave executes.
        modes: The MODE register ``[wave, 1]``.
        spare: First of `SPARE` vector registers that no kernel has, for indexed operands.
        write_all: Vector results may overwrite whole registers (lanes that do not execute belong
            to ended waves).
    """

    SPARE = 16

    def __init__(self, waves: int, vgprs: int, agprs: int, lanes: int = 64) -> None:
        self.waves = waves
        self.lanes = lanes
        self.mask_words = lanes // 32
        self.vector = np.zeros((vgprs + self.SPARE, waves, lanes), np.uint32)
        self.spare = vgprs
        self.modes = np.full((waves, 1), DEFAULT_MODE, np.uint32)
        self.accumulation = np.zeros((agprs, waves, lanes), np.uint32)
        self.scalar = np.zeros((SCALAR_CODES, waves, 1), np.uint32)
        self.scc = np.zeros((waves, 1), np.bool_)
        self.exec = np.ones((waves, lanes), np.bool_)
        self.live = np.ones(waves, np.bool_)
        self.active: Array | None = None
        self.mask = self.exec
        self.full = True
        self.write_all = True
        self.pc = np.zeros(waves, np.int64)

    def set_exec(self, mask: Array) -> None:
        """Set EXEC of all waves from truth values."""
        words = pack_mask(mask)
        for k in range(self.mask_words):
            self.scalar[EXEC + k] = words[:, k : k + 1]
        self.exec_written()

    def exec_written(self) -> None:
        """Follow a change of the EXEC registers."""
        words = [self.scalar[EXEC + k] for k in range(self.mask_words)]
        self.exec = unpack_mask(*words)
        self._every = all(bool((word == _FULL).all()) for word in words)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the execution masks after a change of `exec`, `active` or `live`."""
        if self.active is None:
            if self.live.all():
                self.mask, self.full, self.write_all = self.exec, self._every, self._every
                return
            self.mask = self.exec & self.live[:, None]
            self.full = False
            self.write_all = bool((self.exec | ~self.live[:, None]).all())
            return
        self.mask = self.exec & self.active[:, None]
        self.full = False
        self.write_all = False

    def wave_mask(self) -> Array | None:
        """Return the waves ``[wave, 1]`` whose scalar registers may change; None for all."""
        return None if self.active is None else self.active[:, None]
