"""Orders of preshuffled weights and scales against their formulas, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.errors import ConfigError
from flydsl_rocdl.kernels.preshuffle import (
    LAYOUTS,
    SCALE_LAYOUTS,
    PreshuffledWeight,
    pack_fp4,
    pack_fp6,
    pack_int4,
    preshuffle_b,
    preshuffle_scales,
    unshuffle,
)

Formula = Callable[[int, int, int, int], int]


def _wide(unit: int) -> Formula:
    """16x16 for `unit` elements in 16 bytes (int4_packed: 8 bytes)."""

    def place(n: int, k: int, rows: int, columns: int) -> int:
        block = n // 16 * (columns // (4 * unit)) + k // (4 * unit)
        return (block * 4 + k // unit % 4) * 16 * unit + n % 16 * unit + k % unit

    return place


def _gate_up(n: int, k: int, rows: int, columns: int) -> int:
    half = rows // 2
    swapped = n % half // 16 * 32 + n // half * 16 + n % 16
    block = swapped // 16, k // 64, k // 16 % 4, n % 16, k % 16
    extents = rows // 16, columns // 64, 4, 16, 16
    return int(np.ravel_multi_index(block, extents))


def _rdna4(n: int, k: int, rows: int, columns: int) -> int:
    return ((n // 16 * (columns // 16) + k // 16) * 2 + k % 16 // 8) * 128 + n % 16 * 8 + k % 8


def _tiles(unit: int) -> Formula:
    return lambda n, k, _rows, columns: (
        (n // 16 * (columns // unit) + k // unit) * 16 * unit + n % 16 * unit + k % unit
    )


def _e8m0(r: int, s: int, rows: int, blocks: int) -> int:
    word = r // 32 * (blocks // 8 * 64) + s // 8 * 64 + s % 4 * 16 + r % 16
    return word * 4 + s // 4 % 2 * 2 + r // 16 % 2


def _e8m0_gate_up(r: int, s: int, rows: int, blocks: int) -> int:
    half = rows // 2
    word = (r % half // 16 * (blocks // 8) + s // 8) * 4 + s % 4
    return word * 64 + r % 16 * 4 + s // 4 % 2 * 2 + r // half


def _square(r: int, s: int, rows: int, blocks: int) -> int:
    return (r // 32 * (blocks // 4) + s // 4) * 128 + r % 32 * 4 + s % 4


def _expected(plain: Any, formula: Formula) -> np.ndarray[Any, Any]:
    """Return the flat array that the formula makes."""
    rows, columns = plain.shape
    out = np.empty(plain.size, plain.dtype)
    seen = set()
    for n in range(rows):
        for k in range(columns):
            place = formula(n, k, rows, columns)
            seen.add(place)
            out[place] = plain[n, k]
    assert seen == set(range(plain.size))
    return out


WEIGHTS = [
    ("16x16", "bfloat16", _wide(8)),
    ("16x16", "float16", _wide(8)),
    ("16x16", "int8", _wide(16)),
    ("16x16", "float8_e4m3fn", _wide(16)),
    ("16x16", "float8_e5m2fnuz", _wide(16)),
    ("fp4_16lane", "float4_e2m1fn", _wide(16)),
    ("fp4_16lane_gate_up", "float4_e2m1fn", _gate_up),
    ("rdna4_fp8", "float8_e4m3fn", _rdna4),
    ("cdna5_16x16", "float8_e4m3fn", _tiles(16)),
    ("cdna5_16x16", "bfloat16", _tiles(8)),
    ("cdna5_16x16", "float4_e2m1fn", _tiles(16)),
]


def _numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Return random bits as an array of the type (4-bit codes packed)."""
    random = np.random.default_rng(seed)
    if dtype == "float4_e2m1fn":
        return random.integers(0, 256, shape, np.uint8)
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    return random.integers(0, 256, (*shape[:-1], shape[-1] * kind.itemsize), np.uint8).view(kind)


@pytest.mark.parametrize(("layout", "dtype", "formula"), WEIGHTS)
def test_weights(layout: str, dtype: str, formula: Formula) -> None:
    b = _numbers((64, 192), dtype, 3)
    made = preshuffle_b(b, layout=layout, dtype=dtype)
    packed = dtype == "float4_e2m1fn"
    assert (made.n, made.k, made.batch) == (64, 384 if packed else 192, None)
    assert made.data.shape == b.shape
    bits = f"u{b.itemsize}"
    assert np.array_equal(made.data.reshape(-1).view(bits), _expected(b.view(bits), formula))
    assert np.array_equal(made.unshuffled().view(bits), b.view(bits))


@pytest.mark.parametrize(
    ("layout", "formula"),
    [("e8m0", _e8m0), ("e8m0_gate_up", _e8m0_gate_up), ("cdna5_32x4", _square)],
)
def test_scales(layout: str, formula: Formula) -> None:
    scales = np.random.default_rng(4).integers(0, 255, (96 if layout != "e8m0_gate_up" else 64, 24))
    plain = scales.astype(np.uint8)
    made = preshuffle_scales(plain, layout)
    assert np.array_equal(made.reshape(-1), _expected(plain, formula))
    assert np.array_equal(unshuffle(made, layout), plain)


def test_a_stack_is_shuffled_matrix_by_matrix_and_scales_go_along() -> None:
    b = _numbers((3, 64, 128), "float4_e2m1fn", 5)
    scales = np.random.default_rng(6).integers(0, 255, (3, 64, 8)).astype(np.uint8)
    made = preshuffle_b(b, layout="fp4_16lane", dtype="float4_e2m1fn", scales=scales)
    assert (made.batch, made.n, made.k, made.scale_layout) == (3, 64, 256, "e8m0")
    for expert in range(3):
        alone = preshuffle_b(b[expert], layout="fp4_16lane", dtype="float4_e2m1fn")
        assert np.array_equal(made.data[expert], alone.data)
        assert np.array_equal(made.scales[expert], preshuffle_scales(scales[expert]))


