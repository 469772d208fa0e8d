"""Copy atoms in SSA form: loads into vectors and stores of vectors.

``fly.copy_atom_call_ssa`` takes the atom, a source, and for stores a destination; a predicate makes
the access conditional, and a load without it yields the destination's old value, or zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from flydsl_rocdl.passes import dma
from flydsl_rocdl.passes.atomics import atomic
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse, rule
from flydsl_rocdl.passes.memtypes import PointerType, bit_width, storage
from flydsl_rocdl.passes.pointers import load, store
from flydsl_rocdl.passes.wide import WIDE, scalar_offset

__all__ = ["atom_state", "atom_text", "segments"]

_STREAMING = 2
"""Cache modifier of data that is used once; LLVM spells it for every architecture."""


def segments(op: Any) -> list[list[int]]:
    """Return, for each operand slot, the numbers of its operands."""
    out, at = [], 0
    for size in op.attributes["operandSegmentSizes"]:
        out.append(list(range(at, at + size)))
        at += size
    return out


def atom_text(kind: Any) -> str:
    """Return the operation's text in an atom type, e.g. ``universal_copy<128>``."""
    text = str(kind)
    start = text.index('"') + 1
    return text[start : text.index('"', start)]


def atom_state(atom: Value) -> dict[str, Value]:
    """Return the run-time values attached to an atom, by field."""
    state: dict[str, Value] = {}
    owner = atom.owner
    while getattr(owner, "name", "") == "fly.atom_set_value":
        state.setdefault(str(owner.attributes["field"].value), owner.operands[1])
        owner = owner.operands[0].owner
    return state


@rule("fly.make_copy_atom", "fly.make_mma_atom", "fly.atom_set_value")
def make_atom(_low: Lowering, _op: Any) -> list[Value]:
    """Atoms are types; the values that carry them vanish."""
    return []


def _conditional(
    low: Lowering, predicate: Value | None, body: Callable[[], list[Value]], otherwise: list[Value]
) -> list[Value]:
    """Run `body` where the predicate holds; its values, else `otherwise`."""
    if predicate is None:
        return body()
    return low.b.choose(predicate, [v.type for v in otherwise], body, lambda: otherwise)


def _zero(low: Lowering, kind: Any) -> Value:
    return low.b.value("llvm.mlir.zero", kind)


def _vector_access(op: Any, value_type: Any, atom_bits: int) -> None:
    if bit_width(str(value_type)) != atom_bits:
        raise refuse(
            op, f"a copy of {atom_bits} bits cannot move {value_type}", code="FLY-T633",
            allowed=f"values of {atom_bits} bits",
        )  # fmt: skip


@rule("fly.copy_atom_call_ssa")
def copy_atom_call(low: Lowering, op: Any) -> list[Value]:
    """Lower a copy by the kind of its atom."""
    text = atom_text(low.operand_types[0])
    name, _, argument = text.partition("<")
    parameters = [part.strip() for part in argument.rstrip(">").split(",")]
    call = _Call.of(low, op)
    if name == "universal_copy":
        return call.move(int(parameters[0]))
    if name == "buffer_copy":
        return _buffer(call, int(parameters[0]), int(parameters[1]))
    if name in ("buffer_copy_lds", "global_copy_lds"):
        return _into_lds(call, name, int(parameters[0]), int(parameters[1]))
    if name == "buffer_atomic":
        return _buffer_atomic(call, parameters)
    if name in ("lds_read_trans", "global_load_trans"):
        return _transposed(call, name, parameters)
    if name == "universal_atomic":
        return _atomic(call, argument.rstrip(">"))
    raise refuse(
        op, f"the copy operation {text} has no lowering for AMD GPUs", code="FLY-T633",
        allowed="universal_copy, universal_atomic, buffer_copy, buffer_atomic, buffer_copy_lds,"
        " global_copy_lds, lds_read_trans, global_load_trans",
    )  # fmt: skip


@dataclass(slots=True)
class _Call:
    """One copy: where from, where to, and under which condition.

    `source` and `target` are LLVM pointers where `from_memory` and `to_memory` say so, else
    vectors; without memory to copy to, `target` is the value of a load that does not happen.
    """

    low: Lowering
    op: Any
    source: Value
    target: Value | None
    predicate: Value | None
    from_memory: PointerType | None
    to_memory: PointerType | None

    @classmethod
    def of(cls, low: Lowering, op: Any) -> _Call:
        _, (source,), dst, pred = segments(op)
        return cls(
            low,
            op,
            op.operands[source],
            op.operands[dst[0]] if dst else None,
            op.operands[pred[0]] if pred else None,
            low.pointer_kind(low.operand_types[source]),
            low.pointer_kind(low.operand_types[dst[0]]) if dst else None,
        )

    def move(self, bits: int, *, streaming: bool = False) -> list[Value]:
        """Load, store, or both."""
        low, op = self.low, self.op
        if self.to_memory is None:
            return self._load(bits, streaming)
        to_memory = self.to_memory

        def body() -> list[Value]:
            value = self.source
            if self.from_memory is not None:
                words = low.b.type(_words(bits))
                value = load(low, value, self.from_memory, words, streaming=streaming)
            else:
                _vector_access(op, value.type, bits)
            store(low, value, self.target, to_memory, streaming=streaming)
            return []

        return _conditional(low, self.predicate, body, [])

    def _load(self, bits: int, streaming: bool) -> list[Value]:
        low, kind = self.low, self.from_memory
        if kind is None:
            raise refuse(self.op, "a copy between registers is left", code="FLY-T633")
        (result,) = (r.type for r in self.op.results)
        _vector_access(self.op, result, bits)
        otherwise: list[Value] = []
        if self.predicate is not None:
            otherwise = [self.target if self.target is not None else _zero(low, result)]
        return _conditional(
            low,
            self.predicate,
            lambda: [load(low, self.source, kind, result, streaming=streaming)],
            otherwise,
        )


