"""Attention runs on the emulator, for every architecture that it executes."""

from __future__ import annotations

import pytest

from flydsl import config

pytest.importorskip("flydsl_emu")


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201"])
def target(request):
    """Name an architecture and make it the target of every launch in the test."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture(params=["gfx942", "gfx950"])
def cdna(request):
    """The same for the architectures with waves of 64 lanes."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def any_arch(request):
    """The same, gfx1250 too."""
    with config.scope(FLYDSL_TARGET=request.param):
        yield request.param


@pytest.fixture
def gfx942():
    """Run on one architecture."""
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield
