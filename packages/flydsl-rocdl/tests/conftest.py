"""Compiling device modules given as MLIR text down to code objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flydsl import mlir
from flydsl.config import CompileOptions
from flydsl.plugins.payloads import CodeObject
from flydsl_rocdl.emit import emit
from flydsl_rocdl.passes.convert import run
from flydsl_rocdl.pipeline import pipeline
from flydsl_rocdl.target import RocdlTarget, parse_target

Build = Callable[..., CodeObject]


@pytest.fixture
def build() -> Build:
    """Run the AMD stages of the pipeline on MLIR text and emit it."""

    def build_(text: str, arch: str = "gfx942", **options: Any) -> CodeObject:
        spec = parse_target(arch)
        assert spec is not None
        target = RocdlTarget.from_spec(spec)
        chosen = CompileOptions(dump_ir=True, **options)
        context = mlir.new_context()
        with context:
            module = mlir.parse_module(text, context)
            for stage in pipeline(target, chosen).stages:
                if stage.kind == "mlir":
                    mlir.run_pipeline(module, stage.text)
                elif stage.name == "convert-fly-to-rocdl":
                    run(module, target, **dict(stage.options))
                mlir.verify(module, stage.name)
            return emit(module, target, chosen)

    return build_


@pytest.fixture
def kernel(build: Build) -> Build:
    """Like `build`, for the body of one kernel ``k`` of 256 threads."""

    def kernel_(
        body: str, parameters: str = "", arch: str = "gfx942", **options: Any
    ) -> CodeObject:
        return build(
            f"""
            gpu.module @m {{
              gpu.func @k({parameters}) kernel
                  attributes {{known_block_size = array<i32: 256, 1, 1>}} {{
                {body}
                gpu.return
              }} loc("kernel.py":7:1)
            }}
            """,
            arch,
            **options,
        )

    return kernel_
