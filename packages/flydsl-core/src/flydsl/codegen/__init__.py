"""Machine code from LLVM IR, in a child process (DESIGN §3, isolation).

LLVM inside llvmlite ends the process on many errors (an LDS overflow, an instruction that the
target lacks), so it runs in a *codegen worker*: a child that receives LLVM IR and answers with
object code, assembly and timings. Its diagnostics and its death become a `TargetError` here.

* `request`: what goes in and comes out (`CodegenRequest`, `CodegenResult`).
* `options`: the LLVM command-line options that a request may name. To allow one more, add it there.
* `child`: one child process and its pipe; `worker_main` is the program that the child runs.
* `worker`: `CodegenWorker`, which starts, restarts and routes to children; `shared_worker`,
  `warm_up`, `warn_if_long`; `WorkerPool` for parallel compiles.
* `host`: code for this host; `kept`: the same out of the disk cache; `machine_code`: its bytes, and
  executable memory to run them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from

if TYPE_CHECKING:
    from flydsl.codegen.options import LLVM_OPTIONS, checked_options
    from flydsl.codegen.request import CodegenRequest, CodegenResult
    from flydsl.codegen.worker import (
        CodegenWorker,
        WorkerPool,
        observing,
        shared_worker,
        warm_up,
        warn_if_long,
    )

__all__ = [
    "LLVM_OPTIONS",
    "CodegenRequest",
    "CodegenResult",
    "CodegenWorker",
    "WorkerPool",
    "checked_options",
    "observing",
    "shared_worker",
    "warm_up",
    "warn_if_long",
]

_HOMES = {
    "CodegenRequest": ".request",
    "CodegenResult": ".request",
    "CodegenWorker": ".worker",
    "LLVM_OPTIONS": ".options",
    "WorkerPool": ".worker",
    "checked_options": ".options",
    "observing": ".worker",
    "shared_worker": ".worker",
    "warm_up": ".worker",
    "warn_if_long": ".worker",
}

# Import what is asked for: a launch out of the cache needs little of this package.
__getattr__ = imported_from(globals(), _HOMES)
