"""Announces the operations; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import Config, KernelEntry
from flydsl.targets import Target

__all__ = ["flydsl_kernels", "flydsl_tuning_space"]

_SUMMARIES = {
    "gemm": "products of matrices or batches, with scales, bias, activation and residual",
    "grouped_gemm": "products of groups of rows with a matrix each, in one launch",
}


@hookimpl
def flydsl_kernels() -> Sequence[KernelEntry]:
    """Announce every operation."""
    return tuple(
        KernelEntry(name, "gemm", f"flydsl_kernels.gemm:{name}", (), summary)
        for name, summary in _SUMMARIES.items()
    )


@hookimpl
def flydsl_tuning_space(kernel: str, problem: object, target: Target) -> Iterable[Config] | None:
    """Answer for products, given as `flydsl_kernels.gemm.GemmProblem`."""
    if kernel != "gemm":
        return None
    from flydsl_kernels.gemm.choices import candidates
    from flydsl_kernels.gemm.problem import GemmProblem

    return tuple(candidates(problem, target)) if isinstance(problem, GemmProblem) else None
