"""gfx1100, gfx1101, gfx1102, gfx1103, gfx1151: RDNA3 and RDNA3.5 (Radeon RX 7000, Ryzen AI).

Sources: RDNA3 ISA reference guide (wave32, 128 KiB of LDS per workgroup processor of which a
workgroup uses at most 64 KiB, 32 banks per half, wait counters, buffer descriptor with OOB_SELECT
in bits 29:28 of word 3); LLVM 22 for the register file sizes (1536 or 1024 registers per lane) and
the occupancy rule, which a codegen test compares.
"""

from __future__ import annotations

from flydsl_rocdl.arch.counters import GFX11_WAITS
from flydsl_rocdl.arch.facts import (
    ArchFacts,
    BufferFacts,
    LdsFacts,
    RegisterFacts,
)
from flydsl_rocdl.arch.wmma import GFX11_MATRIX

__all__ = ["ALL", "BUFFER", "LARGE_FILE", "LDS", "SMALL_FILE"]

LARGE_FILE = RegisterFacts(vgpr_total=1536, vgpr_granule=24, vgpr_max=256, agpr_max=0, sgpr_max=106)
SMALL_FILE = RegisterFacts(vgpr_total=1024, vgpr_granule=16, vgpr_max=256, agpr_max=0, sgpr_max=106)
LDS = LdsFacts(capacity=65536, granule=512, shared_bytes=131072, simds=4, banks=32)
BUFFER = BufferFacts(flags_unbounded=0x21027000, flags_bounded=0x31027000)


def _facts(name: str, product: str, registers: RegisterFacts) -> ArchFacts:
    return ArchFacts(
        name=name,
        family="rdna3",
        summary=f"AMD {product} (RDNA3)",
        wave_size=32,
        max_waves_per_simd=16,
        max_groups=32,
        max_threads_per_block=1024,
        max_grid=(2**31 - 1, 65535, 65535),
        registers=registers,
        lds=LDS,
        buffer=BUFFER,
        waits=GFX11_WAITS,
        matrix=GFX11_MATRIX,
        has=frozenset(
            {"wmma", "wmma-copies", "dpp", "permlanex16", "row-xmask", "readlane", "ds-swizzle"}
        ),
    )


ALL: tuple[ArchFacts, ...] = (
    _facts("gfx1100", "Radeon RX 7900", LARGE_FILE),
    _facts("gfx1101", "Radeon RX 7800, RX 7700", LARGE_FILE),
    _facts("gfx1102", "Radeon RX 7600", SMALL_FILE),
    _facts("gfx1103", "Radeon 780M", SMALL_FILE),
    _facts("gfx1151", "Radeon 8060S", LARGE_FILE),
)
