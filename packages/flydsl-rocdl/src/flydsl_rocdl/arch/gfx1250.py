"""gfx1250: wave32 with 320 KiB of LDS, clusters and a tensor data mover.

Sources: LLVM 22 (register file of 1024 registers per lane and SIMD in granules of 16, the
occupancy rule that a codegen test compares, LDS granule of 2048 bytes, wait counters). Only the
split counters exist; the combined wait instruction does not. LLVM puts the four bits of flags at
the top of a buffer descriptor, whose base has 57 and whose extent 45 bits: the out-of-bounds mode.
"""

from __future__ import annotations

from flydsl_rocdl.arch.facts import (
    ArchFacts,
    BufferFacts,
    LdsFacts,
    RegisterFacts,
)
from flydsl_rocdl.arch.wmma import GFX1250_MATRIX

__all__ = ["FACTS"]

FACTS = ArchFacts(
    name="gfx1250",
    family="cdna5",
    summary="AMD gfx1250",
    wave_size=32,
    max_waves_per_simd=16,
    max_groups=32,
    max_threads_per_block=1024,
    max_grid=(2**31 - 1, 65535, 65535),
    registers=RegisterFacts(
        vgpr_total=1024, vgpr_granule=16, vgpr_max=1024, agpr_max=0, sgpr_max=106
    ),
    lds=LdsFacts(capacity=327680, granule=2048, shared_bytes=327680, simds=4, banks=64),
    buffer=BufferFacts(flags_unbounded=2, flags_bounded=3),
    waits=None,
    split_counters={
        "loadcnt": 63,
        "storecnt": 63,
        "dscnt": 63,
        "kmcnt": 31,
        "asynccnt": 63,
        "tensorcnt": 3,
    },
    fp8="ocp",
    matrix=GFX1250_MATRIX,
    lds_async_bytes=(1, 4, 8, 16),
    has=frozenset(
        {
            "wmma",
            "wmma-reuse",
            "dpp",
            "permlanex16",
            "row-xmask",
            "readlane",
            "ds-swizzle",
            "split-barrier",
            "cluster",
            "tdm",
            "wave-id",
            "bf16-cvt",
        }
    ),
)
