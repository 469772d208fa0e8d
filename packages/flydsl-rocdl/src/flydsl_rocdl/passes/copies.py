"""Copy atoms in SSA form: loads into vectors and stores of vectors.

``fly.copy_atom_call_ssa`` takes the atom, a source, and for stores a destination; a predicate makes
the access conditional, and a load without it yields the destination's old value, or zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl_rocdl.passes.atomics import atomic
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse, rule
from flydsl_rocdl.passes.memtypes import bit_width
from flydsl_rocdl.passes.pointers import load, store

__all__ = ["atom_text", "segments"]


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


@rule("fly.make_copy_atom", "fly.make_mma_atom")
def make_atom(_low: Lowering, _op: Any) -> list[Value]:
    """Atoms are types; the values that carry them vanish."""
    return []


def _conditional(
    low: Lowering, predicate: Value | None, body: Callable[[], list[Value]], otherwise: list[Value]
) -> list[Value]:
    """Run `body` where the predicate holds; its values, else `otherwise`."""
    if predicate is None:
        return body()
    b = low.b
    op, yes, no = b.if_then(predicate, [v.type for v in otherwise])
    b.at_block_end(yes)
    b.op("scf.yield", (), body())
    b.at_block_end(no)
    b.op("scf.yield", (), otherwise)
    b.at(low.op)
    return list(op.results)


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
    if name == "universal_copy":
        return _universal(low, op, int(argument.rstrip(">")))
    if name == "universal_atomic":
        return _atomic(low, op, argument.rstrip(">"))
    raise refuse(
        op, f"the copy operation {text} has no lowering for AMD GPUs", code="FLY-T633",
        allowed="universal_copy, universal_atomic",
    )  # fmt: skip


def _atomic(low: Lowering, op: Any, parameters: str) -> list[Value]:
    _, (source,), dst, pred = segments(op)
    if not dst:
        raise refuse(op, "an atomic operation needs memory to work on", code="FLY-T633")
    kind = low.operand_pointer(op, dst[0])
    value, pointer = op.operands[source], op.operands[dst[0]]
    results = list(op.results)

    def body() -> list[Value]:
        old = atomic(low, parameters, value, pointer, kind)
        return [old] if results else []

    predicate = op.operands[pred[0]] if pred else None
    otherwise = [_zero(low, r.type) for r in results] if pred else []
    return _conditional(low, predicate, body, otherwise)


def _universal(low: Lowering, op: Any, bits: int) -> list[Value]:
    _, (source,), dst, pred = segments(op)
    operands = op.operands
    predicate = operands[pred[0]] if pred else None
    target = dst[0] if dst else None
    from_memory = low.pointer_kind(low.operand_types[source])
    to_memory = None if target is None else low.pointer_kind(low.operand_types[target])
    if from_memory is not None and to_memory is None:
        (result,) = (r.type for r in op.results)
        _vector_access(op, result, bits)
        old = operands[target] if target is not None else None
        otherwise = [] if predicate is None else [old if old is not None else _zero(low, result)]
        return _conditional(
            low, predicate, lambda: [load(low, operands[source], from_memory, result)], otherwise
        )
    if to_memory is None or target is None:
        raise refuse(op, "a copy between registers is left", code="FLY-T633")
    pointer: Value = operands[target]

    def body() -> list[Value]:
        value = operands[source]
        if from_memory is not None:
            value = load(low, value, from_memory, low.b.type(_words(bits)))
        else:
            _vector_access(op, value.type, bits)
        store(low, value, pointer, to_memory)
        return []

    return _conditional(low, predicate, body, [])


def _words(bits: int) -> str:
    """Return a type of `bits` bits for memory-to-memory copies."""
    return f"vector<{bits // 32}xi32>" if bits > 32 else f"i{bits}"
