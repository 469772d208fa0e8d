"""LLVM text of matrix products of a batch of waves, for the numpy tier.

``product.…(table, waves)``: the table has the addresses of arrays ``[wave][lane]`` of 32-bit
elements: the registers of A, B and the accumulator, then those of the result.
"""

from __future__ import annotations

from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.jit_tier.builder import FunctionBuilder, ModuleParts
from flydsl_emu.jit_tier.chains import Chains, Factors
from flydsl_emu.jit_tier.host_code import strip_height
from flydsl_emu.semantics.matrix_plan import MatrixPlan, Side

__all__ = ["product_name", "product_text"]


def product_name(plan: MatrixPlan) -> str:
    """Return the name of the routine for a plan whose sums are chains."""
    sides = (f"{s.format}.{s.splits}.{int(s.replicated)}" for s in (plan.a, plan.b))
    numbers = plan.m, plan.n, plan.k, plan.blocks, plan.lanes, plan.rows_together
    return ".".join(("product", *map(str, numbers), *sides))


def _plan(name: str) -> MatrixPlan:
    """Return the plan of a routine."""
    _, *parts = name.split(".")
    m, n, k, blocks, lanes, together = (int(x) for x in parts[:6])
    sides = [Side(parts[at], int(parts[at + 1]), parts[at + 2] == "1") for at in (6, 9)]
    return MatrixPlan(m, n, k, blocks, sides[0], sides[1], "f32", lanes, together)


def _registers(plan: MatrixPlan, side: Side, rows: int) -> int:
    """Return the registers of an operand."""
    groups = 1 if side.replicated else plan.lanes // (rows * plan.blocks)
    return plan.k // groups // (2 if side.packed else 1)


def product_text(name: str, parts: ModuleParts) -> str:
    """Return the routine of a name that `product_name` made."""
    plan = _plan(name)
    code = FunctionBuilder(parts)
    v = Arithmetic(code, plan.lanes)
    counts = (
        _registers(plan, plan.a, plan.m),
        _registers(plan, plan.b, plan.n),
        plan.results,
        plan.results,
    )
    code.block("wave")
    code.line("%w = phi i64 [ 0, %entry ], [ %w.next, %next ]")
    offset = code.effect(f"mul i64 %w, {4 * plan.lanes}")
    operands: list[tuple[str, ...]] = []
    first = 0
    for count in counts:
        addresses = []
        for n in range(first, first + count):
            entry = code.effect(f"getelementptr ptr, ptr %table, i64 {n}")
            array = code.effect(f"load ptr, ptr {entry}, align 8")
            addresses.append(code.effect(f"getelementptr i8, ptr {array}, i64 {offset}"))
        operands.append(tuple(addresses))
        first += count
    a, b, c, d = operands
    factors = Factors(a, plan.a.packed), Factors(b, plan.b.packed)
    Chains(v, plan, factors, c, d, strip_height()).emit()
    body = "\n".join(code.lines)
    stack = "\n".join(code.entry)
    return f"""
define void @"{name}"(ptr %table, i64 %waves) #0 {{
entry:
{stack}
  br label %wave
{body}
  br label %next
next:
  %w.next = add i64 %w, 1
  %more = icmp ult i64 %w.next, %waves
  br i1 %more, label %wave, label %done
done:
  ret void
}}
"""
