"""Relocation types of AMDGPU and how their values are computed.

Source: "Relocation Records" in LLVM's AMDGPU user guide. S is the symbol's address, A the addend, P
the place, G the address of the symbol's slot in the global offset table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flydsl.errors import CompilerBug
from flydsl_rocdl.hsaco.elf import ElfRelocation

__all__ = ["GOT_TYPES", "R_ABS32", "R_ABS64", "R_RELATIVE64", "apply"]

R_ABS32_LO: Final = 1
R_ABS32_HI: Final = 2
R_ABS64: Final = 3
R_REL32: Final = 4
R_REL64: Final = 5
R_ABS32: Final = 6
R_GOTPCREL: Final = 7
R_GOTPCREL32_LO: Final = 8
R_GOTPCREL32_HI: Final = 9
R_REL32_LO: Final = 10
R_REL32_HI: Final = 11
R_RELATIVE64: Final = 13
R_REL16: Final = 14

GOT_TYPES: Final = frozenset({R_GOTPCREL, R_GOTPCREL32_LO, R_GOTPCREL32_HI})
_HIGH: Final = frozenset({R_ABS32_HI, R_GOTPCREL32_HI, R_REL32_HI})
_RELATIVE: Final = frozenset({R_REL32, R_REL64, R_REL32_LO, R_REL32_HI, R_REL16}) | GOT_TYPES
_WIDTH: Final[Mapping[int, int]] = {R_ABS64: 8, R_REL64: 8, R_REL16: 2} | dict.fromkeys(
    (R_ABS32_LO, R_ABS32_HI, R_REL32, R_ABS32, R_REL32_LO, R_REL32_HI, *GOT_TYPES), 4
)
_CHECKED: Final = frozenset({R_REL32, R_GOTPCREL, R_REL16})


def apply(data: bytearray, at: int, place: int, relocation: ElfRelocation, target: int) -> None:
    """Write the value of one relocation.

    Args:
        data: Contents of the section that changes.
        at: Offset in `data`.
        place: Address of that byte (P).
        relocation: The relocation.
        target: S, or G for the types that go through the global offset table.

    Raises:
        CompilerBug: The type is unknown or the value does not fit.
    """
    width = _WIDTH.get(relocation.type)
    if width is None:
        raise CompilerBug(f"unknown AMDGPU relocation type {relocation.type}", code="FLY-B600")
    value = target + relocation.addend
    if relocation.type in _RELATIVE:
        value -= place
    if relocation.type in _HIGH:
        value >>= 32
    if relocation.type == R_REL16:
        value = (value - 4) // 4
    bits = width * 8
    if relocation.type in _CHECKED and not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise CompilerBug(
            f"relocation {relocation.type} does not reach its target", code="FLY-B601", value=value
        )
    data[at : at + width] = (value & ((1 << bits) - 1)).to_bytes(width, "little")
