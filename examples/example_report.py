"""What the examples share: the command line, one measured launch, and the table of figures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flydsl.config import scope
from flydsl_emu import ExecutionReport, collect

__all__ = ["Measured", "example_arguments", "measure", "only_for", "print_report"]

TARGETS = ("gfx942", "gfx950", "gfx1100", "gfx1201")


@dataclass(frozen=True, slots=True)
class Measured:
    """One launch of one kernel.

    Attributes:
        report: What the emulator counted.
        seconds: Wall time of the call: compiling, emulating and counting.
        error: Largest absolute difference from the reference; None until checked.
        tolerance: What the number format allows.
    """

    report: ExecutionReport
    seconds: float
    error: float | None = None
    tolerance: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the result was checked and is within the tolerance; never true for NaN."""
        return self.error is not None and self.error <= self.tolerance

    def checked(self, error: float, tolerance: float) -> Measured:
        """Return this launch with the outcome of a comparison."""
        return replace(self, error=error, tolerance=tolerance)


def example_arguments(description: str | None) -> argparse.Namespace:
    """Parse the command line of an example."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0], help="architecture")
    return parser.parse_args()


def only_for(target: str, *targets: str) -> None:
    """End the program, and say so, where an example is about what `target` does not have."""
    if target not in targets:
        print(f"not for {target}: this example is for {', '.join(targets)}")
        sys.exit(0)


def measure(
    target: str, launcher: Callable[..., object], arguments: Sequence[object]
) -> list[Measured]:
    """Call `launcher` on the emulator for `target`; return one entry per kernel launch."""
    with scope(FLYDSL_TARGET=target), collect() as reports:
        started = time.perf_counter()
        launcher(*arguments)
        seconds = time.perf_counter() - started
    return [Measured(report, seconds) for report in reports]


def print_report(figures: Sequence[Measured]) -> int:
    """Print the figures of every launch; return 1 if a result is wrong, else 0."""
    for figure in figures:
        report = figure.report
        verdict = "ok" if figure.passed else "WRONG"
        print(f"{report.kernel} on {report.arch}: {verdict}")
        print(f"  max error     {figure.error:.3g} (allowed {figure.tolerance:.3g})")
        print(f"  resources     {report.vgprs} VGPR, {report.lds_bytes} B LDS")
        print(f"  occupancy     {report.waves_per_simd} waves per SIMD")
        print(f"  instructions  {report.total_instructions:,} executed by waves")
        if report.modelled_microseconds is not None:
            print(f"  model         {report.modelled_microseconds:.1f} us (a model, not a time)")
        print(f"  this run      {figure.seconds:.2f} s to compile, emulate and count")
    return 0 if figures and all(figure.passed for figure in figures) else 1
