"""The ``math`` dialect: LLVM intrinsics that the back end expands, and device-library functions.

The usual conversion would call ROCm's device libraries, which we do not need. Accuracy, in units in
the last place of the result:

* ``sqrt``, ``fma``, ``absf``, ``floor``, ``ceil``, ``trunc``, ``round``, ``roundeven``,
  ``copysign``, remainders: exact or correctly rounded, f16 to f64.
* ``exp``, ``exp2``, ``log``, ``log2``, ``log10`` in f32: as LLVM's AMDGPU expansion, at most 2.
* ``rsqrt`` in f32: the hardware instruction (1), scaled around denormals.
* ``sin``, ``cos``, ``tanh``, ``erf``, ``pow``, … in f32, and all of these and ``exp``, ``log``,
  ``rsqrt``, … in f64: see `flydsl_rocdl.devlib`.
* f16 and bf16 transcendentals: computed in f32 and rounded once.

With the ``afn`` fast-math flag or ``unsafe_fp_math`` the hardware approximations of f32 are used
instead, of which f64 has none: ``exp2`` and ``log2`` are the bare instructions, which may take and
give zero for denormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl_rocdl.devlib import FUNCTIONS
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse, rule
from flydsl_rocdl.passes.memtypes import element_of
from flydsl_rocdl.passes.words import Words

__all__: list[str] = []

_EXACT = {
    "math.sqrt": "sqrt",
    "math.fma": "fma",
    "math.absf": "fabs",
    "math.floor": "floor",
    "math.ceil": "ceil",
    "math.trunc": "trunc",
    "math.round": "round",
    "math.roundeven": "roundeven",
    "math.copysign": "copysign",
}
_EXPANDED = {
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.log": "log",
    "math.log2": "log2",
    "math.log10": "log10",
}
_LIBRARY = {
    "math.sin": "sin",
    "math.cos": "cos",
    "math.tan": "tan",
    "math.tanh": "tanh",
    "math.erf": "erf",
    "math.powf": "pow",
    "math.expm1": "expm1",
    "math.log1p": "log1p",
    "math.sinh": "sinh",
    "math.cosh": "cosh",
    "math.atan": "atan",
    "math.atan2": "atan2",
    "math.asin": "asin",
    "math.acos": "acos",
    "math.acosh": "acosh",
    "math.asinh": "asinh",
    "math.atanh": "atanh",
    "math.erfc": "erfc",
    "math.cbrt": "cbrt",
}
_INSTRUCTIONS = {"math.exp2": "amdgcn.exp2", "math.log2": "amdgcn.log"}
_HARDWARE = {"math.sin": "sin", "math.cos": "cos"}
_BITS = {
    "math.ctpop": ("ctpop", False),
    "math.ctlz": ("ctlz", True),
    "math.cttz": ("cttz", True),
    "math.absi": ("abs", True),
}


_MLIR_TYPES = {"float": "f32", "double": "f64"}
_APPROXIMATE = "#llvm.fastmath<fast>"


def _flags(op: Any) -> str:
    if "fastmath" not in op.attributes:
        return "#llvm.fastmath<none>"
    return str(op.attributes["fastmath"]).replace("#arith.fastmath", "#llvm.fastmath")


def _approximate(low: Lowering, op: Any) -> bool:
    text = _flags(op)
    return low.approximate or "afn" in text or "<fast>" in text


def _call(low: Lowering, name: str, result: Any, operands: Sequence[Value], op: Any) -> Value:
    """Call an intrinsic with the operation's fast-math flags.

    The upstream conversion maps most of the LLVM dialect's own math operations to device-library
    calls, which calls of the intrinsics are spared.
    """
    flags = _APPROXIMATE if low.approximate else _flags(op)
    return low.b.intrinsic(name, result, operands, flags).result


def _with_element(type_text: str, element: str) -> str:
    count, _ = element_of(type_text)
    return f"vector<{count}x{element}>" if count else element


def _computed(
    low: Lowering, op: Any, values: Sequence[Value] | None = None
) -> tuple[list[Value], bool]:
    """Return operands (default: all) as f32 or f64, and whether they had to be widened.

    Raises:
        TargetError: There is no such function for the element type.
    """
    values = list(op.operands) if values is None else list(values)
    text = str(values[0].type)
    _, element = element_of(text)
    if element in ("f32", "f64"):
        return values, False
    if element not in ("f16", "bf16"):
        raise refuse(
            op,
            f"{op.name.removeprefix('math.')} is not available for {element} on AMD GPUs",
            code="FLY-T631",
            allowed="f16, bf16, f32, f64",
        )
    wide = low.b.type(_with_element(text, "f32"))
    return [low.b.value("llvm.fpext", wide, (v,)) for v in values], True


def _narrow(low: Lowering, op: Any, value: Value, widened: bool) -> list[Value]:
    return [low.b.value("llvm.fptrunc", op.result.type, (value,)) if widened else value]


def _is_f64(value: Value) -> bool:
    return element_of(str(value.type))[1] == "f64"


@rule(*_EXACT)
def exact(low: Lowering, op: Any) -> list[Value]:
    """Operations that hardware or the back end computes exactly in every type."""
    return [_call(low, _EXACT[op.name], op.result.type, op.operands, op)]


@rule(*_EXPANDED)
def expanded(low: Lowering, op: Any) -> list[Value]:
    """Transcendentals with an expansion in the back end."""
    operands, widened = _computed(low, op)
    name = _EXPANDED[op.name]
    if _is_f64(op.result):
        value = _elementwise(low, name, operands)
    elif op.name in _INSTRUCTIONS and _approximate(low, op):
        # LLVM's own intrinsics are expanded around denormals whatever their flags say.
        value = _instruction(low, _INSTRUCTIONS[op.name], operands[0])
    else:
        value = _call(low, name, operands[0].type, operands, op)
    return _narrow(low, op, value, widened)


@rule("math.rsqrt")
def rsqrt(low: Lowering, op: Any) -> list[Value]:
    """Reciprocal square root."""
    operands, widened = _computed(low, op)
    fast = _approximate(low, op) and not _is_f64(op.result)
    name = "rsqrt_fast" if fast else "rsqrt"
    return _narrow(low, op, _elementwise(low, name, operands), widened)


@rule(*_LIBRARY)
def library(low: Lowering, op: Any) -> list[Value]:
    """Functions of our own device library."""
    operands, widened = _computed(low, op)
    if op.name in _HARDWARE and _approximate(low, op) and not _is_f64(op.result):
        value = _call(low, _HARDWARE[op.name], operands[0].type, operands, op)
    else:
        value = _elementwise(low, _LIBRARY[op.name], operands)
    return _narrow(low, op, value, widened)


@rule("math.sincos")
def sine_and_cosine(low: Lowering, op: Any) -> list[Value]:
    """Both functions; the back end shares the reduction of the argument."""
    out: list[Value] = []
    for result, name in zip(op.results, ("sin", "cos"), strict=True):
        operands, widened = _computed(low, op)
        if _approximate(low, op) and not _is_f64(result):
            value = _call(low, name, operands[0].type, operands, op)
        else:
            value = _elementwise(low, name, operands)
        out.append(low.b.value("llvm.fptrunc", result.type, (value,)) if widened else value)
    return out


@rule("math.clampf")
def clamp(low: Lowering, op: Any) -> list[Value]:
    """Limit to a range; NaN becomes the lower limit."""
    value, lowest, highest = op.operands
    bounded = _call(low, "maxnum", value.type, (value, lowest), op)
    return [_call(low, "minnum", value.type, (bounded, highest), op)]


@rule("math.fpowi")
def integer_power(low: Lowering, op: Any) -> list[Value]:
    """Power with an integer exponent, through the real power; the sign by the exponent's parity."""
    b = low.b
    base, exponent = op.operands
    (x,), widened = _computed(low, op, (base,))
    y = b.value("llvm.sitofp", x.type, (exponent,))
    magnitude = b.intrinsic("fabs", x.type, (x,)).result
    power = _elementwise(low, "pow", [magnitude, y])
    signed = b.intrinsic("copysign", x.type, (power, x)).result
    flags = b.type(_with_element(str(exponent.type), "i1"))
    odd = b.value("llvm.trunc", flags, (exponent,))
    return _narrow(low, op, b.value("llvm.select", x.type, (odd, signed, power)), widened)


