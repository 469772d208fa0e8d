"""The ``math`` dialect: LLVM intrinsics that the back end expands, and device-library functions.

The usual conversion would call ROCm's device libraries, which we do not need. Accuracy, in units in
the last place of the result:

* ``sqrt``, ``fma``, ``absf``, ``floor``, ``ceil``, ``trunc``, ``round``, ``roundeven``,
  ``copysign``, remainders: exact or correctly rounded, f16 to f64.
* ``exp``, ``exp2``, ``log``, ``log2``, ``log10`` in f32: as LLVM's AMDGPU expansion, at most 2.
* ``rsqrt`` in f32: the hardware instruction (1), scaled around denormals.
* ``sin``, ``cos``, ``tanh``, ``erf``, ``pow``, … in f32: see `flydsl_rocdl.devlib`.
* f16 and bf16 transcendentals: computed in f32 and rounded once.

With the ``afn`` fast-math flag or ``unsafe_fp_math`` the hardware approximations are used instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl_rocdl.devlib import FUNCTIONS
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, refuse, rule
from flydsl_rocdl.passes.memtypes import element_of

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


def _in_f32(low: Lowering, op: Any, text: str = "") -> tuple[list[Value], bool]:
    """Return the operands as f32, and whether they had to be widened.

    Raises:
        TargetError: The element type is wider than f32.
    """
    text = text or str(op.result.type)
    _, element = element_of(text)
    if element == "f32":
        return list(op.operands), False
    if element not in ("f16", "bf16"):
        raise refuse(
            op,
            f"{op.name.removeprefix('math.')} is not available for {element} on AMD GPUs",
            code="FLY-T631",
            allowed="f32, f16, bf16",
        )
    wide = low.b.type(_with_element(text, "f32"))
    return [low.b.value("llvm.fpext", wide, (v,)) for v in op.operands], True


def _narrow(low: Lowering, op: Any, value: Value, widened: bool) -> list[Value]:
    return [low.b.value("llvm.fptrunc", op.result.type, (value,)) if widened else value]


@rule(*_EXACT)
def exact(low: Lowering, op: Any) -> list[Value]:
    """Operations that hardware or the back end computes exactly in every type."""
    return [_call(low, _EXACT[op.name], op.result.type, op.operands, op)]


@rule(*_EXPANDED)
def expanded(low: Lowering, op: Any) -> list[Value]:
    """Transcendentals with an expansion in the back end."""
    operands, widened = _in_f32(low, op)
    value = _call(low, _EXPANDED[op.name], operands[0].type, operands, op)
    return _narrow(low, op, value, widened)


@rule("math.rsqrt")
def rsqrt(low: Lowering, op: Any) -> list[Value]:
    """Reciprocal square root."""
    _, element = element_of(str(op.result.type))
    if element == "f64":
        one = _splat(low, op.result.type, "1.0")
        root = _call(low, "sqrt", op.result.type, op.operands, op)
        return [low.b.binary("llvm.fdiv", one, root)]
    operands, widened = _in_f32(low, op)
    name = "rsqrt_fast" if _approximate(low, op) else "rsqrt"
    return _narrow(low, op, _elementwise(low, name, operands), widened)


@rule(*_LIBRARY)
def library(low: Lowering, op: Any) -> list[Value]:
    """Functions of our own device library."""
    operands, widened = _in_f32(low, op)
    if op.name in _HARDWARE and _approximate(low, op):
        value = _call(low, _HARDWARE[op.name], operands[0].type, operands, op)
    else:
        value = _elementwise(low, _LIBRARY[op.name], operands)
    return _narrow(low, op, value, widened)


@rule("math.sincos")
def sine_and_cosine(low: Lowering, op: Any) -> list[Value]:
    """Both functions; the back end shares the reduction of the argument."""
    out: list[Value] = []
    for result, name in zip(op.results, ("sin", "cos"), strict=True):
        operands, widened = _in_f32(low, op, str(result.type))
        if _approximate(low, op):
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
    """Power with an integer exponent, through the real power."""
    b = low.b
    base, exponent = op.operands
    text = str(op.result.type)
    _, element = element_of(text)
    wide = b.type(_with_element(text, "f32"))
    if element not in ("f32", "f16", "bf16"):
        raise refuse(op, f"pow is not available for {element} on AMD GPUs", code="FLY-T631",
                     allowed="f32, f16, bf16")  # fmt: skip
    x = base if element == "f32" else b.value("llvm.fpext", wide, (base,))
    y = b.value("llvm.sitofp", wide, (exponent,))
    return _narrow(low, op, _elementwise(low, "pow", [x, y]), element != "f32")


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
    _, element = element_of(str(op.result.type))
    if element == "f64":
        return [_elementwise(low, "fmod_f64", list(op.operands))]
    operands, widened = _in_f32(low, op)
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


def _splat(low: Lowering, result: Any, text: str) -> Value:
    type_text = str(result)
    value = f"dense<{text}> : {type_text}" if type_text[0] == "v" else f"{text} : {type_text}"
    return low.b.value("llvm.mlir.constant", result, (), {"value": value})


def _elementwise(low: Lowering, name: str, operands: list[Value]) -> Value:
    """Call a scalar device-library function on scalars or on every element of vectors."""
    assert name in FUNCTIONS, name
    b = low.b
    kind = operands[0].type
    count, _ = element_of(str(kind))
    scalar = b.type(_MLIR_TYPES.get(FUNCTIONS[name].kind, FUNCTIONS[name].kind))
    if not count:
        return low.call(name, scalar, operands)
    out = b.value("llvm.mlir.poison", kind)
    for i in range(count):
        at = b.constant(i)
        parts = [b.value("llvm.extractelement", scalar, (v, at)) for v in operands]
        out = b.value("llvm.insertelement", kind, (out, low.call(name, scalar, parts), at))
    return out
