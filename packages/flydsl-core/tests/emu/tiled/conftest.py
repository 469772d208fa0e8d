"""Tiled copies and MMAs run on the emulator."""

from __future__ import annotations

import pytest

from flydsl import config

pytest.importorskip("flydsl_emu")
pytest.importorskip("flydsl_rocdl")


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201"])
def each_target(request):
    """Name an architecture and make it the target of every launch in the test."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture(params=["gfx942", "gfx950"])
def mfma_target(request):
    """Do the same for the architectures with MFMA."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture(params=["gfx1100", "gfx1201"])
def wmma_target(request):
    """Do the same for the architectures with WMMA."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param
