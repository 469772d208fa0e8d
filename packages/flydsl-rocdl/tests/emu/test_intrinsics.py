"""LLVM intrinsics by name, raw builders of fx.rocdl, and inline assembly."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import TargetError, UserAttributeError, UserTypeError, UserValueError


@flyc.kernel
def _calls(a: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    word = a[lane]
    out[lane, 0] = fx.llvm.call_intrinsic("llvm.ctpop", fx.Int32, word)
    wide = fx.llvm.call_intrinsic("llvm.ctpop", fx.Int64, fx.Int64(word))
    out[lane, 1] = fx.Int32(wide)
    out[lane, 2] = fx.rocdl.sdot4(fx.Int32, word, word, fx.Int32(3), False)
    out[lane, 3] = fx.rocdl.ds_swizzle(fx.Int32, word, 0x1F | 1 << 10)
    out[lane, 4] = fx.rocdl.ubfe(fx.Int32, word, 4, 8)
    out[lane, 5] = fx.rocdl.perm(fx.Int32, word, 7, 0x00010203)


@flyc.jit
def _launch_calls(a: fx.Tensor, out: fx.Tensor) -> None:
    _calls(a, out).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_intrinsics_by_name(arch: str) -> None:
    generator = np.random.default_rng(1)
    a = generator.integers(-(2**31), 2**31, 32).astype(np.int32)
    out = np.zeros((32, 6), np.int32)
    with scope(FLYDSL_TARGET=arch):
        _launch_calls(a, out)
    unsigned = a.view(np.uint32)
    assert np.array_equal(out[:, 0], [int(x).bit_count() for x in unsigned])
    assert np.array_equal(out[:, 1], [(int(x) & (2**64 - 1)).bit_count() for x in a])
    parts = a.view(np.int8).reshape(32, 4).astype(np.int32)
    assert np.array_equal(out[:, 2], (parts * parts).sum(1) + 3)
    assert np.array_equal(out[:, 3], a[np.arange(32) ^ 1])
    assert np.array_equal(out[:, 4], (unsigned >> 4 & 0xFF).astype(np.int32))
    # Bytes 0 to 3 of a permutation's selector name those of the second operand.
    assert (out[:, 5].view(np.uint32) == 0x07000000).all()


@flyc.kernel
def _matrix(out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    a = fx.Vector([fx.Float16(1.0)] * 4)
    zero = fx.Vector([fx.Float32(0.0)] * 4)
    d = fx.rocdl.mfma_f32_16x16x16f16(fx.Float32x4, [a, a, zero, 0, 0, 0])
    out[lane] = d[0]


@flyc.jit
def _launch_matrix(out: fx.Tensor) -> None:
    _matrix(out).launch(grid=(1,), block=(64, 1, 1))


def test_a_raw_matrix_builder_takes_its_operands_in_a_list() -> None:
    out = np.zeros(64, np.float32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_matrix(out)
    assert np.array_equal(out, np.full(64, 16.0))


@flyc.kernel
def _wrong(out: fx.Tensor, which: fx.Constexpr[str]) -> None:
    word = out[0]
    if fx.const_expr(which == "unknown"):
        fx.llvm.call_intrinsic("llvm.amdgcn.nonsense", fx.Int32, word)
    elif fx.const_expr(which == "types"):
        out[0] = fx.llvm.call_intrinsic("llvm.amdgcn.fdot2", fx.Int32, word)
    elif fx.const_expr(which == "immediate"):
        out[0] = fx.rocdl.ds_swizzle(fx.Int32, word, word)
    elif fx.const_expr(which == "absent"):
        fx.rocdl.load_async_to_lds(word)
    elif fx.const_expr(which == "name"):
        fx.llvm.call_intrinsic("ctpop", fx.Int32, word)
    elif fx.const_expr(which == "operand"):
        fx.llvm.call_intrinsic("llvm.ctpop", fx.Int32, "word")
    else:
        fx.rocdl.ds_swizle(fx.Int32, word, 3)


@flyc.jit
def _launch_wrong(out: fx.Tensor, which: fx.Constexpr[str]) -> None:
    _wrong(out, which).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize(
    ("which", "error", "text"),
    [
        ("unknown", TargetError, "unknown intrinsic"),
        ("types", TargetError, "invalid intrinsic signature"),
        ("immediate", TargetError, "non-immediate"),
        ("absent", TargetError, "no intrinsic for fx.rocdl.load_async_to_lds"),
        ("name", UserValueError, "begins with llvm"),
        ("operand", UserTypeError, "numbers, vectors"),
        ("misspelt", UserAttributeError, "ds_swizle"),
    ],
)
def test_mistakes_are_exceptions(which: str, error: type[Exception], text: str) -> None:
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(error, match=text):
        _launch_wrong(np.zeros(4, np.int32), which)


@flyc.kernel
def _assembly(a: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    out[lane] = fx.llvm.inline_asm("v_xor_b32 $0, $1, $2", "=v,v,v", fx.Int32, a[lane], lane)


@flyc.jit
def _launch_assembly(a: fx.Tensor, out: fx.Tensor) -> None:
    _assembly(a, out).launch(grid=(1,), block=(32, 1, 1))


def test_inline_assembly() -> None:
    found = shutil.which("llvm-mc-22") or shutil.which("llvm-mc")
    if found is None:
        pytest.skip("there is no assembler, which inline assembly needs")
    a, out = np.arange(100, 132, dtype=np.int32), np.zeros(32, np.int32)
    with scope(FLYDSL_TARGET="gfx942", FLYDSL_ROCDL_LLVM_MC=Path(found)):
        _launch_assembly(a, out)
    assert np.array_equal(out, a ^ np.arange(32))
