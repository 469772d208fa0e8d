"""The vector API: everything that an opcode's meaning may be written with.

A `Value` is opaque. It has an element type (`flydsl_emu.semantics.value_types`) and is either *per
lane* or *uniform* (one element a wave: SGPRs, SCC, constants); operations broadcast a uniform
operand. A Python int or float given where a value is expected is a uniform constant of the other
operand's type. Values are immutable.

Backends: `flydsl_emu.numpy_tier` evaluates each call at once on all waves of a batch; a code
generator may emit code instead, because semantics functions never branch on a value. They may
branch on the instruction, which is static.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flydsl_emu.semantics.matrix_plan import MatrixPlan
from flydsl_emu.semantics.value_types import Type

__all__ = ["Value", "VectorApi"]

Value = Any


class VectorApi(Protocol):
    """Operations on values; results are new values.

    Attributes:
        lane_count: Lanes of a wave, 64 or 32; fixed for a kernel.
    """

    lane_count: int

    # Constants and types -------------------------------------------------------------------------
    def const(self, type: Type, value: int | float) -> Value:
        """Return a uniform constant; integers are taken modulo the type's width."""
        ...

    def cast(self, x: Value, type: Type) -> Value:
        """Reinterpret the bits of `x` as a type of the same width."""
        ...

    def convert(self, x: Value, type: Type) -> Value:
        """Convert the value.

        Integers extend by their signedness or truncate, results that are floats round to nearest
        even, ``B1`` gives 0 or 1. Floats do not convert to integers here: see `truncate`.
        """
        ...

    def truncate(self, x: Value, type: Type) -> Value:
        """Convert a float to an integer toward zero; saturating, NaN gives 0."""
        ...

    # Arithmetic ----------------------------------------------------------------------------------
    def add(self, a: Value, b: Value) -> Value:
        """Sum; integers wrap."""
        ...

    def sub(self, a: Value, b: Value) -> Value:
        """Difference; integers wrap."""
        ...

    def mul(self, a: Value, b: Value) -> Value:
        """Product; integers wrap."""
        ...

    def mul_high(self, a: Value, b: Value) -> Value:
        """High half of the double-width product of 32-bit integers, by their signedness."""
        ...

    def div(self, a: Value, b: Value) -> Value:
        """Correctly rounded float quotient."""
        ...

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Float ``a * b + c``, rounded once."""
        ...

    def neg(self, x: Value) -> Value:
        """Integer negation, or a float with its sign bit flipped."""
        ...

    def abs(self, x: Value) -> Value:
        """Absolute value; for floats the sign bit is cleared."""
        ...

    def min(self, a: Value, b: Value) -> Value:
        """Minimum; for floats a number beats NaN and -0 is below +0."""
        ...

    def max(self, a: Value, b: Value) -> Value:
        """Maximum; for floats a number beats NaN and -0 is below +0."""
        ...

    def floor(self, x: Value) -> Value:
        """Largest integral float not above `x`."""
        ...

    def ceil(self, x: Value) -> Value:
        """Smallest integral float not below `x`."""
        ...

    def trunc(self, x: Value) -> Value:
        """Integral part of a float."""
        ...

    def rint(self, x: Value) -> Value:
        """Nearest integral float, ties to even."""
        ...

    def sqrt(self, x: Value) -> Value:
        """Correctly rounded square root."""
        ...

    def exp2(self, x: Value) -> Value:
        """``2**x``, evaluated in double and rounded once."""
        ...

    def log2(self, x: Value) -> Value:
        """Base-2 logarithm, evaluated in double and rounded once."""
        ...

    def sin(self, x: Value) -> Value:
        """Sine of `x` radians, evaluated in double and rounded once."""
        ...

    def cos(self, x: Value) -> Value:
        """Cosine of `x` radians, evaluated in double and rounded once."""
        ...

    def ldexp(self, x: Value, exponent: Value) -> Value:
        """``x * 2**exponent`` for an ``I32`` exponent, rounded once."""
        ...

    # Bits ----------------------------------------------------------------------------------------
    def bit_and(self, a: Value, b: Value) -> Value:
        """Bitwise (for ``B1`` logical) and."""
        ...

    def bit_or(self, a: Value, b: Value) -> Value:
        """Bitwise (for ``B1`` logical) or."""
        ...

    def bit_xor(self, a: Value, b: Value) -> Value:
        """Bitwise (for ``B1`` logical) exclusive or."""
        ...

    def bit_not(self, x: Value) -> Value:
        """Bitwise (for ``B1`` logical) complement."""
        ...

    def shl(self, x: Value, amount: Value) -> Value:
        """Shift left by `amount` modulo the width; `amount` has the type of `x` or is an int."""
        ...

    def shr(self, x: Value, amount: Value) -> Value:
        """Shift right by `amount` modulo the width; arithmetic for signed types."""
        ...

    def popcount(self, x: Value) -> Value:
        """Number of one bits, as ``U32``; `x` is unsigned."""
        ...

    def leading_zeros(self, x: Value) -> Value:
        """Zero bits above the highest one, as ``U32``; the width for zero; `x` is unsigned."""
        ...

    def trailing_zeros(self, x: Value) -> Value:
        """Zero bits below the lowest one, as ``U32``; the width for zero; `x` is unsigned."""
        ...

    def reverse_bits(self, x: Value) -> Value:
        """Bits in opposite order; `x` is ``U32`` or ``U64``."""
        ...

    def lookup(self, table: tuple[int, ...], index: Value) -> Value:
        """``U32`` entries of a constant table at ``U32`` indices, which are in range."""
        ...

    # Comparison and choice -----------------------------------------------------------------------
    def eq(self, a: Value, b: Value) -> Value:
        """Equal; false if either is NaN."""
        ...

    def ne(self, a: Value, b: Value) -> Value:
        """Not equal; true if either is NaN."""
        ...

    def lt(self, a: Value, b: Value) -> Value:
        """Less; false if either is NaN."""
        ...

    def le(self, a: Value, b: Value) -> Value:
        """Less or equal; false if either is NaN."""
        ...

    def is_nan(self, x: Value) -> Value:
        """Whether a float is NaN."""
        ...

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where `condition` holds, else `b` (values of one type)."""
        ...

    # Lanes ---------------------------------------------------------------------------------------
    def exec(self) -> Value:
        """The lanes that execute, per-lane ``B1``."""
        ...

    def lane_id(self) -> Value:
        """Lane numbers, per-lane ``U32``."""
        ...

    def shuffle(self, x: Value, lanes: Sequence[int] | Value) -> Value:
        """Element of `x` from another lane: static numbers, or ``U32`` modulo `lane_count`."""
        ...

    def read_lane(self, x: Value, lane: Value) -> Value:
        """The element of one lane (uniform ``U32``, modulo `lane_count`), as a uniform value."""
        ...

    def write_lane(self, x: Value, element: Value, lane: Value) -> Value:
        """`x` with the element of one lane (uniform, modulo `lane_count`) replaced."""
        ...

    def first_lane(self, mask: Value) -> Value:
        """Lowest lane set in a per-lane mask, uniform ``U32``; 0 if none is."""
        ...

    def any(self, mask: Value) -> Value:
        """Whether any lane of a per-lane mask is set, uniform ``B1``."""
        ...

    def ballot(self, mask: Value) -> Value:
        """A per-lane mask as a uniform ``U64``; bits beyond the wave are 0."""
        ...

    def lanes(self, bits: Value) -> Value:
        """A uniform ``U64`` as a per-lane mask; bits beyond the wave do not matter."""
        ...

    # Memory --------------------------------------------------------------------------------------
    def load(
        self, space: str, address: Value, size: int, count: int, mask: Value | None = None
    ) -> list[Value]:
        """Load `count` elements of `size` bytes (1, 2 or 4), zero-extended to ``U32``.

        Element k comes from ``address + k * size``. Lanes that do not execute, or that `mask`
        leaves out, give 0.

        Args:
            space: ``"global"`` (``U64`` addresses), ``"lds"``, ``"scratch"`` (``U32`` byte
                offsets) or ``"flat"`` (``U64``; the apertures choose).
            address: Per lane.
            size: Bytes per element.
            count: Elements.
            mask: Further per-lane condition.
        """
        ...

    def store(
        self,
        space: str,
        address: Value,
        size: int,
        values: Sequence[Value],
        mask: Value | None = None,
    ) -> None:
        """Store the low `size` bytes of each ``U32`` value; the counterpart of `load`."""
        ...

    def atomic(
        self,
        space: str,
        operation: str,
        address: Value,
        operands: Sequence[Value],
        mask: Value | None,
    ) -> Value:
        """Apply an atomic read-modify-write lane by lane, in lane order; return the old values.

        The element type (``U32``, ``U64``, ``F32``, ``F64``, …) is that of ``operands[0]``.

        Args:
            space: As for `load`.
            operation: Name in `flydsl_emu.semantics.atomics.OPERATIONS`.
            address: Per lane.
            operands: The data; for ``"cmpswap"`` the new value, then the compared one.
            mask: Further per-lane condition, or None.
        """
        ...

    def load_scalar(
        self, address: Value, count: int, valid: Sequence[Value] | None = None, size: int = 4
    ) -> list[Value]:
        """Load `count` dwords at a uniform ``U64`` address, as uniform ``U32`` values.

        Dword k is 0 where ``valid[k]`` (uniform ``B1``) says so. A `size` of 1 or 2 bytes loads one
        element of that size, zero-extended (`count` is 1).
        """
        ...

    def require(self, condition: Value, message: str) -> None:
        """Stop with a `TargetError` if a uniform ``B1`` is false in a wave that executes."""
        ...

    def rarely(self, condition: Value, rare: Callable[[], Value], usual: Value, what: str) -> Value:
        """Return ``rare()`` where a uniform ``B1`` holds, else `usual`.

        For what hardly any kernel does: a tier calls `rare` only if some wave needs it, or stops
        with a `TargetError` that names `what`, as `require` does.
        """
        ...

    # Matrices ------------------------------------------------------------------------------------
    def matrix_multiply(
        self, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], plan: MatrixPlan
    ) -> list[Value]:
        """Return the registers of ``a @ b + c`` for operands laid out as `plan` says.

        Sums are chains of fused multiply-adds where `MatrixPlan.chained` says so, which may be used
        by instructions only that write all lanes (``unmasked.regs``). Else they are taken in double
        (integers exactly, modulo 2**32) and rounded once to the type of the accumulator. EXEC does
        not matter.

        Args:
            a: Registers (``U32``), or ``F64`` elements where `plan` says ``"values"``, ``F32``
                where it says ``"singles"``.
            b: Likewise.
            c: Accumulator registers, ``U32``; ``F64`` elements for accumulator ``"values"``, whose
                results are ``F64`` elements too.
            plan: Layout.
        """
        ...
