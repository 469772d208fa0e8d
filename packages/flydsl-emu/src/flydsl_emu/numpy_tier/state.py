"""Registers of all waves of a batch of workgroups."""

from __future__ import annotations

from typing import Any

import numpy as np

from flydsl_emu.decode.instruction import EXEC

__all__ = ["LANES", "State", "pack_mask", "unpack_mask"]

Array = Any

LANES = 64
_FULL = np.uint32(0xFFFFFFFF)
SCALAR_CODES = 256


def pack_mask(mask: Array) -> Array:
    """Return per-lane truth values ``(waves, 64)`` as dwords ``(waves, 2)``."""
    packed = np.packbits(mask, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint32)


def unpack_mask(low: Array, high: Array) -> Array:
    """Return two dword columns ``(waves, 1)`` as per-lane truth values ``(waves, 64)``."""
    words = np.concatenate((low, high), axis=1)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").view(np.bool_)


class State:
    """Register files and execution masks.

    Attributes:
        waves: Waves in the batch.
        vector: VGPRs ``[register, wave, lane]``, dwords.
        accumulation: AGPRs, likewise.
        scalar: Scalar operands by encoding ``[code, wave, 1]``: SGPRs, VCC, M0, EXEC, apertures.
        scc: Scalar condition code ``[wave, 1]``.
        exec: EXEC as truth values ``[wave, lane]``.
        active: Waves at the current PC, or None when all live waves are.
        live: Waves that have not ended.
        mask: Lanes that execute now: ``exec`` of active, live waves.
        full: Every lane of every wave executes.
        write_all: Vector results may overwrite whole registers (lanes that do not execute belong
            to ended waves).
    """

    def __init__(self, waves: int, vgprs: int, agprs: int) -> None:
        self.waves = waves
        self.vector = np.zeros((vgprs, waves, LANES), np.uint32)
        self.accumulation = np.zeros((agprs, waves, LANES), np.uint32)
        self.scalar = np.zeros((SCALAR_CODES, waves, 1), np.uint32)
        self.scc = np.zeros((waves, 1), np.bool_)
        self.exec = np.ones((waves, LANES), np.bool_)
        self.live = np.ones(waves, np.bool_)
        self.active: Array | None = None
        self.mask = self.exec
        self.full = True
        self.write_all = True
        self.pc = np.zeros(waves, np.int64)

    def set_exec(self, mask: Array) -> None:
        """Set EXEC of all waves from truth values."""
        words = pack_mask(mask)
        self.scalar[EXEC] = words[:, 0:1]
        self.scalar[EXEC + 1] = words[:, 1:2]
        self.exec_written()

    def exec_written(self) -> None:
        """Follow a change of the EXEC registers."""
        low, high = self.scalar[EXEC], self.scalar[EXEC + 1]
        self.exec = unpack_mask(low, high)
        self._every = bool((low == _FULL).all() and (high == _FULL).all())
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
