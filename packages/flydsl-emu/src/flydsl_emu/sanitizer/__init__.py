"""Finds hazards of compiled kernels that hardware hides.

* `static`: missing waits and wait states on all paths, from the code alone (`waits`, `spacing`; the
  facts are in `counters`, `spacing_rules` and `matrix_spacing`);
* `findings`: what is reported.

A wait counter of another architecture is an entry of `counters.MODELS`, a wait-state rule a line in
`spacing_rules`.
"""

from __future__ import annotations

from flydsl_emu.sanitizer.findings import Finding, Place, SanitizerReport
from flydsl_emu.sanitizer.static import check_code_object, check_instructions, check_kernel

__all__ = [
    "Finding",
    "Place",
    "SanitizerReport",
    "check_code_object",
    "check_instructions",
    "check_kernel",
]
