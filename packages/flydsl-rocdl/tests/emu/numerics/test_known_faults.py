"""Numeric faults that users of such languages have met, each with the result that is right."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import number_reference as reference
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import UserTypeError

ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1201")


@pytest.fixture(autouse=True, params=["gfx942"])
def arch(request: pytest.FixtureRequest) -> Any:
    """Compile for one architecture, or for those that a test names."""
    with scope(FLYDSL_TARGET=request.param):
        yield request.param


@flyc.kernel
def _constants(x: fx.Tensor, out: fx.Tensor) -> None:
    zero = x[0]  # keeps the second half from being folded
    pairs = [
        (3.9, fx.Float8E4M3FN), (1.3, fx.Float8E4M3FN), (3.9, fx.BFloat16), (70000.0, fx.Float16),
        (500.0, fx.Float8E4M3FN), (500.0, fx.Float8E4M3FNUZ), (3.9, fx.Float8E5M2),
        (500.0, fx.Float4E2M1FN), (2.6, fx.Float6E2M3FN),
    ]  # fmt: skip
    for row, (value, kind) in enumerate(pairs):
        out[0, row] = fx.Float32(value).to(kind).to(fx.Float32)
        out[1, row] = (zero + value).to(kind).to(fx.Float32)


@flyc.jit
def _launch_constants(x: fx.Tensor, out: fx.Tensor) -> None:
    _constants(x, out).launch(grid=1, block=1)


@pytest.mark.parametrize("arch", ARCHS, indirect=True)
def test_constants_are_rounded_to_narrow_types(arch: str) -> None:
    out = np.zeros((2, 9), np.float32)
    _launch_constants(np.zeros(1, np.float32), out)
    wanted = [4.0, 1.25, 3.90625, math.inf, math.nan, math.nan, 4.0, 6.0, 2.5]
    np.testing.assert_array_equal(out, np.array([wanted, wanted], np.float32))


@flyc.kernel
def _divisions(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor) -> None:
    i = fx.thread_idx.x
    a, b = x[i], y[i]
    out[0, i], out[1, i] = a // b, a % b
    out[2, i], out[3, i] = divmod(a, b)
    out[4, i], out[5, i] = a // 2, a % 2
    out[6, i], out[7, i] = a // -3, a % -3
    out[8, i], out[9, i] = fx.Int32(-7) // 2 + a * 0, fx.Int32(-7) % 2 + a * 0
    out[10, i], out[11, i] = fx.arith.divsi(a, b), fx.arith.remsi(a, b)


@flyc.jit
def _launch_divisions(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor) -> None:
    _divisions(x, y, out).launch(grid=1, block=64)


def test_division_and_remainder_floor_alike_static_and_dynamic() -> None:
    x = np.array([-7, 7, -8, -1, 0, 2**31 - 1, -(2**31), -6] * 8, np.int32)
    y = np.repeat(np.array([2, -2, 3, -3, 7, -7, 1, 5], np.int32), 8)
    out = np.zeros((12, 64), np.int32)
    _launch_divisions(x, y, out)
    for row, wanted in enumerate([*divmod(x, y), *divmod(x, y), *divmod(x, 2), *divmod(x, -3)]):
        np.testing.assert_array_equal(out[row], wanted, err_msg=str(row))
    assert (out[8] == -4).all()
    assert (out[9] == 1).all()
    np.testing.assert_array_equal(out[10], np.trunc(x / y))
    np.testing.assert_array_equal(out[11], np.fmod(x, y))


@flyc.kernel
def _multiply(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor) -> None:
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    for k in fx.range_constexpr(4):
        out[4 * i + k] = x[4 * i + k] * y[4 * i + k]


@flyc.jit
def _launch_multiply(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, grid: fx.Int32) -> None:
    _multiply(x, y, out).launch(grid=(grid, 1, 1), block=256)


def test_products_of_bfloats_round_to_nearest_even() -> None:
    rng = np.random.default_rng(12)
    x, y = rng.integers(0, 1 << 16, (2, 1 << 20), dtype=np.uint16).view(ml_dtypes.bfloat16)
    out = np.zeros(1 << 20, ml_dtypes.bfloat16)
    _launch_multiply(x, y, out, 1024)
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.float64) * y.astype(np.float64)).astype(np.float32)
        wanted = wanted.astype(ml_dtypes.bfloat16)
    same = out.view(np.uint16) == wanted.view(np.uint16)
    assert (same | (np.isnan(out) & np.isnan(wanted))).all()


@flyc.kernel
def _unsigned(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, top: fx.Tensor) -> None:
    i = fx.thread_idx.x
    a, b = x[i], y[i]
    out[0, i] = a.to(fx.Int64)
    out[1, i] = a.to(fx.Float32).to(fx.Int64)
    out[2, i] = (a > b).to(fx.Int64)
    out[3, i] = fx.max(a, b).to(fx.Int64)
    out[4, i] = fx.min(a, b).to(fx.Int64)
    out[5, i] = (a >> 1).to(fx.Int64)
    out[6, i] = (a // b).to(fx.Int64)
    out[7, i] = (a % b).to(fx.Int64)
    pair = fx.Vector.from_elements([a, b])
    out[8, i] = pair.to(fx.Float32)[0].to(fx.Int64)
    out[9, i] = pair.reduce("max").to(fx.Int64)
    if a > b:
        b = a
    out[10, i] = b.to(fx.Int64)


@flyc.jit
def _launch_unsigned(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, top: fx.Tensor) -> None:
    _unsigned(x, y, out, top).launch(grid=1, block=64)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_unsigned_tensors_stay_unsigned(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    high = np.iinfo(dtype).max
    x, y = rng.integers(1, high, (2, 64), dtype=dtype, endpoint=True)
    x[:2], y[:2] = (high, high // 2 + 1), (high // 2, high)
    out = np.zeros((11, 64), np.int64)
    _launch_unsigned(x, y, out, np.zeros(1, np.uint32))
    wide, other = x.astype(np.int64), y.astype(np.int64)
    real = x.astype(np.float32).astype(np.int64)
    wanted = [wide, real, wide > other, np.maximum(wide, other), np.minimum(wide, other), wide >> 1,
              wide // other, wide % other, real, np.maximum(wide, other),
              np.maximum(wide, other)]  # fmt: skip
    for row, values in enumerate(wanted):
        np.testing.assert_array_equal(out[row], values, err_msg=str(row))


def _wide(name: str, count: int) -> Any:
    """Build a launcher that narrows and widens vectors of `count` numbers."""
    kind = reference.kind(name)

    @flyc.kernel
    def body(x: fx.Tensor, codes: fx.Tensor, back: fx.Tensor) -> None:
        i = fx.thread_idx.x
        numbers = fx.Vector.from_elements([x[i, k] for k in range(count)])
        small = numbers.to(kind)
        stored = small.bitcast(fx.Uint8)
        for k in fx.range_constexpr(stored.numel):
            codes[i, k] = stored[k]
        again = stored.bitcast(kind).to(fx.Float32)
        for k in fx.range_constexpr(count):
            back[i, k] = again[k]

    @flyc.jit
    def launch(x: fx.Tensor, codes: fx.Tensor, back: fx.Tensor) -> None:
        body(x, codes, back).launch(grid=1, block=64)

    return launch


WIDE = [("Float8E4M3FN", 3), ("Float8E4M3FN", 16), ("Float8E4M3FNUZ", 5), ("Float8E5M2FNUZ", 8),
        ("Float6E2M3FN", 32), ("Float6E3M2FN", 32), ("Float6E3M2FN", 64), ("Float4E2M1FN", 2),
        ("Float4E2M1FN", 8), ("Float4E2M1FN", 32)]  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS, indirect=True)
@pytest.mark.parametrize(("name", "count"), WIDE)
def test_vectors_of_every_length(name: str, count: int, arch: str) -> None:
    """Several instructions convert groups of numbers, and what is left over."""
    rng = np.random.default_rng(count)
    x = (rng.normal(0, 4, (64, count)) * 2.0 ** rng.integers(-8, 8, (64, count))).astype(np.float32)
    width = reference.kind(name).width
    codes = np.zeros((64, count * width // 8), np.uint8)
    back = np.zeros((64, count), np.float32)
    _wide(name, count)(x, codes, back)
    wanted, _ = reference.converted(
        "Float32", name, x.view(np.uint32).reshape(-1).astype(np.uint64)
    )
    bits = np.unpackbits(codes, axis=1, bitorder="little").reshape(64, count, width)
    found = (bits * (1 << np.arange(width))).sum(2).astype(np.uint64).reshape(-1)
    assert not reference.differing(name, found, wanted).any()
    np.testing.assert_array_equal(back.reshape(-1), reference.exact(name, found).astype(np.float32))


def test_a_bitcast_that_changes_the_width_is_refused_while_tracing() -> None:
    with pytest.raises(UserTypeError, match="changes the width") as caught:
        fx.Float32(1).bitcast(fx.Int16)
    assert caught.value.code == "FLY-U207"


MIXED = [("Uint8", "Int32"), ("Uint8", "Int8"), ("Uint32", "Int32"), ("Int64", "Uint32"),
         ("Int16", "Uint8"), ("Float16", "BFloat16"), ("Float32", "Int32"), ("Float16", "Int64"),
         ("BFloat16", "Float32"), ("Float8E4M3FN", "Int8"), ("Float8E5M2", "Float16"),
         ("Boolean", "Int8"), ("Int32", "Float64"), ("Uint64", "Int64"), ("Index", "Int32"),
         ("Boolean", "Uint64"), ("Uint32", "Float32")]  # fmt: skip


@flyc.kernel
def _mixed(
    a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, left: fx.Constexpr[str], right: fx.Constexpr[str]
) -> None:
    i = fx.thread_idx.x
    x, y = reference.read(left, a, i), reference.read(right, b, i)
    total = x + y
    reference.write(total.dtype.__name__, total, out, 0, i)
    reference.write("Boolean", x < y, out, 1, i)


@flyc.jit
def _launch_mixed(
    a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, left: fx.Constexpr[str], right: fx.Constexpr[str]
) -> None:
    _mixed(a, b, out, left, right).launch(grid=1, block=256)


@pytest.mark.parametrize(("left", "right"), MIXED)
def test_operands_of_two_classes_meet_in_their_common_class(left: str, right: str) -> None:
    common = fx.numeric.common_type(
        reference.kind(left), reference.kind(right), widen_bool=True
    ).__name__
    codes = [reference.patterns(name, 1024, seed) for seed, name in enumerate((left, right))]
    out = np.zeros((2, 1024), np.uint64)
    inputs = [c.astype(reference.container(n)) for c, n in zip(codes, (left, right), strict=True)]
    _launch_mixed(*inputs, out, left, right)
    parts = [
        reference.decoded(common, reference.converted(name, common, c)[0] if name != common else c)
        for name, c in zip((left, right), codes, strict=True)
    ]
    with np.errstate(all="ignore"):
        if common in reference.FLOATS:
            x, y = (p.astype(np.float64) for p in parts)
            total = reference.rounded(common, (x.astype(reference.LONG) + y)).astype(np.float64)
            wanted = reference.encoded(common, total.astype(reference.FLOATS[common]))
        else:
            x, y = parts
            wanted = reference.encoded(common, x + y)
        assert not reference.differing(common, out[0], wanted).any()
        np.testing.assert_array_equal(out[1].astype(bool), x < y)


@flyc.kernel
def _shifts(x: fx.Tensor, out: fx.Tensor) -> None:
    i = fx.thread_idx.x
    a = x[i]
    unsigned = a.bitcast(fx.Uint32)
    for row, count in enumerate((0, 31, 32, 100)):
        out[0, row, i] = a << count
        out[1, row, i] = a >> count
        out[2, row, i] = (unsigned >> count).bitcast(fx.Int32)
        pair: Any = fx.Vector.from_elements([a, a])
        out[3, row, i] = (pair >> count)[0]


@flyc.jit
def _launch_shifts(x: fx.Tensor, out: fx.Tensor) -> None:
    _shifts(x, out).launch(grid=1, block=4)


def test_constant_shifts_of_any_count_do_as_in_python() -> None:
    x = np.array([-5, 5, -(2**31), 2**31 - 1], np.int32)
    out = np.zeros((4, 4, 4), np.int32)
    _launch_shifts(x, out)
    for row, count in enumerate((0, 31, 32, 100)):
        for at, value in enumerate(x.tolist()):
            unsigned = value % 2**32
            wanted = [(value << count) % 2**32, value >> count, unsigned >> count, value >> count]
            assert [v % 2**32 for v in out[:, row, at].tolist()] == [v % 2**32 for v in wanted]
            static = fx.Int32(value)
            assert [(static << count).value % 2**32, (static >> count).value] == wanted[:2]


WIDE_TARGETS = ("Float64", "Float32", "Float16", "BFloat16", "Float8E4M3FN", "Float8E5M2",
                "Float4E2M1FN")  # fmt: skip


@flyc.kernel
def _very_wide(x: fx.Tensor, out: fx.Tensor, rests: fx.Tensor, source: fx.Constexpr[str]) -> None:
    i = fx.thread_idx.x
    kind = reference.kind(source)
    number = (x[0, i].to(kind) << 64) | x[1, i].to(fx.Uint64).to(kind)
    for row, target in enumerate(WIDE_TARGETS):
        out[row, i] = number.to(reference.kind(target)).to(fx.Float64)
    rests[0, i] = (number % 1000003).to(fx.Int64)
    rests[1, i] = (number // 1000003 >> 50).to(fx.Int64)
    rests[2, i] = (number * number >> 64).to(fx.Int64)


@flyc.jit
def _launch_very_wide(
    x: fx.Tensor, out: fx.Tensor, rests: fx.Tensor, source: fx.Constexpr[str]
) -> None:
    _very_wide(x, out, rests, source).launch(grid=1, block=64)


@pytest.mark.parametrize("source", ["Int128", "Uint128"])
def test_integers_of_128_bits(source: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-(2**63), 2**63, (2, 64))
    x[0] >>= rng.integers(0, 64, 64)
    tie = 3 << 53
    x[0, :8] = (0, 0, 0, 0, -1, -1, -1, -1)
    x[1, :8] = (tie, tie + 1, tie - 1, (1 << 60) + 1, -1, -2, -tie - 1, -tie)
    out, rests = np.zeros((len(WIDE_TARGETS), 64)), np.zeros((3, 64), np.int64)
    _launch_very_wide(x, out, rests, source)
    kind = reference.kind(source)
    for at, (high, low) in enumerate(x.T.tolist()):
        value = (high << 64) | (low % 2**64)
        number = kind(value if kind.signed else value % 2**128)
        wanted = [number.to(reference.kind(name)).value for name in WIDE_TARGETS]
        np.testing.assert_array_equal(out[:, at], wanted)
        whole = number.value
        square = ((whole * whole % 2**128) ^ (kind.signed << 127)) - (kind.signed << 127)
        parts = [whole % 1000003, whole // 1000003 >> 50, square >> 64]
        assert [v % 2**64 for v in rests[:, at].tolist()] == [v % 2**64 for v in parts]
