"""Matrix instructions under their ROCDL names, on registers as the hardware has them.

`builder` makes the function of a name such as ``mfma_f32_16x16x16f16``: the names of LLVM's
intrinsics with dots as underscores. The functions take a result type (None: that of C) and the
operands in the order of the hardware manual, in a list or one by one; modifiers are keywords, or
for MFMA and SMFMAC integers at the end of the list. Operands are vectors and numbers of the types
that the intrinsic has: floats of 8 bits and less, and i8 and i4, are packed in i32 or i64. How
elements lie in lanes is the caller's business; the operations of `matrix` know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from flydsl.errors import TargetError, UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric import as_numeric
from flydsl.expr.vector import Vector
from flydsl_rocdl.arch import KNOWN, ArchFacts, MatrixShape
from flydsl_rocdl.arch.mfma import F8F6F4
from flydsl_rocdl.expr.access import amd_facts, immediate, intrinsic

__all__ = ["NAMES", "builder"]

_BITS = {"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16}
_BITS |= {"fp6": 6, "bf6": 6, "fp4": 4, "iu4": 4}
_SIGNS = {"signA": 1, "signB": 1}
_REUSE = {"reuseA": 1, "reuseB": 1}


def _named(shape: MatrixShape) -> str:
    return shape.intrinsic.replace(".", "_")


NAMES: frozenset[str] = frozenset(
    _named(shape) for facts in KNOWN.values() for shape in facts.matrix
)
"""Every name that some architecture has."""


def _vector(count: int, element: str) -> str:
    return element if count == 1 else f"vector<{count}x{element}>"


def _operand(shape: MatrixShape, facts: ArchFacts, side: int) -> tuple[str, ...]:
    """Return the types in which the intrinsic takes A (`side` 0) or B, the usual one first."""
    element = (shape.a, shape.b)[side]
    rows = (shape.m, shape.n)[side]
    copies = 2 if "wmma-copies" in facts.has else 1
    count = rows * shape.k * shape.blocks * copies // facts.wave_size
    if side == 0 and shape.family in ("smfmac", "swmmac"):
        count //= 2
    bits = _BITS.get(element, 8)
    if shape.family.endswith("_scale"):
        return _vector(count * bits // 32, "i32"), _vector(count // 4, "i32")
    if element == "bf16":
        as_integers, as_floats = _vector(count, "i16"), _vector(count, "bf16")
        return (as_integers, as_floats) if _older(shape, facts) else (as_floats, as_integers)
    if bits >= 16:
        return (_vector(count, "f32" if element == "xf32" else element),)
    if shape.family == "mfma" and count * bits <= 64:
        return (f"i{count * bits}",)
    return (_vector(count * bits // 32, "i32"),)


def _older(shape: MatrixShape, facts: ArchFacts) -> bool:
    """Return whether the intrinsic takes bf16 as integers."""
    if shape.family == "smfmac":
        return shape.m * shape.k == 512
    if shape.family == "mfma":
        return shape.intrinsic.endswith(".1k")
    return "wmma-reuse" not in facts.has


def _result(shape: MatrixShape, facts: ArchFacts) -> tuple[str, ...]:
    count = shape.m * shape.n * shape.blocks // facts.wave_size
    if _BITS[shape.acc] == 16 and "wmma-copies" in facts.has:
        count *= 2
    if shape.acc == "bf16" and _older(shape, facts):
        return _vector(count, "i16"), _vector(count, "bf16")
    return (_vector(count, shape.acc),)


def _order(shape: MatrixShape, facts: ArchFacts) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Return the intrinsic's operands in order, and the largest value of each immediate."""
    newest = "wmma-reuse" in facts.has
    family = shape.family
    if family == "mfma":
        return ("a", "b", "c", "cbsz", "abid", "blgp"), {"cbsz": 7, "abid": 15, "blgp": 7}
    if family == "smfmac":
        return ("a", "b", "c", "index", "cbsz", "abid"), {"cbsz": 7, "abid": 15}
    if family == "mfma_scale":
        order = ("a", "b", "c", "cbsz", "blgp", "opselA", "scaleA", "opselB", "scaleB")
        return order, {"cbsz": 4, "blgp": 4, "opselA": 3, "opselB": 3}
    if family == "wmma_scale":
        tail = ("modC", "c", "scaleAType", "fmtScaleA", "scaleA", "scaleBType", "fmtScaleB",
                "scaleB", "reuseA", "reuseB")  # fmt: skip
        limits = {"modC": 3, "scaleAType": 1, "fmtScaleA": 2, "scaleBType": 1, "fmtScaleB": 2}
        if shape.intrinsic.endswith("f8f6f4"):
            limits |= {"fmtA": 4, "fmtB": 4}
            return ("fmtA", "a", "fmtB", "b", *tail), {**limits, **_REUSE}
        return ("a", "b", *tail), {**limits, **_REUSE}
    middle = ("index",) if family == "swmmac" else ()
    reuse = ("reuseA", "reuseB") if newest else ()
    if shape.acc == "i32":
        order = ("signA", "a", "signB", "b", "c", *middle, *reuse, "clamp")
        return order, {**_SIGNS, **(_REUSE if newest else {}), "clamp": 1}
    if not newest:
        opsel = ("opsel",) if family == "wmma" and _BITS[shape.acc] == 16 else ()
        return ("a", "b", "c", *middle, *opsel), dict.fromkeys(opsel, 1)
    modifier = ("modC",) if family == "wmma" else ()
    limits = {**dict.fromkeys(modifier, 3), **_REUSE}
    if shape.a in F8F6F4:
        return ("a", "b", *modifier, "c", *middle, *reuse), limits
    return ("signA", "a", "signB", "b", *modifier, "c", *middle, *reuse), {**limits, **_SIGNS}


