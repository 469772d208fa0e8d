"""Atomic operations, fences, and loads and stores with a memory ordering.

LLVM's AMDGPU back end turns orderings and scopes into waits, cache write-backs and invalidations.
An operation without a scope is seen by the device (``agent``); ``system`` is LLVM's empty scope.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse, rule
from flydsl_rocdl.passes.memtypes import bit_width, element_of

__all__ = ["access_attributes", "scope_of"]

_DEFAULT = "agent"
_SCOPES = (
    "system", "agent", "workgroup", "wavefront", "singlethread", "cluster", "one-as",
    "agent-one-as", "workgroup-one-as", "wavefront-one-as", "singlethread-one-as",
    "cluster-one-as",
)  # fmt: skip
# Numbers of LLVM's enumerations.
_ORDERINGS = {
    "not_atomic": 0, "unordered": 1, "monotonic": 2, "acquire": 4, "release": 5, "acq_rel": 6,
    "seq_cst": 7,
}  # fmt: skip
_OPERATIONS = {
    "xchg": 0, "add": 1, "sub": 2, "and": 3, "or": 5, "xor": 6, "max": 7, "min": 8, "umax": 9,
    "umin": 10, "fadd": 11, "fsub": 12, "fmax": 13, "fmin": 14,
}  # fmt: skip


def scope_of(op: Any) -> str:
    """Return LLVM's name of the scope of an operation.

    Raises:
        TargetError: AMD GPUs have no such scope.
    """
    if "scope" not in op.attributes:
        return _DEFAULT
    name = str(op.attributes["scope"].value)
    if name not in _SCOPES:
        raise refuse(op, f"AMD GPUs have no synchronisation scope {name!r}", code="FLY-T635",
                     allowed=", ".join(_SCOPES))  # fmt: skip
    return "" if name == "system" else name


def _ordering(op: Any, attribute: str = "ordering") -> str:
    return f"{_ORDERINGS[str(op.attributes[attribute].value)]} : i64"


def _alignment(low: Lowering, bits: int) -> str:
    kind = low.pointer_kind(low.operand_types[0])
    return f"{max(kind.align if kind is not None else 1, bits // 8)} : i64"


@rule("fly.atomic_rmw")
def read_modify_write(low: Lowering, op: Any) -> list[Value]:
    """Lower to ``llvm.atomicrmw``; LLVM expands what the hardware lacks."""
    pointer, value = op.operands
    name = str(op.attributes["operation"].value)
    text = str(value.type)
    bits = bit_width(text)
    if bits not in (8, 16, 32, 64):
        raise refuse(op, f"there is no atomic {name} of {text}", code="FLY-T635",
                     allowed="values of 8, 16, 32 or 64 bits")  # fmt: skip
    _check_vector(op, name, text)
    return [
        low.b.value(
            "llvm.atomicrmw", value.type, (pointer, value),
            {
                "bin_op": f"{_OPERATIONS[name]} : i64",
                "ordering": _ordering(op),
                "syncscope": f'"{scope_of(op)}"',
                "alignment": _alignment(low, bits),
            },
        )
    ]  # fmt: skip


def _check_vector(op: Any, name: str, text: str) -> None:
    count, element = element_of(text)
    if count and (count != 2 or bit_width(element) != 16):
        raise refuse(op, f"there is no atomic {name} of {text}", code="FLY-T635",
                     allowed="vectors of two 16-bit floats")  # fmt: skip


@rule("fly.atomic_cas")
def compare_and_swap(low: Lowering, op: Any) -> list[Value]:
    """Lower to ``llvm.cmpxchg``."""
    b = low.b
    text = str(op.operands[1].type)
    attributes = {
        "success_ordering": _ordering(op, "success_ordering"),
        "failure_ordering": _ordering(op, "failure_ordering"),
        "syncscope": f'"{scope_of(op)}"',
        "alignment": _alignment(low, bit_width(text)),
    }
    if op.attributes["weak"].value:
        attributes["weak"] = "unit"
    pair = b.value(
        "llvm.cmpxchg", b.type(f"!llvm.struct<({text}, i1)>"), tuple(op.operands), attributes
    )
    return [
        b.value("llvm.extractvalue", r.type, (pair,), {"position": f"array<i64: {i}>"})
        for i, r in enumerate(op.results)
    ]


@rule("fly.fence")
def fence(low: Lowering, op: Any) -> list[Value]:
    """Lower to ``llvm.fence``."""
    low.b.op("llvm.fence", (), (), {"ordering": _ordering(op), "syncscope": f'"{scope_of(op)}"'})
    return []


def access_attributes(op: Any) -> dict[str, str]:
    """Return the LLVM attributes of a load or store: ordering, scope and hints.

    Raises:
        TargetError: The access is atomic and not of 8 to 64 bits, or its scope does not exist.
    """
    found: dict[str, str] = {}
    for flag, name in (("nontemporal", "nontemporal"), ("volatile", "volatile_")):
        if flag in op.attributes:
            found[name] = "unit"
    if "ordering" not in op.attributes or op.attributes["ordering"].value == "not_atomic":
        return found
    value = op.result if len(op.results) else op.operands[0]
    text = str(value.type)
    if bit_width(text) not in (8, 16, 32, 64) or element_of(text)[0]:
        raise refuse(op, f"an atomic access cannot move {text}", code="FLY-T635",
                     allowed="numbers of 8, 16, 32 or 64 bits")  # fmt: skip
    return {**found, "ordering": _ordering(op), "syncscope": f'"{scope_of(op)}"'}
