"""Creating LLVM and ROCDL operations quickly.

`Builder` creates operations by name through `Operation.create` at a fixed place, with the types and
attributes that the context caches by their text; that costs some microseconds an operation. One
builder serves one module in one pass run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from flydsl import mlir

__all__ = ["Builder", "Value"]

Value: TypeAlias = Any
"""An ``mlir.ir.Value``."""
Type: TypeAlias = Any
Op: TypeAlias = Any

_KEY = "rocdl"
"""Keeps our entries of the context's caches apart from those of the core."""
_DYNAMIC = -(2**31)


class Builder:
    """Creates operations before `anchor`.

    Attributes:
        anchor: The operation that new ones are placed before; its location is theirs.
    """

    def __init__(self, context: Any) -> None:
        self.ir = mlir.ir
        self.context = context
        state = mlir.context_state(context)
        self._types = state.types
        self._attributes = state.attributes
        self._point: Any = None
        self._location: Any = None

    def at(self, anchor: Op) -> None:
        """Place what follows before `anchor`."""
        self._point = self.ir.InsertionPoint(anchor)
        self._location = anchor.location

    def at_start(self, function: Op) -> None:
        """Place what follows at the start of the body of `function` (or of a module)."""
        self._point = self.ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0])
        self._location = function.location

    def at_module_end(self, module: Op) -> None:
        """Place what follows at the end of a gpu.module."""
        self._point = self.ir.InsertionPoint(module.regions[0].blocks[0])
        self._location = module.location

    def type(self, text: str) -> Type:
        """Return the type that `text` spells."""
        key = (_KEY, text)
        found = self._types.get(key)
        if found is None:
            found = self._types[key] = self.ir.Type.parse(text, self.context)
        return found

    def attribute(self, text: str) -> Any:
        """Return the attribute that `text` spells."""
        key = (_KEY, text)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = self.ir.Attribute.parse(text, self.context)
        return found

    def pointer(self, space: int) -> Type:
        """Return the LLVM pointer type of an address space."""
        return self.type(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")

    def op(
        self,
        name: str,
        results: Sequence[Type] = (),
        operands: Sequence[Value] = (),
        attributes: dict[str, str] | None = None,
    ) -> Op:
        """Create an operation; `attributes` maps names to attribute text."""
        return self.ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes={k: self.attribute(v) for k, v in attributes.items()}
            if attributes
            else None,
            loc=self._location,
            ip=self._point,
        )

    def value(
        self,
        name: str,
        result: Type,
        operands: Sequence[Value] = (),
        attributes: dict[str, str] | None = None,
    ) -> Value:
        """Create an operation with one result and return the result."""
        return self.op(name, (result,), operands, attributes).result

    def constant(self, value: int | float, type_text: str = "i32") -> Value:
        """Return a scalar constant."""
        return self.value(
            "llvm.mlir.constant", self.type(type_text), (), {"value": f"{value} : {type_text}"}
        )

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """Create a two-operand operation whose result has the type of `a`."""
        return self.value(name, a.type, (a, b))

    def compare(self, predicate: int, a: Value, b: Value) -> Value:
        """Create ``llvm.icmp`` with MLIR's predicate number (0 eq, 1 ne, 2 slt, 6 ult …)."""
        return self.value("llvm.icmp", self.type("i1"), (a, b), {"predicate": f"{predicate} : i64"})

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Create ``llvm.select``."""
        return self.value("llvm.select", yes.type, (condition, yes, no))

    def gep(self, base: Value, index: Value | int, element: Type) -> Value:
        """Return ``base + index`` in units of `element`; an index of 32 bits counts as signed.

        The bindings cannot set no-wrap flags on this operation.
        """
        dynamic = not isinstance(index, int)
        indices = self.ir.DenseI32ArrayAttr.get([_DYNAMIC if dynamic else index], self.context)
        return self.ir.Operation.create(
            "llvm.getelementptr",
            results=(base.type,),
            operands=(base, index) if dynamic else (base,),
            attributes={
                "elem_type": self.ir.TypeAttr.get(element, self.context),
                "rawConstantIndices": indices,
            },
            loc=self._location,
            ip=self._point,
        ).result

    def load(
        self, pointer: Value, result: Type, align: int, *, flags: dict[str, str] | None = None
    ) -> Value:
        """Create ``llvm.load`` with an alignment in bytes."""
        return self.value(
            "llvm.load", result, (pointer,),
            {"alignment": f"{align} : i64", "ordering": "0 : i64", **(flags or {})},
        )  # fmt: skip

    def store(
        self, value: Value, pointer: Value, align: int, *, flags: dict[str, str] | None = None
    ) -> Op:
        """Create ``llvm.store`` with an alignment in bytes."""
        return self.op(
            "llvm.store", (), (value, pointer),
            {"alignment": f"{align} : i64", "ordering": "0 : i64", **(flags or {})},
        )  # fmt: skip

    def intrinsic(
        self,
        name: str,
        result: Type | None,
        operands: Sequence[Value],
        flags: str = "#llvm.fastmath<none>",
    ) -> Op:
        """Call the LLVM intrinsic ``llvm.<name>``; overloads are resolved from the operands.

        Operands that LLVM wants as immediates must be constants: nothing checks this before LLVM,
        which does not survive a mistake.
        """
        return self.op(
            "llvm.call_intrinsic",
            () if result is None else (result,),
            operands,
            {
                "intrin": f'"llvm.{name}"',
                "fastmathFlags": flags,
                "op_bundle_sizes": "array<i32>",
                "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
            },
        )

    def cast(self, value: Value, result: Type) -> Value:
        """Bridge two types that lower to the same LLVM type."""
        if value.type == result:
            return value
        return self.value("builtin.unrealized_conversion_cast", result, (value,))

    def bitcast(self, value: Value, result: Type) -> Value:
        """Reinterpret bits, unless the types are equal."""
        return value if value.type == result else self.value("llvm.bitcast", result, (value,))

    def region_op(self, name: str, attributes: dict[str, str]) -> Op:
        """Create an operation with one empty region and no operands."""
        return self.ir.Operation.create(
            name,
            attributes={k: self.attribute(v) for k, v in attributes.items()},
            regions=1,
            loc=self._location,
            ip=self._point,
        )

    def if_then(self, condition: Value, results: Sequence[Type] = ()) -> tuple[Op, Any, Any]:
        """Create an ``scf.if`` with two empty blocks and return it with its blocks.

        Place operations in a block with `at_block_end`, and end it with ``scf.yield``.
        """
        op = self.ir.Operation.create(
            "scf.if", results=results, operands=(condition,), regions=2,
            loc=self._location, ip=self._point,
        )  # fmt: skip
        yes, no = (region.blocks.append() for region in op.regions)
        return op, yes, no

    def choose(
        self,
        condition: Value,
        kinds: Sequence[Type],
        yes: Callable[[], list[Value]],
        no: Callable[[], list[Value]],
    ) -> list[Value]:
        """Create an ``scf.if`` whose blocks `yes` and `no` fill; return its results of `kinds`."""
        place = self._point
        op, then, other = self.if_then(condition, kinds)
        for block, body in ((then, yes), (other, no)):
            self.at_block_end(block)
            self.op("scf.yield", (), body())
        self._point = place
        return list(op.results)

    def at_block_end(self, block: Any) -> None:
        """Place what follows at the end of `block`, keeping the location."""
        self._point = self.ir.InsertionPoint(block)

    def declare(self, module: Op, symbol: str, function_type: str) -> Op:
        """Declare an external function at the start of a gpu.module."""
        ir = self.ir
        return ir.Operation.create(
            "llvm.func",
            attributes={
                "sym_name": ir.StringAttr.get(symbol, self.context),
                "function_type": ir.TypeAttr.get(self.type(function_type), self.context),
                "CConv": self.attribute("#llvm.cconv<ccc>"),
                "linkage": self.attribute("#llvm.linkage<external>"),
                "visibility_": self.attribute("0 : i64"),
                "unnamed_addr": self.attribute("0 : i64"),
            },
            regions=1,
            loc=ir.Location.unknown(self.context),
            ip=ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]),
        )
