"""Every launcher of the kernel families can be kept on disk: none is tied to one process."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import flydsl_kernels
from flydsl.frontend import JitFunction


def launchers() -> Iterator[JitFunction]:
    """Yield the launchers of all families that are installed."""
    for found in pkgutil.walk_packages(flydsl_kernels.__path__, f"{flydsl_kernels.__name__}."):
        if ".device." not in found.name:
            continue
        for name, value in vars(importlib.import_module(found.name)).items():
            own = isinstance(value, JitFunction) and value.function.__module__ == found.name
            if own and name.startswith("launch_"):
                yield value


LAUNCHERS = list(launchers())


@pytest.mark.parametrize(
    "launcher", LAUNCHERS, ids=lambda f: f"{f.function.__module__.split('.')[1]}-{f.name}"
)
def test_a_launcher_can_be_kept_on_disk(launcher: JitFunction) -> None:
    entries = launcher.dependencies().entries
    assert [entry.path for entry in entries if not entry.portable] == []


def test_all_families_are_looked_at() -> None:
    names = {launcher.name for launcher in LAUNCHERS}
    assert {"launch_norm", "launch_softmax", "launch_norm_backward"} <= names
