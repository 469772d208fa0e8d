"""Static numbers: construction, folding, conversion and the errors."""

from __future__ import annotations

import math
import operator

import pytest

import flydsl.expr as fx
from flydsl.errors import UserError, UserTypeError, UserValueError

INTEGERS = [fx.Int8, fx.Int16, fx.Int32, fx.Int64, fx.Uint8, fx.Uint16, fx.Uint32, fx.Uint64]


@pytest.mark.parametrize("kind", [*INTEGERS, fx.Int4, fx.Int128, fx.Uint128])
def test_integer_literals_must_fit(kind):
    high = (1 << (kind.width - kind.signed)) - 1
    low = -(1 << (kind.width - 1)) if kind.signed else 0
    assert kind(high).value == high
    assert kind(low).value == low
    for value in (high + 1, low - 1):
        with pytest.raises(UserValueError, match="does not fit") as caught:
            kind(value)
        assert caught.value.allowed == f"{low} to {high}"


@pytest.mark.parametrize("a", [-7, -1, 0, 1, 7])
@pytest.mark.parametrize("b", [-3, -1, 1, 3, 4])
def test_division_and_remainder_floor(a, b):
    x, y = fx.Int32(a), fx.Int32(b)
    assert (x // y).value == a // b
    assert (x % y).value == a % b
    assert [part.value for part in divmod(x, y)] == list(divmod(a, b))


def test_float_floor_division_and_remainder_follow_the_divisor():
    assert (fx.Float32(-7) // fx.Float32(2)).value == -4.0
    assert (fx.Float32(-7) % fx.Float32(3)).value == 2.0
    assert (fx.Float32(7) % fx.Float32(-3)).value == -2.0
    zero = (fx.Float32(6) % fx.Float32(-3)).value
    assert (zero, math.copysign(1, zero)) == (0.0, -1.0)


def test_static_arithmetic_wraps_and_rounds_like_the_device():
    assert (fx.Int32(2**31 - 1) + fx.Int32(1)).value == -(2**31)
    assert (fx.Uint8(3) - fx.Uint8(5)).value == 254
    assert (fx.Int8(-128) * fx.Int8(-1)).value == -128
    assert (-fx.Int8(-128)).value == -128
    assert (fx.Float16(60000) + fx.Float16(60000)).value == math.inf
    assert fx.BFloat16(3.9).value == 3.90625
    assert fx.Float8E4M3FN(3.9).value == 4.0
    assert (fx.Float32(1) / fx.Float32(0)).value == math.inf
    assert math.isnan((fx.Float32(0) / fx.Float32(0)).value)


def test_true_division_of_integers_is_float():
    assert type(fx.Int32(1) / fx.Int32(4)) is fx.Float32
    assert type(fx.Int64(1) / fx.Int64(4)) is fx.Float64
    assert (fx.Int32(1) / 4).value == 0.25


def integer_division():
    return fx.Int32(1) // fx.Int32(0)


def remainder():
    return fx.Int32(1) % 0


def both():
    return divmod(fx.Uint64(1), 0)


def rounded_up():
    return fx.ceildiv(5, 0)


def negative_power():
    return fx.Int32(0) ** fx.Int32(-1)


@pytest.mark.parametrize("use", [integer_division, remainder, both, rounded_up, negative_power])
def test_static_division_by_zero_is_refused(use):
    with pytest.raises(ZeroDivisionError) as caught:
        use()
    assert isinstance(caught.value, UserError)
    assert caught.value.code == "FLY-U278"


@pytest.mark.parametrize("op", [operator.lshift, operator.rshift])
def test_a_negative_static_shift_is_refused(op):
    with pytest.raises(ValueError, match="FLY-U279"):
        op(fx.Int32(1), fx.Int32(-1))


def test_shifts_are_arithmetic_for_signed_and_logical_for_unsigned():
    assert (fx.Int8(-16) >> fx.Int8(2)).value == -4
    assert (fx.Uint8(0xF0) >> fx.Uint8(2)).value == 0x3C
    assert (fx.Int32(1) << 31).value == -(2**31)


def test_comparisons_use_the_classes_signedness():
    assert (fx.Uint8(200) > fx.Uint8(100)).value is True
    assert (fx.Int8(-56) < fx.Int8(100)).value is True
    nan = fx.Float32(math.nan)
    assert (nan == nan).value is False
    assert (nan != nan).value is True
    assert (nan < 1.0).value is False


def test_conversions_of_constants():
    assert fx.Int64(2**40 + 5).to(fx.Int32).value == 5
    assert fx.Int32(-1).to(fx.Uint8).value == 255
    assert fx.Float32(-2.9).to(fx.Int32).value == -2
    assert fx.Float32(0.5).to(fx.Boolean).value is True
    assert fx.Float32(3.9).to(fx.Float8E4M3FN).to(fx.Float32).value == 4.0
    assert fx.Float32(1.3).to(fx.Float8E4M3FN).to(fx.Float32).value == 1.25
    assert fx.Int32(-1).to(fx.Float32).value == -1.0
    for bad in (math.nan, math.inf):
        with pytest.raises(UserValueError):
            fx.Float32(bad).to(fx.Int32)
    with pytest.raises(UserValueError):
        fx.Float32(1e10).to(fx.Int32)
    with pytest.raises(UserTypeError, match="numeric class"):
        fx.Int32(1).to("f32")


def test_bitcast_checks_the_width():
    assert fx.Float32(1.0).bitcast(fx.Int32).value == 0x3F800000
    assert fx.Uint32(0xC0000000).bitcast(fx.Float32).value == -2.0
    assert fx.Int8(-1).bitcast(fx.Uint8).value == 255
    with pytest.raises(UserTypeError, match="changes the width"):
        fx.Float32(1.0).bitcast(fx.Int16)


def test_rounding_modes_apply_to_run_time_floats_only():
    with pytest.raises(UserValueError, match="constant"):
        fx.Float32(1).to(fx.Float16, fx.RoundingMode.UPWARD)


def test_select_promotes_and_folds():
    assert fx.Boolean(True).select(1, fx.Int64(2)).value == 1
    assert type(fx.Boolean(False).select(1, fx.Int64(2))) is fx.Int64
    assert fx.Int32(0).select(1.5, 2).value == 2.0
    with pytest.raises(UserTypeError, match="two numbers"):
        fx.Boolean(True).select("a", 1)
    for condition, chosen in ((True, 3), (False, 4), (2, 3), (0.0, 4)):
        found = fx.arith.select(condition, fx.Int32(3), fx.Int64(4))
        assert (type(found), found.value) == (fx.Int64, chosen)
    for condition in (None, "yes", [True]):
        with pytest.raises(UserTypeError, match="not a condition") as caught:
            fx.arith.select(condition, 1, 2)
        assert caught.value.code == "FLY-U209"


def test_static_numbers_behave_as_python_numbers():
    assert [10, 20, 30][fx.Int32(1)] == 20
    assert int(fx.Float32(2.5)) == 2
    assert float(fx.Int32(2)) == 2.0
    assert not fx.Int32(0)
    assert hash(fx.Int32(5)) == hash(5)
    with pytest.raises(UserTypeError, match="is not an integer"):
        range(fx.Float32(1.0))


def test_booleans_have_no_sign():
    for operation in (lambda b: -b, abs):
        with pytest.raises(UserTypeError):
            operation(fx.Boolean(True))
    assert (~fx.Boolean(True)).value is False


def test_powers_fold():
    assert (fx.Int32(3) ** 4).value == 81
    assert type(fx.Int32(2) ** -1) is fx.Float32
    assert (fx.Float32(2) ** 0.5).value == fx.Float32(2**0.5).value


def test_run_time_operations_need_a_trace():
    with pytest.raises(RuntimeError, match="needs a trace"):
        fx.thread_idx.x  # noqa: B018
    with pytest.raises(RuntimeError, match="needs a trace"):
        fx.exp(1.0)


def test_extremes_fold_and_order_zeros_and_nan():
    assert fx.max(1, fx.Int64(5), [2, 3]).value == 5
    assert fx.min(1.5, fx.Float32(0.5)).value == 0.5
    assert math.copysign(1, fx.min(0.0, -0.0).value) == -1
    assert math.isnan(fx.max(1.0, math.nan).value)
    assert fx.maxnumf(1.0, math.nan).value == 1.0
    assert fx.max(fx.Uint8(200), fx.Uint8(100)).value == 200
    with pytest.raises(UserValueError, match="at least one"):
        fx.max()
    with pytest.raises(UserTypeError):
        fx.max(fx.Index(1), fx.Index(2))


def test_ceildiv():
    assert fx.ceildiv(7, 2) == 4
    assert fx.ceildiv(fx.Int32(-7), 2).value == -3
    with pytest.raises(UserTypeError):
        fx.ceildiv(1.5, 2)


def test_compile_time_constructs():
    assert list(fx.range_constexpr(fx.Int32(3))) == [0, 1, 2]
    assert fx.const_expr(fx.Boolean(True)) is True
    assert fx.const_expr(None) is None


def test_unknown_names_suggest_a_close_one():
    with pytest.raises(AttributeError, match="thread_idx") as caught:
        fx.thread_idxs  # noqa: B018
    assert caught.value.location.file == __file__


def test_types_of_arrays_and_their_sizes():
    from flydsl.expr.storage import size_and_align

    assert size_and_align(fx.Array[fx.Float16, 6]) == (12, 2)
    assert size_and_align(fx.Array[fx.Float16, 6, 16]) == (12, 16)
    assert size_and_align(fx.Float32x4) == (16, 4)
    assert size_and_align(fx.Float4E2M1FNx8) == (4, 1)
    assert size_and_align(fx.Align[fx.Int32, 16]) == (4, 16)
    for bad in (fx.Boolean, fx.Int4, fx.Float6E2M3FN, fx.Index):
        with pytest.raises(UserTypeError, match="whole bytes"):
            size_and_align(bad)
    with pytest.raises(UserValueError):
        fx.Array[fx.Int32, 0]
    with pytest.raises(UserValueError):
        fx.Align[fx.Int32, 3]


def test_pointer_types_check_their_parameters():
    kind = fx.PointerType.get(fx.Float32, fx.AddressSpace.Global, 16)
    assert repr(kind) == "Pointer[Float32, global, 16]"
    assert fx.Pointer[fx.Float16, fx.AddressSpace.Shared].alignment == 2
    with pytest.raises(UserValueError):
        fx.PointerType.get(fx.Float32, fx.AddressSpace.Global, 2)
    with pytest.raises(UserTypeError):
        fx.PointerType.get(fx.Float32, 9)
    with pytest.raises(UserTypeError):
        fx.PointerType.get("f32")


def test_layout_functions_return_plain_objects_outside_a_trace():
    layout = fx.make_layout((4, 8), (8, 1))
    assert isinstance(layout, fx.Layout)
    assert fx.size(layout) == 32
    assert str(fx.logical_divide(fx.make_layout(16, 1), fx.make_layout(4, 1))) == "(4,4):(1,4)"
    assert fx.crd2idx((1, 2), layout) == 10
    assert fx.make_int_tuple((4, (2, 3))) == (4, (2, 3))
    assert fx.rank(layout) == 2
    assert fx.depth((4, (2, 3))) == 2
    assert str(fx.make_tile(4, None)) == "[4|*]"
