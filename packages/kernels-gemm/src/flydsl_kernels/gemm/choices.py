"""Configurations as texts, so that results of a search can be kept, and as answers of the hook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from flydsl.plugins.payloads import Config
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_kernels.gemm.planning import facts_of, plan_gemm
from flydsl_kernels.gemm.problem import GemmProblem, Operand, Scaling
from flydsl_kernels.gemm.rules import derive
from flydsl_kernels.gemm.shared import derive_shared

__all__ = ["candidates", "plan_of", "text_of"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_MOST = 24


def candidates(problem: GemmProblem, target: Any) -> Iterator[Config]:
    """Yield the configurations with the best predictions, as the hook's payload.

    Args:
        problem: The product.
        target: The target, or an architecture's name.
    """
    for item in plan_gemm(problem, target).candidates[:_MOST]:
        yield Config(tuple(sorted(asdict(item.config).items())))


def text_of(problem: GemmProblem, target: Any, config: GemmConfig) -> str:
    """Return a text that says what to compile."""
    content = {
        "arch": facts_of(target).name, "problem": asdict(problem), "config": asdict(config)
    }  # fmt: skip
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def plan_of(text: str) -> Any:
    """Return what `text_of` described: a `GemmPlan`, or what `derive_shared` returns."""
    content = json.loads(text)
    fields = dict(content["problem"])
    for name in ("a", "b", "c"):
        fields[name] = Operand(**fields[name])
    fields["scaling"] = Scaling(**fields["scaling"])
    problem = GemmProblem(**fields)
    facts, config = facts_of(content["arch"]), GemmConfig(**content["config"])
    return (derive_shared if problem.shared else derive)(problem, facts, config)
