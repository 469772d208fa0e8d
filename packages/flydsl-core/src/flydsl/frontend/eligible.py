"""Which functions are rewritten, and the name by which rewritten code finds its runtime."""

from __future__ import annotations

import sys
from functools import cache
from types import FunctionType

from flydsl.diagnostics import is_framework_module

__all__ = ["RUNTIME", "is_user_module", "rewritable"]

RUNTIME = "_fly_rt"
"""Name by which rewritten code refers to `flydsl.frontend.runtime`."""

_FOREIGN = frozenset({"mlir", "numpy", "torch", "ml_dtypes", "pytest", "_pytest", "hypothesis"})


def rewritable(function: FunctionType) -> bool:
    """Return whether a function is the user's own Python code."""
    module = function.__globals__.get("__name__", "")
    return is_user_module(module) and "__flydsl_internal__" not in function.__globals__


@cache
def is_user_module(module: str) -> bool:
    """Return whether a module is neither ours, Python's, nor an array library's."""
    if is_framework_module(module):
        return False
    top = module.partition(".")[0]
    return module == "__main__" or (top not in sys.stdlib_module_names and top not in _FOREIGN)
