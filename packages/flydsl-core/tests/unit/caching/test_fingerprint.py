"""The compiler's fingerprint changes with whatever can change code."""

from __future__ import annotations

import json
import os
import sys

import pytest

from flydsl.caching import fingerprint
from flydsl.caching.fingerprint import compiler_fingerprint


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the module search path, and the core pretending to be installed in it."""
    folder = tmp_path / "site-packages"
    (folder / "flydsl_core-1.0.dist-info").mkdir(parents=True)
    (folder / "flydsl").mkdir()
    (folder / "flydsl" / "core.py").write_text("core = 1")
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setattr(fingerprint, "_OWN", folder / "flydsl")
    return folder


def now():
    fingerprint._Cached.text = ""
    return compiler_fingerprint()


def touch(path):
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def test_it_is_stable(site):
    assert now() == now() == compiler_fingerprint()
    assert len(now()) == 64


def test_installing_upgrading_and_reinstalling_change_it(site):
    seen = {now()}
    (site / "other-1.0.dist-info").mkdir()
    seen.add(now())
    (site / "other-1.0.dist-info").rename(site / "other-1.1.dist-info")
    seen.add(now())
    touch(site / "other-1.1.dist-info")
    seen.add(now())
    assert len(seen) == 4


def test_modules_of_an_installed_core_are_not_read(site):
    before = now()
    (site / "flydsl" / "core.py").write_text("core = 22")
    assert now() == before


def test_a_core_that_runs_from_its_sources_is_read(site):
    (site / "flydsl_core-1.0.dist-info").rmdir()
    before = now()
    (site / "flydsl" / "core.py").write_text("core = 22")
    assert now() != before


@pytest.mark.parametrize("plugin", [True, False])
def test_editable_plugins_are_read_and_other_projects_are_not(site, tmp_path, plugin):
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    module = project / "src" / "plugin.py"
    module.write_text("a = 1")
    info = site / "plugin-1.0.dist-info"
    info.mkdir()
    described = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(described))
    (info / "entry_points.txt").write_text("[flydsl]\nx = plugin" if plugin else "[other]\nx = y")
    before = now()
    module.write_text("a = 22")
    assert (now() != before) is plugin


def test_another_search_path_is_noticed(site, monkeypatch):
    before = compiler_fingerprint()
    monkeypatch.setattr(sys, "path", [])
    assert compiler_fingerprint() != before
