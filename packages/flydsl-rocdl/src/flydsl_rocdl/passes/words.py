"""Element-wise integer and float arithmetic on scalars and vectors alike, for lowering rules.

A `Words` makes operations of the ``arith`` dialect whose values all have `count` elements (0 for a
scalar); the upstream conversion turns them into LLVM's.
"""

from __future__ import annotations

from collections.abc import Sequence

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering
from flydsl_rocdl.passes.memtypes import element_of

__all__ = ["EQ", "NE", "UGE", "UGT", "ULT", "Words", "vector_of"]

EQ, NE, ULT, UGT, UGE = 0, 1, 6, 8, 9
"""Predicates of ``arith.cmpi``."""


class Words:
    """Makes operations on values of `count` elements.

    Attributes:
        low: The lowering.
        count: Elements of a vector, 0 for scalars.
    """

    def __init__(self, low: Lowering, count: int) -> None:
        self.low = low
        self.count = count

    def text(self, element: str) -> str:
        """Return the spelling of the type with elements of `element`."""
        return f"vector<{self.count}x{element}>" if self.count else element

    def constant(self, number: int | float, element: str = "i32") -> Value:
        """Return a constant; integers are taken modulo two to the width."""
        if isinstance(number, int):
            width = int(element[1:])
            number &= (1 << width) - 1
            if width > 1 and number >> (width - 1):
                number -= 1 << width
        text = self.text(element)
        value = f"dense<{number}> : {text}" if self.count else f"{number} : {text}"
        return self.low.b.value("arith.constant", self.low.b.type(text), (), {"value": value})

    def binary(self, op: str, a: Value, b: Value | int) -> Value:
        """Return ``arith.<op>`` of two values; an int is a constant of the type of `a`."""
        if isinstance(b, int):
            b = self.constant(b, element_of(str(a.type))[1])
        return self.low.b.binary(f"arith.{op}", a, b)

    def unary(self, op: str, element: str, a: Value) -> Value:
        """Return ``arith.<op>`` of `a` with elements of `element`, or `a` if they are the same."""
        kind = self.low.b.type(self.text(element))
        return a if a.type == kind else self.low.b.value(f"arith.{op}", kind, (a,))

    def bits(self, a: Value, element: str) -> Value:
        """Return the bits of `a` as elements of the type `element` of the same width."""
        return self.unary("bitcast", element, a)

    def compare(self, predicate: int, a: Value, b: Value | int) -> Value:
        """Return ``arith.cmpi`` of two integers."""
        return self._compare("arith.cmpi", predicate, a, b)

    def compare_floats(self, predicate: int, a: Value, b: Value) -> Value:
        """Return ``arith.cmpf`` of two floats."""
        return self._compare("arith.cmpf", predicate, a, b)

    def _compare(self, name: str, predicate: int, a: Value, b: Value | int) -> Value:
        if isinstance(b, int):
            b = self.constant(b, element_of(str(a.type))[1])
        kind = self.low.b.type(self.text("i1"))
        return self.low.b.value(name, kind, (a, b), {"predicate": f"{predicate} : i64"})

    def select(self, condition: Value, yes: Value | int, no: Value | int) -> Value:
        """Return `yes` where `condition` holds, else `no`; ints are constants like the other."""
        known = no if isinstance(yes, int) else yes
        assert not isinstance(known, int)
        element = element_of(str(known.type))[1]
        a, b = (self.constant(v, element) if isinstance(v, int) else v for v in (yes, no))
        return self.low.b.value("arith.select", a.type, (condition, a, b))

    def call(self, intrinsic: str, a: Value, *rest: Value) -> Value:
        """Call an LLVM intrinsic whose result has the type of `a`."""
        return self.low.b.intrinsic(intrinsic, a.type, (a, *rest)).result

    def elements(self, value: Value) -> list[Value]:
        """Return the elements of a vector, or the scalar itself."""
        if not self.count:
            return [value]
        b = self.low.b
        kind = b.type(element_of(str(value.type))[1])
        return [
            b.value("llvm.extractelement", kind, (value, b.constant(i))) for i in range(self.count)
        ]

    def gather(self, items: Sequence[Value]) -> Value:
        """Return the vector of `items`, or the scalar that is the only one."""
        if not self.count:
            return items[0]
        return vector_of(self.low, items)


def vector_of(low: Lowering, items: Sequence[Value]) -> Value:
    """Return the vector of scalar `items`."""
    b = low.b
    kind = b.type(f"vector<{len(items)}x{items[0].type}>")
    out = b.value("llvm.mlir.poison", kind)
    for i, item in enumerate(items):
        out = b.value("llvm.insertelement", kind, (out, item, b.constant(i)))
    return out
