"""Running the lowering pass on MLIR text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flydsl import mlir
from flydsl_rocdl.passes.convert import run
from flydsl_rocdl.target import RocdlTarget, parse_target

Lower = Callable[..., str]


@pytest.fixture
def lower() -> Lower:
    """Lower MLIR text for an architecture, verify the result and return it as text."""

    def lower_(text: str, arch: str = "gfx942", **options: object) -> str:
        spec = parse_target(arch)
        assert spec is not None
        context = mlir.new_context()
        with context:
            module = mlir.parse_module(text, context)
            run(module, RocdlTarget.from_spec(spec), **options)
            mlir.verify(module, "convert-fly-to-rocdl")
            return str(module)

    return lower_


@pytest.fixture
def kernel(lower: Lower) -> Lower:
    """Like `lower`, for the body of one kernel of 256 threads with the given parameters."""

    def kernel_(body: str, parameters: str = "", arch: str = "gfx942") -> str:
        return lower(
            f"""
            gpu.module @m {{
              gpu.func @k({parameters}) kernel
                  attributes {{known_block_size = array<i32: 256, 1, 1>}} {{
                {body}
                gpu.return
              }}
            }}
            """,
            arch,
        )

    return kernel_
