"""Matrix multiply-add atoms: the matrix instructions and the plain multiply-add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from flydsl.dialects.atoms import UniversalFMA, parse_mma
from flydsl.errors import TargetError
from flydsl_rocdl.arch import MatrixShape
from flydsl_rocdl.arch.mfma import F8F6F4
from flydsl_rocdl.atoms import MATRIX, MFMA, SMFMAC, SWMMAC, WMMA, MFMA_Scale, WMMAScale
from flydsl_rocdl.atoms.checks import instruction_for
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.copies import atom_state, atom_text, segments
from flydsl_rocdl.passes.lowering import Lowering, constant_of, location_of, refuse, rule
from flydsl_rocdl.passes.memtypes import bit_width, element_of

__all__: list[str] = []

_OLDER_SPARSE = 512
"""Rows times k of the sparse intrinsics of CDNA3, which take bf16 as integers."""
_UNIT_SCALES = 0x7F7F7F7F
"""Four E8M0 bytes of 2^0."""


class _Call:
    """One matrix multiply-add: the instruction, its operands and what is attached to it."""

    def __init__(self, low: Lowering, op: Any, operation: Any, shape: MatrixShape) -> None:
        self.low, self.b, self.op = low, low.b, op
        self.operation, self.shape = operation, shape
        self.a, self.b_operand, self.c = op.operands[1:4]
        state = atom_state(op.operands[0])
        parts = segments(op)
        given = [op.operands[p[0]] if p else None for p in parts[4:6]]
        self.extra_a = self._extra("scale_a", given[0], state)
        self.extra_b = self._extra("scale_b", given[1], state)
        self.index = self._extra("index", given[0], state)

    def _extra(self, name: str, given: Value | None, state: Mapping[str, Value]) -> Value | None:
        """Return a scale or index: the operand's second part if given, else the state, or None.

        Raises:
            TargetError: It is no integer, or wider than the instruction takes.
        """
        wanted = self.operation.state.get(name)
        value = given if given is not None else state.get(name)
        if wanted is None:
            if given is not None and not self.operation.state:
                raise refuse(self.op, f"{self.operation.prefix} takes no second part of an operand",
                             code="FLY-T649")  # fmt: skip
            return None
        if value is None or str(value.type) == wanted:
            return value
        text = str(value.type)
        if not text.startswith("i") or bit_width(text) > bit_width(wanted):
            raise refuse(self.op, f"{name} of {self.operation.prefix} cannot be {text}",
                         code="FLY-T649", allowed=wanted)  # fmt: skip
        known = constant_of(value)
        if known is not None:
            return self.b.constant(known % 2 ** bit_width(text), wanted)
        return self.b.value("llvm.zext", self.b.type(wanted), (value,))

    def words(self, value: Value) -> Value:
        """Return a value as i32 or a vector of i32."""
        bits = bit_width(str(value.type))
        return self.cast(value, f"vector<{bits // 32}xi32>" if bits > 32 else "i32")

    def cast(self, value: Value, text: str) -> Value:
        """Return the bits of a vector as the type `text`."""
        b = self.b
        count, element = element_of(str(value.type))
        if count == 1 and text == element:
            return b.value("llvm.extractelement", b.type(element), (value, b.constant(0)))
        if element[0] == "f" and bit_width(element) < 16:  # LLVM sees integers
            value = b.cast(value, b.type(f"vector<{count}xi{bit_width(element)}>"))
        return b.bitcast(value, b.type(text))

    def flag(self, value: object) -> Value:
        """Return a truth value."""
        return self.b.constant(int(bool(value)), "i1")

    def short(self, value: int) -> Value:
        """Return a constant of 16 bits."""
        return self.b.constant(value, "i16")

    def call(self, operands: list[Value], name: str = "") -> Value:
        """Call the intrinsic; the result is a vector even where LLVM has a number."""
        b = self.b
        name = name or self.shape.intrinsic
        count, element = element_of(str(self.c.type))
        kind = b.type(element) if count == 1 else self.c.type
        result = b.intrinsic(f"amdgcn.{name}", kind, operands).result
        return b.bitcast(result, self.c.type) if count == 1 else result

    def addend(self) -> Value:
        """Return C as the intrinsic takes it."""
        count, element = element_of(str(self.c.type))
        return self.cast(self.c, element) if count == 1 else self.c


@rule("fly.mma_atom_call_ssa")
def mma_atom_call(low: Lowering, op: Any) -> list[Value]:
    """Lower a matrix multiply-add by the kind of its atom."""
    text = atom_text(low.operand_types[0])
    operation = parse_mma(text)
    if isinstance(operation, UniversalFMA):
        return [_multiply_add(low, *op.operands[1:4])]
    lower = _LOWERINGS.get(type(operation))
    if lower is None:
        raise refuse(op, f"the matrix operation {text} has no lowering for AMD GPUs",
                     code="FLY-T634",
                     allowed=", ".join([*(c.prefix for c in MATRIX), "universal_fma"]))  # fmt: skip
    try:
        shape = instruction_for(low.facts, operation)
    except TargetError as error:
        raise error.with_location(location_of(op)) from None
    return [lower(_Call(low, op, operation, shape))]


def _dense(call: _Call) -> Value:
    """Lower `MFMA`; blocks need no broadcast because every lane holds its own elements."""
    operands = [_dense_operand(call, x) for x in (call.a, call.b_operand)]
    zeros = [call.b.constant(0)] * 3
    return call.call([*operands, call.addend(), *zeros])


def _dense_operand(call: _Call, value: Value) -> Value:
    bits = bit_width(str(value.type))
    count, element = element_of(str(value.type))
    if call.shape.intrinsic.endswith("bf16.1k"):
        return call.cast(value, f"vector<{count}xi16>")
    if bit_width(element) == 8:
        return call.cast(value, f"i{bits}" if bits <= 64 else f"vector<{bits // 32}xi32>")
    return call.cast(value, element if count == 1 else str(value.type))


def _scaled(call: _Call) -> Value:
    """Lower `MFMA_Scale`.

    LLVM takes scales of constant zero for the instruction without scales. But a byte of zero is
    the scale 2^-127: such a constant gets another value in a byte that is not selected.
    """
    operation, b = call.operation, call.b
    formats = [b.constant(F8F6F4.index(x)) for x in (call.shape.a, call.shape.b)]
    scales = [call.extra_a, call.extra_b]
    chosen = [operation.opsel_a, operation.opsel_b]
    if all(s is None for s in scales):
        scales, chosen = [b.constant(0), b.constant(0)], [0, 0]
    else:
        scales = [b.constant(_UNIT_SCALES) if s is None else s for s in scales]
        if all(constant_of(s) == 0 for s in scales):
            scales[0] = b.constant(1 << 8 if chosen[0] == 0 else 1)
    pairs = [x for s, at in zip(scales, chosen, strict=True) for x in (b.constant(at), s)]
    return call.call([call.words(call.a), call.words(call.b_operand), call.c, *formats, *pairs])


def _index(call: _Call) -> Value:
    if call.index is None:
        raise refuse(
            call.op, "a sparse multiply-add does not know which elements of A are kept",
            code="FLY-T649", allowed="index=… or the operand [A, index]",
        )  # fmt: skip
    return call.index


def _sparse(call: _Call) -> Value:
    """Lower `SMFMAC`."""
    index = _index(call)
    operands = []
    for value in (call.a, call.b_operand):
        count, element = element_of(str(value.type))
        if element == "bf16" and call.shape.m * call.shape.k == _OLDER_SPARSE:
            operands.append(call.cast(value, f"vector<{count}xi16>"))
        else:
            operands.append(value if bit_width(element) == 16 else call.words(value))
    chosen = (call.b.constant(0), call.b.constant(call.operation.index_set))
    return call.call([*operands, call.c, index, *chosen])


def _wave_operand(call: _Call, value: Value) -> Value:
    count, element = element_of(str(value.type))
    if element == "bf16" and "wmma-reuse" not in call.low.facts.has:
        return call.cast(value, f"vector<{count}xi16>")
    return value if bit_width(element) >= 16 else call.words(value)


def _wave_addend(call: _Call) -> tuple[Value, Callable[[Value], Value]]:
    """Return C as the intrinsic takes it, and what turns its result into the fragment.

    Of 16 bits, RDNA3 keeps one element in each register; its intrinsics name both halves.
    """
    b, kind = call.b, str(call.c.type)
    count, element = element_of(kind)
    if bit_width(element) != 16:
        return call.c, lambda result: result
    stored = element if "wmma-reuse" in call.low.facts.has or element == "f16" else "i16"
    c = call.cast(call.c, f"vector<{count}x{stored}>")
    if "wmma-copies" not in call.low.facts.has:
        return c, lambda result: b.bitcast(result, call.c.type)
    wide = b.type(f"vector<{2 * count}x{stored}>")
    spread = ", ".join(str(x) for i in range(count) for x in (i, count + i))
    zero = b.value("llvm.mlir.zero", c.type)
    spread_c = b.value("llvm.shufflevector", wide, (c, zero), {"mask": f"array<i32: {spread}>"})

    def narrowed(result: Value) -> Value:
        even = ", ".join(str(2 * i) for i in range(count))
        kept = b.value("llvm.shufflevector", c.type, (result, result),
                       {"mask": f"array<i32: {even}>"})  # fmt: skip
        return b.bitcast(kept, call.c.type)

    return spread_c, narrowed


def _wave(call: _Call) -> Value:
    """Lower `WMMA`."""
    operation, has = call.operation, call.low.facts.has
    a, b = (_wave_operand(call, x) for x in (call.a, call.b_operand))
    c, narrowed = _wave_addend(call)
    tail = [call.flag(operation.reuse_a), call.flag(operation.reuse_b)]
    if call.shape.acc == "i32":
        last = [*(tail if "wmma-reuse" in has else []), call.flag(operation.clamp)]
        signs = [call.flag(operation.sign_a), call.flag(operation.sign_b)]
        return _wide(call, [signs[0], a, signs[1], b, c, *last])
    if "wmma-reuse" not in has:
        chosen = [call.flag(False)] if call.shape.acc != "f32" else []
        return narrowed(_wide(call, [a, b, c, *chosen]))
    modifier = call.short(operation.mod_c)
    if call.shape.a in F8F6F4:
        return narrowed(_wide(call, [a, b, modifier, c, *tail]))
    none = call.flag(False)
    return narrowed(_wide(call, [none, a, none, b, modifier, c, *tail]))


def _wide(call: _Call, operands: list[Value]) -> Value:
    """Call the intrinsic, whose result has the type of the addend among `operands`."""
    _, element = element_of(str(call.c.type))
    vectors = [v for v in operands if str(v.type).startswith("vector<")]
    kind = call.c.type
    if bit_width(element) == 16:
        kind = vectors[-1].type
    return call.b.intrinsic(f"amdgcn.{call.shape.intrinsic}", kind, operands).result


def _wave_scaled(call: _Call) -> Value:
    """Lower `WMMAScale`; without scales the instruction without scales is meant."""
    operation, b = call.operation, call.b
    a, right = call.words(call.a), call.words(call.b_operand)
    square = call.shape.intrinsic.endswith("f8f6f4")
    formats = [b.constant(F8F6F4.index(x)) for x in (call.shape.a, call.shape.b)]
    operands = [formats[0], a, formats[1], right] if square else [a, right]
    operands += [call.short(operation.mod_c), call.c]
    scales = [call.extra_a, call.extra_b]
    if all(s is None for s in scales) and not (operation.reuse_a or operation.reuse_b):
        name = call.shape.intrinsic.replace("scale16.", "").replace("scale.", "")
        return call.call(operands, name)
    unit = _UNIT_SCALES if operation.block_size == 32 else _UNIT_SCALES << 32 | _UNIT_SCALES
    kind = "i32" if operation.block_size == 32 else "i64"
    for scale, at in zip(scales, (operation.opsel_a, operation.opsel_b), strict=True):
        value = b.constant(unit, kind) if scale is None else scale
        operands += [b.constant(at), b.constant(0), value]  # format 0 is E8M0
    return call.call([*operands, call.flag(operation.reuse_a), call.flag(operation.reuse_b)])


def _wave_sparse(call: _Call) -> Value:
    """Lower `SWMMAC`; LLVM turns a shifted index into the instruction's choice of a part."""
    operation, b = call.operation, call.b
    a, right = (_wave_operand(call, x) for x in (call.a, call.b_operand))
    c, narrowed = _wave_addend(call)
    index = _index(call)
    if operation.k == 32:
        shift = b.constant(16 * operation.index_set)
        index = b.binary("llvm.lshr", index, shift)
        index = b.value("llvm.trunc", b.type("i16"), (index,))
    if call.shape.acc == "i32":
        signs = [call.flag(operation.sign_a), call.flag(operation.sign_b)]
        return _wide(call, [signs[0], a, signs[1], right, c, index, call.flag(operation.clamp)])
    return narrowed(_wide(call, [a, right, c, index]))


_LOWERINGS: Mapping[type, Callable[[_Call], Value]] = MappingProxyType(
    {
        MFMA: _dense,
        MFMA_Scale: _scaled,
        SMFMAC: _sparse,
        WMMA: _wave,
        WMMAScale: _wave_scaled,
        SWMMAC: _wave_sparse,
    }
)


def _multiply_add(low: Lowering, a: Value, b: Value, c: Value) -> Value:
    """Multiply and add separately; contraction is the fast-math flags' business."""
    _, element = element_of(str(c.type))
    kind = "f" if element.startswith(("f", "bf")) else "i"
    return low.b.binary(f"arith.add{kind}", low.b.binary(f"arith.mul{kind}", a, b), c)
