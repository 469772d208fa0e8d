"""Raw operations of older kernels: the same results, and a warning that says what to write."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_rocdl import expr as rocdl
from flydsl_rocdl.atoms import wmma
from flydsl_rocdl.compat import raw_ops
from flydsl_rocdl.expr import matrix


@flyc.kernel
def _multiply(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    row, first = lane % 16, lane // 16 * 4
    x = fx.Vector.from_elements([a[row, first + k] for k in range(4)], dtype=fx.Float16)
    y = fx.Vector.from_elements([b[row, first + k] for k in range(4)], dtype=fx.Float16)
    c = fx.Vector.filled(4, 0.0, fx.Float32)
    d = raw_ops.mfma_f32_16x16x16f16(None, [x, y, c])
    for k in fx.range_constexpr(4):
        other = raw_ops.ds_bpermute(fx.Int32, (lane ^ 1) * 4, fx.Float32(d[k]).bitcast(fx.Int32))
        out[first + k, row ^ 1] = fx.Int32(other).bitcast(fx.Float32)


@flyc.jit
def _launch(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor) -> None:
    _multiply(a, b, out).launch(grid=(1,), block=(64, 1, 1))


def test_results_and_warnings() -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-8, 8, (16, 16)).astype(np.float16) for _ in range(2))
    out = np.zeros((16, 16), np.float32)
    with scope(FLYDSL_TARGET="gfx942"), pytest.warns(DeprecationWarning, match="raw_ops") as caught:
        _launch(a, b, out)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.array_equal(out, expected[:, np.arange(16)])
    texts = [str(w.message) for w in caught]
    assert any("fx.gemm with fx.rocdl.MFMA(16, 16, 16, fx.Float16)" in t for t in texts)
    assert any("fx.shuffle" in t for t in texts)
    assert all(w.filename == __file__ for w in caught)


def test_every_replacement_names_what_exists() -> None:
    pattern = re.compile(r"fx\.gemm with fx\.rocdl\.(\w+)\((.*)\)$")
    for name in sorted(raw_ops.NAMES):
        if raw_ops.replacement(name) == f"fx.rocdl.{name}":
            assert name.startswith("swmmac")
            continue
        found = pattern.match(raw_ops.replacement(name))
        assert found is not None, name
        if found[1] == "WMMA":  # which needs to know the architecture
            *extents, kind = eval(f"({found[2]})", {"fx": fx})
            acc = fx.Int32 if raw_ops._shape(name).acc == "i32" else None
            made: Any = matrix._made(wmma.WMMA, tuple(extents), kind, acc)
        else:
            made = eval(f"rocdl.{found[1]}({found[2]})", {"rocdl": rocdl, "fx": fx})
        m, n, k, blocks = made.instruction_mnk
        shape = raw_ops._shape(name)
        assert (m, n, k, blocks) == (shape.m, shape.n, shape.k, shape.blocks), name
    assert "LDSReadTrans(8, 64)" in raw_ops.replacement("ds_read_tr8_b64")
    assert "cdna5.LDSReadTrans(16, 128)" in raw_ops.replacement("ds_load_tr16_b128")
    assert raw_ops.replacement("ds_append") == "fx.rocdl.ds_append"


def test_other_names_are_refused() -> None:
    for name in ("buffer_load", "mfma_nonsense", "s_barrier"):
        with pytest.raises(AttributeError, match=name):
            getattr(raw_ops, name)
    assert {"ds_swizzle", "mfma_f32_32x32x8f16"} <= set(dir(raw_ops))
