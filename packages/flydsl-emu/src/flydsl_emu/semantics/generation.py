"""What differs between instruction-set generations beyond the opcodes themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

__all__ = ["Generation", "generation"]


@dataclass(frozen=True, slots=True)
class Generation:
    """Conventions of one generation (LLVM's AMDGPU usage document).

    Attributes:
        keeps_half: A 16-bit result leaves the other half of its register alone, whatever the
            opcode.
        ids_in_traps: Workgroup ids arrive in trap temporaries: x in TTMP9, y and z as the halves
            of TTMP7.
        unified_file: Accumulation registers exist.
        clusters: Workgroups can be launched in clusters.
        wide_buffers: Buffer descriptors have a base of 57 and an extent of 45 bits.
    """

    keeps_half: bool
    ids_in_traps: bool
    unified_file: bool
    clusters: bool = False
    wide_buffers: bool = False


_CDNA = Generation(False, False, True)
_GFX11 = Generation(True, False, False)
_GFX12 = Generation(True, True, False)
_GFX1250 = Generation(True, True, False, True, True)


@cache
def generation(arch: str) -> Generation:
    """Return the generation of an architecture name such as ``"gfx1100"``."""
    if arch.startswith("gfx125"):
        return _GFX1250
    if arch.startswith("gfx12"):
        return _GFX12
    return _GFX11 if arch.startswith("gfx11") else _CDNA
