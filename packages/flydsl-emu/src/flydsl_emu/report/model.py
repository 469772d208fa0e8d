"""The time model: a few named constants and a maximum over pipes. It is a model, not a measurement.

Modelled clocks of a launch are the largest of: busy clocks of the vector pipe, of the matrix pipe,
of the scalar pipe, of LDS; bytes over the memory bandwidth; and the latency of one wave times the
rounds in which the resident waves take turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flydsl_emu.report.constants import ModelConstant, constants_of

__all__ = ["TimeModel"]


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Modelled clocks by limit, and what the largest takes.

    Attributes:
        clocks: Clocks by limit: ``valu``, ``mfma``, ``salu``, ``lds``, ``memory``, ``latency``.
        microseconds: Modelled duration.
        limit: Name of the largest.
        constants: Every constant that the model used, by name.
    """

    clocks: Mapping[str, float]
    microseconds: float
    limit: str
    constants: Mapping[str, ModelConstant]

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
        constants = constants_of(arch)
        c = {name: constant.value for name, constant in constants.items()}
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
        return cls(clocks, clocks[limit] / c["clock"] * 1e6, limit, constants)
