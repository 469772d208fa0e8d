"""gfx942: CDNA3 (Instinct MI300A, MI300X, MI325X).

Sources: CDNA3 ISA reference guide (register file, LDS of 64 KiB in 32 banks of 4 bytes allocated
in 512-byte blocks, wait counters, buffer descriptor); LLVM's AMDGPU user guide (target-id features)
and the occupancy that LLVM 22 prints in its assembly comments, which a codegen test compares for
every register count; HIP device properties (workgroup and grid limits).
"""

from __future__ import annotations

from flydsl_rocdl.arch.counters import GFX9_WAITS
from flydsl_rocdl.arch.facts import ArchFacts, BufferFacts, LdsFacts, RegisterFacts
from flydsl_rocdl.arch.mfma import CDNA3_MATRIX

__all__ = ["FACTS", "REGISTERS"]

REGISTERS = RegisterFacts(
    vgpr_total=512,
    vgpr_granule=8,
    vgpr_max=256,
    agpr_max=256,
    sgpr_max=102,
    sgpr_steps=((80, 10), (88, 9), (100, 8)),
    sgpr_floor=7,
)
"""Unified file: accumulation registers follow the architectural ones in one allocation."""

FACTS = ArchFacts(
    name="gfx942",
    family="cdna3",
    summary="AMD Instinct MI300A, MI300X, MI325X (CDNA3)",
    wave_size=64,
    max_waves_per_simd=8,
    max_groups=16,
    max_threads_per_block=1024,
    max_grid=(2**31 - 1, 65535, 65535),
    registers=REGISTERS,
    lds=LdsFacts(capacity=65536, granule=512, shared_bytes=65536, simds=4, banks=32),
    buffer=BufferFacts(flags_unbounded=0x27000, flags_bounded=0x27000),
    waits=GFX9_WAITS,
    fp8="fnuz",
    features=("sramecc", "xnack"),
    matrix=CDNA3_MATRIX,
    lds_dma_bytes=(1, 2, 4),
    has=frozenset(
        {"mfma", "dpp", "dpp-row-bcast", "dpp-wave-shift", "sdwa", "ds-swizzle", "readlane"}
    ),
)
