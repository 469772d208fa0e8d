"""The core's default compile hooks: they ask the resolved target, after every plugin."""

from __future__ import annotations

from flydsl.config import CompileOptions
from flydsl.plugins.manager import hookimpl
from flydsl.plugins.payloads import CodeObject, Pipeline
from flydsl.plugins.protocols import MlirModule, Target

__all__ = ["flydsl_emit", "flydsl_fingerprint", "flydsl_pipeline"]


@hookimpl(trylast=True)
def flydsl_pipeline(target: Target, options: CompileOptions) -> Pipeline:
    """Return the target's own pipeline."""
    return target.pipeline(options)


@hookimpl(trylast=True)
def flydsl_emit(module: MlirModule, target: Target, options: CompileOptions) -> CodeObject:
    """Let the target emit."""
    return target.emit(module, options)


@hookimpl
def flydsl_fingerprint(target: Target) -> str:
    """Return the target's own fingerprint."""
    return f"{target.backend}:{target.fingerprint()}"
