"""Atomic read-modify-write copies: ``universal_atomic``.

Integers keep their signedness: ``ui32`` compares unsigned. The default scope is the device
(``agent``), for which the hardware has native instructions, and the ordering is relaxed.
"""

from __future__ import annotations

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse
from flydsl_rocdl.passes.memtypes import PointerType, bit_width, element_of

__all__ = ["atomic"]

# Numbers of LLVM's AtomicRMW operations.
_SIGNED = {"add": 1, "sub": 2, "and": 3, "or": 5, "xor": 6, "xchg": 0, "max": 7, "min": 8,
           "inc": 15, "dec": 16}  # fmt: skip
_UNSIGNED = {**_SIGNED, "max": 9, "min": 10}
_FLOAT = {"add": 11, "sub": 12, "max": 13, "min": 14, "xchg": 0}
_MONOTONIC = 2
_DEFAULT_SCOPE = "agent"


def atomic(low: Lowering, text: str, value: Value, pointer: Value, kind: PointerType) -> Value:
    """Combine `value` with memory atomically and return the old value.

    Args:
        low: The lowering.
        text: Parameters of the atom: ``operation,element,scope``.
        value: A number, or a vector of one number (or of a packed pair of 16-bit floats).
        pointer: LLVM pointer.
        kind: What the pointer was.

    Raises:
        TargetError: The operation does not exist for the element type.
    """
    b = low.b
    name, element, scope = (*(part.strip() for part in text.split(",")), "", "")[:3]
    if element.startswith(("f", "bf")):
        table = _FLOAT
    else:
        table = _UNSIGNED if element.startswith("ui") else _SIGNED
    count, stored = element_of(str(value.type))
    bits = bit_width(str(value.type))
    if name not in table or bits not in (32, 64):
        raise refuse(
            low.op, f"there is no atomic {name} of {value.type}", code="FLY-T635",
            allowed=f"32 and 64 bits; {', '.join(table)}",
        )  # fmt: skip
    original = value.type
    if count == 1:
        value = b.value("llvm.extractelement", b.type(stored), (value, b.constant(0)))
    old = b.value(
        "llvm.atomicrmw", value.type, (pointer, value),
        {
            "bin_op": f"{table[name]} : i64",
            "ordering": f"{_MONOTONIC} : i64",
            "syncscope": '""' if scope == "system" else f'"{scope or _DEFAULT_SCOPE}"',
            "alignment": f"{max(kind.align, bits // 8)} : i64",
        },
    )  # fmt: skip
    if count == 1:
        zero = b.value("llvm.mlir.poison", original)
        return b.value("llvm.insertelement", original, (zero, old, b.constant(0)))
    return old
