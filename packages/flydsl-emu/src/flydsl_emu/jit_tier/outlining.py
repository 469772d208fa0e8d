"""Large instructions become routines that a kernel calls, one for each form of the instruction."""

from __future__ import annotations

import hashlib
from typing import Any

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.jit_tier.builder import FunctionBuilder, ModuleParts
from flydsl_emu.jit_tier.matrices import STORED
from flydsl_emu.jit_tier.memory import JitMachine
from flydsl_emu.jit_tier.operands import is_constant
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.layout import Layout
from flydsl_emu.semantics.modes import DEFAULT_MODE
from flydsl_emu.semantics.registry import IMPLICIT, Semantics
from flydsl_emu.semantics.value_types import TYPES, U32, U64

__all__ = ["outlined", "routine_messages", "routine_name", "routine_text"]

_LARGE = (
    "v_mfma_",
    "v_smfmac_",
    "v_wmma_",
    "v_swmmac_",
    "ds_permute_b32",
    "ds_read_b64_tr_b4",
    "ds_read_b64_tr_b8",
)


def outlined(s: Semantics) -> bool:
    """Return whether an instruction is translated as a routine."""
    return s.name.startswith(_LARGE)


def routine_name(i: Instruction, s: Semantics, arch: str, lanes: int) -> str:
    """Return the name of the routine of an instruction."""
    layout = Layout(i, s)
    shapes = [
        (o.count, o.negate, o.absolute, is_constant(o)) if o is not None else None
        for o in (layout.source(k) for k in range(len(s.sources)))
    ]
    key = repr((sorted(i.mods.items()), shapes, i.encoding))
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return f"op.{i.name}.{arch}.{lanes}.{digest}"


def routine_messages(i: Instruction, arch: str, lanes: int) -> list[str]:
    """Return the messages of what the routine of an instruction requires."""
    messages: list[str] = []
    routine_text("", i, arch, lanes, ModuleParts(), messages)
    return messages


def routine_text(
    name: str,
    i: Instruction,
    arch: str,
    lanes: int,
    parts: ModuleParts,
    messages: list[str] | None = None,
) -> str:
    """Return the definition of the routine called `name`, as LLVM text.

    Its arguments are the context, EXEC, the addresses of the explicit sources, that of the result.
    What it requires is added to `messages`.
    """
    s = find(i.name)
    assert s is not None
    code = FunctionBuilder(parts)
    v = JitMachine(code, lanes)
    v.messages = [] if messages is None else messages
    v.direct = True
    # An accumulator that is not the result itself may share no register with it (see `_outlined`).
    v.homes = {}
    place = v.context_field("site")
    v.site = code.effect(f"load i32, ptr {place}, align 8")
    layout = Layout(i, s)
    active = IrValue("%exec", U64, True)
    v.execution = lambda: v.lanes(active)
    arguments: list[str] = []
    sources = [_source(v, i, s, layout, k, arch, arguments) for k in range(len(s.sources))]
    results = s.function(v, *sources)
    words = results if isinstance(results, list) else [v.cast(results, U32)]
    for k, x in enumerate(words):
        if x.text == STORED:
            continue
        place = code.emit(f"getelementptr i8, ptr %result, i64 {4 * lanes * k}")
        shape = v.shape(U32, False)
        code.line(f"store {shape} {v.text(x, False)}, ptr {place}, align 64")
    header = ", ".join(("ptr %context", "i64 %exec", *arguments, "ptr %result"))
    body = "\n".join((*code.entry, *code.lines))
    return f'define void @"{name}"({header}) #0 {{\nentry:\n{body}\n  ret void\n}}\n'


def _source(
    v: JitMachine,
    i: Instruction,
    s: Semantics,
    layout: Layout,
    k: int,
    arch: str,
    arguments: list[str],
) -> Any:
    token = s.sources[k]
    if token in ("inst", "arch", "mode"):
        return {"inst": i, "arch": arch, "mode": DEFAULT_MODE}[token]
    if token == "exec":
        return v.execution()
    if token == "oldregs":
        first = layout.result(0)
        words = _loaded(v, "%result", first.count if first is not None else 0)
        if s.results[0] == "unmasked.regs":
            v.homes.update({x.text: ("%result", at) for at, x in enumerate(words)})
        return words
    if token in IMPLICIT:
        raise ValueError(f"`{s.name}` cannot be a routine: it reads {token}")
    operand = layout.source(k)
    if operand is None:
        return None
    name = f"%p{len(arguments)}"
    arguments.append(f"ptr {name}")
    words = _loaded(v, name, operand.count)
    if token == "regs" and s.results[0] == "unmasked.regs":
        v.homes.update({x.text: (name, at) for at, x in enumerate(words)})
    return words if token == "regs" else v.cast(words[0], TYPES[token])


def _loaded(v: JitMachine, pointer: str, count: int) -> list[IrValue]:
    shape = v.shape(U32, False)
    out = []
    for k in range(count):
        place = v.code.emit(f"getelementptr i8, ptr {pointer}, i64 {4 * v.lane_count * k}")
        out.append(IrValue(v.code.effect(f"load {shape}, ptr {place}, align 64"), U32, False))
    return out
