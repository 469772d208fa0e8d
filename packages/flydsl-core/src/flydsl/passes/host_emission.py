"""Emitting host code in the LLVM and arith dialects at the ambient insertion point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl.dialects.elements import storage_bits
from flydsl.errors import CompilerBug

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = ["Emitter", "StructLayout", "byte_size"]

_DYNAMIC_INDEX = -(2**31)
"""How ``llvm.getelementptr`` marks an index that is an operand."""


def byte_size(type_: ir.Type) -> int:
    """Return the bytes of a scalar or pointer as it is passed at the host ABI.

    Raises:
        CompilerBug: The type has no representation there.
    """
    text = str(type_)
    if text == "!llvm.ptr":
        return 8
    bits = storage_bits(text)
    if bits not in (8, 16, 32, 64):
        raise CompilerBug(f"a value of type {text} at the host ABI", code="FLY-B341")
    return bits // 8


class StructLayout:
    """Places values in a block with natural alignment, as C does."""

    def __init__(self) -> None:
        self.size = 0

    def place(self, type_: ir.Type) -> int:
        """Return the offset in bytes of the next value."""
        size = byte_size(type_)
        offset = -(-self.size // size) * size
        self.size = offset + size
        return offset


class Emitter:
    """Creates operations; constants and types are made on demand."""

    def __init__(self) -> None:
        from flydsl.mlir import ir, llvm

        self.ir = ir
        self.llvm = llvm
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.i1, self.i8, self.i32, self.i64 = (
            ir.IntegerType.get_signless(width) for width in (1, 8, 32, 64)
        )

    def create(self, name: str, result: ir.Type, *operands: ir.Value, **attributes: Any) -> Any:
        """Create an operation with one result and return that."""
        return self.ir.Operation.create(
            name, results=[result], operands=list(operands), attributes=attributes
        ).results[0]

    def constant(self, value: int, type_: ir.Type) -> ir.Value:
        """Return an integer constant."""
        attribute = self.ir.IntegerAttr.get(type_, value)
        return self.create("arith.constant", type_, value=attribute)

    def stack(self, size: int, alignment: int) -> ir.Value:
        """Reserve bytes in the stack frame; emit this in the entry block only."""
        count = self.constant(size, self.i64)
        return self.llvm.AllocaOp(self.pointer, count, self.i8, alignment=alignment).result

    def offset(self, base: ir.Value, offset: int) -> ir.Value:
        """Return a pointer `offset` bytes past `base`."""
        if offset == 0:
            return base
        return self.llvm.GEPOp(self.pointer, base, [], [offset], self.i8, None).result

    def element(self, base: ir.Value, index: ir.Value, element: str) -> ir.Value:
        """Return a pointer to element `index` (i32 or i64) of an array of `element`."""
        bits = storage_bits(element)
        if bits % 8:
            wide = self.wide(index)
            scaled = self.create(
                "arith.divsi",
                self.i64,
                self.create("arith.muli", self.i64, wide, self.constant(bits, self.i64)),
                self.constant(8, self.i64),
            )
            unit = self.i8
        else:
            scaled, unit = index, self.ir.IntegerType.get_signless(bits)
        return self.llvm.GEPOp(self.pointer, base, [scaled], [_DYNAMIC_INDEX], unit, None).result

    def load(self, address: ir.Value, type_: ir.Type) -> ir.Value:
        """Load a value."""
        return self.llvm.LoadOp(type_, address).result

    def store(self, value: ir.Value, address: ir.Value) -> None:
        """Store a value; a truth value as one byte."""
        if str(value.type) == "i1":
            value = self.create("arith.extui", self.i8, value)
        self.llvm.StoreOp(value, address)

    def wide(self, value: ir.Value) -> ir.Value:
        """Sign-extend an i32 to i64."""
        if str(value.type) == "i64":
            return value
        return self.create("arith.extsi", self.i64, value)

    def compare(self, predicate: int, a: ir.Value, b: ir.Value) -> ir.Value:
        """Compare integers; `predicate` is MLIR's code (0 eq, 1 ne, 2 slt, 3 sle, 4 sgt)."""
        code = self.ir.IntegerAttr.get(self.i64, predicate)
        return self.create("arith.cmpi", self.i1, a, b, predicate=code)

    def address(self, pointer: ir.Value) -> ir.Value:
        """Return a pointer as an i64."""
        return self.create("llvm.ptrtoint", self.i64, pointer)
