"""Numbers, streams and compile-time values as launcher arguments."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from flydsl.compiler.arguments.compile_time import describe_static, static_key
from flydsl.compiler.arguments.scalars import describe_number, describe_stream
from flydsl.compiler.dispatch import MISS, argument_format, make_closure
from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.annotations import Constexpr, Stream
from flydsl.expr.numeric import (
    BFloat16,
    Boolean,
    Float8E4M3FN,
    Float16,
    Float32,
    Float64,
    Int4,
    Int8,
    Int32,
    Int64,
    Int128,
    Uint8,
    Uint32,
    Uint64,
)


def packed(spec, value):
    seen = []

    def stub(context, data):
        seen.append(data)
        return 0

    names = {"stub": stub, "context": 0, "failure": RuntimeError, "current_stream": lambda: 9}
    call = make_closure([spec], names, implicit_stream=False)
    if call(value) is MISS:
        return None
    unpacked = struct.unpack(argument_format([spec], False), seen[0])
    return unpacked[0] if unpacked else ()


@pytest.mark.parametrize(
    ("value", "annotation", "text", "passed"),
    [
        (True, None, "i1", 1),
        (7, None, "i32", 7),
        (1.5, None, "f32", 1.5),
        (-128, Int8, "i8", -128),
        (255, Uint8, "ui8", 255),
        (2**32 - 1, Uint32, "ui32", 2**32 - 1),
        (2**64 - 1, Uint64, "ui64", 2**64 - 1),
        (-(2**63), Int64, "i64", -(2**63)),
        (True, Int32, "i32", 1),
        (0, Boolean, "i1", 0),
        (3, Float32, "f32", 3.0),
        (0.1, Float16, "f16", float(np.float16(0.1))),
        (0.1, Float64, "f64", 0.1),
        (math.inf, Float16, "f16", math.inf),
        (np.int64(5), Int32, "i32", 5),
        (np.float32(0.5), Float32, "f32", 0.5),
        (np.bool_(True), Boolean, "i1", 1),
        (Int32(6), None, "i32", 6),
        (Uint8(6), Int64, "i64", 6),
        (Float32(0.5), Float64, "f64", 0.5),
    ],
)
def test_numbers(value, annotation, text, passed):
    spec = describe_number(value, annotation)
    assert spec.ir_type == text
    assert packed(spec, value) == passed


@pytest.mark.parametrize("value", [0.1, -3.14159, 1e-40, 65504.0, math.inf, 3.3895e38])
def test_bfloat16_rounds_to_nearest_even(value):
    spec = describe_number(value, BFloat16)
    expected = np.array(value, ml_dtypes.bfloat16).view(np.uint16)
    assert packed(spec, value) == int(expected)


@pytest.mark.parametrize(
    ("annotation", "fits", "too_large"),
    [
        # The largest finite value and a little less than, and exactly, half a unit beyond it.
        (Float32, 3.4028235677973362e38, 3.4028235677973366e38),
        (Float16, 65519.99, 65520.0),
        (BFloat16, 3.39617752923e38, 3.3961775292304603e38),
    ],
)
def test_later_calls_check_the_range_of_a_float_as_the_first_does(annotation, fits, too_large):
    spec = describe_number(1.5, annotation)
    for value in (fits, -fits, math.inf, -math.inf, math.nan):
        assert packed(spec, value) is not None
        assert describe_number(value, annotation).key == spec.key
    for value in (too_large, -too_large, 1e300):
        assert packed(spec, value) is None
        with pytest.raises(UserValueError, match="outside the range"):
            describe_number(value, annotation)


def test_eight_bit_floats_pass_their_code():
    spec = describe_number(1.7, Float8E4M3FN)
    assert packed(spec, 1.7) == int(np.array(1.7, ml_dtypes.float8_e4m3fn).view(np.uint8))
    assert packed(spec, 1e6) is None
    with pytest.raises(UserValueError, match="outside the range"):
        describe_number(1e6, Float8E4M3FN)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (2**31, None),
        (2**31, Int32),
        (-1, Uint32),
        (2**40, Int32),
        (2, Boolean),
        (128, Int8),
        (1e6, Float16),
        (1e39, Float32),
        (3.4e38, Float16),
        (np.int64(2**40), Int32),
    ],
)
def test_out_of_range(value, annotation):
    with pytest.raises(UserValueError, match="outside the range"):
        describe_number(value, annotation)


@pytest.mark.parametrize(
    ("fitting", "other", "annotation"),
    [(5, 2**40, Int32), (5, -1, Uint32), (1.0, 1e6, Float16), (1.0, 1e39, BFloat16)],
)
def test_a_compiled_call_does_not_wrap_what_is_out_of_range(fitting, other, annotation):
    spec = describe_number(fitting, annotation)
    assert packed(spec, other) is None


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (5.5, Int32),
        ("5", Int32),
        (None, Int32),
        ("x", Float32),
        (True, Float32),
        (1j, Float32),
        (np.zeros(3), Float32),
        (np.zeros(3, np.int32), Int32),
    ],
)
def test_wrong_kind_of_value(value, annotation):
    with pytest.raises(UserTypeError, match="was given a"):
        describe_number(value, annotation)


@pytest.mark.parametrize("annotation", [Int4, Int128])
def test_types_without_a_host_representation(annotation):
    with pytest.raises(UserTypeError, match="cannot be passed"):
        describe_number(1, annotation)


@pytest.mark.parametrize("value", ["text", None, [1], object()])
def test_other_values_are_no_numbers(value):
    assert describe_number(value, None) is None


def test_a_guard_tells_python_types_apart():
    spec = describe_number(5, None)
    assert packed(spec, True) is None
    assert packed(spec, 5.0) is None
    assert packed(spec, 6) == 6


class Handle:
    cuda_stream = 0x1234


@pytest.mark.parametrize(
    ("value", "handle"),
    [(None, 9), (0, 0), (77, 77), (Handle(), 0x1234), (Stream(None), 9), (Stream(5), 5)],
)
def test_streams(value, handle):
    spec = describe_stream(value)
    assert spec.ir_type == "stream"
    assert packed(spec, value) == handle


def test_stream_objects_are_read_at_every_call():
    spec = describe_stream(Stream(5))
    assert packed(spec, Stream(6)) == 6
    assert packed(spec, Stream(None)) == 9


@pytest.mark.parametrize("value", ["s", 1.5, object()])
def test_no_streams(value):
    with pytest.raises(UserTypeError, match="no stream"):
        describe_stream(value)


@pytest.mark.parametrize("value", [-1, 1 << 64, 1 << 70])
def test_handles_have_64_bits(value):
    holder = Handle()
    holder.cuda_stream = value
    for given in (value, holder):
        with pytest.raises(UserValueError, match="FLY-U407"):
            describe_stream(given)
        # A later call with a compiled closure goes the same way.
        fitting = 5 if given is value else Handle()
        assert packed(describe_stream(fitting), given) is None


def test_a_handle_is_an_integer():
    holder = Handle()
    holder.cuda_stream = "text"
    with pytest.raises(UserTypeError, match="FLY-U407"):
        describe_stream(holder)


@pytest.mark.parametrize("value", [2, 4, 255, 254, -1])
def test_a_truth_value_is_zero_or_one_on_every_call(value):
    for first in (0, 1):
        spec = describe_number(first, Boolean)
        assert packed(spec, 1) == 1
        assert packed(spec, value) is None
    assert packed(describe_number(np.int8(1), Boolean), np.int8(2)) is None
    with pytest.raises(UserValueError, match="outside the range"):
        describe_number(value, Boolean)


@pytest.mark.parametrize("later", [np.array([100]), np.array([1, 2]), np.array([1.5])])
def test_an_array_is_no_number_on_later_calls_either(later):
    spec = describe_number(np.array(100), Int32)
    assert packed(spec, np.array(7)) == 7
    assert packed(spec, later) is None
    with pytest.raises(UserTypeError, match="FLY-U404"):
        describe_number(later, Int32)


def test_static_keys_tell_equal_values_of_different_types_apart():
    values = [1, True, 1.0, (1,), (True,), (1.0,), 0.0, -0.0, "1", ((1,),)]
    keys = [static_key(value) for value in values]
    assert len(set(keys)) == len(values)
    assert static_key((1, "a", 2.5)) == static_key((1, "a", 2.5))
    assert static_key(math.nan) == static_key(math.nan)


@pytest.mark.parametrize(
    ("value", "others"),
    [(4, (5, True, 4.0)), ((1, 2), ((1, True), [1, 2])), (0.0, (-0.0, 0)), ("a", ("b",))],
)
def test_static_guards(value, others):
    spec = describe_static("p", value, Constexpr)
    assert spec.ir_type == ""
    assert spec.static is value
    assert packed(spec, value) == ()
    assert [packed(spec, other) for other in others] == [None] * len(others)


def test_static_values_are_checked():
    with pytest.raises(UserTypeError, match="'block' is declared"):
        describe_static("block", "256", Constexpr[int])
    with pytest.raises(UserTypeError, match="cannot be hashed"):
        describe_static("block", [1], Constexpr)


def test_numbers_beyond_double_are_out_of_range():
    for number in (2**2000, -(2**2000)):
        with pytest.raises(UserValueError, match=r"outside the range.*FLY-U406"):
            describe_number(number, Float32)


def test_numbers_of_libraries_need_no_annotation():
    from flydsl.compiler.arguments import describe

    for value, text in ((np.int64(3), "i32"), (np.float16(0.5), "f32"), (np.bool_(True), "i1")):
        spec = describe(value, None)
        assert (spec.ir_type, packed(spec, value)) == (text, value)
    with pytest.raises(UserValueError, match="FLY-U406"):
        describe(np.int64(2**31), None)
    with pytest.raises(UserValueError, match="FLY-U403"):
        describe(np.array(3), None)


def test_a_stream_object_without_a_handle_is_refused():
    class Empty:
        cuda_stream = None

    with pytest.raises(UserTypeError, match=r"no integer.*FLY-U407"):
        describe_stream(Empty())
