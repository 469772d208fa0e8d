"""Reports as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from flydsl_emu.report.figures import InstructionTraffic, LoopReport, Resources, share
from flydsl_emu.report.model import TimeModel

if TYPE_CHECKING:
    from flydsl_emu.report.execution import ExecutionReport
    from flydsl_emu.report.static import StaticReport

__all__ = ["execution_text", "static_text"]

_WORST = 8


def _classes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def _resources(r: Resources) -> str:
    return (
        f"  {r.vgprs} VGPR, {r.agprs} AGPR, {r.sgprs} SGPR, {r.lds_bytes} B LDS, "
        f"{r.scratch_bytes} B scratch, {r.waves_per_simd} waves per SIMD (limited by "
        f"{r.limited_by})"
    )


def _loop(loop: LoopReport) -> Iterator[str]:
    place = f" at {loop.source}" if loop.source else ""
    turns = f", {loop.iterations:,} wave-iterations" if loop.iterations else ""
    counts = loop.static_instructions
    yield (
        f"  {'  ' * loop.depth}loop +{loop.start:#x} to +{loop.end:#x}{place}{turns}: "
        f"{sum(counts.values())} instructions, {share(counts):.0%} MFMA: {_classes(counts)}"
    )
    if loop.mca is not None:
        yield (
            f"  {'  ' * loop.depth}  llvm-mca: {loop.mca.cycles:.1f} cycles an iteration of one "
            f"wave, matrix core busy {loop.mca.matrix_share:.0%}"
        )


def _accesses(accesses: tuple[InstructionTraffic, ...]) -> Iterator[str]:
    wasteful = [a for a in accesses if a.space == "global" and a.coalescing < 0.999]
    wasteful.sort(key=lambda a: a.requested_bytes - a.line_bytes_64)
    for a in wasteful[:_WORST]:
        place = f" at {a.source}" if a.source else ""
        yield f"    +{a.pc:#x} {a.text}{place}: uses {a.coalescing:.0%} of its 64-byte lines"
    conflicting = [a for a in accesses if a.conflict_ratio > 1]
    conflicting.sort(key=lambda a: -a.lds_clocks)
    for a in conflicting[:_WORST]:
        place = f" at {a.source}" if a.source else ""
        yield f"    +{a.pc:#x} {a.text}{place}: bank conflicts x{a.conflict_ratio:.2f}"


def _model(model: TimeModel) -> Iterator[str]:
    yield (
        f"  model (not a measurement): {model.microseconds:.1f} us, limited by {model.limit}; "
        + ", ".join(f"{name} {clocks:,.0f}" for name, clocks in model.clocks.items())
        + " clocks"
    )
    yield "  constants of the model:"
    for name, constant in model.constants.items():
        yield f"    {name} = {constant.value:g} {constant.unit} ({constant.source})"


def execution_text(report: ExecutionReport) -> str:
    """Return the report of a launch as text."""
    lines = [
        f"{report.kernel} on {report.arch}: grid {report.grid}, block {report.block}",
        f"  {report.total_instructions:,} wave-instructions, {report.mfma_share:.0%} MFMA: "
        + _classes(report.instructions),
        _resources(report.resources),
    ]
    for loop in report.loops:
        lines += _loop(loop)
    for t in report.traffic:
        text = f"  {t.space} {t.direction}: {t.requested_bytes:,} B requested"
        if t.line_bytes:
            text += (
                f", {t.line_bytes_64:,} B in 64-byte lines ({t.coalescing:.0%} used), "
                f"{t.line_bytes:,} B in 128-byte lines"
            )
        if t.space == "lds":
            text += f", bank conflicts x{t.conflict_ratio:.2f}"
        lines.append(text)
    lines += _accesses(report.accesses)
    if report.model is not None:
        lines.append(f"  barrier imbalance {report.barrier_imbalance:.1%}")
        lines += _model(report.model)
    return "\n".join(lines)


def static_text(report: StaticReport) -> str:
    """Return the report of a kernel's code as text."""
    vector, scalar = report.spills
    lines = [
        f"{report.kernel} on {report.arch}: {report.code_bytes:,} B of code",
        f"  {sum(report.instructions.values()):,} instructions, {report.mfma_share:.0%} MFMA: "
        + _classes(report.instructions),
        f"{_resources(report.resources)}, spills {vector} VGPR, {scalar} SGPR",
    ]
    for loop in report.loops:
        lines += _loop(loop)
    return "\n".join(lines)