def _check_spaces(call: _Call, what: str, source: str, target: str) -> None:
    """Raise TargetError unless a copy moves between these kinds of memory (or ``registers``)."""
    found = []
    for kind in (call.from_memory, call.to_memory):
        space = "registers" if kind is None else kind.space
        found.append("buffer" if space == WIDE else space)
    if found != [source, target]:
        raise refuse(
            call.op, f"{what} cannot move from {found[0]} to {found[1]} memory", code="FLY-T633",
            allowed=f"{source} to {target}",
            hint="make the tensor a buffer tensor: fx.rocdl.make_buffer_tensor"
            if "buffer" in (source, target) and "global" in found else "",
        )  # fmt: skip


def _buffer(call: _Call, bits: int, cache_modifier: int) -> list[Value]:
    """Move through a buffer pointer, advanced by the scalar offset."""
    low = call.low
    if call.from_memory is None:
        _check_spaces(call, "a buffer copy", "registers", "buffer")
    else:
        _check_spaces(call, "a buffer copy", "buffer", "registers")
    offset = atom_state(call.op.operands[0]).get("soffset")
    kind = call.from_memory or call.to_memory
    assert kind is not None
    if cache_modifier not in (0, _STREAMING):
        return _modified(call, bits, cache_modifier, kind, offset)
    if offset is not None:
        element = low.b.type(storage(kind.element))
        if kind.space == WIDE:
            moved = partial(scalar_offset, low, offset=offset, kind=kind)
        else:
            moved = partial(low.b.gep, index=offset, element=element)
        if call.from_memory is not None:
            call.source = moved(call.source)
        else:
            call.target = moved(call.target)
    return call.move(bits, streaming=cache_modifier != 0)


def _modified(
    call: _Call, bits: int, modifier: int, kind: PointerType, scalar: Value | None
) -> list[Value]:
    """Move through a buffer with cache bits that only the intrinsics carry."""
    low, op = call.low, call.op
    stores = call.to_memory is not None
    _vector_access(op, call.source.type if stores else op.results[0].type, bits)
    move = partial(
        dma.buffer_move, low, op, call.target if stores else call.source, kind,
        modifier=modifier, value=call.source if stores else None, scalar=scalar,
    )  # fmt: skip
    otherwise: list[Value] = []
    if not stores and call.predicate is not None:
        otherwise = [call.target if call.target is not None else _zero(low, op.results[0].type)]
    return _conditional(low, call.predicate, move, otherwise)


def _into_lds(call: _Call, name: str, bits: int, modifier: int) -> list[Value]:
    """Load from a buffer or global memory into LDS."""
    source = "buffer" if name == "buffer_copy_lds" else "global"
    _check_spaces(call, "this load into LDS", source, "shared")
    kind = call.from_memory
    assert kind is not None
    from_where = (call.source, kind)
    state = atom_state(call.op.operands[0])

    def body() -> list[Value]:
        dma.load_into_lds(call.low, call.op, from_where, call.target, bits, modifier, state)
        return []

    return _conditional(call.low, call.predicate, body, [])


def _buffer_atomic(call: _Call, parameters: list[str]) -> list[Value]:
    _check_spaces(call, "a buffer atomic", "registers", "buffer")
    kind = call.to_memory
    assert kind is not None
    scalar = atom_state(call.op.operands[0]).get("soffset")

    def body() -> list[Value]:
        dma.buffer_atomic(call.low, call.op, parameters, call.source, call.target, kind, scalar)
        return []

    return _conditional(call.low, call.predicate, body, [])


def _transposed(call: _Call, name: str, parameters: list[str]) -> list[Value]:
    granularity, bits, group = (int(x) for x in parameters)
    space = "shared" if name == "lds_read_trans" else "global"
    _check_spaces(call, "this transposing load", space, "registers")
    kind = call.from_memory
    assert kind is not None
    otherwise: list[Value] = []
    if call.predicate is not None:
        old = call.target if call.target is not None else _zero(call.low, call.op.results[0].type)
        otherwise = [old]
    body = partial(dma.transposing_read, call.low, call.op, call.source, kind,
                   (granularity, bits, group))  # fmt: skip
    return _conditional(call.low, call.predicate, body, otherwise)


def _atomic(call: _Call, parameters: str) -> list[Value]:
    kind = call.to_memory
    if kind is None:
        raise refuse(call.op, "an atomic operation needs memory to work on", code="FLY-T633")
    results = list(call.op.results)

    def body() -> list[Value]:
        old = atomic(call.low, parameters, call.source, call.target, kind)
        return [old] if results else []

    otherwise = [_zero(call.low, r.type) for r in results] if call.predicate is not None else []
    return _conditional(call.low, call.predicate, body, otherwise)


def _words(bits: int) -> str:
    """Return a type of `bits` bits for memory-to-memory copies."""
    return f"vector<{bits // 32}xi32>" if bits > 32 else f"i{bits}"
