"""Multiplying tiles on the emulator through tiled copies, fragments and `gemm`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config

np = pytest.importorskip("numpy")
pytest.importorskip("flydsl_emu")
ml_dtypes = pytest.importorskip("ml_dtypes")

STORED = {
    "f64": np.float64, "f32": np.float32, "xf32": np.float32, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn, "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn, "i4": np.int8,
}  # fmt: skip
CLASSES = {
    "f64": fx.Float64, "f32": fx.Float32, "xf32": fx.Float32, "f16": fx.Float16,
    "bf16": fx.BFloat16, "i8": fx.Int8, "i32": fx.Int32, "i4": fx.Int4,
    "f8E4M3FN": fx.Float8E4M3FN, "f8E5M2": fx.Float8E5M2,
    "f8E4M3FNUZ": fx.Float8E4M3FNUZ, "f8E5M2FNUZ": fx.Float8E5M2FNUZ,
    "f6E2M3FN": fx.Float6E2M3FN, "f6E3M2FN": fx.Float6E3M2FN, "f4E2M1FN": fx.Float4E2M1FN,
}  # fmt: skip
BITS = {"f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4, "i4": 4}


@dataclass(frozen=True)
class Product:
    """One launch: which operation, and how often it is repeated.

    Attributes:
        kind: Function of ``fx.rocdl``.
        mnk: Extents of the operation.
        types: Element types of A, B and C.
        options: Keywords of the function.
        kept: Columns of K for each column of A in memory.
        extras: State fields that are loaded per lane, one 32-bit value each.
        load_bits: Width of the copies of A and B.
        atoms: Arrangement of atoms over M, N, K.
        threads: Lanes.
    """

    kind: str
    mnk: tuple[int, int, int]
    types: tuple[str, str, str]
    options: tuple[tuple[str, Any], ...] = ()
    kept: int = 1
    extras: tuple[str, ...] = ()
    load_bits: tuple[int, int] = (0, 0)
    atoms: Any = field(default=((1, 1, 1), (0, 0, 0)))
    threads: int = 64
    tile: tuple[int, int, int] | None = None

    @property
    def extents(self) -> tuple[int, int, int]:
        """Extents of the whole product."""
        return self.tile or self.mnk


def view(tensor, element, rows, columns):
    """Return a row-major view of known shape whose elements have the type `element`."""
    pointer = fx.get_iter(tensor)
    if fx.const_expr(element is not tensor.dtype):
        pointer = fx.recast_iter(element, pointer)
    return fx.make_view(pointer, fx.make_layout((rows, columns), (columns, 1)))


@flyc.kernel
def product_kernel(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, X: fx.Tensor, Y: fx.Tensor, p: fx.Constexpr[Product]
):
    m, n, k = p.extents
    thread = fx.thread_idx.x
    kinds = [CLASSES[t] for t in p.types]
    pair = (kinds[0], kinds[1]) if p.types[0] != "xf32" else "xf32"
    if fx.const_expr(p.kind in ("MFMA_Scale", "WMMAScale")):
        made = getattr(fx.rocdl, p.kind)(*p.mnk, *kinds, **dict(p.options))
    else:
        made = getattr(fx.rocdl, p.kind)(*p.mnk, pair, kinds[2], **dict(p.options))
    mma = fx.make_tiled_mma(made, fx.make_layout(*p.atoms))
    gA, gB = view(A, kinds[0], m, k // p.kept), view(B, kinds[1], n, k)
    gC = view(C, kinds[2], m, n)
    copy_a = fx.make_tiled_copy_A(
        fx.make_copy_atom(fx.UniversalCopy(p.load_bits[0]), kinds[0]), mma
    )
    copy_b = fx.make_tiled_copy_B(
        fx.make_copy_atom(fx.UniversalCopy(p.load_bits[1]), kinds[1]), mma
    )
    copy_c = fx.make_tiled_copy_C(
        fx.make_copy_atom(fx.UniversalCopy(kinds[2].width), kinds[2]), mma
    )
    a, b, c = mma.make_fragment_A(gA), mma.make_fragment_B(gB), mma.make_fragment_C(gC)
    fx.copy(copy_a, copy_a.get_slice(thread).partition_S(gA), copy_a.retile(a))
    fx.copy(copy_b, copy_b.get_slice(thread).partition_S(gB), copy_b.retile(b))
    fx.copy(copy_c, copy_c.get_slice(thread).partition_S(gC), copy_c.retile(c))
    state = {}
    for name, tensor in zip(p.extras, (X, Y), strict=False):
        state[name] = fx.ptr_load(fx.get_iter(tensor) + thread)
    fx.gemm(mma, c, a, b, c, **state)
    fx.copy(copy_c, copy_c.retile(c), copy_c.get_slice(thread).partition_D(gC))


@flyc.jit
def product(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, X: fx.Tensor, Y: fx.Tensor, p: fx.Constexpr[Product]
):
    product_kernel(A, B, C, X, Y, p).launch(grid=1, block=p.threads)


def packed(values, element):
    """Return the bytes of a matrix as the device has them: 6 and 4 bits without gaps."""
    bits = BITS.get(element)
    if bits is None:
        return values
    codes = values.view(np.uint8).ravel()[:, None] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(codes.astype(np.uint8).ravel(), bitorder="little")


def _multiply(arch: str, p: Product, a: Any, b: Any, c: Any, *extras: Any) -> Any:
    """Return a b' + c as the emulator computes it on `arch`."""
    result = c.copy()
    lanes = list(extras) + [np.zeros(64, np.int32)] * (2 - len(extras))
    with config.scope(FLYDSL_TARGET=arch):
        product(packed(a, p.types[0]), packed(b, p.types[1]), result, *lanes, p)
    return result


@pytest.fixture
def multiply() -> Callable[..., Any]:
    """`_multiply`."""
    return _multiply


@pytest.fixture
def make_product() -> type[Product]:
    """`Product`."""
    return Product


@pytest.fixture
def stored() -> dict[str, Any]:
    """Numpy types by element type."""
    return STORED
