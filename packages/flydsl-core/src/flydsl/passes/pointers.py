"""SSA pointers: a base value moved by run-time and static numbers of elements."""

from __future__ import annotations

from typing import Any

from flydsl import mlir
from flydsl.dialects.fly_types import PtrType
from flydsl.layout.leaf import Leaf, width_of
from flydsl.passes.ssa import Emitter

__all__ = ["SsaPointer"]


class SsaPointer:
    """A pointer value while lowering; implements `flydsl.dialects.views.Pointer`.

    Offsets are emitted as one ``fly.add_offset`` per run-time move, in order, and one for the sum
    of the static ones at the end: what comes from a block index stays apart from what comes from a
    thread index (uniform and divergent arithmetic), unrolled code shares the run-time part, and the
    static part folds into the instruction.

    Attributes:
        emitter: Emits the integer operations.
        base: The SSA value that offsets count from.
        base_type: Its type.
        type: The type after moving.
        dynamic: Run-time moves in elements.
        static: Static elements.
    """

    __slots__ = ("base", "base_type", "dynamic", "emitter", "static", "type")

    def __init__(
        self,
        emitter: Emitter,
        base: mlir.ir.Value,
        base_type: PtrType,
        type_: PtrType | None = None,
        dynamic: tuple[Leaf, ...] = (),
        static: int = 0,
    ) -> None:
        self.emitter = emitter
        self.base = base
        self.base_type = base_type
        self.type = type_ or base_type
        self.dynamic = dynamic
        self.static = static

    def moved(self, offset: Leaf) -> SsaPointer:
        """Return the pointer `offset` elements further."""
        kind = self.type.moved(offset)
        dynamic, static = self.dynamic, self.static
        if isinstance(offset, int):
            static += offset
        else:
            dynamic = (*dynamic, offset)
        return SsaPointer(self.emitter, self.base, self.base_type, kind, dynamic, static)

    def retyped(self, type_: PtrType) -> SsaPointer:
        """Return the same address as another pointer type."""
        if type_ == self.type:
            return self
        key = ("recast", self.value, type_)
        found = self.emitter.lookup(key)
        if found is None:
            found = self._create("recast_iter", type_, [self.value])
            self.emitter.store(key, found)
        return SsaPointer(self.emitter, found, type_)

    @property
    def value(self) -> mlir.ir.Value:
        """The SSA value; emits what it needs before the operation being lowered."""
        value, kind = self.base, self.base_type
        for offset in (*self.dynamic, *((self.static,) if self.static else ())):
            key = ("offset", value, offset if isinstance(offset, int) else id(offset))
            found: Any = self.emitter.lookup(key)
            if found is None:
                kind = kind.moved(offset)
                width = width_of(offset)
                step = self.emitter.value_of(offset, width)
                found = self._create("add_offset", kind, [value, step]), kind, offset
                self.emitter.store(key, found)
            value, kind, _ = found
        return value

    def _create(self, name: str, kind: PtrType, operands: list[mlir.ir.Value]) -> mlir.ir.Value:
        anchor = self.emitter.anchor
        op = mlir.ir.Operation.create(
            "fly." + name,
            results=[kind.ir],
            operands=operands,
            ip=mlir.ir.InsertionPoint(anchor),
            loc=anchor.location,
        )
        return op.result