def _width(name: str) -> str:
    """Return the integer type of an immediate."""
    flags = ("signA", "signB", "reuseA", "reuseB", "clamp", "opsel")
    if name in flags:
        return "i1"
    return "i16" if name == "modC" else "i32"


def _register(name: str, what: str, value: Any, allowed: Sequence[str]) -> IRValue:
    """Return an operand's IR value in the first of the allowed types."""
    number = None if isinstance(value, Vector) else as_numeric(value)
    if not isinstance(value, Vector) and number is None:
        raise UserTypeError(
            f"{what} of {name} is no vector and no number", code="FLY-U618", value=value,
            allowed=" or ".join(allowed),
        )  # fmt: skip
    found = value.ir_value() if number is None else number.ir_value()
    text = str(found.type)
    if text == allowed[0]:
        return found
    if text not in allowed:
        raise UserTypeError(
            f"{what} of {name} has another type", code="FLY-U618", value=text,
            allowed=" or ".join(dict.fromkeys(allowed)),
        )  # fmt: skip
    if "i32>" in text:  # a longer vector than the format needs
        return found
    return emit("llvm.bitcast", require(name).type(allowed[0]), (found,))


def _shape_of(name: str, facts: ArchFacts, modifiers: Mapping[str, Any]) -> MatrixShape:
    """Return the instruction of a name; of several formats the one that the modifiers choose.

    Raises:
        TargetError: The architecture has none of that name.
    """
    found = [shape for shape in facts.matrix if _named(shape) == name]
    if not found:
        family = name.split("_", maxsplit=1)[0]
        names = dict.fromkeys(map(_named, facts.matrix))
        own = ", ".join(n for n in names if n.split("_")[0] == family)
        raise TargetError(
            f"{facts.name} has no {name}", code="FLY-T634", value=name,
            allowed=own or f"none: this architecture has no {family}_…",
        )  # fmt: skip
    keys = ("cbsz", "blgp") if name.startswith("mfma") else ("fmtA", "fmtB")
    formats = tuple(F8F6F4[int(modifiers.get(key, 0)) % len(F8F6F4)] for key in keys)
    return next((s for s in found if (s.a, s.b) == formats), found[0])


