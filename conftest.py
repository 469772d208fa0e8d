"""Marks every test with the need that its directory states, for ``pytest -m``.

Also names the architectures that families of kernels run on in the emulator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# A test that finds what an earlier run compiled would prove nothing; those about the cache turn it
# on for a folder of their own.
os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"

NEEDS = ("unit", "ir", "codegen", "emu", "device")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the marker named like the directory below ``tests``."""
    for item in items:
        parts = Path(item.path).parts
        for need in NEEDS:
            if need in parts and parts[parts.index(need) - 1] == "tests":
                item.add_marker(need)


def _on(arch: str) -> Iterator[str]:
    """Make an architecture the target of every launch in a test."""
    from flydsl import config

    with config.scope(FLYDSL_TARGET=arch):
        yield arch


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run on every architecture that the emulator executes and families are tested on."""
    yield from _on(request.param)


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def any_arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run on these, and on gfx1250."""
    yield from _on(request.param)


@pytest.fixture(params=["gfx942", "gfx950"])
def cdna(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run on those with waves of 64 lanes."""
    yield from _on(request.param)


@pytest.fixture(params=["gfx942", "gfx1201"])
def wide_and_narrow(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run on one of each size of waves; both results belong to the same code."""
    yield from _on(request.param)


@pytest.fixture
def gfx942() -> Iterator[str]:
    """Run on one architecture."""
    yield from _on("gfx942")
