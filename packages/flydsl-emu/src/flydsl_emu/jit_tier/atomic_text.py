"""LLVM text of atomic routines: lanes in order, each a compare-and-exchange loop.

The update is emitted once from `flydsl_emu.semantics.atomics` on uniform values.
"""

from __future__ import annotations

from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.jit_tier.builder import FunctionBuilder, ModuleParts
from flydsl_emu.jit_tier.faulting import ALIGNMENT
from flydsl_emu.jit_tier.lane_text import place_element, pointer_text
from flydsl_emu.jit_tier.memory_text import SPACES, checks_text, flat_masks, place_text
from flydsl_emu.jit_tier.support_text import CHECKS
from flydsl_emu.jit_tier.values import IrValue, element_text
from flydsl_emu.semantics.atomics import OPERATIONS
from flydsl_emu.semantics.value_types import TYPES, Type

__all__ = ["atomic_text"]


def atomic_text(name: str, parts: ModuleParts) -> str:
    """Return the routine ``atomic.SPACE.OPERATION.TYPE.OPERANDS.LANES``."""
    _, space, operation, element, operands, lanes = name.split(".")
    kind, count, width = TYPES[element], int(operands), int(lanes)
    spaces = SPACES if space == "flat" else (space,)
    text = CHECKS["record"]() + CHECKS["write"]()
    text += "".join(checks_text(s, True, width, parts) for s in spaces)
    text += _update(operation, kind, count, parts)
    shape = f"<{width} x {element_text(kind)}>"
    data = "".join(f", {shape} %x{k}" for k in range(count))
    if space != "flat":
        return text + _one_space(f'define {shape} @"{name}"', space, kind, count, width)
    for part in SPACES:
        text += _one_space(f"define internal {shape} @{part}", part, kind, count, width)
    calls = []
    result = ""
    integers = f"<{width} x i{kind.bits}>"
    for part in SPACES:
        address = f"<{width} x i64> %a" if part == "global" else f"<{width} x i32> %low"
        calls.append(
            f"  %r.{part} = call {shape} @{part}(ptr %context, {address}, i64 %m.{part}, "
            f"i32 %pc{data})"
        )
        calls.append(f"  %i.{part} = bitcast {shape} %r.{part} to {integers}")
        if result:
            calls.append(f"  %or.{part} = or {integers} {result}, %i.{part}")
            result = f"%or.{part}"
        else:
            result = f"%i.{part}"
    body = "\n".join(calls)
    return f"""{text}
define {shape} @"{name}"(ptr %context, <{width} x i64> %a, i64 %mask, i32 %pc{data}) #0 {{
{flat_masks(width)}
{body}
  %result = bitcast {integers} {result} to {shape}
  ret {shape} %result
}}
"""


def _update(operation: str, type: Type, count: int, parts: ModuleParts) -> str:
    """Return the function that computes the new value from the old one, as integers."""
    code = FunctionBuilder(parts)
    v = Arithmetic(code, 64)
    word = TYPES[f"u{type.bits}"]
    values = [
        v.cast(IrValue(name, word, True), type)
        for name in ("%old", *(f"%d{k}" for k in range(count)))
    ]
    result = v.cast(OPERATIONS[operation](v, *values), word)
    integer = f"i{type.bits}"
    arguments = ", ".join(f"{integer} {n}" for n in ("%old", *(f"%d{k}" for k in range(count))))
    body = "\n".join(code.lines)
    return f"""
define internal {integer} @update({arguments}) #0 {{
{body}
  ret {integer} {result.text}
}}
"""


def _one_space(header: str, space: str, type: Type, count: int, lanes: int) -> str:
    integer, size = f"i{type.bits}", type.bits // 8
    shape = f"<{lanes} x {element_text(type)}>"
    data = "".join(f", {shape} %x{k}" for k in range(count))
    address = f"<{lanes} x {'i64' if space == 'global' else 'i32'}>"
    stored = "\n".join(
        f"  %c{k} = alloca {shape}, align 64\n  store {shape} %x{k}, ptr %c{k}, align 64"
        for k in range(count)
    )
    loaded = "\n".join(
        f"  %d{k}.p = getelementptr {integer}, ptr %c{k}, i64 %l\n"
        f"  %d{k} = load {integer}, ptr %d{k}.p"
        for k in range(count)
    )
    operands = "".join(f", {integer} %d{k}" for k in range(count))
    place = place_element(space)
    widened = f"  %l.at = {'zext' if place == 'i32' else 'bitcast'} {place} %l.short to i64"
    return f"""
{header}(ptr %context, {address} %a, i64 %mask, i32 %pc{data}) #0 {{
entry:
  %places = alloca <{lanes} x {place}>, align 64
  %out = alloca {shape}, align 64
{stored}
  %ok = call i64 @check.{space}(ptr %context, {address} %a, i64 %mask, i64 {size}, i32 %pc)
{place_text(space, lanes)}
  store <{lanes} x {place}> %at, ptr %places, align 64
  store {shape} zeroinitializer, ptr %out, align 64
  br label %some
some:
  %left = phi i64 [ %ok, %entry ], [ %rest, %stored ], [ %rest, %crooked ]
  %end = icmp eq i64 %left, 0
  br i1 %end, label %done, label %one
one:
  %l = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = sub i64 %left, 1
  %rest = and i64 %left, %less
  %l.p = getelementptr {place}, ptr %places, i64 %l
  %l.short = load {place}, ptr %l.p
{widened}
  %l.low = and i64 %l.at, {size - 1}
  %straight = icmp eq i64 %l.low, 0
  br i1 %straight, label %begin, label %crooked
crooked:
  call void @record(ptr %context, i64 {ALIGNMENT}, i32 %pc, i64 %l.at, i64 %l, i64 {size}, i64 1)
  br label %some
begin:
{pointer_text(space, "%l.short", "%l.to")}
{loaded}
  %old.first = load atomic {integer}, ptr %l.to monotonic, align {size}
  br label %try
try:
  %old = phi {integer} [ %old.first, %begin ], [ %seen, %try ]
  %new = call {integer} @update({integer} %old{operands})
  %pair = cmpxchg ptr %l.to, {integer} %old, {integer} %new monotonic monotonic
  %seen = extractvalue {{ {integer}, i1 }} %pair, 0
  %won = extractvalue {{ {integer}, i1 }} %pair, 1
  br i1 %won, label %stored, label %try
stored:
  %o.p = getelementptr {integer}, ptr %out, i64 %l
  store {integer} %old, ptr %o.p
  br label %some
done:
  %result = load {shape}, ptr %out, align 64
  ret {shape} %result
}}
"""
