"""The MLIR bindings, and everything FlyDSL asks of them; no other package imports `mlir`.

The names of `ATTRIBUTES` (``ir``, ``arith``, ``scf``, …) are bound on first use, so importing this
package costs nothing and needs no bindings installed. Add a dialect by adding its line there (and
to the block for the type checker).

Lives here: the version gate (`loading`), contexts with the Fly dialect and targets' dialects loaded
(`contexts`), keys for operations (`identity`), and running upstream passes with diagnostics turned
into exceptions (`running`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl.locking import ProcessLock
from flydsl.mlir.contexts import (
    ContextState,
    context_state,
    new_context,
    register_dialect_source,
    thread_context,
)
from flydsl.mlir.identity import identity
from flydsl.mlir.loading import ATTRIBUTES, load
from flydsl.mlir.running import (
    capture_diagnostics,
    parse_module,
    run_pipeline,
    source_location,
    verify,
)

if TYPE_CHECKING:
    from mlir import ir as ir  # type: ignore[import-untyped]
    from mlir import passmanager as passmanager
    from mlir import rewrite as rewrite
    from mlir.dialects import arith as arith  # type: ignore[import-untyped]
    from mlir.dialects import builtin as builtin
    from mlir.dialects import cf as cf
    from mlir.dialects import func as func
    from mlir.dialects import gpu as gpu
    from mlir.dialects import irdl as irdl
    from mlir.dialects import llvm as llvm
    from mlir.dialects import math as math
    from mlir.dialects import nvvm as nvvm
    from mlir.dialects import rocdl as rocdl
    from mlir.dialects import scf as scf
    from mlir.dialects import ub as ub
    from mlir.dialects import vector as vector

__all__ = [
    "ATTRIBUTES",
    "ContextState",
    "arith",
    "builtin",
    "capture_diagnostics",
    "cf",
    "context_state",
    "func",
    "gpu",
    "identity",
    "ir",
    "irdl",
    "llvm",
    "math",
    "new_context",
    "nvvm",
    "parse_module",
    "passmanager",
    "register_dialect_source",
    "rewrite",
    "rocdl",
    "run_pipeline",
    "scf",
    "source_location",
    "thread_context",
    "ub",
    "vector",
    "verify",
]

_LOADING = ProcessLock()


def __getattr__(name: str) -> Any:
    """Import one module of the bindings; raise `TargetError` when they are missing or too old."""
    if name not in ATTRIBUTES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _LOADING:
        module = load(name)
        globals()[name] = module
    return module
