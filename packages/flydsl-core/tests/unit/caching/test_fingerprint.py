"""The compiler's fingerprint changes with whatever can change code."""

from __future__ import annotations

import json
import marshal
import os
import sys

import pytest

from flydsl import config
from flydsl.caching import fingerprint
from flydsl.caching.fingerprint import (
    SourcesState,
    compiler_changed,
    compiler_fingerprint,
    keep,
    loaded_folders,
    look_at_compiler,
    sources_hold,
    sources_state,
)
from flydsl.errors import UserValueError


@pytest.fixture(autouse=True)
def process(monkeypatch):
    """What this process has seen of itself is kept from these tests."""
    monkeypatch.setattr(fingerprint._Process, "seen", fingerprint._Seen())


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


def new_process():
    """Forget what was looked at."""
    fingerprint._Process.seen = fingerprint._Seen()


def now(*folders):
    """The fingerprint in a new process."""
    new_process()
    return compiler_fingerprint(folders or None)


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


@pytest.mark.parametrize("name", ["FLYDSL_RUNTIME_CACHE_SIZE", "FLYDSL_RUNTIME_ENABLE_CACHE"])
def test_importing_leaves_complaints_about_settings_to_their_use(site, monkeypatch, name):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "1")
    monkeypatch.setenv(name, "much")
    look_at_compiler()
    with pytest.raises(UserValueError, match=name):
        compiler_fingerprint()


@pytest.fixture
def project(site, tmp_path):
    """An editable plugin with a module in a folder, and the core installed beside it."""
    info = site / "plugin-1.0.dist-info"
    info.mkdir()
    source = tmp_path / "project" / "src"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "module.py").write_text("a = 1")
    (source / "plugin.py").write_text("b = 1")
    described = {"url": source.parent.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(described))
    (info / "entry_points.txt").write_text("[flydsl]\nx = plugin")
    return source


def settle(*folders):
    """Make folders look as if they had not changed for a while."""
    for folder in folders:
        os.utime(folder, (1_000_000_000, 1_000_000_000))


