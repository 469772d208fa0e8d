"""Matrix multiply-add atoms: MFMA instructions and the plain multiply-add."""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.arch import MatrixShape, instruction_type
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.copies import atom_text
from flydsl_rocdl.passes.lowering import Lowering, refuse, rule
from flydsl_rocdl.passes.memtypes import bit_width, element_of

__all__: list[str] = []


def _operand_type(shape: MatrixShape, value: Value, element: str) -> str:
    """Return the type in which the intrinsic takes an A or B operand."""
    bits = bit_width(str(value.type))
    if shape.intrinsic.endswith("bf16.1k"):
        return f"vector<{bits // 16}xi16>"
    if element in ("i8", "fp8", "bf8"):
        return f"i{bits}" if bits <= 64 else f"vector<{bits // 32}xi32>"
    count, _ = element_of(str(value.type))
    return element if count == 1 else str(value.type)


def _find(low: Lowering, op: Any, family: str, parameters: list[str]) -> MatrixShape:
    m, n, k = (int(p) for p in parameters[:3])
    a, b = (instruction_type(p, family) for p in parameters[3:5])
    acc = parameters[5]
    known = [shape for shape in low.facts.matrix if shape.family == family]
    for shape in known:
        if (shape.m, shape.n, shape.k, shape.a, shape.b, shape.acc) == (m, n, k, a, b, acc):
            return shape
    wanted = MatrixShape(m, n, k, a, b, acc, "")
    name = family.upper()
    raise refuse(
        op, f"{low.target.arch} has no matrix instruction {wanted}", code="FLY-T634",
        allowed=", ".join(str(s) for s in known) or f"none: this architecture has no {name}",
    )  # fmt: skip


def _as_operand(low: Lowering, value: Value, text: str) -> Value:
    b = low.b
    count, element = element_of(str(value.type))
    if count == 1 and text == element:
        return b.value("llvm.extractelement", b.type(element), (value, b.constant(0)))
    if element.startswith("f8"):  # LLVM sees bytes
        value = b.cast(value, b.type(f"vector<{count}xi8>"))
    return b.bitcast(value, b.type(text))


@rule("fly.mma_atom_call_ssa")
def mma_atom_call(low: Lowering, op: Any) -> list[Value]:
    """Lower a matrix multiply-add by the kind of its atom."""
    text = atom_text(low.operand_types[0])
    name, _, rest = text.partition("<")
    parameters = [p.strip() for p in rest.rstrip(">").split(",")]
    a, b, c = op.operands[1:4]
    if name == "universal_fma":
        return [_multiply_add(low, a, b, c)]
    if name not in ("mfma", "wmma"):
        raise refuse(op, f"the matrix operation {text} has no lowering for AMD GPUs",
                     code="FLY-T634", allowed="mfma, wmma, universal_fma")  # fmt: skip
    shape = _find(low, op, name, parameters)
    if name == "wmma":
        return [_wave_matrix(low, op, shape, parameters[6:])]
    operands = [
        _as_operand(low, a, _operand_type(shape, a, shape.a)),
        _as_operand(low, b, _operand_type(shape, b, shape.b)),
        c,
    ]
    zero = low.b.constant(0)
    call = low.b.intrinsic(f"amdgcn.{shape.intrinsic}", c.type, (*operands, zero, zero, zero))
    return [call.result]


def _wave_matrix(low: Lowering, op: Any, shape: MatrixShape, parameters: list[str]) -> Value:
    """Lower a WMMA; `parameters` are copies, the two signs, and clamp."""
    copies, *flags = parameters
    if int(copies) != 1 + ("wmma-copies" in low.facts.has):
        raise refuse(op, f"{low.target.arch} lays out the operands of WMMA in another way",
                     code="FLY-T634", allowed="the operation of this architecture")  # fmt: skip
    a, b, c = op.operands[1:4]
    parts = []
    for value, element in ((a, shape.a), (b, shape.b)):
        bits = bit_width(str(value.type))
        if element == "bf16":
            text = f"vector<{bits // 16}xi16>"
        elif element == "f16":
            text = str(value.type)
        else:
            text = f"vector<{bits // 32}xi32>" if bits > 32 else "i32"
        parts.append(_as_operand(low, value, text))
    operands = [*parts, c]
    if shape.acc == "i32":
        sign_a, sign_b, clamp = (low.b.constant(int(f == "True"), "i1") for f in flags)
        operands = [sign_a, parts[0], sign_b, parts[1], c, clamp]
    return low.b.intrinsic(f"amdgcn.{shape.intrinsic}", c.type, operands).result


def _multiply_add(low: Lowering, a: Value, b: Value, c: Value) -> Value:
    """Multiply and add separately; contraction is the fast-math flags' business."""
    _, element = element_of(str(c.type))
    kind = "f" if element.startswith(("f", "bf")) else "i"
    return low.b.binary(f"arith.add{kind}", low.b.binary(f"arith.mul{kind}", a, b), c)
