"""What the reference system's AMD target gets wrong or lacks, each by a small program.

The functions are numbered as the list of such holes: back-end errors that nobody sees, aborts of
the process, missing atoms, two ways to name the architecture, signs of atomics, addresses past
4 GiB, unchecked hazards, and options and reports that do not exist.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError, UserError

ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


@flyc.kernel
def _do(a: fx.Tensor, out: fx.Tensor, what: fx.Constexpr) -> None:
    what(a, out, fx.thread_idx.x)


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor, what: fx.Constexpr) -> None:
    _do(a, out, what).launch(grid=(1,), block=(64, 1, 1))


def _run(arch: str, what: Any, a: Any, out: Any) -> Any:
    with scope(FLYDSL_TARGET=arch):
        _launch(a, out, what)
    return out


def _refused(arch: str, what: Any) -> TargetError:
    a = np.zeros(1024, np.float32)
    with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(_launch, a, a.copy(), what)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    return caught.value


# 1: errors of the back end that do not raise ------------------------------------------------------
def _tanh(a: Any, out: Any, lane: Any) -> None:
    out[lane] = fx.math.tanh(a[lane])


def _wide_shuffle(a: Any, out: Any, lane: Any) -> None:
    out[lane] = fx.shuffle(a[lane], 32, 64)


def _into_lds(a: Any, _: Any, lane: Any) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((1, 64), (1, 1)))
    rows = fx.make_view(
        fx.get_iter(fx.rocdl.make_buffer_tensor(a)), fx.make_layout((1, 64), (1, 1))
    )
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
    fx.copy_atom_call(atom, rows[None, lane], lds[None, lane])


def test_1_nothing_is_dropped_silently() -> None:
    a = np.linspace(-4, 4, 64, dtype=np.float32)
    for arch in ARCHES:
        out = _run(arch, _tanh, a, np.zeros_like(a))
        assert np.allclose(out, np.tanh(a.astype(np.float64)), rtol=1e-6)
    for arch in ("gfx1100", "gfx1201", "gfx1250"):
        assert _refused(arch, _into_lds).code == "FLY-T636"
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises((TargetError, UserError)):
            flyc.compile(_launch, a, a.copy(), _wide_shuffle)


# 2: aborts of the process -------------------------------------------------------------------------
def _odd_copy(a: Any, out: Any, lane: Any) -> None:
    source, target = (fx.rocdl.make_buffer_tensor(x) for x in (a, out))
    three = fx.make_layout((3, 64), (1, 3))
    value = fx.make_rmem_tensor(3, fx.Float32)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(96), fx.Float32)
    fx.copy_atom_call(atom, fx.make_view(source.iter, three)[None, lane], value)
    fx.copy_atom_call(atom, value, fx.make_view(target.iter, three)[None, lane])


def test_2_what_does_not_exist_is_an_exception() -> None:
    for shape in ((16, 16, 1), (16, 16, 2), (4, 4, 3), (16, 16, 8), (32, 32, 4), (5, 5, 5)):
        for dtype in (fx.Float64, fx.BFloat16, fx.Float8E5M2, fx.Float6E2M3FN):
            with (
                scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True),
                pytest.raises((TargetError, UserError)),
            ):
                flyc.compile(
                    _launch, np.zeros(64), np.zeros(64),
                    lambda *_, s=shape, d=dtype: fx.make_mma_atom(fx.rocdl.MFMA(*s, d)),
                )  # fmt: skip
    a = np.arange(192, dtype=np.float32)
    for arch in ARCHES:
        assert np.array_equal(_run(arch, _odd_copy, a, np.zeros_like(a)), a)
    assert _refused("gfx942", lambda *_: fx.rocdl.cdna4.MFMA_Scale(16, 16, 128, fx.Float6E2M3FN))


# 3: missing atoms ---------------------------------------------------------------------------------
def test_3_the_atoms_exist() -> None:
    rocdl = fx.rocdl
    made = {
        "gfx942": [
            lambda: rocdl.MFMA(16, 16, 4, fx.Float64),
            lambda: rocdl.MFMA(16, 16, 8, "xf32"),
            lambda: rocdl.SMFMAC(16, 16, 32, fx.Float16),
            lambda: rocdl.MFMA(32, 32, 16, fx.Float8E5M2FNUZ),
        ],
        "gfx950": [
            lambda: rocdl.MFMA(16, 16, 64, fx.Int8),
            lambda: rocdl.MFMA(32, 32, 32, fx.Int8),
            lambda: rocdl.MFMA_Scale(16, 16, 128, fx.Float6E2M3FN, fx.Float6E3M2FN),
            lambda: rocdl.MFMA(16, 16, 32, fx.Float8E5M2),
        ],
    }
    for arch, makers in made.items():
        for maker in makers:
            with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True):
                flyc.compile(_launch, np.zeros(64), np.zeros(64),
                             lambda *_, m=maker: fx.make_mma_atom(m()))  # fmt: skip


def _to_fp8(a: Any, out: Any, lane: Any) -> None:
    out[lane] = a[lane].to(fx.Float8E4M3FN).to(fx.Float32)


def test_3_conversions_to_8_bits_exist() -> None:
    import ml_dtypes

    a = np.linspace(-500, 500, 64, dtype=np.float32)
    expected = a.clip(-448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    for arch in ARCHES:
        out = _run(arch, _to_fp8, a, np.zeros_like(a))
        inside = np.abs(a) <= 448
        assert np.array_equal(out[inside], expected[inside]), arch


# 4: two settings for one architecture -------------------------------------------------------------
@pytest.mark.parametrize("name", ["ARCH", "FLYDSL_GPU_ARCH"])
def test_4_one_setting_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("FLYDSL_TARGET", "ARCH", "FLYDSL_GPU_ARCH"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "gfx1100")
    with scope(COMPILE_ONLY=True):
        compiled = flyc.compile(_launch, np.zeros(64), np.zeros(64),
                                lambda *_: fx.rocdl.s_waitcnt(vmcnt=0))  # fmt: skip
    assert "gfx1100" in compiled.isa
    assert "s_waitcnt vmcnt(0)" in compiled.isa


# 5: signs of atomics ------------------------------------------------------------------------------
def _atomics(operation: str, dtype: Any) -> Any:
    def what(a: Any, out: Any, lane: Any) -> None:
        target = fx.rocdl.make_buffer_tensor(out)
        value = fx.make_rmem_tensor(1, dtype)
        value[0] = a[lane]
        atom = fx.make_copy_atom(fx.rocdl.BufferAtomic(operation, dtype), dtype)
        fx.copy_atom_call(atom, value, fx.make_view(target.iter, fx.make_layout(1, 1)))

    return what


def test_5_maxima_and_minima_compare_as_their_type_does() -> None:
    bits = np.array([1, 2**31, 5, 2**32 - 1] * 16, np.uint32)
    for arch in ("gfx942", "gfx950", "gfx1201"):
        for dtype, host in ((fx.Uint32, np.uint32), (fx.Int32, np.int32)):
            values = bits.view(host)
            for name, fold, start in (("max", np.max, 3), ("min", np.min, 3)):
                out = _run(arch, _atomics(name, dtype), values, np.array([start], host))
                assert out[0] == fold([*values, start]), (arch, dtype, name)
    values = np.linspace(-3, 3, 64, dtype=np.float32)
    out = _run("gfx1201", _atomics("min", fx.Float32), values, np.zeros(1, np.float32))
    assert out[0] == -3


# 6: addresses past 4 GiB --------------------------------------------------------------------------
def _carried(a: Any, out: Any, lane: Any) -> None:
    low, high = fx.rocdl.tdm_ops.add_addr_with_carry(a[2 * lane], a[2 * lane + 1], 0x30)
    out[2 * lane], out[2 * lane + 1] = low, high


def test_6_the_carry_reaches_the_high_word() -> None:
    generator = np.random.default_rng(6)
    near = (generator.integers(1, 1000, 64) << 32) - generator.integers(1, 0x60, 64)
    words = near.astype(np.uint64).view(np.int32)
    out = _run("gfx1250", _carried, words, np.zeros_like(words))
    assert np.array_equal(out.view(np.uint64), near.astype(np.uint64) + 0x30)


# 7: hazards that nobody checks --------------------------------------------------------------------
def _scattered(a: Any, _: Any, lane: Any) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((1, 64), (1, 2)))
    rows = fx.make_view(
        fx.get_iter(fx.rocdl.make_buffer_tensor(a)), fx.make_layout((1, 64), (1, 1))
    )
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
    fx.copy_atom_call(atom, rows[None, lane], lds[None, lane])


def _divergent(a: Any, out: Any, lane: Any) -> None:
    with_rest = fx.rocdl.read_first_lane(lane // 32)
    if with_rest == 0:
        fx.rocdl.s_barrier()
    out[lane] = a[lane]


@flyc.kernel
def _uneven(out: fx.Tensor) -> None:
    wave = fx.rocdl.read_first_lane(fx.thread_idx.x // 64)
    if wave == 0:
        fx.rocdl.s_barrier()
    out[fx.thread_idx.x] = 1


@flyc.jit
def _launch_uneven(out: fx.Tensor) -> None:
    _uneven(out).launch(grid=(1,), block=(128, 1, 1))


@flyc.kernel
def _unwaited(a: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((1, 64), (1, 1)))
    rows = fx.make_view(
        fx.get_iter(fx.rocdl.make_buffer_tensor(a)), fx.make_layout((1, 64), (1, 1))
    )
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
    fx.copy_atom_call(atom, rows[None, lane], lds[None, lane])
    fx.rocdl.asyncmark()
    fx.rocdl.wait_asyncmark(1)
    out[lane] = lds[0, lane]


@flyc.jit
def _launch_unwaited(a: fx.Tensor, out: fx.Tensor) -> None:
    _unwaited(a, out).launch(grid=(1,), block=(64, 1, 1))


def test_7_hazards_are_found() -> None:
    assert _refused("gfx942", _scattered).code == "FLY-T639"
    a = np.arange(64, dtype=np.float32)
    with scope(FLYDSL_TARGET="gfx942"):
        with flydsl_emu.sanitize(action="collect") as report:
            _launch_unwaited(a, np.zeros_like(a))
        assert any(f.code in ("FLY-U731", "FLY-U733") for f in report.findings)
        with flydsl_emu.sanitize(action="collect") as report:
            _launch_uneven(np.zeros(128, np.int32))
        assert any(f.code == "FLY-U736" for f in report.findings)


# 8: options and reports ---------------------------------------------------------------------------
def _sum(a: Any, out: Any, lane: Any) -> None:
    total = fx.Float32(0.0)
    for i in range(16):
        total = total + a[lane * 16 + i] * fx.Float32(2.0)
    out[lane] = total


def test_8_the_level_counts_and_resources_are_reported() -> None:
    a = np.zeros(1024, np.float32)
    texts = []
    for level in (0, 2):
        with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY=True, FLYDSL_COMPILE_OPT_LEVEL=level):
            compiled = flyc.compile(_launch, a, a[:64].copy(), _sum)
            texts.append(compiled.isa)
            (info,) = compiled.kernels
            assert info.vgpr > 0
            assert info.sgpr > 0
            assert info.waves_per_simd > 0
            assert (info.vgpr_spills, info.sgpr_spills, info.lds_static) == (0, 0, 0)
    assert texts[0] != texts[1]
