"""From target text to a `Target`, and the core's side of compiling for one.

Modules: `protocol` (what a target is), `resolve` (choosing and creating one), `limits` (launch
checks every target shares), `stages` (the neutral part of a pipeline, and running the target's
hooks), `builtin` (the core's own hook implementations). A target itself is a plugin: implement
`Target` in a distribution and announce it through `flydsl_targets`, `flydsl_parse_target` and
`flydsl_create_target`.
"""

from __future__ import annotations

from flydsl.targets.limits import check_limits
from flydsl.targets.protocol import LaunchShape, Target
from flydsl.targets.resolve import choose_target, create_target, known_targets, parse_target
from flydsl.targets.stages import (
    NEUTRAL_PASSES,
    emit,
    fingerprints,
    neutral_stages,
    pipeline_for,
)

__all__ = [
    "NEUTRAL_PASSES",
    "LaunchShape",
    "Target",
    "check_limits",
    "choose_target",
    "create_target",
    "emit",
    "fingerprints",
    "known_targets",
    "neutral_stages",
    "parse_target",
    "pipeline_for",
]
