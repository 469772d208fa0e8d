"""Wide buffer pointers: range-checked access to memory of any size.

A buffer descriptor reaches 4 GiB from its base. A pointer in the space ``wide_buffer`` is four
values instead: the base, the bytes that may be accessed, and how far it was moved, as a
wave-uniform and a remaining part. `prepare` splits every move into these parts. An access then
moves the base of a descriptor by the uniform part, in scalar registers, and leaves the rest to the
32-bit offset; if the rest is not known to stay within 1 GiB, the access compares the 64-bit offset
itself and uses global memory instructions.

The descriptor of an access with uniform part u, rest d (at most R = 2**30 either way) and extent e:
base moved by c = max(u - R, 0), offset max(u - c, -R) + d, which lies in [-2**31, 2**31), and
min(max(e - c, 0), 2**31) bytes. Read as unsigned, a negative offset is outside; so an access is
inside exactly if 0 <= u + d < e.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl import mlir
from flydsl.passes.ranges import Ranges
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering
from flydsl_rocdl.passes.memtypes import PointerType
from flydsl_rocdl.passes.offsets import Term, split_sum, terms_range

__all__ = [
    "STRUCT",
    "WIDE",
    "Access",
    "advance",
    "descriptor",
    "guard_elements",
    "make",
    "prepare",
    "resolve",
    "scalar_offset",
    "within_reach",
]

WIDE = "wide_buffer"
"""Name of the address space."""
STRUCT = "!llvm.struct<(ptr<1>, i64, i64, i64)>"
"""LLVM type of a pointer: base, extent, uniform and other offset in bytes."""

_REACH = "fly_reach"
_UNIFORM = "fly_uniform"
_NEAR = 1 << 30
_EXTENT, _UNIFORM_AT, _OTHER_AT = 1, 2, 3
_ULT = 6
_WALK_LIMIT = 64


# Before lowering: split moves, note how far accesses reach ----------------------------------------


def prepare(low: Lowering, function: Any) -> None:
    """Split the moves of wide pointers and note the reach of every use of one."""
    moves: list[Any] = []
    uses: list[Any] = []

    def note(op: Any) -> Any:
        if op.name.startswith("fly.") and any(_is_wide(low, v) for v in op.operands):
            (moves if op.name == "fly.add_offset" else uses).append(op)
        return mlir.ir.WalkResult.ADVANCE

    function.walk(note)
    ranges = Ranges(function, low.target)
    for op in moves:
        _split(low, op)
    for op in uses:
        reach = [_reach(low, ranges, v) for v in op.operands if _is_wide(low, v)]
        known = [r for r in reach if r is not None]
        if len(known) == len(reach):
            first, last = min(r[0] for r in known), max(r[1] for r in known)
            if max(-first, last) < 1 << 62:
                op.attributes[_REACH] = low.b.attribute(f"array<i64: {first}, {last}>")


def _is_wide(low: Lowering, value: Value) -> bool:
    kind = low.pointer_kind(value.type)
    return kind is not None and kind.space == WIDE


def _sum(low: Lowering, terms: list[Term]) -> Value:
    """Emit a sum of terms as i64."""
    b = low.b
    wide = b.type("i64")

    def constant(number: int) -> Value:
        return b.value("arith.constant", wide, (), {"value": f"{number} : i64"})

    total = None
    for value, scale in terms:
        text, term = str(value.type), value
        if text == "index":
            term = b.value("arith.index_cast", wide, (value,))
        elif text != "i64":
            term = b.value("arith.extsi", wide, (value,))
        if scale != 1:
            term = b.value("arith.muli", wide, (term, constant(scale)))
        total = term if total is None else b.value("arith.addi", wide, (total, term))
    return constant(0) if total is None else total


def _split(low: Lowering, op: Any) -> None:
    """Make one move two: by the uniform part, marked as such, and by the rest."""
    b = low.b
    pointer, offset = op.operands
    uniform, other = split_sum(offset)
    kind = low.pointer_kind(pointer.type)
    if kind is not None and kind.bits < 8 and uniform and other:
        uniform, other = [], [(offset, 1)]
    b.at(op)
    for terms, mark in ((uniform, True), (other, False)):
        if terms:
            marks = {_UNIFORM: "unit"} if mark else None
            pointer = b.value("fly.add_offset", op.result.type, (pointer, _sum(low, terms)), marks)
    op.result.replace_all_uses_with(pointer)
    op.erase()


def _reach(low: Lowering, ranges: Ranges, value: Value) -> tuple[int, int] | None:
    """Return the bounds in bytes of the non-uniform part of a pointer; None if not known."""
    first = last = 0
    for _ in range(_WALK_LIMIT):
        owner = value.owner
        if isinstance(owner, mlir.ir.Block):
            return None
        if owner.name == "fly.make_ptr":
            return first, last
        if owner.name not in ("fly.add_offset", "fly.recast_iter"):
            return None
        if owner.name == "fly.add_offset" and _UNIFORM not in owner.attributes:
            kind = low.pointer_kind(value.type)
            assert kind is not None
            _, terms = split_sum(owner.operands[1])
            a, b = terms_range(ranges, terms)
            first, last = first + a * kind.bits // 8, last - (-b * kind.bits // 8)
        value = owner.operands[0]
    return None


# While lowering ----------------------------------------------------------------------------------


def make(low: Lowering, base: Value, extent: Value) -> Value:
    """Return a wide pointer to the start of `extent` (i64) bytes at the global pointer `base`."""
    b = low.b
    struct = b.value("llvm.mlir.poison", b.type(STRUCT))
    zero = b.constant(0, "i64")
    for number, field in enumerate((base, extent, zero, zero)):
        struct = _insert(low, struct, field, number)
    return struct


def _insert(low: Lowering, struct: Value, field: Value, number: int) -> Value:
    position = {"position": f"array<i64: {number}>"}
    return low.b.value("llvm.insertvalue", struct.type, (struct, field), position)


def _extract(low: Lowering, struct: Value, number: int) -> Value:
    kind = low.b.type("i64") if number else low.b.pointer(1)
    position = {"position": f"array<i64: {number}>"}
    return low.b.value("llvm.extractvalue", kind, (struct,), position)


def advance(low: Lowering, op: Any, pointer: Value, offset: Value, kind: PointerType) -> Value:
    """Move a wide pointer by elements; `op` says whether the move is uniform."""
    return _advance(low, pointer, offset, kind.bits, uniform=_UNIFORM in op.attributes)


def _advance(low: Lowering, pointer: Value, offset: Value, bits: int, *, uniform: bool) -> Value:
    b = low.b
    if str(offset.type) != "i64":
        offset = b.value("llvm.sext", b.type("i64"), (offset,))
    if bits >= 8:
        moved = b.binary("llvm.mul", offset, b.constant(bits // 8, "i64")) if bits > 8 else offset
    else:
        scaled = b.binary("llvm.mul", offset, b.constant(bits, "i64"))
        moved = b.binary("llvm.ashr", scaled, b.constant(3, "i64"))
    number = _UNIFORM_AT if uniform else _OTHER_AT
    return _insert(
        low, pointer, b.binary("llvm.add", _extract(low, pointer, number), moved), number
    )


def scalar_offset(low: Lowering, base: Value, offset: Value, kind: PointerType) -> Value:
    """Move a wide pointer by a scalar offset in elements."""
    return _advance(low, base, offset, kind.bits, uniform=True)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach what a wide pointer points to.

    Attributes:
        pointer: A buffer pointer, or a global one.
        guard: For a global pointer the i1 that says whether the whole access is inside.
    """

    pointer: Value
    guard: Value | None = None


