"""`gemm` of plain matrices with E8M0 scales on gfx1250, against float64, under the sanitizer."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from product_reference import BF16, After, check, finished, padded

import flydsl.compiler as flyc
import flydsl_emu
from flydsl import config
from flydsl.errors import FlyDSLError
from flydsl_kernels.gemm import gemm
from flydsl_kernels.gemm.device.epilogue import Extras
from flydsl_kernels.gemm.device.mx import launch_mx
from flydsl_kernels.gemm.plan import EpiloguePlan
from flydsl_kernels.gemm.shared import MxPlan
from flydsl_rocdl.kernels.preshuffle import pack_fp4, pack_fp6

KINDS = {
    "fp8": ml_dtypes.float8_e4m3fn,
    "bf8": ml_dtypes.float8_e5m2,
    "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn,
    "fp4": ml_dtypes.float4_e2m1fn,
}
BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
PAIRS = [("fp8", "bf8"), ("fp6", "fp6"), ("bf6", "fp8"), ("fp4", "fp4"), ("fp8", "fp4"),
         ("fp4", "bf6")]  # fmt: skip


@pytest.fixture(autouse=True)
def _gfx1250():
    with config.scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        yield


def codes(random, shape, name, low=120):
    """Return numbers over all finite codes of a type, E8M0 scales, and both as float64."""
    every = np.arange(2 ** BITS[name]).astype(np.uint8).view(KINDS[name])
    every = every[np.isfinite(every.astype(np.float64))]
    values = every[random.integers(0, len(every), shape)]
    scales = random.integers(low, low + 14, (*shape[:-1], shape[-1] // 32)).astype(np.uint8)
    times = np.repeat(np.exp2(scales.astype(np.float64) - 127), 32, -1)
    return values, scales, values.astype(np.float64) * times


def expected(wide_a, wide_b, after, out):
    """Return the finished product and its bound."""
    total = wide_a @ np.swapaxes(wide_b, -1, -2)
    magnitude = np.abs(wide_a) @ np.abs(np.swapaxes(wide_b, -1, -2))
    return finished(total, magnitude, after, out, wide_a.shape[-1])


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_every_format_and_tail(kinds):
    random = np.random.default_rng()
    for m, n, k in ((1, 1, 32), (17, 70, 128), (int(random.integers(33, 65)), 33, 160)):
        a, scale_a, wide_a = codes(random, (m, k), kinds[0])
        b, scale_b, wide_b = codes(random, (n, k), kinds[1])
        got = gemm(padded(a), b, scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
        check(got, *expected(wide_a, wide_b, After(), "float32"))


@pytest.mark.parametrize("out", ["bfloat16", "float16", "float8_e4m3fn"])
def test_what_follows_the_product(out):
    random = np.random.default_rng()
    (a, scale_a, wide_a), (b, scale_b, wide_b) = (
        codes(random, (rows, 96), "fp4", 118) for rows in (18, 40)
    )
    bias = random.standard_normal(40).astype(np.float32)
    residual = random.standard_normal((18, 40)).astype(BF16)
    small = out.startswith("float8")
    divisors = np.exp2(random.integers(-2, 3, 18)).astype(np.float32) if small else None
    memory = np.full((20, 48), np.nan).astype(KINDS["fp8"] if small else np.dtype(
        BF16 if out == "bfloat16" else out))  # fmt: skip
    got = memory[1:19, 4:44]
    gemm(a, b, scale_a=scale_a, scale_b=scale_b, bias=bias, residual=residual, out=got,
         activation="silu", scale_out=divisors)  # fmt: skip
    after = After(bias=bias, residual=residual.astype(np.float64), activation="silu",
                  scale_out=divisors[:, None] if small else 1.0)  # fmt: skip
    check(got, *expected(wide_a, wide_b, after, out))
    memory[1:19, 4:44] = np.nan
    assert np.isnan(memory.astype(np.float64)).all()


def test_batches_and_packed_codes():
    random = np.random.default_rng()
    a, scale_a, wide_a = codes(random, (3, 5, 64), "fp6")
    b, scale_b, wide_b = codes(random, (20, 64), "fp4")
    packed = pack_fp6(a.view(np.uint8)), pack_fp4(b.view(np.uint8))
    powers = scale_a.view(ml_dtypes.float8_e8m0fnu)
    got = gemm(*packed, scale_a=powers, scale_b=scale_b)
    assert got.dtype == BF16
    check(got, *expected(wide_a, wide_b, After(), "bfloat16"))
    assert gemm(*(x[..., :0, :] for x in packed), scale_a=powers[:, :0],
                scale_b=scale_b[:0]).shape == (3, 0, 0)  # fmt: skip


def test_the_smallest_and_largest_scales_and_nan():
    a, b = (np.ones((16, 128), KINDS["fp6"]) for _ in range(2))
    scale_a, scale_b = np.full((16, 4), 127, np.uint8), np.full((16, 4), 127, np.uint8)
    scale_a[1], scale_b[1] = 0, 254
    scale_a[2, 3] = 255
    got = gemm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
    assert got[0, 0] == 128
    assert got[1, 1] == 128
    assert got[0, 1] == np.inf
    assert np.isnan(got[2]).all()
    assert not np.isnan(got[3:]).any()


def test_the_largest_tile_has_one_instruction_per_product_and_no_spills():
    random = np.random.default_rng()
    m, n, k = 130, 140, 288
    a, scale_a, wide_a = codes(random, (m, k), "fp8")
    b, scale_b, wide_b = codes(random, (n, k), "fp4")
    c = np.empty((1, m, n), np.float32)
    given = (a.view(np.uint8)[None], pack_fp4(b.view(np.uint8))[None], scale_a[None],
             scale_b[None], c, Extras(c, c, c, c, c))  # fmt: skip
    plan = MxPlan("fp8", "fp4", (4, 4), (2, 2), True, EpiloguePlan(vector=4))
    compiled = flyc.compile(launch_mx, *given, plan, None)
    assert compiled.isa.count("v_wmma_scale_f32_16x16x128_f8f6f4") == 16
    assert "scratch_" not in compiled.isa
    assert "saveexec" not in compiled.isa  # descriptors in vector registers would need loops
    launch_mx(*given, plan, None)
    check(c[0], *expected(wide_a, wide_b, After(), "float32"))


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng()
    (a, scale_a, wide_a), (b, scale_b, wide_b) = (
        codes(random, (rows, 64), "fp8") for rows in (9, 24)
    )
    tensors = [torch.from_numpy(x.view(np.uint8)) for x in (a, b, scale_a, scale_b)]
    codes_a, codes_b = (x.view(torch.float8_e4m3fn) for x in tensors[:2])
    got = gemm(codes_a, codes_b, scale_a=tensors[2], scale_b=tensors[3], out_dtype="float32")
    check(got.numpy(), *expected(wide_a, wide_b, After(), "float32"))
    bias = torch.zeros(24, requires_grad=True)
    with pytest.raises(FlyDSLError) as caught:
        gemm(codes_a, codes_b, scale_a=tensors[2], scale_b=tensors[3], bias=bias)
    assert caught.value.code == "FLY-U914"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"k": 48}, "FLY-C914"), ({"scale_b": None}, "FLY-U911"), ({"scale_a": None}, "FLY-U911"),
        ({"split_k": 2}, "FLY-C927"), ({"layout": "nn"}, "FLY-C927"),
        ({"scale_b": np.ones((8, 4), np.uint8)}, "FLY-U542"),
        ({"type": np.float16}, "FLY-C915"), ({"b_k": 128}, "FLY-U911"),
        ({"arch": "gfx1201"}, "FLY-T910"), ({"arch": "gfx950"}, "FLY-T910"),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)  # fmt: skip
def test_what_does_not_fit_is_refused(change, code):
    k, kind = change.get("k", 64), change.get("type", KINDS["fp8"])
    columns = change.get("b_k", k)
    a, b = np.ones((8, k), kind), np.ones((8, columns), kind)
    options = {
        "scale_a": np.full((8, k // 32), 127, np.uint8),
        "scale_b": np.full((8, columns // 32), 127, np.uint8),
        **{key: x for key, x in change.items() if key in ("scale_a", "scale_b", "split_k",
                                                          "layout")},
    }  # fmt: skip
    arch = change.get("arch", "gfx1250")
    with config.scope(FLYDSL_TARGET=arch), pytest.raises(FlyDSLError) as caught:
        gemm(a, b, **options)
    assert caught.value.code == code
