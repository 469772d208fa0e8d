"""From decorated Python functions to Fly IR: decorators, rewriting of control flow, tracing.

Modules: `functions` (``jit`` and ``kernel``), `signature`, `launcher` and `parameters` (launches),
`tracing`, `scope` and `traced` (one trace and its result), `dependencies` (cache keys) with
`scanning`, `recall` and `watching` (what counts, in this process and later ones); rewriting:
`source`, `scopes`, `liveness`, `jumps`, `syntax`, `rewriter`, `compiling`, `build`; runtime of it:
`runtime`, `regions`, `loops`, `carry`, `mutation`, `missing`, `speculate`.

To support another statement, rewrite it in `rewriter` into a call of a new function of `runtime`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from
from flydsl.expr.ambient import in_trace
from flydsl.frontend.functions import (
    Driver,
    JitFunction,
    KernelFunction,
    driver,
    jit,
    kernel,
    set_driver,
)

if TYPE_CHECKING:
    from flydsl.frontend.dependencies import Dependencies, Dependency, collect_dependencies
    from flydsl.frontend.launcher import KernelLauncher
    from flydsl.frontend.signature import Parameter, Signature
    from flydsl.frontend.traced import TracedKernel, TracedModule, TracedParameter
    from flydsl.frontend.tracing import trace

__all__ = [
    "Dependencies",
    "Dependency",
    "Driver",
    "JitFunction",
    "KernelFunction",
    "KernelLauncher",
    "Parameter",
    "Signature",
    "TracedKernel",
    "TracedModule",
    "TracedParameter",
    "collect_dependencies",
    "driver",
    "in_trace",
    "jit",
    "kernel",
    "set_driver",
    "trace",
]

_LAZY = {
    "Dependencies": ".dependencies",
    "Dependency": ".dependencies",
    "KernelLauncher": ".launcher",
    "Parameter": ".signature",
    "Signature": ".signature",
    "TracedKernel": ".traced",
    "TracedModule": ".traced",
    "TracedParameter": ".traced",
    "collect_dependencies": ".dependencies",
    "trace": ".tracing",
}

# Import on first use what decorating a function does not need.
__getattr__ = imported_from(globals(), _LAZY)
