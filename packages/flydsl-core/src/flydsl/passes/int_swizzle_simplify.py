"""``fly-int-swizzle-simplify``: swizzle(a + d) = swizzle(a) + d for d a multiple of the period.

A swizzle of an index is ``x ^ ((x & mask) >> shift)`` (or ``<<``). Whatever is added in multiples
of its period does not change the bits that take part, so it moves out: unrolled accesses then share
one swizzle and differ by static offsets, which fold into the instructions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl.passes.rewriting import functions

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["known_divisor", "run"]

_SHIFTS = frozenset({"arith.shrui", "arith.shrsi", "arith.shli"})
_SAME = frozenset({"arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui"})


def _constant(value: Any) -> int | None:
    from flydsl.mlir import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    return int(attr.value) if isinstance(attr, ir.IntegerAttr) else None


def known_divisor(value: Any, depth: int = 8) -> int:
    """Return a positive int that divides an integer value; 0 for the constant 0."""
    from flydsl.mlir import ir

    constant = _constant(value)
    if constant is not None:
        return abs(constant)
    owner = value.owner
    if isinstance(owner, ir.Block) or depth == 0:
        return 1
    name, operands = owner.name, owner.operands
    if name == "arith.muli":
        return known_divisor(operands[0], depth - 1) * known_divisor(operands[1], depth - 1)
    if name in ("arith.addi", "arith.subi"):
        left, right = (known_divisor(x, depth - 1) for x in operands)
        return math.gcd(left, right)
    if name == "arith.shli":
        count = _constant(operands[1])
        return known_divisor(operands[0], depth - 1) << count if count is not None else 1
    if name == "arith.andi":
        low = [known_divisor(x, depth - 1) for x in operands]
        return max((x & -x for x in low if x), default=0)
    if name in _SAME:
        return known_divisor(operands[0], depth - 1)
    return 1


@dataclass(frozen=True, slots=True)
class _Swizzle:
    """``x ^ shift(x & mask)`` at `op`."""

    x: Any
    mask: int
    shift_name: str
    shift: int

    @property
    def period(self) -> int:
        moved = (
            self.mask << self.shift if self.shift_name == "arith.shli" else self.mask >> self.shift
        )
        return 1 << max(self.mask.bit_length(), moved.bit_length())


def _match(op: Any) -> _Swizzle | None:
    """Return the swizzle that an ``arith.xori`` computes, or None."""
    from flydsl.mlir import ir

    for x, picked in ((0, 1), (1, 0)):
        base, moved = op.operands[x], op.operands[picked]
        shift = moved.owner
        if isinstance(shift, ir.Block) or shift.name not in _SHIFTS:
            continue
        count = _constant(shift.operands[1])
        mask_op = shift.operands[0].owner
        if count is None or isinstance(mask_op, ir.Block) or mask_op.name != "arith.andi":
            continue
        mask = _constant(mask_op.operands[1])
        if mask is None or mask <= 0 or mask_op.operands[0] != base:
            continue
        return _Swizzle(base, mask, shift.name, count)
    return None


class _Simplifier:
    """Rewrites one swizzle at a time, before its operation."""

    def __init__(self, op: Any, swizzle: _Swizzle) -> None:
        from flydsl.mlir import ir

        self.op = op
        self.swizzle = swizzle
        self.at = ir.InsertionPoint(op)
        self.type = op.result.type

    def make(self, name: str, operands: list[Any]) -> Any:
        """Create an integer operation."""
        from flydsl.mlir import ir

        return ir.Operation.create(
            name, results=[self.type], operands=operands, ip=self.at, loc=self.op.location
        ).result

    def constant(self, value: int) -> Any:
        """Create a constant."""
        from flydsl.mlir import ir

        attributes = {"value": ir.IntegerAttr.get(self.type, value)}
        return ir.Operation.create(
            "arith.constant",
            results=[self.type],
            attributes=attributes,
            ip=self.at,
            loc=self.op.location,
        ).result

    def split(self, x: Any) -> tuple[list[Any], int, list[Any], int]:
        """Split a sum into what stays inside and what moves out.

        Returns:
            Terms inside, static term inside, terms outside, static term outside.
        """
        from flydsl.mlir import ir

        period = self.swizzle.period
        inside: list[Any] = []
        outside: list[Any] = []
        low = high = 0
        pending = [x]
        while pending:
            term = pending.pop()
            number = _constant(term)
            owner = term.owner
            if number is not None:
                rest = number % period
                low, high = low + rest, high + number - rest
            elif not isinstance(owner, ir.Block) and owner.name == "arith.addi":
                pending += [owner.operands[1], owner.operands[0]]
            elif known_divisor(term) % period == 0:
                outside.append(term)
            else:
                inside.append(term)
        return inside, low % period, outside, high + low - low % period

    def total(self, terms: list[Any], static: int) -> Any:
        """Return the sum of terms and a static number."""
        value = None
        for term in terms:
            value = term if value is None else self.make("arith.addi", [value, term])
        if value is None:
            return self.constant(static)
        return self.make("arith.addi", [value, self.constant(static)]) if static else value

    def run(self) -> bool:
        """Rewrite if something moves out."""
        inside, low, outside, high = self.split(self.swizzle.x)
        if not outside and not high:
            return False
        x = self.total(inside, low)
        picked = self.make("arith.andi", [x, self.constant(self.swizzle.mask)])
        moved = self.make(self.swizzle.shift_name, [picked, self.constant(self.swizzle.shift)])
        value = self.make("arith.xori", [x, moved])
        if outside:
            value = self.make("arith.addi", [value, self.total(outside, 0)])
        if high:
            value = self.make("arith.addi", [value, self.constant(high)])
        self.op.result.replace_all_uses_with(value)
        return True


def run(module: ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Simplify the index swizzles of every function of `module`."""
    from flydsl.mlir import ir

    with module.context:
        for function in list(functions(module)):
            xors: list[Any] = []

            def note(op: Any, found: list[Any] = xors) -> Any:
                if op.name == "arith.xori":
                    found.append(op)
                return ir.WalkResult.ADVANCE

            function.walk(note)
            for op in xors:
                swizzle = _match(op)
                if swizzle is not None and _Simplifier(op, swizzle).run():
                    op.erase()
