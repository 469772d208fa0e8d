"""Faults that a running kernel causes, before they are told in the user's terms."""

from __future__ import annotations

from typing import Any

__all__ = ["AccessFault", "KernelFault"]

Array = Any


class KernelFault(Exception):
    """Something that stops the kernel; the engine adds where.

    Attributes:
        message: What happened.
        code: Error code.
        wave: Index of the wave in the batch, or -1.
        lane: Lane, or -1.
    """

    def __init__(self, message: str, code: str, wave: int = -1, lane: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.wave = wave
        self.lane = lane


class AccessFault(KernelFault):
    """A memory access outside what the kernel may touch.

    Attributes:
        space: ``"global"``, ``"lds"``, ``"scratch"`` or ``"scalar"``.
        address: Address or offset of the access.
        size: Bytes.
        write: Whether it was a store.
    """

    def __init__(
        self, message: str, code: str, space: str, address: int, size: int, write: bool
    ) -> None:
        super().__init__(message, code)
        self.space = space
        self.address = address
        self.size = size
        self.write = write
