"""Launchers are kept on disk: nothing that they refer to is tied to one process."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from flydsl.frontend import JitFunction
from flydsl_kernels.norm import device

LAUNCHERS = {
    name: value
    for module in pkgutil.iter_modules(device.__path__)
    for name, value in vars(importlib.import_module(f"{device.__name__}.{module.name}")).items()
    if isinstance(value, JitFunction) and name.startswith("launch_")
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_launchers_can_be_kept_on_disk(name):
    entries = LAUNCHERS[name].dependencies().entries
    assert [entry.path for entry in entries if not entry.portable] == []


def test_all_are_looked_at():
    assert {"launch_norm", "launch_softmax", "launch_norm_backward"} <= set(LAUNCHERS)
