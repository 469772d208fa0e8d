"""The numeric classes. To add one: subclass `Integer` or `Float` with its width and spelling."""

from __future__ import annotations

from flydsl.expr.numeric.formats import FORMATS
from flydsl.expr.numeric.operators import Arithmetic

__all__ = [
    "BY_TEXT",
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
    "Index",
    "Int4",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Integer",
    "Uint8",
    "Uint16",
    "Uint32",
    "Uint64",
    "Uint128",
]


class Integer(Arithmetic):
    """Base of the integer classes."""

    __slots__ = ()
    is_integer = True


class Float(Arithmetic):
    """Base of the floating-point classes."""

    __slots__ = ()
    is_float = True
    storable = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.lanes:
            return
        cls.format = FORMATS[cls.ir_text]
        cls.width = cls.format.width
        cls.storable = cls.width >= 8


class Boolean(Integer):
    """A truth value: one bit. ``+ - * / // %`` compute in `Int32`."""

    __slots__ = ()
    width = 1
    ir_text = "i1"
    numpy_name = "bool"
    storable = False


class Int4(Integer):
    """Four-bit signed integer; packed vectors of it can be stored, single ones cannot."""

    __slots__ = ()
    width = 4
    ir_text = "i4"
    storable = False


class Int8(Integer):
    """8-bit signed integer."""

    __slots__ = ()
    width = 8
    ir_text = "i8"
    numpy_name = "int8"


class Int16(Integer):
    """16-bit signed integer."""

    __slots__ = ()
    width = 16
    ir_text = "i16"
    numpy_name = "int16"


class Int32(Integer):
    """32-bit signed integer."""

    __slots__ = ()
    width = 32
    ir_text = "i32"
    numpy_name = "int32"


class Int64(Integer):
    """64-bit signed integer."""

    __slots__ = ()
    width = 64
    ir_text = "i64"
    numpy_name = "int64"


class Int128(Integer):
    """128-bit signed integer."""

    __slots__ = ()
    width = 128
    ir_text = "i128"


class Uint8(Integer):
    """8-bit unsigned integer."""

    __slots__ = ()
    width = 8
    signed = False
    ir_text = "i8"
    numpy_name = "uint8"


class Uint16(Integer):
    """16-bit unsigned integer."""

    __slots__ = ()
    width = 16
    signed = False
    ir_text = "i16"
    numpy_name = "uint16"


class Uint32(Integer):
    """32-bit unsigned integer."""

    __slots__ = ()
    width = 32
    signed = False
    ir_text = "i32"
    numpy_name = "uint32"


class Uint64(Integer):
    """64-bit unsigned integer."""

    __slots__ = ()
    width = 64
    signed = False
    ir_text = "i64"
    numpy_name = "uint64"


class Uint128(Integer):
    """128-bit unsigned integer."""

    __slots__ = ()
    width = 128
    signed = False
    ir_text = "i128"


class Index(Integer):
    """MLIR's ``index``: 64 bits; division, comparison and conversion treat it as unsigned."""

    __slots__ = ()
    width = 64
    signed = False
    ir_text = "index"
    is_index = True
    numpy_name = "uint64"
    storable = False


class Float16(Float):
    """IEEE half precision."""

    __slots__ = ()
    ir_text = "f16"
    numpy_name = "float16"


class BFloat16(Float):
    """Brain float: the upper half of a `Float32`."""

    __slots__ = ()
    ir_text = "bf16"


class Float32(Float):
    """IEEE single precision."""

    __slots__ = ()
    ir_text = "f32"
    numpy_name = "float32"


class Float64(Float):
    """IEEE double precision."""

    __slots__ = ()
    ir_text = "f64"
    numpy_name = "float64"


class Float8E5M2(Float):
    """5-bit exponent, 2-bit mantissa, with infinities."""

    __slots__ = ()
    ir_text = "f8E5M2"


class Float8E5M2FNUZ(Float):
    """5-bit exponent, 2-bit mantissa, one NaN, no infinities, no minus zero."""

    __slots__ = ()
    ir_text = "f8E5M2FNUZ"


class Float8E4M3(Float):
    """4-bit exponent, 3-bit mantissa, with infinities."""

    __slots__ = ()
    ir_text = "f8E4M3"


class Float8E4M3FN(Float):
    """4-bit exponent, 3-bit mantissa, no infinities; largest value 448."""

    __slots__ = ()
    ir_text = "f8E4M3FN"


class Float8E4M3FNUZ(Float):
    """4-bit exponent, 3-bit mantissa, one NaN, no minus zero; largest value 240."""

    __slots__ = ()
    ir_text = "f8E4M3FNUZ"


class Float8E4M3B11FNUZ(Float):
    """As `Float8E4M3FNUZ` with exponent bias 11; largest value 30."""

    __slots__ = ()
    ir_text = "f8E4M3B11FNUZ"


class Float8E8M0FNU(Float):
    """A power of two from 2**-127 to 2**127, or NaN: the scale of microscaling formats."""

    __slots__ = ()
    ir_text = "f8E8M0FNU"


class Float6E2M3FN(Float):
    """2-bit exponent, 3-bit mantissa, finite only; largest value 7.5."""

    __slots__ = ()
    ir_text = "f6E2M3FN"


class Float6E3M2FN(Float):
    """3-bit exponent, 2-bit mantissa, finite only; largest value 28."""

    __slots__ = ()
    ir_text = "f6E3M2FN"


class Float4E2M1FN(Float):
    """2-bit exponent, 1-bit mantissa, finite only; largest value 6."""

    __slots__ = ()
    ir_text = "f4E2M1FN"


_CONCRETE: tuple[type[Arithmetic], ...] = (
    Boolean, Int4, Int8, Int16, Int32, Int64, Int128, Uint8, Uint16, Uint32, Uint64, Uint128,
    Index, Float16, BFloat16, Float32, Float64, Float8E5M2, Float8E5M2FNUZ, Float8E4M3,
    Float8E4M3FN, Float8E4M3FNUZ, Float8E4M3B11FNUZ, Float8E8M0FNU, Float6E2M3FN, Float6E3M2FN,
    Float4E2M1FN,
)  # fmt: skip

BY_TEXT: dict[str, type[Arithmetic]] = {
    ("ui" + c.ir_text[1:] if not c.signed and c is not Index else c.ir_text): c for c in _CONCRETE
}
"""Numeric class by type text; unsigned ones under ``ui8``, ``ui16``, …."""
