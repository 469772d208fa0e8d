"""Matrix products of large batches, compiled: what the numpy tier uses where it pays off.

The routines compute what the numpy tier computes, bit for bit (but for the payloads of NaN), so
that it does not matter when it turns to them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from flydsl.errors import TargetError
from flydsl.locking import ProcessLock
from flydsl_emu.jit_tier.host_code import host_supported
from flydsl_emu.jit_tier.library import Library, shared_library
from flydsl_emu.jit_tier.product_text import product_name
from flydsl_emu.semantics.matrix_plan import MatrixPlan

__all__ = ["CompiledProducts", "numpy_seconds", "shared_products"]

Array = Any

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)
_TERM, _EACH, _EACH_SINGLE = 10e-6, 2.0e-9, 7.5e-9
"""Seconds that numpy takes for a term of all sums, and for each multiplication and addition: of
factors of up to 12 bits, and of f32, which it has to add in two steps."""
_PATIENCE = 0.5
"""Seconds of numpy's work on one kind of product after which compiling it pays off."""


def numpy_seconds(plan: MatrixPlan, waves: int) -> float:
    """Return about how many seconds numpy takes for a product of some waves."""
    each = _EACH_SINGLE if plan.a.format == "f32" else _EACH
    return plan.k * (_TERM + plan.m * plan.n * plan.blocks * waves * each)


class CompiledProducts:
    """Compiled routines by the layout of the product.

    Args:
        library: Where routines come from.
        patience: Seconds of work without a routine after which one is compiled; those on disk
            are used at once.
    """

    def __init__(self, library: Library, patience: float = _PATIENCE) -> None:
        self.library = library
        self.patience = patience
        self._routines: dict[MatrixPlan, Callable[[int, int], None] | None] = {}
        self._spent: dict[MatrixPlan, float] = {}
        self._lock = ProcessLock()

    def multiply(
        self, plan: MatrixPlan, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array]
    ) -> list[Array] | None:
        """Implement `flydsl_emu.numpy_tier.matrices.Products`."""
        waves = len(a[0])
        routine = self._routines.get(plan)
        if routine is None:
            routine = self._prepared(plan, waves)
            if routine is None:
                return None
        result = np.empty((plan.results, waves, plan.lanes), np.uint32)
        inputs = [np.ascontiguousarray(x) for y in (a, b, c) for x in y]
        size = result.nbytes // plan.results
        first = result.__array_interface__["data"][0]
        table = np.array(
            [x.__array_interface__["data"][0] for x in inputs]
            + [first + size * n for n in range(plan.results)],
            np.uint64,
        )
        routine(table.__array_interface__["data"][0], waves)
        return list(result)

    def _prepared(self, plan: MatrixPlan, waves: int) -> Callable[[int, int], None] | None:
        """Return the routine if there is one or it is time to compile it."""
        with self._lock:
            if plan in self._routines:
                return self._routines[plan]
            name = product_name(plan)
            work = numpy_seconds(plan, waves)
            spent = self._spent[plan] = self._spent.get(plan, 0.0) + work
            if not host_supported():
                self._routines[plan] = None
            elif spent > self.patience or (spent == work and self.library.has(name)):
                self._routines[plan] = self._compiled(name, plan.lanes)
            return self._routines.get(plan)

    def _compiled(self, name: str, lanes: int) -> Callable[[int, int], None] | None:
        try:
            self.library.require((name,), {}, "", lanes)
        except TargetError:
            # Numpy does the same, in more time.
            return None
        return _CALL(self.library.address(name))


@cache
def shared_products() -> CompiledProducts:
    """Return the products of this process."""
    return CompiledProducts(shared_library())