def test_strided_views_are_shuffled_as_their_values() -> None:
    whole = _numbers((128, 384), "int8", 7)
    view = whole[::2, 64:320]
    assert np.array_equal(preshuffle_b(view).data, preshuffle_b(np.ascontiguousarray(view)).data)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fnuz", "int8"])
def test_torch_gives_the_same_bytes(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    b = _numbers((2, 32, 128), dtype, 8)
    tensor = torch.from_numpy(b.view(f"i{b.itemsize}")).view(getattr(torch, dtype))
    made = preshuffle_b(tensor)
    assert made.dtype == dtype
    found = made.data.view(torch.int16 if b.itemsize == 2 else torch.int8).numpy()
    assert np.array_equal(found, preshuffle_b(b).data.view(f"i{b.itemsize}"))


def test_int4_bytes_unpack_to_the_order_of_int8() -> None:
    b = np.random.default_rng(9).integers(-8, 8, (32, 128)).astype(np.int8)
    made = preshuffle_b(b, layout="int4_packed", dtype="int4")
    assert made.data.nbytes == b.size // 2
    words = made.data.reshape(-1, 4)
    low, high = words & 15, words >> 4
    signed = np.stack([low, high], 1).astype(np.int8).reshape(-1)
    signed = np.where(signed > 7, signed - 16, signed).astype(np.int8)
    assert np.array_equal(signed, preshuffle_b(b).data.reshape(-1))


def test_packed_codes_read_back() -> None:
    random = np.random.default_rng(10)
    four = random.integers(0, 16, (3, 64)).astype(np.uint8)
    packed = pack_fp4(four)
    assert np.array_equal(np.stack([packed & 15, packed >> 4], -1).reshape(3, 64), four)
    wide = four.view(ml_dtypes.float4_e2m1fn)
    made = preshuffle_b(np.tile(wide, (16, 2))[:32], layout="fp4_16lane")
    assert np.array_equal(made.unshuffled(), np.tile(packed, (16, 2))[:32])
    six = random.integers(0, 64, (5, 96)).astype(np.uint8)
    rows = pack_fp6(six)
    assert rows.shape == six.shape
    assert not rows.reshape(5, 3, 32)[..., 24:].any()
    for row, found in zip(six.reshape(-1, 32), rows.reshape(-1, 32), strict=True):
        number = int.from_bytes(bytes(found[:24]), "little")
        assert [number >> 6 * i & 63 for i in range(32)] == row.tolist()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda b: preshuffle_b(b, layout="32x32"), "FLY-C600"),
        (lambda b: preshuffle_b(b, layout="fp4_16lane"), "FLY-C601"),
        (lambda b: preshuffle_b(b[:24]), "FLY-C602"),
        (lambda b: preshuffle_b(b[:, :56]), "FLY-C602"),
        (lambda b: preshuffle_b(b[:0]), "FLY-C602"),
        (lambda b: preshuffle_b(b, layout="cdna5_16x16", arch="gfx1201"), "FLY-C603"),
        (lambda b: preshuffle_b(b, dtype="float16"), "FLY-C601"),
        (lambda b: preshuffle_b(b.view(np.uint8)), "FLY-C601"),
        (lambda b: preshuffle_b(b, dtype="int4", layout="int4_packed"), "FLY-C601"),
        (lambda b: pack_int4(b + 16), "FLY-C601"),
        (lambda b: preshuffle_scales(b.view(np.uint8)[:, :4]), "FLY-C602"),
        (preshuffle_scales, "FLY-C601"),
        (lambda b: PreshuffledWeight("16x16", "int8", 64, 128, b), "FLY-C602"),
        (lambda b: preshuffle_b(b).require(layout="int4_packed", arch="gfx942"), "FLY-C604"),
        (
            lambda b: preshuffle_b(b, layout="cdna5_16x16").require(
                layout="cdna5_16x16", arch="gfx1100"
            ),
            "FLY-C603",
        ),
        (
            lambda b: preshuffle_b(b, arch="gfx942").require(layout="16x16", arch="gfx950"),
            "FLY-C604",
        ),
        (
            lambda b: preshuffle_b(b).require(layout="16x16", arch="gfx942", shape=(32, 192)),
            "FLY-C604",
        ),
        (
            lambda b: preshuffle_b(b).require(layout="16x16", arch="gfx942", batch=1),
            "FLY-C604",
        ),
        (
            lambda b: preshuffle_b(b).require(
                layout="16x16", arch="gfx942", dtypes=("float16",)
            ),
            "FLY-C604",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Callable[[Any], object], code: str) -> None:
    b = _numbers((32, 128), "int8", 11)
    with pytest.raises(ConfigError) as caught:
        make(b)
    assert caught.value.code == code
    assert caught.value.allowed


def test_the_flavour_of_8_bit_floats_belongs_to_the_architecture() -> None:
    b = _numbers((32, 128), "float8_e4m3fn", 12)
    assert preshuffle_b(b, arch="gfx950").arch == "gfx950"
    with pytest.raises(ConfigError) as caught:
        preshuffle_b(b, arch="gfx942")
    assert caught.value.code == "FLY-C603"
    assert "fnuz" in caught.value.hint


def test_every_layout_is_tested_here() -> None:
    assert {name for name, _, _ in WEIGHTS} | {"int4_packed"} == set(LAYOUTS)
    assert set(SCALE_LAYOUTS) == {"e8m0", "e8m0_gate_up", "cdna5_32x4"}