@rule("math.ipowi")
def whole_power(low: Lowering, op: Any) -> list[Value]:
    """Integer power, by repeated squaring."""
    b = low.b
    text = str(op.result.type)
    _, element = element_of(text)
    name = "ipow_i64" if element == "i64" else "ipow_i32"
    if element in ("i32", "i64"):
        return [_elementwise(low, name, list(op.operands))]
    if element not in ("i8", "i16"):
        raise refuse(op, f"integer power of {element}", code="FLY-T631", allowed="i8 to i64")
    wide = b.type(_with_element(text, "i32"))
    operands = [b.value("llvm.sext", wide, (v,)) for v in op.operands]
    return [b.value("llvm.trunc", op.result.type, (_elementwise(low, name, operands),))]


@rule(*_BITS)
def bits(low: Lowering, op: Any) -> list[Value]:
    """Bit counts and the integer absolute value, defined for every operand."""
    name, has_flag = _BITS[op.name]
    operands = [op.operands[0], *([low.b.constant(0, "i1")] if has_flag else [])]
    return [low.b.intrinsic(name, op.result.type, operands).result]


@rule("arith.remf")
def remainder(low: Lowering, op: Any) -> list[Value]:
    """Remainder with the sign of the dividend (C's fmod), exact in every type."""
    operands, widened = _computed(low, op)
    return _narrow(low, op, _elementwise(low, "fmod", operands), widened)


@rule("math.isnan", "math.isinf", "math.isfinite", "math.isnormal")
def classify(low: Lowering, op: Any) -> list[Value]:
    """Floating-point classes, by LLVM's class mask."""
    mask = {"isnan": 3, "isinf": 0x204, "isfinite": 0x1F8, "isnormal": 0x108}[op.name[5:]]
    return [
        low.b.value(
            "llvm.intr.is.fpclass", op.result.type, list(op.operands), {"bit": f"{mask} : i32"}
        )
    ]


def _instruction(low: Lowering, name: str, value: Value) -> Value:
    """Call a scalar f32 intrinsic on a scalar or on every element of a vector."""
    count, _ = element_of(str(value.type))
    w = Words(low, count)
    kind = low.b.type("f32")
    return w.gather([low.b.intrinsic(name, kind, (v,)).result for v in w.elements(value)])


def _elementwise(low: Lowering, name: str, operands: list[Value]) -> Value:
    """Call a scalar device-library function on scalars or on every element of vectors."""
    b = low.b
    kind = operands[0].type
    count, element = element_of(str(kind))
    name = f"{name}_f64" if element == "f64" else name
    assert name in FUNCTIONS, name
    scalar = b.type(_MLIR_TYPES.get(FUNCTIONS[name].kind, FUNCTIONS[name].kind))
    if not count:
        return low.call(name, scalar, operands)
    out = b.value("llvm.mlir.poison", kind)
    for i in range(count):
        at = b.constant(i)
        parts = [b.value("llvm.extractelement", scalar, (v, at)) for v in operands]
        out = b.value("llvm.insertelement", kind, (out, low.call(name, scalar, parts), at))
    return out
