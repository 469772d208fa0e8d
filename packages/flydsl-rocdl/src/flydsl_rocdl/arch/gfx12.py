"""gfx1200, gfx1201: RDNA4 (Radeon RX 9000).

Sources: RDNA4 ISA reference guide (wave32, split wait counters, fp8 in OCP format, matrix shapes);
LLVM 22 for the occupancy rule, which a codegen test compares. Register file, LDS and buffer
descriptor words are those of RDNA3. LLVM still accepts the combined wait with RDNA3's fields.
"""

from __future__ import annotations

from flydsl_rocdl.arch.counters import GFX11_WAITS
from flydsl_rocdl.arch.facts import ArchFacts
from flydsl_rocdl.arch.gfx11 import BUFFER, LARGE_FILE, LDS
from flydsl_rocdl.arch.wmma import GFX12_MATRIX

__all__ = ["ALL", "SPLIT_COUNTERS"]

SPLIT_COUNTERS = {
    "loadcnt": 63,
    "storecnt": 63,
    "samplecnt": 63,
    "bvhcnt": 7,
    "dscnt": 63,
    "kmcnt": 31,
    "expcnt": 7,
}
"""Largest value of each counter."""


def _facts(name: str, product: str) -> ArchFacts:
    return ArchFacts(
        name=name,
        family="rdna4",
        summary=f"AMD {product} (RDNA4)",
        wave_size=32,
        max_waves_per_simd=16,
        max_groups=32,
        max_threads_per_block=1024,
        max_grid=(2**31 - 1, 65535, 65535),
        registers=LARGE_FILE,
        lds=LDS,
        buffer=BUFFER,
        waits=GFX11_WAITS,
        split_counters=SPLIT_COUNTERS,
        fp8="ocp",
        matrix=GFX12_MATRIX,
        has=frozenset(
            {
                "wmma",
                "dpp",
                "permlanex16",
                "row-xmask",
                "readlane",
                "ds-swizzle",
                "split-barrier",
                "wave-id",
            }
        ),
    )


ALL: tuple[ArchFacts, ...] = (
    _facts("gfx1200", "Radeon RX 9060"),
    _facts("gfx1201", "Radeon RX 9070"),
)
