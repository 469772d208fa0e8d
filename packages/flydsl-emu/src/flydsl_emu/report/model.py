"""The time model: a few named constants and a maximum over pipes. It is a model, not a measurement.

Modelled clocks of a launch are the largest of: busy clocks of the vector pipe, of the matrix pipe,
of the scalar pipe, of LDS; bytes over the memory bandwidth; and the latency of one wave times the
rounds in which the resident waves take turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CONSTANTS", "ModelConstant", "TimeModel"]


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


_SHARED = {
    "valu_clocks": ModelConstant(4, "clocks", "public: a 64-lane wave takes four passes of a SIMD"),
    "transcendental_clocks": ModelConstant(16, "clocks", "public: quarter rate"),
    "pass_clocks": ModelConstant(
        4, "clocks", "public: matrix instructions count in passes of four"
    ),
    "salu_clocks": ModelConstant(4, "clocks", "public: one issue to a wave every four clocks"),
    "simds": ModelConstant(4, "SIMDs per CU", "public: CDNA3 and CDNA4 ISA guides"),
    "lds_bytes_per_clock": ModelConstant(128, "bytes per clock and CU", "public: 32 banks"),
    "vector_memory_wait": ModelConstant(800, "clocks", "assumed: a wait for global memory"),
    "local_memory_wait": ModelConstant(120, "clocks", "assumed: a wait for LDS or scalar memory"),
    "line": ModelConstant(128, "bytes", "public: L2 line"),
}
CONSTANTS: Mapping[str, Mapping[str, ModelConstant]] = {
    "gfx942": {
        **_SHARED,
        "compute_units": ModelConstant(304, "CUs", "public: MI300X data sheet"),
        "clock": ModelConstant(2.1e9, "Hz", "public: MI300X peak engine clock"),
        "memory_bandwidth": ModelConstant(5.3e12, "bytes/s", "public: MI300X data sheet"),
        "lds_banks": ModelConstant(32, "banks", "public: CDNA3 ISA guide"),
        "lds_capacity": ModelConstant(65536, "bytes per CU", "public: CDNA3 ISA guide"),
    },
    "gfx950": {
        **_SHARED,
        "compute_units": ModelConstant(256, "CUs", "public: MI355X data sheet"),
        "clock": ModelConstant(2.4e9, "Hz", "public: MI355X peak engine clock"),
        "memory_bandwidth": ModelConstant(8.0e12, "bytes/s", "public: MI355X data sheet"),
        "lds_banks": ModelConstant(64, "banks", "public: CDNA4 ISA guide"),
        "lds_capacity": ModelConstant(163840, "bytes per CU", "public: CDNA4 ISA guide"),
    },
}


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Modelled clocks by limit, and the time of the largest.

    Attributes:
        clocks: Clocks by limit: ``valu``, ``mfma``, ``salu``, ``lds``, ``memory``, ``latency``.
        microseconds: Modelled time.
        limit: Name of the largest.
    """

    clocks: Mapping[str, float]
    microseconds: float
    limit: str

    @classmethod
    def from_totals(
        cls, arch: str, totals: Mapping[str, float], workgroups: int, waves: int, resident: int
    ) -> TimeModel:
        """Build the model.

        Args:
            arch: Architecture.
            totals: Over the launch: counts by class (``valu``, ``transcendental``, ``salu``, …),
                ``passes`` of matrix instructions, ``lds_clocks``, ``bytes`` of memory,
                ``vector_waits`` and ``local_waits``.
            workgroups: Workgroups of the launch.
            waves: Waves of a workgroup.
            resident: Waves that a SIMD holds at once.
        """
        c = {name: constant.value for name, constant in CONSTANTS[arch].items()}
        units = c["compute_units"]
        busiest = -(-workgroups // units)
        share = busiest / workgroups
        simds = c["simds"]
        vector = c["valu_clocks"] * totals["valu"]
        vector += c["transcendental_clocks"] * totals["transcendental"]
        matrix = c["pass_clocks"] * totals["passes"]
        scalar_count = sum(totals[k] for k in ("salu", "smem", "branch", "wait", "vmem", "lds"))
        scalar = c["salu_clocks"] * scalar_count
        all_waves = workgroups * waves
        one_wave = (vector + matrix + scalar) / all_waves
        one_wave += c["vector_memory_wait"] * totals["vector_waits"] / all_waves
        one_wave += c["local_memory_wait"] * totals["local_waits"] / all_waves
        per_simd = -(-busiest * waves // simds)
        clocks = {
            "valu": vector * share / simds,
            "mfma": matrix * share / simds,
            "salu": scalar * share / simds,
            "lds": totals["lds_clocks"] * share,
            "memory": totals["bytes"] / c["memory_bandwidth"] * c["clock"],
            "latency": one_wave * -(-per_simd // max(1, resident)),
        }
        limit = max(clocks, key=lambda name: clocks[name])
        return cls(clocks, clocks[limit] / c["clock"] * 1e6, limit)