def resolve(low: Lowering, op: Any, pointer: Value, size: int) -> Access:
    """Return how `op` accesses `size` bytes at a wide pointer."""
    near = descriptor(low, op, pointer, size)
    if near is not None:
        return Access(near)
    b = low.b
    total = b.binary(
        "llvm.add", _extract(low, pointer, _UNIFORM_AT), _extract(low, pointer, _OTHER_AT)
    )
    return Access(
        b.gep(_extract(low, pointer, 0), total, b.type("i8")),
        _inside(low, total, _extract(low, pointer, _EXTENT), size),
    )


def _inside(low: Lowering, offset: Value, extent: Value, size: int) -> Value:
    b = low.b
    starts = b.binary("llvm.sub", extent, b.constant(size - 1, "i64"))
    return b.compare(_ULT, offset, _largest(low, starts, b.constant(0, "i64")))


def guard_elements(
    low: Lowering, pointer: Value, size: int, count: int
) -> list[tuple[Value, Value]]:
    """Return the pointer and the guard of each of `count` elements of `size` bytes."""
    b = low.b
    start = b.binary(
        "llvm.add", _extract(low, pointer, _UNIFORM_AT), _extract(low, pointer, _OTHER_AT)
    )
    base, extent = _extract(low, pointer, 0), _extract(low, pointer, _EXTENT)
    found = []
    for number in range(count):
        offset = b.binary("llvm.add", start, b.constant(number * size, "i64"))
        found.append((b.gep(base, offset, b.type("i8")), _inside(low, offset, extent, size)))
    return found


