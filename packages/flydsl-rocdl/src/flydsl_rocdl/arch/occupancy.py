"""How many waves of a kernel fit one SIMD."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl_rocdl.arch.facts import ArchFacts

__all__ = ["Occupancy", "occupancy", "waves_by_lds", "waves_by_sgpr", "waves_by_vgpr"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Waves per SIMD and what limits them.

    Attributes:
        waves_per_simd: The smallest of the limits; 0 when the kernel cannot run at all.
        by_vgpr, by_sgpr, by_lds: Each limit on its own.
        limiter: Name of the tightest limit, ``"hardware"`` when none is below the maximum.
    """

    waves_per_simd: int
    by_vgpr: int
    by_sgpr: int
    by_lds: int
    limiter: str


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def waves_by_vgpr(facts: ArchFacts, registers: int) -> int:
    """Return the waves per SIMD that `registers` vector registers a lane allow.

    On a unified register file, `registers` counts accumulation registers as well.
    """
    rules = facts.registers
    allocated = max(rules.vgpr_granule, _round_up(registers, rules.vgpr_granule))
    return min(facts.max_waves_per_simd, rules.vgpr_total // allocated)


def waves_by_sgpr(facts: ArchFacts, registers: int) -> int:
    """Return the waves per SIMD that `registers` scalar registers (VCC counted) allow."""
    rules = facts.registers
    if not rules.sgpr_steps:
        return facts.max_waves_per_simd
    for limit, waves in rules.sgpr_steps:
        if registers <= limit:
            return min(facts.max_waves_per_simd, waves)
    return min(facts.max_waves_per_simd, rules.sgpr_floor)


def waves_by_lds(facts: ArchFacts, lds_bytes: int, threads: int) -> int:
    """Return the waves per SIMD that workgroups of `threads` with `lds_bytes` each allow."""
    waves_per_group = max(1, -(-threads // facts.wave_size))
    slots = facts.max_waves_per_simd * facts.lds.simds
    groups = slots // waves_per_group
    if waves_per_group > 1:
        groups = min(groups, facts.max_groups)
    if lds_bytes:
        groups = min(groups, facts.lds.shared_bytes // _round_up(lds_bytes, facts.lds.granule))
    if lds_bytes > facts.lds.capacity:
        return 0
    return min(facts.max_waves_per_simd, -(-groups * waves_per_group // facts.lds.simds))


def occupancy(facts: ArchFacts, *, vgpr: int, sgpr: int, lds_bytes: int, threads: int) -> Occupancy:
    """Return the occupancy of a kernel.

    Args:
        facts: The architecture.
        vgpr: Vector registers a lane, accumulation registers included where the file is unified.
        sgpr: Scalar registers a wave, trailing special ones included.
        lds_bytes: Local data share bytes of a workgroup, static and dynamic.
        threads: Threads of a workgroup.
    """
    limits = {
        "vgpr": waves_by_vgpr(facts, vgpr),
        "sgpr": waves_by_sgpr(facts, sgpr),
        "lds": waves_by_lds(facts, lds_bytes, threads),
    }
    waves = min(limits.values())
    limiter = "hardware"
    if waves < facts.max_waves_per_simd:
        limiter = min(limits, key=lambda name: limits[name])
    return Occupancy(waves, limits["vgpr"], limits["sgpr"], limits["lds"], limiter)
