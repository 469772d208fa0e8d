"""What calls of products for RDNA4 are checked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flydsl.errors import TargetError
from flydsl_kernels.gemm.device.preshuffle.checked import Sizes
from flydsl_kernels.gemm.device.rdna4.plan import Rdna4Plan
from flydsl_rocdl.arch import KNOWN
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["check_fixed", "require_rdna4"]

__flydsl_internal__ = True  # errors are at the line of the caller

_FAMILY = "rdna4"


def require_rdna4() -> None:
    """Check the architecture being compiled for.

    Raises:
        TargetError: It is not of RDNA4.
    """
    facts = amd_facts("rdna4_kernel")
    if facts.family != _FAMILY:
        raise TargetError(
            f"{facts.name} does not multiply by weights in layout 'rdna4_fp8'", code="FLY-T910",
            value=facts.name, allowed=", ".join(f.name for f in KNOWN.values()
                                                if f.family == _FAMILY),
        )  # fmt: skip


def check_fixed(plan: Rdna4Plan, rows: int, values: Mapping[str, Any]) -> None:
    """Check the arguments of a launcher for one M, as far as they are known.

    Args:
        plan: What the launcher is for.
        rows: M.
        values: c, a, b_shuf, sa and sb by name.

    Raises:
        UserValueError: A size does not fit.
    """
    size = 2 if plan.out_dtype == "bf16" else 4
    arrays = {name: Sizes(name, values[name]) for name in ("c", "a", "b_shuf", "sa", "sb")}
    arrays["c"].element(size)
    arrays["c"].row(plan.n * size)
    arrays["c"].at_least(rows * plan.n * size)
    arrays["a"].element(1)
    arrays["a"].row(plan.k)
    arrays["a"].at_least(rows * plan.k)
    arrays["b_shuf"].exactly(plan.n * plan.k)
    for name, count in (("sa", rows), ("sb", plan.n)):
        arrays[name].element(4)
        arrays[name].at_least(count * 4)
