"""No decoding kernel has races, undefined values, missing waits or stray accesses."""

from __future__ import annotations

import pytest
import test_decode
import test_mla
from decode_reference import BF16, FN, FNUZ, INT8, Case

import flydsl_emu

CASES = {
    "window": {"queries": 4, "heads": 16, "window": 20, "lens": (70,), "d": 64, "dv": 64},
    "units": {"kind": INT8, "layout": "vectorised", "scale": "token", "lens": (5, 40)},
    "floats": {"kind": FNUZ, "layout": "transposed", "scale": "number", "lens": (150,), "d": 96},
}


@pytest.mark.parametrize("name", ["window", "units"])
def test_the_sanitizer_finds_nothing(name, any_arch):
    with flydsl_emu.sanitize():
        test_decode.run(Case(**CASES[name]))


def test_the_sanitizer_finds_nothing_in_latent_attention(any_arch):
    with flydsl_emu.sanitize():
        test_mla.run((37,), 16, 2, 16, INT8, unit=0.05)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_sanitizer_finds_nothing_in_others(any_arch):
    with flydsl_emu.sanitize():
        test_decode.run(Case(**CASES["floats"]))
        for layout in ("linear", "vectorised", "transposed"):
            test_decode.run(Case(layout=layout, kind=FN, scale="token", queries=2))
        for kind in (BF16, FN):
            test_mla.run((0, 70), 128, 1, 64, kind)
            test_mla.run((100,), 40, 2, 48, kind)
