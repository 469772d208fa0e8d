"""Matrix and LDS instructions by ROCDL name, as older kernels call them.

``raw_ops.mfma_f32_16x16x16f16(result_type, operands)`` does what ``fx.rocdl``'s function of the
same name does, and warns with the operation that takes tiles or lanes instead of registers. The
names are those of the matrix instructions (``mfma_…``, ``smfmac_…``, ``wmma_…``, ``swmmac_…``) and
of the LDS instructions (``ds_…``).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from flydsl_rocdl.arch import KNOWN, MatrixShape
from flydsl_rocdl.expr.intrinsic_names import NAMES as INTRINSICS
from flydsl_rocdl.expr.raw_matrix import NAMES

__all__ = ["NAMES", "replacement"]

_OPERATIONS: Mapping[str, str] = MappingProxyType(
    {
        "mfma": "fx.rocdl.MFMA",
        "mfma_scale": "fx.rocdl.MFMA_Scale",
        "smfmac": "fx.rocdl.SMFMAC",
        "wmma": "fx.rocdl.WMMA",
        "wmma_scale": "fx.rocdl.WMMAScale",
        "swmmac": "fx.rocdl.SWMMAC",
    }
)
_ELEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "f64": "fx.Float64", "f32": "fx.Float32", "f16": "fx.Float16", "bf16": "fx.BFloat16",
        "i8": "fx.Int8", "iu8": "fx.Int8", "iu4": "fx.Int4", "xf32": '"xf32"',
        "fp8": "fx.Float8E4M3FN", "bf8": "fx.Float8E5M2", "fp6": "fx.Float6E2M3FN",
        "bf6": "fx.Float6E3M2FN", "fp4": "fx.Float4E2M1FN",
    }
)  # fmt: skip
_LDS: Mapping[str, str] = MappingProxyType(
    {
        "ds_bpermute": 'fx.shuffle(value, lane, mode="idx")',
        "ds_swizzle": "fx.shuffle(value, mask)",
    }
)
_TRANSPOSING = re.compile(r"ds_(read|load)_tr(\d+)_b(\d+)$")


def _shape(name: str) -> MatrixShape:
    return next(
        shape
        for facts in KNOWN.values()
        for shape in facts.matrix
        if shape.intrinsic.replace(".", "_") == name
    )


def replacement(name: str) -> str:
    """Return what to write instead of a raw operation."""
    transposing = _TRANSPOSING.match(name)
    if transposing:
        family = "cdna4" if transposing[1] == "read" else "cdna5"
        return f"fx.copy with fx.rocdl.{family}.LDSReadTrans({transposing[2]}, {transposing[3]})"
    if name.startswith("ds_"):
        return _LDS.get(name, f"fx.rocdl.{name}")
    shape = _shape(name)
    if shape.family == "swmmac" and not any(
        shape in facts.matrix for facts in KNOWN.values() if "wmma-reuse" not in facts.has
    ):
        return f"fx.rocdl.{name}"  # how its operands lie in lanes is not published
    kinds = [_ELEMENTS[shape.a], _ELEMENTS[shape.b]]
    if not shape.family.endswith("_scale"):
        pair = kinds[0] if kinds[0] == kinds[1] else f"({', '.join(kinds)})"
        kinds = [pair]
    extents = (shape.m, shape.n * shape.blocks, shape.k)  # blocks side by side
    made = ", ".join([*map(str, extents), *kinds])
    return f"fx.gemm with {_OPERATIONS[shape.family]}({made})"


@cache
def _wrapped(name: str) -> Callable[..., Any]:
    from flydsl_rocdl import expr

    build = getattr(expr, name)

    def call(*arguments: Any, **modifiers: Any) -> Any:
        warnings.warn(
            f"raw_ops.{name} is kept for existing kernels; write {replacement(name)}",
            DeprecationWarning,
            stacklevel=2,
        )
        return build(*arguments, **modifiers)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Run ``{name}``, with a warning: write {replacement(name)}."
    return call


@cache
def _names() -> frozenset[str]:
    lds = (name.replace(".", "_") for name in INTRINSICS if name.startswith("ds."))
    return frozenset({*NAMES, *lds})


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_") or name not in _names():
        raise AttributeError(f"raw_ops has no {name!r}: only matrix and ds_… operations")
    return _wrapped(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_names()})
