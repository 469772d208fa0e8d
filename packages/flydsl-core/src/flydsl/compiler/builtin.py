"""The core's default hook implementations that concern launcher arguments."""

from __future__ import annotations

from flydsl.plugins.manager import hookimpl
from flydsl.plugins.payloads import ArgSpec

__all__ = ["flydsl_argument"]


@hookimpl(trylast=True)
def flydsl_argument(value: object, annotation: object) -> ArgSpec:
    """Describe tensors, numbers and streams; after every plugin."""
    from flydsl.compiler.arguments import describe

    return describe(value, annotation)
