"""Options of matrix operations on the emulator: signs, saturation, scales, index sets, blocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import TargetError, UserValueError

WAVES_32 = ("gfx1100", "gfx1201")
LIMIT = 2**31 - 1


@pytest.mark.parametrize("arch", WAVES_32)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("sign_a", "sign_b", "clamp"),
    [(False, True, False), (True, False, True), (False, False, True), (True, True, True)],
)
@pytest.mark.parametrize("kind", ["WMMA", "SWMMAC"])
def test_signs_and_saturation(
    multiply: Any, make_product: Any, arch: str, bits: int, sign_a: bool, sign_b: bool,
    clamp: bool, kind: str,
) -> None:  # fmt: skip
    sparse = kind == "SWMMAC"
    if sparse and arch == "gfx1100":
        with pytest.raises(TargetError, match="no SWMMAC") as caught:
            multiply(arch, make_product(kind, (16, 16, 32), ("i8", "i8", "i32"), kept=2,
                                        load_bits=(64, 128), threads=32),
                     *(np.zeros(s, np.int8) for s in ((16, 16), (16, 32))),
                     np.zeros((16, 16), np.int32))  # fmt: skip
        assert caught.value.code == "FLY-T634"
        return
    k = 32 if sparse else 16
    options = (("sign_a", sign_a), ("sign_b", sign_b), ("clamp", clamp))
    held = k if arch == "gfx1100" else k // 2
    loads = (min(128, bits * held // (1 + sparse)), min(128, bits * held))
    p = make_product(
        kind, (16, 16, k), (f"i{bits}", f"i{bits}", "i32"), options, 1 + sparse,
        ("index",) if sparse else (), loads, threads=32,
    )  # fmt: skip
    rng = np.random.default_rng(bits)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
    a = rng.integers(low, high, (16, k // (1 + sparse))).astype(np.int8)
    b = rng.integers(low, high, (16, k)).astype(np.int8)
    c = rng.integers(-2000, 2000, (16, 16)).astype(np.int64)
    c[::2] += LIMIT - 2000
    c[1::2] -= LIMIT - 2000
    c = c.astype(np.int32)
    wide = [x.astype(np.int64) if s else x.astype(np.int64) % 2**bits
            for x, s in ((a, sign_a), (b, sign_b))]  # fmt: skip
    extras = []
    if sparse:  # places 1 and 3 of each four
        dense = np.zeros((16, k), np.int64)
        dense[:, 1::2] = wide[0]
        wide[0] = dense
        extras = [np.full(32, 0b1101110111011101, np.int32)]
    expected = wide[0] @ wide[1].T + c
    if clamp:
        expected = np.clip(expected, -LIMIT - 1, LIMIT)
    else:
        expected = (expected + LIMIT + 1) % 2**32 - LIMIT - 1
    assert np.array_equal(multiply(arch, p, a, b, c, *extras), expected)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize(
    ("mnk", "element", "stored_type"),
    [((4, 4, 4), "f16", np.float16), ((4, 4, 1), "f32", np.float32), ((4, 4, 4), "i8", np.int8)],
)
@pytest.mark.parametrize("atoms", [((4, 4, 1), (1, 4, 0)), ((2, 8, 1), (8, 1, 0))])
def test_groups_of_four_lanes_multiply_blocks_of_their_own(
    multiply: Any, make_product: Any, arch: str, mnk: Any, element: str, stored_type: Any,
    atoms: Any,
) -> None:  # fmt: skip
    result = "i32" if element == "i8" else "f32"
    m, n = 4 * atoms[0][0], 4 * atoms[0][1]
    k = 3 * mnk[2]
    loads = mnk[2] * np.dtype(stored_type).itemsize * 8
    p = make_product(
        "MFMA", mnk, (element, element, result), load_bits=(loads, loads), atoms=atoms,
        tile=(m, n, k),
    )  # fmt: skip
    rng = np.random.default_rng(m)
    a, b, c = (rng.integers(-8, 8, s) for s in ((m, k), (n, k), (m, n)))
    got = multiply(arch, p, a.astype(stored_type), b.astype(stored_type),
                   c.astype(np.int32 if result == "i32" else np.float32))  # fmt: skip
    assert np.array_equal(got, a @ b.T + c)


@pytest.mark.parametrize("kind", ["none", "one", "zero", "short", "bytes"])
def test_scales_that_are_missing_constant_or_short(kind: str) -> None:
    m, k = 16, 128
    rng = np.random.default_rng(5)
    small = ml_dtypes.float8_e4m3fn
    a, b = ((rng.integers(-8, 9, (m, k)) / 4).astype(small) for _ in range(2))
    lanes = rng.integers(120, 134, 64).astype(np.uint8)
    c = np.zeros((m, m), np.float32)
    with config.scope(FLYDSL_TARGET="gfx950"):
        scale_by_kind(a, b, c, lanes, kind)
    left = a.astype(np.float64)
    if kind == "one":
        left *= 4.0
    if kind in ("zero", "short"):
        left *= 2.0**-127
    if kind == "bytes":
        left *= np.repeat(2.0 ** (lanes.reshape(4, 16).T.astype(np.float64) - 127), 32, axis=1)
    right = b.astype(np.float64) * (2.0**-127 if kind in ("zero", "short") else 1.0)
    assert np.array_equal(c.astype(np.float64), (left @ right.T).astype(np.float32))


@flyc.kernel
def scale_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, S: fx.Tensor, kind: fx.Constexpr[str]):
    thread = fx.thread_idx.x
    mma = fx.make_tiled_mma(fx.rocdl.MFMA_Scale(16, 16, 128, fx.Float8E4M3FN), (1, 1, 1))
    layout = fx.make_layout((16, 128), (128, 1))
    gA, gB = fx.make_view(fx.get_iter(A), layout), fx.make_view(fx.get_iter(B), layout)
    gC = fx.make_view(fx.get_iter(C), fx.make_layout((16, 16), (16, 1)))
    load = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float8E4M3FN)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy_a, copy_b = fx.make_tiled_copy_A(load, mma), fx.make_tiled_copy_B(load, mma)
    copy_c = fx.make_tiled_copy_C(store, mma)
    a, b, c = mma.make_fragment_A(gA), mma.make_fragment_B(gB), mma.make_fragment_C(gC)
    fx.copy(copy_a, copy_a.get_slice(thread).partition_S(gA), copy_a.retile(a))
    fx.copy(copy_b, copy_b.get_slice(thread).partition_S(gB), copy_b.retile(b))
    c.fill(0.0)
    if fx.const_expr(kind == "none"):
        fx.gemm(mma, c, a, b, c)
    elif fx.const_expr(kind == "one"):
        fx.gemm(mma, c, a, b, c, scale_a=fx.Int32(129))
    elif fx.const_expr(kind == "zero"):
        fx.gemm(mma, c, a, b, c, scale_a=fx.Int32(0), scale_b=fx.Int32(0))
    elif fx.const_expr(kind == "short"):
        fx.gemm(mma, c, a, b, c, scale_a=fx.Uint8(0), scale_b=fx.Int32(0))
    else:
        own = fx.ptr_load(fx.get_iter(S) + thread)
        fx.gemm(mma, c, [a, own], b, c)
    fx.copy(copy_c, copy_c.retile(c), copy_c.get_slice(thread).partition_D(gC))


@flyc.jit
def scale_by_kind(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, S: fx.Tensor, kind: fx.Constexpr[str]):
    scale_kernel(A, B, C, S, kind).launch(grid=1, block=64)


@flyc.kernel
def sparse_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, I: fx.Tensor):
    """32 x 32 x 64 by four waves' worth of tiles in one wave; an index for each tile of A."""
    thread = fx.thread_idx.x
    mma = fx.make_tiled_mma(fx.rocdl.SMFMAC(16, 16, 32, fx.Float16), (1, 1, 1))
    gA = fx.make_view(fx.get_iter(A), fx.make_layout((32, 32), (32, 1)))
    gB = fx.make_view(fx.get_iter(B), fx.make_layout((32, 64), (64, 1)))
    gC = fx.make_view(fx.get_iter(C), fx.make_layout((32, 32), (32, 1)))
    copy_a = fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), mma)
    copy_b = fx.make_tiled_copy_B(fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16), mma)
    copy_c = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma)
    a, b, c = mma.make_fragment_A(gA), mma.make_fragment_B(gB), mma.make_fragment_C(gC)
    fx.copy(copy_a, copy_a.get_slice(thread).partition_S(gA), copy_a.retile(a))
    fx.copy(copy_b, copy_b.get_slice(thread).partition_S(gB), copy_b.retile(b))
    index = fx.make_rmem_tensor(fx.make_layout((1, 2, 2), (1, 1, 2)), fx.Int32)
    own = fx.make_view(fx.get_iter(I) + thread, fx.make_layout((1, 2, 2), (1, 64, 128)))
    fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32), own, index)
    c.fill(0.0)
    fx.gemm(mma, c, [a, index], b, c)
    fx.copy(copy_c, copy_c.retile(c), copy_c.get_slice(thread).partition_D(gC))


