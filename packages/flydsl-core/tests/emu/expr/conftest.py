"""Programs of these tests run on a target of each kind, with the sanitizer."""

from __future__ import annotations

import pytest

from flydsl import config

flydsl_emu = pytest.importorskip("flydsl_emu")


@pytest.fixture(params=["gfx942", "gfx1201"])
def target(request):
    with config.scope(FLYDSL_TARGET=request.param), flydsl_emu.sanitize("race,init,oob"):
        yield request.param
