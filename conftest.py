"""Marks every test with the need that its directory states, for ``pytest -m``."""

from __future__ import annotations

import os
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
