"""Numbers of fixed types, static or dynamic: classes, promotion, conversion and operators.

Modules: `formats` (floating-point formats), `base` (`Numeric`), `classes`, `promote`
(common types), `convert` (conversion, bitcast), `operators`, `divide` and `fold` (arithmetic).
To add a type, add a class in `classes` (and a format in `formats` for a float).
"""

from __future__ import annotations

from flydsl.expr.numeric.base import Numeric
from flydsl.expr.numeric.classes import (
    BY_TEXT,
    BFloat16,
    Boolean,
    Float,
    Float4E2M1FN,
    Float6E2M3FN,
    Float6E3M2FN,
    Float8E4M3,
    Float8E4M3B11FNUZ,
    Float8E4M3FN,
    Float8E4M3FNUZ,
    Float8E5M2,
    Float8E5M2FNUZ,
    Float8E8M0FNU,
    Float16,
    Float32,
    Float64,
    Index,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    Integer,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
)
from flydsl.expr.numeric.formats import FORMATS, FloatFormat
from flydsl.expr.numeric.promote import as_numeric, common_type

__all__ = [
    "BY_TEXT",
    "FORMATS",
    "BFloat16",
    "Boolean",
    "Float",
    "Float4E2M1FN",
    "Float6E2M3FN",
    "Float6E3M2FN",
    "Float8E4M3",
    "Float8E4M3B11FNUZ",
    "Float8E4M3FN",
    "Float8E4M3FNUZ",
    "Float8E5M2",
    "Float8E5M2FNUZ",
    "Float8E8M0FNU",
    "Float16",
    "Float32",
    "Float64",
    "FloatFormat",
    "Index",
    "Int4",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Integer",
    "Numeric",
    "Uint8",
    "Uint16",
    "Uint32",
    "Uint64",
    "Uint128",
    "as_numeric",
    "common_type",
]
