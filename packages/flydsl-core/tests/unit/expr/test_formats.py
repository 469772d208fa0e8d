"""Rounding, encoding and decoding against ml_dtypes, for every code of every small format."""

from __future__ import annotations

import math
import random
import struct

import ml_dtypes
import numpy as np
import pytest

from flydsl.errors import UserValueError
from flydsl.expr.numeric import FORMATS

REFERENCE = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}


def same(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("name", REFERENCE)
def test_every_code_decodes_and_encodes(name):
    fmt = FORMATS[name]
    codes = np.arange(1 << fmt.width, dtype=np.uint16 if fmt.width == 16 else np.uint8)
    with np.errstate(all="ignore"):
        values = codes.view(REFERENCE[name]).astype(np.float64)
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        assert same(fmt.decode(code), value), code
        if not math.isnan(value):
            assert fmt.encode(value) == code


@pytest.mark.parametrize("name", [n for n in REFERENCE if n != "f8E8M0FNU"])
def test_rounding_of_random_floats(name):
    fmt = FORMATS[name]
    rng = random.Random(7)
    values = [rng.uniform(-2, 2) * fmt.largest for _ in range(2000)]
    values += [struct.unpack("f", rng.randbytes(4))[0] for _ in range(2000)]
    values += [0.0, -0.0, math.inf, -math.inf, fmt.largest, -fmt.largest]
    with np.errstate(all="ignore"):
        finite = np.array([v for v in values if not math.isnan(v)], dtype=np.float32)
        expected = finite.astype(REFERENCE[name]).astype(np.float64)
    for value, wanted in zip(finite.tolist(), expected.tolist(), strict=True):
        assert same(fmt.round(value), wanted), value


def test_single_precision_rounds_as_numpy_does():
    rng = random.Random(3)
    values = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(3000)]
    with np.errstate(all="ignore"):
        expected = np.array(values).astype(np.float32).astype(np.float64).tolist()
    for value, wanted in zip(values, expected, strict=True):
        assert same(FORMATS["f32"].round(value), wanted)


def test_scale_format_has_powers_of_two_only():
    fmt = FORMATS["f8E8M0FNU"]
    assert fmt.round(3.0) == 4.0
    assert fmt.round(1.4) == 1.0
    assert fmt.round(2.0**-140) == 2.0**-127
    assert math.isnan(fmt.round(2.0**130))
    for value in (0.0, -1.0):
        with pytest.raises(UserValueError):
            fmt.round(value)


def test_formats_without_nan_refuse_it():
    with pytest.raises(UserValueError, match="f4E2M1FN has no code"):
        FORMATS["f4E2M1FN"].round(math.nan)
    assert FORMATS["f4E2M1FN"].round(100.0) == 6.0
