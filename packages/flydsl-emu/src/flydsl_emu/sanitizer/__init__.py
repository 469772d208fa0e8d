"""Finds hazards of compiled kernels that hardware hides.

* `static`: missing waits and wait states on all paths, from the code alone (`waits`, `spacing`; the
  facts are in `counters`, `spacing_rules` and `matrix_spacing`);
* `observer`: the checks of a running launch, on the numpy tier: LDS races (`races`), undefined
  values (`undefined`), bounds (`bounds`), barriers (`meeting`);
* `session`: turning them on; `findings`: what is reported.

A wait counter of another architecture is an entry of `counters.MODELS`, a wait-state rule a line in
`spacing_rules`, another run-time check a class with ``wrap`` (and the methods of
`flydsl_emu.numpy_tier.memory.Watch` if it sees accesses) that `observer` attaches.
"""

from __future__ import annotations

from flydsl_emu.sanitizer.findings import Finding, Place, SanitizerReport
from flydsl_emu.sanitizer.session import (
    CHECKS,
    SanitizerError,
    SanitizerWarning,
    check_launch,
    demanded,
    sanitize,
)
from flydsl_emu.sanitizer.static import check_code_object, check_kernel, check_program

__all__ = [
    "CHECKS",
    "Finding",
    "Place",
    "SanitizerError",
    "SanitizerReport",
    "SanitizerWarning",
    "check_code_object",
    "check_kernel",
    "check_launch",
    "check_program",
    "demanded",
    "sanitize",
]