def _largest(low: Lowering, a: Value, other: Value) -> Value:
    return low.b.intrinsic("smax", a.type, (a, other)).result


def within_reach(low: Lowering, pointer: Value) -> Value:
    """Return the descriptor (``ptr<8>``) of what 32-bit offsets from a pointer reach."""
    b = low.b
    facts = low.facts.buffer
    moved = b.binary(
        "llvm.add", _extract(low, pointer, _UNIFORM_AT), _extract(low, pointer, _OTHER_AT)
    )
    left = b.binary("llvm.sub", _extract(low, pointer, _EXTENT), moved)
    left = _largest(low, left, b.constant(0, "i64"))
    records = b.intrinsic("smin", left.type, (left, b.constant(facts.max_records, "i64"))).result
    base = b.gep(_extract(low, pointer, 0), moved, b.type("i8"))
    operands = (base, b.constant(0, "i16"), records, b.constant(facts.flags_bounded))
    return b.intrinsic("amdgcn.make.buffer.rsrc", b.pointer(8), operands).result


def descriptor(low: Lowering, op: Any, pointer: Value, size: int) -> Value | None:
    """Return a buffer pointer for an access, or None if the offset may leave its reach."""
    if _REACH not in op.attributes:
        return None
    first, last = (int(x) for x in op.attributes[_REACH])
    if first < -_NEAR or last + size > _NEAR:
        return None
    b = low.b
    facts = low.facts.buffer

    def number(value: int) -> Value:
        return b.constant(value, "i64")

    uniform, extent = (_extract(low, pointer, at) for at in (_UNIFORM_AT, _EXTENT))
    moved = _largest(low, b.binary("llvm.sub", uniform, number(_NEAR)), number(0))
    left = _largest(low, b.binary("llvm.sub", extent, moved), number(0))
    records = b.intrinsic("smin", left.type, (left, number(1 << 31))).result
    base = b.gep(_extract(low, pointer, 0), moved, b.type("i8"))
    operands = (base, b.constant(0, "i16"), records, b.constant(facts.flags_bounded))
    made = b.intrinsic("amdgcn.make.buffer.rsrc", b.pointer(7), operands).result
    rest = _largest(low, b.binary("llvm.sub", uniform, moved), number(-_NEAR))
    offset = b.binary("llvm.add", rest, _extract(low, pointer, _OTHER_AT))
    return b.gep(made, b.value("llvm.trunc", b.type("i32"), (offset,)), b.type("i8"))
