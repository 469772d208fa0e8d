"""The AMD pipeline: neutral passes, our lowering, one upstream pipeline to the LLVM dialect.

Optimisation is LLVM's job; the upstream stage only converts, because every MLIR pass costs compile
time that LLVM's own passes would spend again.
"""

from __future__ import annotations

from flydsl.config import CompileOptions
from flydsl.plugins.payloads import Pipeline, Stage
from flydsl.targets import neutral_stages
from flydsl_rocdl.target import RocdlTarget

__all__ = ["pipeline"]


def pipeline(target: RocdlTarget, options: CompileOptions) -> Pipeline:
    """Return the stages from a traced module to one in the LLVM dialect.

    Stage names: the neutral passes, ``convert-fly-to-rocdl``, ``convert-to-llvm-dialect`` and, with
    debug information, ``debug-scopes``.
    """
    passes = ["convert-scf-to-cf", f"convert-gpu-to-rocdl{{chipset={target.arch}}}"]
    stages = [
        *neutral_stages(),
        Stage(
            "convert-fly-to-rocdl",
            "pass",
            options=(
                ("flush_denormals", options.flush_denormals),
                ("unsafe_fp_math", options.unsafe_fp_math),
                ("waves_per_eu", options.waves_per_eu),
            ),
        ),
        Stage(
            "convert-to-llvm-dialect",
            "mlir",
            f"builtin.module(gpu.module({','.join(passes)},reconcile-unrealized-casts))",
        ),
    ]
    if options.debug_info:
        stages.append(
            Stage(
                "debug-scopes",
                "mlir",
                "builtin.module(ensure-debug-info-scope-on-llvm-func)",
            )
        )
    return Pipeline(tuple(stages))
