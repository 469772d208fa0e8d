"""Facts about the architectures, as data: one file per architecture or family of equals.

To add an architecture, write a file with a `FACTS` record (or an `ALL` tuple for several that share
their rules), name its sources in the docstring and list it in `KNOWN` below. No other package of
this distribution may name an architecture; code asks a fact (`facts.has`, `facts.wave_size`, …).
"""

from __future__ import annotations

from types import MappingProxyType

from flydsl.errors import TargetError
from flydsl_rocdl.arch import gfx11, gfx12, gfx942, gfx950, gfx1250
from flydsl_rocdl.arch.counters import WaitFields
from flydsl_rocdl.arch.facts import (
    INSTRUCTION_TYPES,
    ArchFacts,
    BufferFacts,
    LdsFacts,
    MatrixShape,
    RegisterFacts,
    instruction_type,
)
from flydsl_rocdl.arch.occupancy import Occupancy, occupancy

__all__ = [
    "INSTRUCTION_TYPES",
    "KFD_VERSION_KEY",
    "KNOWN",
    "ArchFacts",
    "BufferFacts",
    "LdsFacts",
    "MatrixShape",
    "Occupancy",
    "RegisterFacts",
    "WaitFields",
    "from_kfd_version",
    "instruction_type",
    "looks_like_arch",
    "lookup",
    "occupancy",
]

KNOWN = MappingProxyType(
    {
        facts.name: facts
        for facts in (gfx942.FACTS, gfx950.FACTS, *gfx11.ALL, *gfx12.ALL, gfx1250.FACTS)
    }
)
"""Every supported architecture by name."""


def looks_like_arch(text: str) -> bool:
    """Return whether `text` is spelled like an AMD architecture, supported or not."""
    return text.startswith("gfx")


def lookup(name: str) -> ArchFacts:
    """Return the facts of the architecture called `name`.

    Raises:
        TargetError: It is not supported.
    """
    facts = KNOWN.get(name)
    if facts is None:
        raise TargetError(
            f"unknown AMD architecture {name!r}",
            code="FLY-T600",
            value=name,
            allowed=", ".join(KNOWN),
        )
    return facts


KFD_VERSION_KEY = "gfx_target_version"
"""Entry of the kernel driver's topology that tells the architecture."""


def from_kfd_version(version: int) -> str:
    """Return the architecture name of a kernel-driver version number (90402 is gfx942)."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"
