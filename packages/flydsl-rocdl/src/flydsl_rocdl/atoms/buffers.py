"""Copies through buffer descriptors, whose range check replaces predicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from flydsl.dialects.atoms import CopyOp
from flydsl.errors import UserValueError

__all__ = ["BufferCopy"]


@dataclass(frozen=True, slots=True)
class BufferCopy(CopyOp):
    """A load from or store to a buffer of `bits` bits per lane.

    State ``soffset`` is added to the address, in elements.

    Attributes:
        bits: 8, 16, 32, 64, 96 or 128.
        cache_modifier: 0 for the default, 2 for non-temporal, else the bits that the architecture
            defines for its buffer instructions.

    Raises:
        UserError: There is no such instruction.
    """

    prefix: ClassVar[str] = "buffer_copy"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"soffset": "i32"})
    bits: int
    cache_modifier: int = 0

    def __post_init__(self) -> None:
        if self.bits not in (8, 16, 32, 64, 96, 128):
            raise UserValueError(
                "no buffer instruction moves this many bits",
                code="FLY-U631",
                value=self.bits,
                allowed="8, 16, 32, 64, 96, 128",
            )
        if not 0 <= self.cache_modifier < 32:
            raise UserValueError(
                "unknown cache modifier of a buffer copy",
                code="FLY-U632",
                value=self.cache_modifier,
                allowed="0 (default), 2 (non-temporal), or the architecture's bits, 0 to 31",
            )

    @property
    def copy_bits(self) -> int:
        """Bits that one lane moves."""
        return self.bits