@flyc.jit
def sparse_product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, I: fx.Tensor):
    sparse_kernel(A, B, C, I).launch(grid=1, block=64)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_each_tile_of_a_sparse_operand_has_its_index(arch: str) -> None:
    rng = np.random.default_rng(9)
    a, b = rng.integers(-8, 8, (32, 32)), rng.integers(-8, 8, (32, 64))
    places = np.array([sorted(rng.permutation(4)[:2]) for _ in range(512)]).reshape(32, 32)
    rows, columns = np.indices((32, 32))
    dense = np.zeros((32, 64), np.int64)
    dense[rows, columns // 2 * 4 + places] = a
    index = np.zeros((2, 2, 64), np.int32)  # tile along K, tile along M, lane
    for k_tile, m_tile, lane in np.ndindex(2, 2, 64):
        first = k_tile * 16 + lane // 16 * 4
        four = places[m_tile * 16 + lane % 16, first : first + 4]
        index[k_tile, m_tile, lane] = sum(int(x) << (2 * i) for i, x in enumerate(four))
    c = np.empty((32, 32), np.float32)
    with config.scope(FLYDSL_TARGET=arch):
        sparse_product(a.astype(np.float16), b.astype(np.float16), c, index)
    assert np.array_equal(c, dense @ b.T)


def test_the_wrong_flavour_of_small_floats_is_refused(multiply: Any, make_product: Any) -> None:
    zeros = [np.zeros((16, 32), np.uint8)] * 2 + [np.zeros((16, 16), np.float32)]
    for arch, element in (("gfx942", "f8E4M3FN"), ("gfx950", "f8E4M3FNUZ")):
        p = make_product("MFMA", (16, 16, 32), (element, element, "f32"), load_bits=(64, 64))
        with pytest.raises(TargetError, match=f"do not read {element}") as caught:
            multiply(arch, p, *zeros)
        assert caught.value.code == "FLY-T634"
        assert caught.value.location is not None


@pytest.mark.parametrize(
    "case",
    [
        ("MFMA", (16, 16, 2), ("f32", "f32", "f32"), (), UserValueError, "FLY-U630"),
        ("MFMA", (16, 16, 8), ("bf16", "bf16", "f32"), (), TargetError, "FLY-T634"),
        ("MFMA", (32, 32, 4), ("bf16", "bf16", "f32"), (), TargetError, "FLY-T634"),
        ("MFMA", (16, 16, 32), ("f16", "f16", "f32"), (), TargetError, "FLY-T634"),
        ("MFMA", (16, 16, 64), ("i8", "i8", "i32"), (), TargetError, "FLY-T634"),
        ("MFMA", (16, 16, 16), ("f16", "f16", "f16"), (), UserValueError, "FLY-U630"),
        ("MFMA_Scale", (16, 16, 128), ("f6E2M3FN", "f6E2M3FN", "f32"), (), TargetError,
         "FLY-T634"),
        ("MFMA_Scale", (16, 16, 64), ("f4E2M1FN", "f4E2M1FN", "f32"), (), UserValueError,
         "FLY-U630"),
        ("SMFMAC", (16, 16, 64), ("f16", "f16", "f32"), (), TargetError, "FLY-T634"),
        ("SMFMAC", (16, 16, 32), ("f16", "f16", "f32"), (("index_set", 4),), UserValueError,
         "FLY-U630"),
        ("SMFMAC", (16, 16, 32), ("f16", "f16", "f32"), (), TargetError, "FLY-T649"),
        ("WMMA", (16, 16, 16), ("f16", "f16", "f32"), (), TargetError, "FLY-T634"),
        ("WMMAScale", (16, 16, 128), ("f4E2M1FN", "f4E2M1FN", "f32"), (), TargetError,
         "FLY-T634"),
        ("SWMMAC", (16, 16, 32), ("f16", "f16", "f32"), (), TargetError, "FLY-T634"),
    ],
)  # fmt: skip
def test_what_this_architecture_lacks_is_refused_at_the_users_line(
    multiply: Any, make_product: Any, stored: Any, case: tuple[Any, ...]
) -> None:
    kind, mnk, types, options, error, code = case
    m, n, k = mnk
    kept = 2 if kind in ("SMFMAC", "SWMMAC") else 1
    p = make_product(kind, mnk, types, options, kept, load_bits=(64, 128 // (3 - kept)))
    shapes = ((m, k // kept), (n, k), (m, n))
    with pytest.raises(error) as caught:
        multiply("gfx942", p, *(np.zeros(s, stored[t]) for s, t in zip(shapes, types, strict=True)))
    assert caught.value.code == code
    assert caught.value.allowed
    assert caught.value.location is not None


@pytest.mark.parametrize(("modifier", "sign"), [(0, 1), (1, -1), (2, 0), (3, 2)])
@pytest.mark.parametrize("result", ["f32", "f16"])
def test_the_addend_may_be_negated_and_made_absolute(
    multiply: Any, make_product: Any, modifier: int, sign: int, result: str
) -> None:
    options = (("mod_c", modifier), ("reuse_a", True))
    p = make_product("WMMA", (16, 16, 32), ("f16", "f16", result), options, load_bits=(128, 128),
                     threads=32)  # fmt: skip
    rng = np.random.default_rng(modifier)
    a, b, c = (rng.integers(-8, 9, s).astype(np.float16) for s in ((16, 32), (16, 32), (16, 16)))
    c = c.astype(np.float32 if result == "f32" else np.float16)
    added = {1: c, -1: -c, 0: np.abs(c), 2: -np.abs(c)}[sign].astype(np.float64)
    expected = a.astype(np.float64) @ b.astype(np.float64).T + added
    assert np.array_equal(multiply("gfx1250", p, a, b, c).astype(np.float64), expected)
    for arch in WAVES_32:
        other = make_product("WMMA", (16, 16, 16), ("f16", "f16", result), options,
                             load_bits=(128, 128), threads=32)  # fmt: skip
        with pytest.raises(TargetError, match="have no reuse_a" if not modifier else "no mod_c"):
            multiply(arch, other, a[:, :16].copy(), b[:, :16].copy(), c)
