"""Matrix operations by shape and element types, for the architecture being compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypeVar

from flydsl.errors import TargetError, UserValueError
from flydsl.expr.ambient import in_trace
from flydsl.expr.pointers import element_class
from flydsl_rocdl.atoms import mfma, wmma
from flydsl_rocdl.atoms.checks import instruction_for
from flydsl_rocdl.atoms.families import MatrixOp
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["MFMA", "SMFMAC", "SWMMAC", "WMMA", "MFMA_Scale", "WMMAScale"]

_Operation = TypeVar("_Operation", bound=MatrixOp)
_REDUCED = "xf32"
"""Name of f32 operands that are rounded to 10 bits of mantissa."""


def MFMA(m: int, n: int, k: int, elem_ab: Any, acc: Any = None) -> mfma.MFMA:  # noqa: N802
    """Return the matrix multiply-add of one wave64.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        elem_ab: Element type of A and B, or a pair of both; ``"xf32"`` for f32 that the
            instruction rounds to 10 bits of mantissa.
        acc: Element type of C and D; default f32, for integers i32, for f64 f64.

    Raises:
        UserError: No instruction has these extents.
        TargetError: The architecture being compiled for has no such instruction.
    """
    return _made(mfma.MFMA, (m, n, k), elem_ab, acc)


def MFMA_Scale(  # noqa: N802
    m: int,
    n: int,
    k: int,
    a: Any,
    b: Any = None,
    acc: Any = None,
    *,
    opsel_a: int = 0,
    opsel_b: int = 0,
) -> mfma.MFMA_Scale:
    """Return the scaled multiply-add of floats of 8, 6 and 4 bits of one wave64.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        a: Element type of A.
        b: Element type of B; default that of A.
        acc: Element type of C and D; default f32.
        opsel_a: Which byte of state ``scale_a`` counts.
        opsel_b: Which byte of state ``scale_b`` counts.

    Raises:
        UserError: No instruction has these extents or types.
        TargetError: The architecture being compiled for has no such instruction.
    """
    pair = (a, a if b is None else b)
    return _made(mfma.MFMA_Scale, (m, n, k), pair, acc, opsel_a=opsel_a, opsel_b=opsel_b)


def SMFMAC(  # noqa: N802
    m: int, n: int, k: int, elem_ab: Any, acc: Any = None, *, index_set: int = 0
) -> mfma.SMFMAC:
    """Return the sparse multiply-add of one wave64: of each four k of A two are kept.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Rows of B.
        elem_ab: Element type of A and B, or a pair of both.
        acc: Element type of C and D; default f32, for integers i32.
        index_set: Which part of state ``index`` counts.

    Raises:
        UserError: No instruction has these extents or types.
        TargetError: The architecture being compiled for has no such instruction.
    """
    return _made(mfma.SMFMAC, (m, n, k), elem_ab, acc, index_set=index_set)


def WMMA(  # noqa: N802
    m: int,
    n: int,
    k: int,
    elem_ab: Any,
    acc: Any = None,
    *,
    sign_a: bool | None = None,
    sign_b: bool | None = None,
    **options: Any,
) -> wmma.WMMA:
    """Return the matrix multiply-add of one wave32, laid out as the architecture wants it.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        elem_ab: Element type of A and B, or a pair of both.
        acc: Element type of C and D; default f32, for integers i32.
        sign_a: Whether the integers of A are signed; default as their type says.
        sign_b: The same for B.
        **options: ``clamp`` (integer results saturate); and on CDNA5 ``mod_c`` (1 for -C, 2 for
            |C|, 3 for -|C|), ``reuse_a`` and ``reuse_b`` (the next instruction has the same A, B).

    Raises:
        UserError: No instruction has these extents, or floats were given a keyword for integers.
        TargetError: The architecture being compiled for has no such instruction.
    """
    signs = _signs(elem_ab, (sign_a, sign_b), bool(options.get("clamp")))
    facts = amd_facts("WMMA")
    layout = {
        "copies": 2 if "wmma-copies" in facts.has else 1,
        "interleaved": "wmma-reuse" in facts.has,
    }
    return _made(wmma.WMMA, (m, n, k), elem_ab, acc, {**signs, **layout}, **options)


def WMMAScale(  # noqa: N802
    m: int, n: int, k: int, a: Any, b: Any = None, acc: Any = None, **options: Any
) -> wmma.WMMAScale:
    """Return the scaled multiply-add of floats of 8, 6 and 4 bits of one wave32.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        a: Element type of A.
        b: Element type of B; default that of A.
        acc: Element type of C and D; default f32.
        **options: ``opsel_a``, ``opsel_b`` (which half of the wave supplies the scales),
            ``block_size`` (k of one scale, 32 or 16), ``mod_c``, ``reuse_a``, ``reuse_b``.

    Raises:
        UserError: No instruction has these extents or types.
        TargetError: The architecture being compiled for has no such instruction.
    """
    return _made(wmma.WMMAScale, (m, n, k), (a, a if b is None else b), acc, **options)


def SWMMAC(  # noqa: N802
    m: int,
    n: int,
    k: int,
    elem_ab: Any,
    acc: Any = None,
    *,
    sign_a: bool | None = None,
    sign_b: bool | None = None,
    **options: Any,
) -> wmma.SWMMAC:
    """Return the sparse multiply-add of one wave32: of each four k of A two are kept.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Rows of B.
        elem_ab: Element type of A and B, or a pair of both.
        acc: Element type of C and D; default f32, for integers i32.
        sign_a: Whether the integers of A are signed; default as their type says.
        sign_b: The same for B.
        **options: ``clamp`` (integer results saturate), ``index_set`` (which part of ``index``
            counts).

    Raises:
        UserError: No instruction has these extents, or floats were given a keyword for integers.
        TargetError: The architecture being compiled for has no such instruction, or how its
            operands lie in the lanes is not published.
    """
    if in_trace() and "wmma-reuse" in amd_facts("SWMMAC").has:
        raise TargetError(
            "how the operands of this architecture's SWMMAC lie in lanes is not published",
            code="FLY-T634",
            value=f"{m}x{n}x{k}",
            hint="the builders fx.rocdl.swmmac_… take registers as they are",
        )
    signs = _signs(elem_ab, (sign_a, sign_b), bool(options.get("clamp")))
    return _made(wmma.SWMMAC, (m, n, k), elem_ab, acc, signs, **options)


def _pair(elem_ab: Any) -> tuple[Any, Any]:
    return elem_ab if isinstance(elem_ab, tuple) else (elem_ab, elem_ab)


def _texts(elem_ab: Any, acc: Any) -> tuple[str, str, str]:
    """Return the element types of A, B and C as MLIR text."""
    a, b = (
        e if isinstance(e, str) and e == _REDUCED else element_class(e).ir_text
        for e in _pair(elem_ab)
    )
    if acc is not None:
        return a, b, element_class(acc).ir_text
    if a == "f64":
        return a, b, "f64"
    return a, b, "i32" if a.startswith("i") else "f32"


def _signs(elem_ab: Any, asked: tuple[bool | None, bool | None], clamp: bool) -> dict[str, bool]:
    """Return whether A and B are signed; floats take none of the integers' keywords."""
    classes = [element_class(e) for e in _pair(elem_ab)]
    if not classes[0].is_integer and (asked != (None, None) or clamp):
        raise UserValueError(
            "sign_a, sign_b and clamp are for integers",
            code="FLY-U630",
            value=classes[0].__name__,
        )
    found = (bool(c.signed if s is None else s) for c, s in zip(classes, asked, strict=True))
    return dict(zip(("sign_a", "sign_b"), found, strict=True))


def _made(
    kind: type[_Operation],
    extents: tuple[int, int, int],
    types: Any,
    acc: Any,
    chosen: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> _Operation:
    """Return an operation of a family.

    Args:
        kind: Its class.
        extents: m, n, k.
        types: Element type of A and B, or both.
        acc: Element type of C, or None.
        chosen: Parameters that users do not give as options.
        **options: Options that they gave.

    Raises:
        UserError: The family has no such option, or no such instruction.
        TargetError: The architecture being compiled for has no such instruction.
    """
    a, b, accumulator = _texts(types, acc)
    name = kind.family.name
    common = {field.name for field in fields(MatrixOp)}
    own = [f.name for f in fields(kind) if f.name not in common | chosen.keys()]
    for option in options:
        if option not in own:
            raise UserValueError(
                f"{name} has no such option", code="FLY-U630", value=option,
                allowed=", ".join(own),
            )  # fmt: skip
    m, n, k = extents
    operation = kind(m, n, k, a, b, accumulator, **{**chosen, **options})
    if in_trace():
        instruction_for(amd_facts(name), operation)
    return operation