def _call(name: str, result_type: Any, operands: Sequence[Any], given: Mapping[str, Any]) -> Any:
    facts = amd_facts(name)
    order, _ = _order(_shape_of(name, facts, {}), facts)
    places = [x for x in order if x in ("a", "b", "c", "index", "scaleA", "scaleB")]
    if name.startswith(("mfma", "smfmac")):  # integers may follow in the intrinsic's order
        places = list(order)
    if len(operands) > len(places):
        raise UserValueError(
            f"{name} has fewer operands", code="FLY-U618", value=len(operands),
            allowed=", ".join(places),
        )  # fmt: skip
    values = {**dict(zip(places, operands, strict=False)), **given}
    shape = _shape_of(name, facts, values)
    order, limits = _order(shape, facts)
    unknown = [key for key in values if key not in order]
    missing = [key for key in order if key not in values and key not in limits]
    if unknown or missing:
        raise UserValueError(
            f"{name} has no such operand" if unknown else f"{name} lacks an operand",
            code="FLY-U618", value=", ".join(unknown or missing), allowed=", ".join(order),
        )  # fmt: skip
    scale = ("i64",) if "scale16" in shape.intrinsic else ("i32",)
    c_types = _result(shape, facts)
    types = {"a": _operand(shape, facts, 0), "b": _operand(shape, facts, 1), "c": c_types,
             "index": ("i32",), "scaleA": scale, "scaleB": scale}  # fmt: skip
    if shape.family == "swmmac" and str(_type_of(values["index"])) == "i16":
        types["index"] = ("i16",)
    session = require(name)
    lowered = [
        constant(session, _width(key),
                 immediate(f"{key} of {name}", int(values.get(key, 0)), 0, limits[key]))
        if key in limits else _register(name, key, values[key], types[key])
        for key in order
    ]  # fmt: skip
    return _wrapped(name, result_type, values["c"], c_types, shape, lowered)


def _type_of(value: Any) -> Any:
    number = as_numeric(value)
    return None if number is None else number.ir_value().type


def _wrapped(
    name: str, result_type: Any, c: Any, types: Sequence[str], shape: MatrixShape,
    operands: Sequence[IRValue],
) -> Any:  # fmt: skip
    """Call the intrinsic and give the result the type of C."""
    session = require(name)
    text = str(c.ir_value().type) if isinstance(c, Vector) else types[0]
    if result_type is not None:
        wanted = str(getattr(result_type, "ir_type", result_type))
        if wanted not in (text, *types):
            raise UserTypeError(
                f"{name} gives {text} here", code="FLY-U617", value=wanted, allowed=text
            )
    value = intrinsic(f"amdgcn.{shape.intrinsic}", session.type(types[0]), operands)
    if text != types[0]:
        value = emit("llvm.bitcast", session.type(text), (value,))
    if isinstance(c, Vector):
        return Vector(value, None, c.dtype)
    number = as_numeric(c)
    assert number is not None
    return type(number).wrap(value)


@lru_cache(maxsize=512)
def builder(name: str) -> Callable[..., Any] | None:
    """Return the function of a name, None when no architecture has it."""
    if name not in NAMES:
        return None

    def call(result_type: Any, *operands: Any, **modifiers: Any) -> Any:
        listed = operands[0] if operands and isinstance(operands[0], (list, tuple)) else operands
        return _call(name, result_type, listed, MappingProxyType(modifiers))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"Run the instruction ``{name}`` on registers and return the result.\n\n"
        "    Args:\n"
        "        result_type: Type of the result, or None for that of C.\n"
        "        *operands: A, B, C and what else the instruction has, or one list of them.\n"
        "        **modifiers: The instruction's immediates; 0 where they are left out.\n\n"
        "    Raises:\n"
        "        UserError: An operand is missing or has another type.\n"
        "        TargetError: The architecture has no such instruction.\n"
    )
    return call
