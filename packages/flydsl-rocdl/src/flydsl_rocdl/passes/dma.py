"""Copies that are one intrinsic: buffer atomics, loads into LDS, transposing LDS reads.

Loads into LDS write, for each active lane, the wave's LDS address plus the lane's number times the
size. `flydsl_rocdl.passes.lane_addresses` has found out which address of the copy that is.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.arch.memory import (
    buffer_atomics,
    cache_bits,
    global_to_lds_bits,
    lds_dma_bits,
    lds_transposes,
    memory_transposes,
)
from flydsl_rocdl.passes.async_groups import LDS_SCOPE
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.descriptors import parts
from flydsl_rocdl.passes.intrinsics import called
from flydsl_rocdl.passes.lane_addresses import FORM, SAME
from flydsl_rocdl.passes.lowering import Lowering, constant_of, refuse
from flydsl_rocdl.passes.memtypes import PointerType, bit_width, element_of, storage

__all__ = ["buffer_atomic", "buffer_move", "load_into_lds", "transposing_read"]

_MAX_IMMEDIATE = 4095
_WORDS = {8: "i8", 16: "i16", 32: "i32", 64: "vector<2xi32>", 96: "vector<3xi32>",
          128: "vector<4xi32>"}  # fmt: skip


def _scaled(low: Lowering, offset: Value | None, kind: PointerType) -> Value:
    """Return an offset in elements as bytes."""
    b = low.b
    if offset is None:
        return b.constant(0)
    return b.binary("llvm.mul", offset, b.constant(max(1, kind.bits // 8)))


def check_modifier(low: Lowering, op: Any, modifier: int) -> None:
    """Raise TargetError for cache bits that the architecture does not have."""
    allowed = cache_bits(low.facts)
    if modifier & ~allowed:
        raise refuse(op, f"cache modifier {modifier} has bits that {low.facts.name} lacks",
                     code="FLY-T633", allowed=f"bits of {allowed:#x}")  # fmt: skip


def buffer_move(
    low: Lowering,
    op: Any,
    pointer: Value,
    kind: PointerType,
    *,
    modifier: int,
    value: Value | None,
    scalar: Value | None,
) -> list[Value]:
    """Load from, or with `value` store to, a buffer with a cache modifier."""
    b = low.b
    check_modifier(low, op, modifier)
    moved = value if value is not None else op.results[0]
    bits = bit_width(str(moved.type))
    words = b.type(_WORDS[bits])
    stored = b.type(storage(str(moved.type)))
    descriptor, offset = parts(low, op, pointer, kind, bits // 8)
    tail = (descriptor, offset, _scaled(low, scalar, kind), b.constant(modifier))
    if value is None:
        loaded = b.intrinsic("amdgcn.raw.ptr.buffer.load", words, tail).result
        return [b.cast(b.bitcast(loaded, stored), moved.type)]
    data = b.bitcast(b.cast(value, stored), words)
    b.intrinsic("amdgcn.raw.ptr.buffer.store", None, (data, *tail))
    return []


def buffer_atomic(
    low: Lowering,
    op: Any,
    parameters: list[str],
    value: Value,
    pointer: Value,
    kind: PointerType,
    scalar: Value | None,
) -> None:
    """Combine `value` with a buffer's memory.

    Raises:
        TargetError: The architecture has no such instruction.
    """
    b = low.b
    operation, element, pair = parameters
    wanted = f"vector<2x{element}>" if pair == "True" else element
    table = buffer_atomics(low.facts)
    if operation not in table.get(wanted, ()):
        found = "; ".join(f"{', '.join(ops)} of {name}" for name, ops in table.items())
        raise refuse(
            op,
            f"{low.facts.name} has no buffer atomic {operation} of {wanted}",
            code="FLY-T635",
            allowed=found,
            hint="fx.UniversalAtomic takes several instructions where there is none",
        )
    size = bit_width(wanted) // 8
    descriptor, offset = parts(low, op, pointer, kind, size)
    count, single = element_of(str(value.type))
    if count == 1:
        value = b.value("llvm.extractelement", b.type(single), (value, b.constant(0)))
    name = operation
    if element.startswith(("f", "bf")):
        name = f"f{operation}"
    elif operation in ("min", "max"):
        name = ("u" if element.startswith("ui") else "s") + operation
    operands = (value, descriptor, offset, _scaled(low, scalar, kind), b.constant(0))
    b.intrinsic(f"amdgcn.raw.ptr.buffer.atomic.{name}", value.type, operands)


def load_into_lds(
    low: Lowering,
    op: Any,
    source: tuple[Value, PointerType],
    target: Value,
    bits: int,
    modifier: int,
    state: dict[str, Value],
) -> None:
    """Load `bits` bits per lane from a buffer or global memory into LDS.

    Raises:
        TargetError: The architecture cannot, or the destination is not what it does.
    """
    b = low.b
    allowed = (global_to_lds_bits if source[1].space == "global" else lds_dma_bits)(low.facts)
    if bits not in allowed:
        raise refuse(
            op, f"{low.facts.name} does not load {bits} bits per lane into LDS", code="FLY-T636",
            allowed=", ".join(str(n) for n in allowed) or "nothing: it has no such loads",
            hint="copy to registers and from there to shared memory",
        )  # fmt: skip
    check_modifier(low, op, modifier)
    pointer, kind = source
    immediate = _immediate(op, state.get("imm_offset"), kind)
    if kind.space == "global" and low.facts.lds_async_bytes:
        _asynchronous(low, op, (pointer, target), bits, immediate, modifier)
        return
    place = _wave_address(low, op, target, bits // 8)
    marks = {"alias_scopes": LDS_SCOPE} if low.explicit_waits else {}
    fixed = {"size": bits // 8, "offset": immediate, "aux": modifier}
    if kind.space == "global":
        names = {k: f"{v} : i32" for k, v in fixed.items()}
        b.op("rocdl.global.load.lds", (), (pointer, place), {**names, **marks})
        return
    descriptor, offset = parts(low, op, pointer, kind, bits // 8)
    scalar = _scaled(low, state.get("soffset"), kind)
    size, extra, aux = (b.constant(v) for v in fixed.values())
    operands = (descriptor, place, size, offset, scalar, extra, aux)
    b.op("rocdl.raw.ptr.buffer.load.lds", (), operands, marks)


def _asynchronous(
    low: Lowering, op: Any, ends: tuple[Value, Value], bits: int, immediate: int, modifier: int
) -> None:
    """Load from each lane's address in memory to its own in LDS."""
    b = low.b
    pointer, target = ends
    if str(op.attributes[FORM].value) == SAME:
        step = b.binary("llvm.mul", low.lane(), b.constant(bits // 8))
        target = b.gep(target, step, b.type("i8"))
    operands = (pointer, target, b.constant(immediate), b.constant(modifier))
    b.intrinsic(f"amdgcn.global.load.async.to.lds.b{bits}", None, operands)
    if not low.explicit_waits:
        b.op("rocdl.s.wait.asynccnt", (), (), {"count": "0 : i16"})
        b.op("llvm.fence", (), (), {"ordering": "4 : i64", "syncscope": '"wavefront"'})


def _immediate(op: Any, value: Value | None, kind: PointerType) -> int:
    """Return an immediate offset in bytes."""
    if value is None:
        return 0
    number = constant_of(value)
    size = max(1, kind.bits // 8)
    if number is None or not 0 <= number * size <= _MAX_IMMEDIATE:
        raise refuse(op, "imm_offset is a constant in the instruction", code="FLY-T633",
                     allowed=f"0 to {_MAX_IMMEDIATE // size} elements")  # fmt: skip
    return number * size


def _wave_address(low: Lowering, op: Any, target: Value, size: int) -> Value:
    """Return the LDS address of the wave's lane 0, the same in all lanes."""
    b = low.b
    if str(op.attributes[FORM].value) == SAME:
        return target
    word = b.type("i32")
    own = b.value("llvm.ptrtoint", word, (target,))
    first = b.binary("llvm.sub", own, b.binary("llvm.mul", low.lane(), b.constant(size)))
    uniform = b.value("rocdl.readfirstlane", word, (first,))
    return b.value("llvm.inttoptr", target.type, (uniform,))


def transposing_read(
    low: Lowering, op: Any, pointer: Value, kind: PointerType, widths: tuple[int, int, int]
) -> list[Value]:
    """Read from LDS or global memory, transposing the values of some lanes.

    Raises:
        TargetError: The architecture has no such instruction.
    """
    b = low.b
    shared = kind.space == "shared"
    known = (lds_transposes if shared else memory_transposes)(low.facts)
    if widths not in known:
        what = "LDS read" if shared else "load from memory"
        raise refuse(
            op, f"{low.facts.name} has no transposing {what} of {widths[0]}-bit values"
            f" in groups of {widths[2]} lanes",
            code="FLY-T637",
            allowed=", ".join(f"{g} bits, {n} per lane, groups of {w}" for g, n, w in known)
            or "none",
        )  # fmt: skip
    granularity, bits, group = widths
    size = 16 if granularity == 16 else 32
    count = bits // size
    words = b.type(f"vector<{count}xi{size}>")
    if group == 16:
        name = f"llvm.amdgcn.ds.read.tr{granularity}.b{bits}.v{count}i{size}"
        # As plain loads, it waits for no loads into LDS that the kernel itself waits for.
        flags = {"noalias_scopes": LDS_SCOPE} if low.explicit_waits else {}
        loaded = called(low, name, [words], [pointer], flags).result
    else:
        name = f"ds.load.tr{granularity}.b{bits}" if shared else f"global.load.tr.b{bits}"
        loaded = b.intrinsic(f"amdgcn.{name}", words, (pointer,)).result
    result = op.results[0].type
    return [b.cast(b.bitcast(loaded, b.type(storage(str(result)))), result)]
