"""Every number of the time and occupancy model, with its unit and source.

Sources marked ``public`` are AMD's published data sheets and instruction-set guides; ``assumed``
ones are plausible values that nobody measured for this model. None is marked ``measured``: no
hardware was at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flydsl.errors import TargetError

__all__ = ["CONSTANTS", "ModelConstant", "constants_of"]


@dataclass(frozen=True, slots=True)
class ModelConstant:
    """One number of the model.

    Attributes:
        value: The number.
        unit: Its unit.
        source: Where it comes from, starting with ``public`` or ``assumed``.
    """

    value: float
    unit: str
    source: str

    @property
    def public(self) -> bool:
        """Whether AMD publishes the number."""
        return self.source.startswith("public")


def _table(**rows: tuple[float, str, str]) -> dict[str, ModelConstant]:
    return {name: ModelConstant(*row) for name, row in rows.items()}


_WAITS = _table(
    vector_memory_wait=(800, "clocks", "assumed: a wait for global memory"),
    local_memory_wait=(120, "clocks", "assumed: a wait for LDS or scalar memory"),
)
_CDNA = {
    **_WAITS,
    **_table(
        valu_clocks=(4, "clocks", "public: a 64-lane wave takes four passes of a 16-lane SIMD"),
        transcendental_clocks=(16, "clocks", "public: quarter rate"),
        pass_clocks=(4, "clocks", "public: matrix instructions count in passes of four clocks"),
        salu_clocks=(4, "clocks", "public: one issue to a wave every four clocks"),
        simds=(4, "SIMDs per CU", "public: CDNA3 and CDNA4 ISA guides"),
        line=(128, "bytes", "public: L2 line"),
        vector_registers=(512, "registers per SIMD and lane", "public: CDNA3 ISA guide"),
        register_granule=(8, "registers", "public: CDNA3 ISA guide"),
        max_waves=(8, "waves per SIMD", "public: CDNA3 ISA guide"),
        lds_write_bytes=(128, "bytes per clock and CU", "public: CDNA3 ISA guide"),
    ),
}
_RDNA = {
    **_WAITS,
    **_table(
        valu_clocks=(1, "clocks", "public: a 32-lane wave takes one pass of a 32-lane SIMD"),
        transcendental_clocks=(4, "clocks", "public: quarter rate"),
        pass_clocks=(4, "clocks", "public: unit in which this model counts matrix instructions"),
        salu_clocks=(1, "clocks", "public: one scalar issue a clock"),
        simds=(2, "SIMDs per CU", "public: RDNA3 and RDNA4 ISA guides"),
        line=(128, "bytes", "public: L2 line"),
        vector_registers=(1536, "registers per SIMD and lane", "public: RDNA3 ISA guide"),
        register_granule=(24, "registers", "public: RDNA3 ISA guide"),
        max_waves=(16, "waves per SIMD", "public: RDNA3 ISA guide"),
        lds_banks=(32, "banks", "public: RDNA3 ISA guide, per CU in CU mode"),
        lds_read_bytes=(128, "bytes per clock and CU", "public: RDNA3 ISA guide"),
        lds_write_bytes=(128, "bytes per clock and CU", "public: RDNA3 ISA guide"),
        lds_capacity=(65536, "bytes per workgroup", "public: RDNA3 ISA guide"),
    ),
}
CONSTANTS: Mapping[str, Mapping[str, ModelConstant]] = {
    "gfx942": {
        **_CDNA,
        **_table(
            compute_units=(304, "CUs", "public: MI300X data sheet"),
            clock=(2.1e9, "Hz", "public: MI300X peak engine clock"),
            memory_bandwidth=(5.3e12, "bytes/s", "public: MI300X data sheet"),
            lds_banks=(32, "banks", "public: CDNA3 ISA guide"),
            lds_read_bytes=(128, "bytes per clock and CU", "public: CDNA3 ISA guide"),
            lds_capacity=(65536, "bytes per CU", "public: CDNA3 ISA guide"),
        ),
    },
    "gfx950": {
        **_CDNA,
        **_table(
            compute_units=(256, "CUs", "public: MI355X data sheet"),
            clock=(2.4e9, "Hz", "public: MI355X peak engine clock"),
            memory_bandwidth=(8.0e12, "bytes/s", "public: MI355X data sheet"),
            lds_banks=(64, "banks", "public: CDNA4 ISA guide"),
            lds_read_bytes=(256, "bytes per clock and CU", "public: CDNA4 doubles the read rate"),
            lds_capacity=(163840, "bytes per CU", "public: CDNA4 ISA guide"),
        ),
    },
    "gfx11": {
        **_RDNA,
        **_table(
            compute_units=(96, "CUs", "public: Radeon RX 7900 XTX"),
            clock=(2.5e9, "Hz", "public: Radeon RX 7900 XTX boost clock"),
            memory_bandwidth=(9.6e11, "bytes/s", "public: Radeon RX 7900 XTX"),
            matrix_flops=(256, "16-bit multiply-adds x 2 per clock and SIMD", "public: RDNA3"),
        ),
    },
    "gfx120": {
        **_RDNA,
        **_table(
            compute_units=(64, "CUs", "public: Radeon RX 9070 XT"),
            clock=(2.97e9, "Hz", "public: Radeon RX 9070 XT boost clock"),
            memory_bandwidth=(6.4e11, "bytes/s", "public: Radeon RX 9070 XT"),
            matrix_flops=(512, "16-bit multiply-adds x 2 per clock and SIMD", "public: RDNA4"),
        ),
    },
    "gfx125": {
        **_RDNA,
        **_table(
            simds=(4, "SIMDs per CU", "assumed: as CDNA"),
            vector_registers=(1024, "registers per SIMD and lane", "public: LLVM's AMDGPU guide"),
            register_granule=(16, "registers", "public: LLVM's AMDGPU guide"),
            lds_banks=(64, "banks", "assumed: as CDNA4"),
            lds_read_bytes=(256, "bytes per clock and CU", "assumed: as CDNA4"),
            lds_capacity=(327680, "bytes per workgroup", "public: LLVM's AMDGPU guide"),
            compute_units=(256, "CUs", "assumed: as MI355X"),
            clock=(2.4e9, "Hz", "assumed: as MI355X"),
            memory_bandwidth=(8.0e12, "bytes/s", "assumed: as MI355X"),
            matrix_flops=(2048, "16-bit multiply-adds x 2 per clock and SIMD", "assumed"),
        ),
    },
}
"""By architecture, or by the beginning of its name."""


def constants_of(arch: str) -> Mapping[str, ModelConstant]:
    """Return the constants of an architecture.

    Raises:
        TargetError: There are none.
    """
    for name, table in CONSTANTS.items():
        if arch.startswith(name):
            return table
    raise TargetError(
        "the report has no constants for this architecture",
        code="FLY-T702",
        value=arch,
        allowed=", ".join(f"{name}…" for name in CONSTANTS),
    )
