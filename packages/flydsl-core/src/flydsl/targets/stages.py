"""The neutral stages of a pipeline, and the calls of the target's compile hooks."""

from __future__ import annotations

from flydsl.config import CompileOptions
from flydsl.errors import CompilerBug
from flydsl.plugins.manager import plugin_manager
from flydsl.plugins.payloads import CodeObject, Pipeline, Stage
from flydsl.plugins.protocols import MlirModule, Target

__all__ = ["NEUTRAL_PASSES", "emit", "fingerprints", "neutral_stages", "pipeline_for"]

NEUTRAL_PASSES = (
    "fly-rewrite-func-signature",
    "fly-canonicalize",
    "fly-layout-lowering",
    "fly-int-swizzle-simplify",
    "fly-convert-atom-call-to-ssa-form",
    "fly-promote-regmem-to-vectorssa",
    "fly-mark-stores",
)
"""The core's passes in order; after them a kernel has no layouts left (see `flydsl.passes`)."""


def neutral_stages() -> tuple[Stage, ...]:
    """Return the stages with which every target's pipeline begins."""
    return tuple(Stage(name, "pass") for name in NEUTRAL_PASSES)


def pipeline_for(target: Target, options: CompileOptions) -> Pipeline:
    """Return the pipeline for `target` as the plugins make it.

    Raises:
        CompilerBug: A plugin answered with something else.
    """
    pipeline = plugin_manager().hook.flydsl_pipeline(target=target, options=options)
    if not isinstance(pipeline, Pipeline):
        raise CompilerBug(
            f"the pipeline hook for {target.name} did not return a Pipeline",
            code="FLY-B510",
            value=pipeline,
        )
    return pipeline


def emit(module: MlirModule, target: Target, options: CompileOptions) -> CodeObject:
    """Turn a lowered module into a code object through the plugins.

    Raises:
        TargetError: The back end refuses the module.
        CompilerBug: A plugin answered with something else than a code object.
    """
    code = plugin_manager().hook.flydsl_emit(module=module, target=target, options=options)
    if not isinstance(code, CodeObject):
        raise CompilerBug(
            f"the emit hook for {target.name} did not return a CodeObject",
            code="FLY-B511",
            value=code,
        )
    return code


def fingerprints(target: Target) -> tuple[str, ...]:
    """Return the texts that plugins add to the cache key for `target`, in a stable order."""
    parts = plugin_manager().hook.flydsl_fingerprint(target=target)
    return tuple(sorted(str(part) for part in parts if part is not None))
