"""Stable error codes of the row kernels; `flydsl.diagnostics` explains the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-C900": "Rows are too long for the row kernels, or empty.",
        "FLY-C901": "There are more rows than a launch can have.",
        "FLY-C902": "The row kernels do not take this element type.",
        "FLY-C903": "Rows are not quantised to this element type.",
        "FLY-U900": "An argument is neither a NumPy array nor a PyTorch tensor.",
        "FLY-U901": "An array has another shape than the operation needs.",
        "FLY-U902": "An array has another element type than the operation needs.",
        "FLY-U903": "Rows of an output cannot be written in place.",
        "FLY-U904": "Arguments are of different array libraries or devices.",
        "FLY-U905": "An axis other than the last was asked for.",
        "FLY-U906": "An epsilon is negative, infinite or NaN.",
    }
)
