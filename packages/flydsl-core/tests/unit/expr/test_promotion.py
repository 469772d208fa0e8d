"""The promotion table of the language reference, in full."""

from __future__ import annotations

import pytest

import flydsl.expr as fx
from flydsl.errors import UserValueError
from flydsl.expr.numeric import common_type

NAMES = "Bool I8 I16 I32 I64 U8 U16 U32 U64 Index F16 BF16 F32 F64 F8E4M3FN F8E5M2 F4E2M1FN".split()
TABLE = """
I32 I32 I32 I32 I64 I32 I32 U32 U64 Index F32 F32 F32 F64 F32 F32 F32
I32 I8 I16 I32 I64 U8 U16 U32 U64 Index F16 BF16 F32 F64 F8E4M3FN F8E5M2 F32
I32 I16 I16 I32 I64 I16 U16 U32 U64 Index F16 BF16 F32 F64 F32 F32 F32
I32 I32 I32 I32 I64 I32 I32 U32 U64 Index F32 F32 F32 F64 F32 F32 F32
I64 I64 I64 I64 I64 I64 I64 I64 U64 Index F64 F64 F64 F64 F64 F64 F64
I32 U8 I16 I32 I64 U8 U16 U32 U64 Index F16 BF16 F32 F64 F8E4M3FN F8E5M2 F32
I32 U16 U16 I32 I64 U16 U16 U32 U64 Index F16 BF16 F32 F64 F32 F32 F32
U32 U32 U32 U32 I64 U32 U32 U32 U64 Index F32 F32 F32 F64 F32 F32 F32
U64 U64 U64 U64 U64 U64 U64 U64 U64 U64 F64 F64 F64 F64 F64 F64 F64
Index Index Index Index Index Index Index Index Index Index F64 F64 F64 F64 F64 F64 F64
F32 F16 F16 F32 F64 F16 F16 F32 F64 F64 F16 F32 F32 F64 F16 F16 F16
F32 BF16 BF16 F32 F64 BF16 BF16 F32 F64 F64 F32 BF16 F32 F64 BF16 BF16 BF16
F32 F32 F32 F32 F64 F32 F32 F32 F64 F64 F32 F32 F32 F64 F32 F32 F32
F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64 F64
F32 F8E4M3FN F32 F32 F64 F8E4M3FN F32 F32 F64 F64 F16 BF16 F32 F64 F8E4M3FN ERR ERR
F32 F8E5M2 F32 F32 F64 F8E5M2 F32 F32 F64 F64 F16 BF16 F32 F64 ERR F8E5M2 ERR
F32 F32 F32 F32 F64 F32 F32 F32 F64 F64 F16 BF16 F32 F64 ERR ERR F4E2M1FN
"""


def numeric_class(short: str):
    if short in ("Bool", "Index"):
        return fx.Boolean if short == "Bool" else fx.Index
    kind = {"I": "Int", "U": "Uint", "F": "Float", "B": "BFloat"}[short[0]]
    return getattr(fx, kind + short.lstrip("IUBF"))


ROWS = [line.split() for line in TABLE.strip().splitlines()]
CASES = [
    (a, b, wanted)
    for a, row in zip(NAMES, ROWS, strict=True)
    for b, wanted in zip(NAMES, row, strict=True)
]


@pytest.mark.parametrize(("a", "b", "wanted"), CASES)
def test_common_type_of_addition(a, b, wanted):
    left, right = numeric_class(a), numeric_class(b)
    if wanted == "ERR":
        with pytest.raises(UserValueError, match="no common float type"):
            common_type(left, right, True)
    else:
        assert common_type(left, right, True) is numeric_class(wanted)
        assert type(left(1) + right(1)) is numeric_class(wanted)


def test_literals_take_part_as_int32_int64_float32():
    assert type(fx.Int8(1) + 1) is fx.Int32
    assert type(fx.Int8(1) + 2**31) is fx.Int64
    assert type(fx.Float16(1) + 1.0) is fx.Float32
    assert type(fx.Float8E4M3FN(1) + 1.0) is fx.Float32
    assert type(True + fx.Int8(1)) is fx.Int32
    with pytest.raises(UserValueError, match="more than 64 bits"):
        fx.Int32(1) + 2**64


def test_float_literals_are_rounded_once_to_the_common_type():
    assert (fx.Float64(0) + 0.1).value == 0.1
    assert (fx.Float32(0) + 0.1).value == fx.Float32(0.1).value != 0.1


def test_bitwise_operators_keep_booleans_and_refuse_floats():
    assert type(fx.Boolean(True) & fx.Boolean(False)) is fx.Boolean
    with pytest.raises(TypeError, match="needs integers"):
        fx.Float32(1) & fx.Int32(1)
