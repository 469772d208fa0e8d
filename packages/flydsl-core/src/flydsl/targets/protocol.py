"""The `Target` protocol, defined beside the hooks that carry it (`flydsl.plugins.protocols`)."""

from __future__ import annotations

from flydsl.plugins.payloads import LaunchShape, TargetSpec
from flydsl.plugins.protocols import MlirModule, Target

__all__ = ["LaunchShape", "MlirModule", "Target", "TargetSpec"]
