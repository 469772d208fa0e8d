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
        "FLY-C904": "Scales of quantised rows are not for this many elements, or of this type.",
        "FLY-U900": "An array without an axis has no rows.",
        "FLY-U903": "Rows of an output cannot be written in place.",
        "FLY-U905": "An axis other than the last was asked for.",
        "FLY-U906": "An epsilon is negative, infinite or NaN.",
        "FLY-U907": "An output of a quantising operation is no pair.",
    }
)
