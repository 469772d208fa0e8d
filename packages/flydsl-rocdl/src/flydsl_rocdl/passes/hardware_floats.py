"""The conversion instructions between f32 and floats of 8, 6 and 4 bits.

Which there are (ISA guides, and LLVM for the intrinsics): two 8-bit numbers at a time in FNUZ
formats on CDNA3 and in OCP formats on CDNA4, RDNA4 and CDNA5; on CDNA4 also two 4-bit numbers
or 32 6-bit numbers at a time, with a scale, which is one here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl.expr.numeric.formats import FloatFormat
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.words import Words, vector_of

__all__ = ["narrow", "widen"]

_BYTES = {
    "fnuz": {"f8E4M3FNUZ": "fp8", "f8E5M2FNUZ": "bf8"},
    "ocp": {"f8E4M3FN": "fp8", "f8E5M2": "bf8"},
}
_SIXES = {"f6E2M3FN": "fp6", "f6E3M2FN": "bf6"}
_NIBBLES = {"f4E2M1FN": "fp4"}
_SCALED = "scaled-cvt"


def _kind(w: Words, form: FloatFormat) -> tuple[str, int]:
    """Return the instructions' name of a format and how many numbers fill their registers."""
    facts = w.low.facts
    name = _BYTES.get(facts.fp8, {}).get(form.name, "")
    if name:
        return name, 4
    if _SCALED in facts.has:
        if form.name in _NIBBLES:
            return _NIBBLES[form.name], 8
        if form.name in _SIXES and w.count and w.count % 32 == 0:
            return _SIXES[form.name], 32
    return "", 0


def widen(w: Words, form: FloatFormat, code: Value) -> Value | None:
    """Return the f32 values of codes (iN), None where no instruction converts them."""
    name, group = _kind(w, form)
    if not name:
        return None
    b = w.low.b
    if not w.count:
        word = b.value("arith.extui", b.type("i32"), (code,))
        if group == 4:
            return b.intrinsic(
                f"amdgcn.cvt.f32.{name}", b.type("f32"), (word, b.constant(0))
            ).result
        return _pairs(w, name, word, 1)[0]
    codes = w.elements(code)
    out: list[Value] = []
    for start in range(0, w.count, group):
        part = codes[start : start + group]
        if group == 32:
            out += _thirty_two(w, name, b.bitcast(vector_of(w.low, part), b.type("vector<6xi32>")))
        else:
            out += _pairs(w, name, _word(w, part, group), len(part))
    return w.gather(out)


def _word(w: Words, codes: Sequence[Value], group: int) -> Value:
    """Return codes in a register, the first lowest; zeros fill it."""
    b = w.low.b
    missing = group - len(codes)
    padding = [b.constant(0, f"i{32 // group}")] if missing else []
    return b.bitcast(vector_of(w.low, [*codes, *padding * missing]), b.type("i32"))


def _pairs(w: Words, name: str, word: Value, count: int) -> list[Value]:
    """Return `count` f32 values of the codes in a register."""
    b = w.low.b
    kind = b.type("vector<2xf32>")
    out: list[Value] = []
    for at in range(0, count, 2):
        if name == "fp4":
            scaled = (word, b.constant(1.0, "f32"), b.constant(at // 2))
            pair = b.intrinsic("amdgcn.cvt.scalef32.pk.f32.fp4", kind, scaled).result
        else:
            operands = (word, b.constant(at // 2, "i1"))
            pair = b.intrinsic(f"amdgcn.cvt.pk.f32.{name}", kind, operands).result
        out += _parts(w, pair, 2)
    return out[:count]


def _parts(w: Words, vector: Value, count: int) -> list[Value]:
    return Words(w.low, count).elements(vector)


def _thirty_two(w: Words, name: str, words: Value) -> list[Value]:
    b = w.low.b
    found = b.intrinsic(
        f"amdgcn.cvt.scalef32.pk32.f32.{name}",
        b.type("vector<32xf32>"),
        (words, b.constant(1.0, "f32")),
    ).result
    return _parts(w, found, 32)


def narrow(w: Words, form: FloatFormat, value: Value) -> Value | None:
    """Return the codes (iN) of f32 values, None where no instruction converts them."""
    name, group = _kind(w, form)
    if not name:
        return None
    b = w.low.b
    values = w.elements(value)
    convert: Callable[[Words, str, list[Value]], Value] = {
        4: _to_bytes, 8: _to_nibbles, 32: _to_sixes
    }[group]  # fmt: skip
    narrowed = b.type(f"i{form.width}")
    out: list[Value] = []
    for start in range(0, len(values), group):
        part = values[start : start + group]
        word = convert(w, name, part)
        if not w.count:
            return b.value("arith.trunci", narrowed, (word,))
        whole = b.bitcast(word, b.type(f"vector<{group}x{narrowed}>"))
        out += _parts(w, whole, group)[: len(part)]
    return w.gather(out)


def _filled(values: list[Value], at: int) -> tuple[Value, Value]:
    """Return two operands; the last value stands in for a missing one."""
    return values[at], values[min(at + 1, len(values) - 1)]


def _to_bytes(w: Words, name: str, values: list[Value]) -> Value:
    b = w.low.b
    kind = b.type("i32")
    word = b.constant(0)
    for at in range(0, len(values), 2):
        operands = (*_filled(values, at), word, b.constant(at // 2, "i1"))
        word = b.intrinsic(f"amdgcn.cvt.pk.{name}.f32", kind, operands).result
    return word


def _to_nibbles(w: Words, name: str, values: list[Value]) -> Value:
    b = w.low.b
    kind = b.type("i32")
    word = b.constant(0)
    for at in range(0, len(values), 2):
        scale = b.constant(1.0, "f32")
        operands = (word, *_filled(values, at), scale, b.constant(at // 2))
        word = b.intrinsic(f"amdgcn.cvt.scalef32.pk.{name}.f32", kind, operands).result
    return word


def _to_sixes(w: Words, name: str, values: list[Value]) -> Value:
    """Convert 32 values; the instruction takes the even and the odd ones from two operands."""
    b = w.low.b
    halves = [vector_of(w.low, values[at::2]) for at in (0, 1)]
    operands = (*halves, b.constant(1.0, "f32"))
    return b.intrinsic(
        f"amdgcn.cvt.scalef32.2xpk16.{name}.f32", b.type("vector<6xi32>"), operands
    ).result
