"""Writing LLVM IR functions as expressions.

`Code` collects the instructions of one function; `V` is an SSA value of it with Python operators
for arithmetic. Types are LLVM's spelling: ``float``, ``double``, ``i32``, ``i64``, ``i1``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Code", "Number", "V", "literal"]


def literal(value: float | int, kind: str) -> str:
    """Return an LLVM literal; floating-point ones in hexadecimal, so nothing is rounded twice."""
    if kind == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if kind in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))


@dataclass(frozen=True, slots=True)
class V:
    """A value: its function, its spelling and its type."""

    code: Code
    text: str
    type: str

    def _binary(self, other: Number, floating: str, integer: str) -> V:
        b = self.code.value(other, self.type)
        name = floating if self.type in ("float", "double") else integer
        return self.code.emit(f"{name} {self.type} {self.text}, {b.text}", self.type)

    def __add__(self, other: Number) -> V:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Number) -> V:
        return self._binary(other, "fsub", "sub")

    def __mul__(self, other: Number) -> V:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Number) -> V:
        return self._binary(other, "fdiv", "sdiv")

    def __neg__(self) -> V:
        return self.code.emit(f"fneg {self.type} {self.text}", self.type)

    def __and__(self, other: Number) -> V:
        return self._binary(other, "", "and")

    def __or__(self, other: Number) -> V:
        return self._binary(other, "", "or")

    def __xor__(self, other: Number) -> V:
        return self._binary(other, "", "xor")

    def __lshift__(self, other: Number) -> V:
        return self._binary(other, "", "shl")

    def __rshift__(self, other: Number) -> V:
        return self._binary(other, "", "lshr")

    def __lt__(self, other: Number) -> V:
        return self._compare(other, "olt", "slt")

    def __le__(self, other: Number) -> V:
        return self._compare(other, "ole", "sle")

    def __gt__(self, other: Number) -> V:
        return self._compare(other, "ogt", "sgt")

    def __ge__(self, other: Number) -> V:
        return self._compare(other, "oge", "sge")

    def eq(self, other: Number) -> V:
        """Return whether both are equal (false for NaN)."""
        return self._compare(other, "oeq", "eq")

    def is_nan(self) -> V:
        """Return whether a floating-point value is NaN."""
        return self.code.emit(f"fcmp uno {self.type} {self.text}, {self.text}", "i1")

    def _compare(self, other: Number, floating: str, integer: str) -> V:
        b = self.code.value(other, self.type)
        name = f"fcmp {floating}" if self.type in ("float", "double") else f"icmp {integer}"
        return self.code.emit(f"{name} {self.type} {self.text}, {b.text}", "i1")

    def cast(self, name: str, kind: str) -> V:
        """Apply a conversion instruction such as ``fpext``."""
        return self.code.emit(f"{name} {self.type} {self.text} to {kind}", kind)

    def where(self, yes: Number, no: Number) -> V:
        """Return `yes` where this i1 is true, else `no`; one of them must be a value."""
        kind = yes.type if isinstance(yes, V) else no.type if isinstance(no, V) else "float"
        a, b = self.code.value(yes, kind), self.code.value(no, kind)
        return self.code.emit(f"select i1 {self.text}, {kind} {a.text}, {kind} {b.text}", kind)


Number: TypeAlias = V | float | int

_SUFFIX = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64"}


class Code:
    """One function under construction.

    Attributes:
        arguments: The parameters, as values.
        declarations: Intrinsic declarations that the function needs.
    """

    def __init__(self, name: str, parameters: Sequence[str], result: str = "float") -> None:
        self.name = name
        self.result = result
        self.parameters = tuple(parameters)
        self.arguments = [V(self, f"%a{i}", kind) for i, kind in enumerate(parameters)]
        self.declarations: dict[str, None] = {}
        self._lines: list[str] = []
        self._count = 0
        self._label = "entry"

    def emit(self, text: str, kind: str) -> V:
        """Append an instruction and return its value."""
        self._count += 1
        self._lines.append(f"  %v{self._count} = {text}")
        return V(self, f"%v{self._count}", kind)

    def value(self, number: Number, kind: str) -> V:
        """Return `number` as a value of type `kind`."""
        return number if isinstance(number, V) else V(self, literal(number, kind), kind)

    def intrinsic(self, name: str, *operands: V) -> V:
        """Call ``llvm.<name>`` overloaded on the type of the first operand."""
        kind = operands[0].type
        symbol = f"@llvm.{name}.{_SUFFIX[kind]}"
        kinds = ", ".join(v.type for v in operands)
        self.declarations[f"declare {kind} {symbol}({kinds})"] = None
        arguments = ", ".join(f"{v.type} {v.text}" for v in operands)
        return self.emit(f"call {kind} {symbol}({arguments})", kind)

    def fma(self, a: V, b: Number, c: Number) -> V:
        """Return ``a * b + c`` rounded once."""
        return self.intrinsic("fma", a, self.value(b, a.type), self.value(c, a.type))

    def abs(self, x: V) -> V:
        """Return the absolute value."""
        return self.intrinsic("fabs", x)

    def copysign(self, x: V, sign: V) -> V:
        """Return `x` with the sign of `sign`."""
        return self.intrinsic("copysign", x, sign)

    def polynomial(self, x: V, coefficients: Sequence[float]) -> V:
        """Evaluate by Horner's rule; coefficients from the constant term upwards."""
        out = self.value(coefficients[-1], x.type)
        for c in reversed(coefficients[:-1]):
            out = self.fma(out, x, c)
        return out

    def branch(
        self, condition: V, yes: Callable[[], Sequence[V]], no: Callable[[], Sequence[V]]
    ) -> list[V]:
        """Evaluate one of two blocks and return the values that it yields."""
        self._count += 1
        number = self._count
        self._lines.append(f"  br i1 {condition.text}, label %yes{number}, label %no{number}")
        ends = []
        for label, body in ((f"yes{number}", yes), (f"no{number}", no)):
            self._lines.append(f"{label}:")
            self._label = label
            values = body()
            ends.append((self._label, values))
            self._lines.append(f"  br label %join{number}")
        self._lines.append(f"join{number}:")
        self._label = f"join{number}"
        (first, a), (second, b) = ends
        return [
            self.emit(f"phi {x.type} [ {x.text}, %{first} ], [ {y.text}, %{second} ]", x.type)
            for x, y in zip(a, b, strict=True)
        ]

    def finish(self, value: V) -> str:
        """Return the function's text, which returns `value`."""
        parameters = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(self.parameters))
        body = "\n".join(["entry:", *self._lines, f"  ret {value.type} {value.text}"])
        return (
            f"define internal {self.result} @__fly_{self.name}({parameters}) "
            f"alwaysinline nounwind {{\n{body}\n}}\n"
        )
