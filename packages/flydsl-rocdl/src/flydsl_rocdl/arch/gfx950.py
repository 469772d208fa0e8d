"""gfx950: CDNA4 (Instinct MI350X, MI355X).

Sources: CDNA4 ISA reference guide (LDS of 160 KiB in 64 banks of 4 bytes, lane swaps, direct-to-LDS
loads of 12 and 16 bytes, OCP fp8); LLVM 22 for the LDS granule (2048 bytes) and the occupancy rule,
which is that of gfx942; HIP device properties (workgroup and grid limits).
"""

from __future__ import annotations

from flydsl_rocdl.arch.counters import GFX9_WAITS
from flydsl_rocdl.arch.facts import ArchFacts, BufferFacts, LdsFacts
from flydsl_rocdl.arch.gfx942 import REGISTERS
from flydsl_rocdl.arch.mfma import CDNA4_MATRIX

__all__ = ["FACTS"]

FACTS = ArchFacts(
    name="gfx950",
    family="cdna4",
    summary="AMD Instinct MI350X, MI355X (CDNA4)",
    wave_size=64,
    max_waves_per_simd=8,
    max_groups=16,
    max_threads_per_block=1024,
    max_grid=(2**31 - 1, 65535, 65535),
    registers=REGISTERS,
    lds=LdsFacts(capacity=163840, granule=2048, shared_bytes=163840, simds=4, banks=64),
    buffer=BufferFacts(flags_unbounded=0x27000, flags_bounded=0x27000),
    waits=GFX9_WAITS,
    fp8="ocp",
    features=("sramecc", "xnack"),
    matrix=CDNA4_MATRIX,
    lds_dma_bytes=(1, 2, 4, 12, 16),
    lane_swaps=(16, 32),
    has=frozenset(
        {
            "mfma",
            "mfma-scale",
            "dpp",
            "dpp-row-bcast",
            "dpp-wave-shift",
            "sdwa",
            "ds-swizzle",
            "readlane",
            "bf16-cvt",
            "scaled-cvt",
            "ds-read-tr",
        }
    ),
)
