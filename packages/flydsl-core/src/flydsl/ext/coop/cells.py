"""Places in shared memory for one value per warp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr import gpu
from flydsl.expr.ambient import require
from flydsl.expr.numeric import Boolean, Numeric, Uint8
from flydsl.expr.shared import scratch, scratch_turn
from flydsl.expr.storage import Array, ArrayType, StructStorage
from flydsl.expr.vector import Vector, vector_alias
from flydsl.ext.coop.parts import Shape, describe, rebuilt, split

__all__ = ["Cells", "only_where"]


class Cells:
    """One array in shared memory per part of a value, with a place per warp.

    Args:
        arrays: The arrays.
        shape: Makes values of parts.
        fresh: Whether no thread can still be reading what an earlier call left in them.
    """

    __slots__ = ("_arrays", "_fresh", "_kinds", "_shape")

    def __init__(self, arrays: list[Array], kinds: list[Any], shape: Shape, fresh: bool) -> None:
        self._arrays = arrays
        self._kinds = kinds
        self._shape = shape
        self._fresh = fresh

    @classmethod
    def of(cls, value: Any, count: int, storage: Any) -> Cells:
        """Return places for values like `value`.

        Args:
            value: Numbers and vectors, in any structure.
            count: How many.
            storage: An array, or a struct of one per part; None takes an allocation that such
                calls of the kernel share.

        Raises:
            UserTypeError: The storage does not fit, or a part cannot be stored.
        """
        parts, shape = split(value)
        kinds = [_stored_kind(part) for part in parts]
        if storage is None:
            # One turn for all parts: values that share some of them only share nothing.
            key = (describe(parts), count)
            turn, fresh = scratch_turn(key)
            arrays = [
                scratch((*key, index, turn), ArrayType(kind, count))
                for index, kind in enumerate(kinds)
            ]
            return cls(arrays, parts, shape, fresh)
        given: Any = storage
        own = _arrays(given)
        fits = len(own) == len(kinds) and all(
            repr(array.kind.element) == repr(kind) and len(array) >= count
            for array, kind in zip(own, kinds, strict=False)
        )
        if not fits:
            raise UserTypeError(
                "the storage does not fit the values",
                code="FLY-U284",
                value=getattr(given, "kind", given),
                allowed=f"at least {count} elements of {describe(parts)}",
                hint="allocate the SharedStorage of the operation, or leave storage out",
            )
        return cls(own, parts, shape, False)

    def begin(self) -> None:
        """Wait until no thread reads what was in the places before."""
        if not self._fresh:
            gpu.barrier()

    def write(self, index: Any, value: Any) -> None:
        """Store the parts of a value."""
        parts, _ = split(value)
        for array, part in zip(self._arrays, parts, strict=True):
            array[index] = part.to(Uint8) if isinstance(part, Boolean) else part

    def read(self, index: int) -> Any:
        """Load a value."""
        loaded = [
            array[index].to(Boolean) if isinstance(kind, Boolean) else array[index]
            for array, kind in zip(self._arrays, self._kinds, strict=True)
        ]
        return rebuilt(self._shape, loaded)


def _arrays(storage: Any) -> list[Array]:
    """Return the arrays that shared memory given to an operation consists of."""
    if isinstance(storage, StructStorage):
        fields = [getattr(storage, f.name) for f in storage.kind.fields if not f.constexpr]
        return [field for field in fields if isinstance(field, Array)]
    return [storage] if isinstance(storage, Array) else []


def _stored_kind(part: Any) -> Any:
    if isinstance(part, Vector):
        return vector_alias(part.dtype, tuple(part.shape))
    assert isinstance(part, Numeric)
    return Uint8 if isinstance(part, Boolean) else type(part)


@contextmanager
def only_where(condition: Any) -> Iterator[None]:
    """Trace the block for the threads where a condition holds; it must leave no values."""
    session = require("a guarded store")
    here = session.locations.here()
    operation = session.create("scf.if", (), (condition.ir_value(),), None, None, 2, here)
    block = operation.regions[0].blocks.append()
    session.depth += 1
    try:
        with session.ir.InsertionPoint(block):
            yield
            session.create("scf.yield", (), (), None, None, 0, here)
    finally:
        session.depth -= 1