class TestListing:
    """The list of files that is kept on disk."""

    @pytest.fixture(autouse=True)
    def cache(self, site, project, tmp_path, monkeypatch):
        self.site, self.project = site, project
        self.scans = 0
        scanned = fingerprint._scanned

        def counted(path):
            self.scans += 1
            return scanned(path)

        monkeypatch.setattr(fingerprint, "_scanned", counted)
        settle(site, project, project / "inner")
        with config.scope(
            FLYDSL_RUNTIME_CACHE_DIR=tmp_path / "cache", FLYDSL_RUNTIME_ENABLE_CACHE=True
        ):
            yield

    def test_it_is_made_once(self):
        before = now()
        assert now() == before
        assert self.scans == 1

    def test_it_does_not_change_the_fingerprint(self):
        kept = now()
        with config.scope(FLYDSL_RUNTIME_ENABLE_CACHE=False):
            assert now() == kept

    def test_files_are_looked_at_all_the_same(self):
        seen = {now()}
        for file in (self.project / "inner" / "module.py", self.site / "plugin-1.0.dist-info"):
            touch(file)
            seen.add(now())
        (self.project / "plugin.py").write_text("b = 22")
        seen.add(now())
        assert (len(seen), self.scans) == (4, 1)

    @pytest.mark.parametrize("where", ["", "inner", "new"])
    def test_new_files_are_found(self, where):
        before = now()
        folder = self.project / where
        folder.mkdir(exist_ok=True)
        (folder / "more.py").write_text("c = 1")
        assert now() != before

    def test_removed_files_and_distributions_are_missed(self):
        seen = {now()}
        (self.project / "inner" / "module.py").unlink()
        seen.add(now())
        (self.site / "flydsl_core-1.0.dist-info").rename(self.site / "flydsl_core-1.1.dist-info")
        seen.add(now())
        assert len(seen) == 3

    def test_a_folder_that_changed_just_now_is_not_trusted(self):
        (self.project / "inner" / "more.py").write_text("c = 1")
        now()
        status = (self.project / "inner").stat()
        (self.project / "inner" / "late.py").write_text("d = 1")
        before = now()
        # As if it had happened within one tick of the file system's clock.
        (self.project / "inner" / "later.py").write_text("d = 1")
        os.utime(self.project / "inner", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert now() != before

    def test_files_beside_a_program_do_not_matter(self, tmp_path, monkeypatch):
        scripts = tmp_path / "scripts"
        scripts.mkdir()
        settle(scripts)
        monkeypatch.setattr(sys, "path", [str(scripts), *sys.path])
        before = now()
        (scripts / "result.txt").write_text("1")
        assert (now(), self.scans) == (before, 1)
        (scripts / "other-1.0.dist-info").mkdir()
        assert now() != before

    def test_a_damaged_list_is_made_again(self):
        before = now()
        for entry in list(fingerprint.disk_cache().entries()):
            entry.path.unlink()
            fingerprint.disk_cache().store(entry.key, b"nonsense", entry.header)
        assert (now(), self.scans) == (before, 2)

    def test_only_some_folders_can_count(self):
        inner = str(self.project / "inner")
        of_inner, of_none = now(inner), now("nowhere")
        (self.project / "plugin.py").write_text("b = 22")
        assert (now(inner), now("nowhere")) == (of_inner, of_none)
        touch(self.project / "inner" / "module.py")
        assert now(inner) != of_inner
        assert now("nowhere") == of_none

    def test_folders_of_loaded_modules_are_known(self, monkeypatch):
        (self.project / "inner" / "data").mkdir()
        (self.project / "inner" / "data" / "facts.json").write_text("{}")
        now()
        assert loaded_folders() == ()
        module = type(sys)("module")
        module.__file__ = str(self.project / "inner" / "module.py")
        monkeypatch.setitem(sys.modules, "a_module_of_the_plugin", module)
        inner = str(self.project / "inner")
        assert set(loaded_folders()) == {inner, f"{inner}/data"}

    def test_what_is_edited_after_the_import_does_not_count(self):
        before = now()
        new_process()
        look_at_compiler()
        assert keep("ab" * 32, b"made before", {"name": "", "target": ""})
        (self.project / "inner" / "module.py").write_text("a = 22")
        assert compiler_fingerprint() == before
        assert compiler_changed()
        assert not keep("cd" * 32, b"made by neither", {"name": "", "target": ""})
        assert fingerprint.disk_cache().fetch("cd" * 32) is None
        assert now() != before
        assert not compiler_changed()
        assert self.scans == 1

    def test_importing_does_not_list_sources(self):
        new_process()
        look_at_compiler()
        assert self.scans == 0
        assert not list(fingerprint.disk_cache().root.glob("locks"))

    def test_a_program_folder_that_is_added_later_costs_no_listing(self, tmp_path, monkeypatch):
        before = now()
        (tmp_path / "scripts").mkdir()
        new_process()
        look_at_compiler()
        monkeypatch.setattr(sys, "path", [str(tmp_path / "scripts"), *sys.path])
        assert compiler_fingerprint() == before
        assert self.scans == 1

    @pytest.mark.parametrize("chosen", [True, False])
    def test_the_state_of_sources_is_compared(self, chosen):
        inner = str(self.project / "inner")
        now()
        state = sources_state((inner,) if chosen else None)

        def holds():
            new_process()
            # As it comes back from the disk.
            return sources_hold(SourcesState(*marshal.loads(marshal.dumps(tuple(state)))))

        assert holds()
        (self.project / "inner" / "notes.rst").write_text("no source")
        assert holds()
        (self.project / "plugin.py").write_text("b = 22")
        assert holds() is chosen
        touch(self.project / "inner" / "module.py")
        assert not holds()

    def test_a_state_of_sources_notices_new_files(self):
        inner = self.project / "inner"
        now()
        state = sources_state((str(inner),))
        (inner / "more.py").write_text("")
        new_process()
        assert not sources_hold(state)

    def test_times_of_other_distributions_count_when_their_folder_changes(self):
        other = self.site / "other-1.0.dist-info"
        other.mkdir()
        settle(self.site)
        before = now()
        touch(other)
        assert now() == before
        touch(self.site)
        assert now() != before
