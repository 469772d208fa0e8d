"""The store: atomic, checked, bounded, shared."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from flydsl import config
from flydsl.caching import DiskCache, disk_cache, warn_if_no_folder
from flydsl.cli import main
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import UserError

KEY, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def store(tmp_path):
    return DiskCache(tmp_path / "cache", 1 << 20)


def test_what_is_stored_is_fetched(store):
    assert store.fetch(KEY) is None
    assert store.store(KEY, b"payload", {"name": "add"})
    assert store.fetch(KEY) == b"payload"
    assert store.fetch(OTHER) is None
    (entry,) = store.entries()
    assert (entry.key, entry.header) == (KEY, {"name": "add"})
    assert entry.size == entry.path.stat().st_size
    store.store(KEY, b"", {})
    assert store.fetch(KEY) == b""


def test_any_damage_makes_an_entry_absent(store):
    store.store(KEY, b"payload of some length", {"name": "add"})
    path = store._path(KEY)
    good = path.read_bytes()
    damaged = [good[:n] for n in range(len(good))] + [good + b"x"]
    damaged += [good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :] for i in range(len(good))]
    for data in damaged:
        path.write_bytes(data)
        assert store.fetch(KEY) is None
        assert not path.exists()
    path.write_bytes(good)
    assert store.fetch(KEY) == b"payload of some length"


def test_verify_and_clear(store):
    store.store(KEY, b"1", {})
    store.store(OTHER, b"2", {})
    store._path(KEY).write_bytes(b"torn")
    left = store._path(OTHER).parent / ".abc.tmp"
    left.write_bytes(b"left behind")
    assert store.verify() == (1, 1, 0)
    assert store.clear() == (1, 0)
    assert list(store.entries()) == []
    assert not left.exists()


def test_an_entry_is_of_its_key_only(store):
    """A file that is moved, or that a file system brings back in another's place, is damaged."""
    store.store(KEY, b"1", {})
    store.store(OTHER, b"2", {})
    store._path(KEY).replace(store._path(OTHER))
    assert [entry.key for entry in store.entries()] == []
    assert store.fetch(OTHER) is None
    assert not store._path(OTHER).exists()


def test_what_cannot_be_removed_is_counted_apart(store, capsys, monkeypatch):
    store.store(KEY, b"1", {"name": "add"})
    store._path(OTHER).mkdir(parents=True)
    assert store.fetch(OTHER) is None
    assert store.store(OTHER, b"2", {}) is False
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=str(store.root)):
        assert main(["cache", "verify"]) == 1
        assert "1 sound entries, 0 damaged ones removed, 1 cannot be" in capsys.readouterr().out
        assert main(["cache", "clear"]) == 1
        assert "removed 1 entries, 1 cannot be removed" in capsys.readouterr().out
        store._path(OTHER).rmdir()
        store.store(KEY, b"1", {"name": "add"})

        def refused(path, missing_ok=False):
            raise PermissionError(13, "denied", str(path))

        with monkeypatch.context() as patch:
            patch.setattr("pathlib.Path.unlink", refused)
            assert main(["cache", "clear", "--json"]) == 1
            assert '"left": 1' in capsys.readouterr().out
        assert main(["cache", "clear"]) == 0
        assert main(["cache", "verify"]) == 0


def test_what_killed_writers_left_goes_with_the_next_writing(store):
    store.store(KEY, b"1", {})
    old, new = (store._path(KEY).parent / name for name in (".old.tmp", ".new.tmp"))
    for path in (old, new):
        path.write_bytes(b"left behind")
    os.utime(old, (time.time() - 2 * 3600,) * 2)
    store.store(OTHER, b"2", {})
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("where", ["mkdir", "open", "write", "replace"])
def test_a_failing_disk_keeps_nothing_and_leaves_nothing(store, monkeypatch, error, where):
    def fails(*_, **__):
        raise OSError(error, os.strerror(error))

    class Full:
        def __init__(self, descriptor, mode):
            self.file = open(descriptor, mode)  # noqa: SIM115 - closed below

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            fails()

    place = {
        "mkdir": ("pathlib.Path.mkdir", fails),
        "open": ("os.open", fails),
        "write": ("os.fdopen", Full),
        "replace": ("pathlib.Path.replace", fails),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*place[where])
        assert store.store(KEY, b"payload", {}) is False
    assert store.fetch(KEY) is None
    assert [path for path in store.root.rglob("*") if path.is_file()] == []
    assert store.store(KEY, b"payload", {})
    assert store.fetch(KEY) == b"payload"


def test_a_writer_may_be_killed_at_any_line(store):
    """Kill -9 before each line of the store: all of the new entry is there, or all of the old."""
    old, new = b"old" * 1000, b"new" * 2000
    disk = sys.modules[DiskCache.__module__].__file__
    moments, seen = 0, set()
    while True:
        store.store(KEY, old, {"n": "1"})
        pid = os.fork()
        if pid == 0:
            left = moments

            def trace(frame, event, _):
                nonlocal left
                if frame.f_code.co_filename != disk:
                    return None
                if event == "line":
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                return trace

            sys.settrace(trace)
            with store.lock(KEY):
                store.store(KEY, new, {"n": "2"})
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        seen.add(store.fetch(KEY))
        with store.lock(KEY):
            assert store.verify() == (1, 0, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            break
        moments += 1
    assert moments > 30
    assert seen == {old, new}
    assert store.clear() == (1, 0)
    assert not list(store.root.rglob("*.tmp"))


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_others_may_read_what_the_mask_lets_them(store, mask, mode):
    before = os.umask(mask)
    try:
        store.store(KEY, b"1", {})
    finally:
        os.umask(before)
    assert store._path(KEY).stat().st_mode & 0o777 == mode


def test_the_folder_may_disappear_at_any_time(store):
    store.store(KEY, b"1", {})
    with store.lock(KEY):
        shutil.rmtree(store.root)
        assert store.fetch(KEY) is None
        assert (list(store.entries()), store.verify(), store.clear()) == ([], (0, 0, 0), (0, 0))
        assert store.store(KEY, b"2", {})
    with store.lock(KEY):
        assert store.fetch(KEY) == b"2"


def test_the_least_recently_used_entries_go_first(tmp_path):
    store = DiskCache(tmp_path, 10_000)
    keys = [f"{i:02x}" * 32 for i in range(12)]
    for age, key in enumerate(reversed(keys[:9])):
        store.store(key, bytes(1000), {})
        os.utime(store._path(key), (time.time() - 60 * age - 60,) * 2)
    store.store(keys[9], bytes(1000), {})
    left = {entry.key for entry in store.entries()}
    # keys[8] was stored first and so is the youngest by its time; keys[0] is the oldest.
    assert keys[0] not in left
    assert keys[9] in left
    assert sum(entry.size for entry in store.entries()) <= 10_000


def test_a_hit_counts_as_a_use(store):
    store.store(KEY, b"1", {})
    path = store._path(KEY)
    os.utime(path, (1000, 1000))
    store.fetch(KEY)
    assert time.time() - path.stat().st_mtime < 60


def test_a_folder_that_cannot_be_written_keeps_nothing_and_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = DiskCache(tmp_path / "file", 1 << 20)
    assert store.store(KEY, b"1", {}) is False
    assert store.fetch(KEY) is None
    with store.lock(KEY):
        pass


def test_the_lock_excludes_threads_and_processes(store):
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from flydsl.caching import DiskCache
        with DiskCache(Path({str(store.root)!r}), 1).lock({KEY!r}):
            print("locked", flush=True)
            input()
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "locked\n"
    entered = threading.Event()

    def work():
        with store.lock(KEY):
            entered.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not entered.wait(0.3)
    # A holder that dies holds nothing.
    child.kill()
    child.communicate()
    assert entered.wait(20)
    thread.join()


def test_the_settings_name_the_folder_and_the_limit(tmp_path):
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=str(tmp_path), FLYDSL_RUNTIME_CACHE_SIZE="3"):
        store = disk_cache()
    assert (store.root, store.limit) == (tmp_path, 3 << 20)


def test_the_command(store, capsys):
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=str(store.root)):
        store.store(KEY, b"1", {"name": "add", "target": "toy"})
        assert main(["cache", "ls"]) == 0
        out = capsys.readouterr().out
        assert "add" in out
        assert "1 entries" in out
        store._path(KEY).write_bytes(b"torn")
        assert main(["cache", "verify"]) == 1
        assert main(["cache", "verify", "--json"]) == 0
        store.store(KEY, b"1", {})
        capsys.readouterr()
        assert main(["cache", "clear", "--json"]) == 0
        assert '"removed": 1' in capsys.readouterr().out


def test_what_only_looks_makes_no_folder(environment, tmp_path):
    """In a process of its own: importing the compiler keeps listings of what is installed."""
    there = tmp_path / "not" / "there"
    commands = [["ls"], ["verify"], ["clear"], ["ls", "--json"]]
    run = environment.run(
        f"""
        from flydsl.cli import main
        for arguments in {commands!r}:
            assert main(["cache", *arguments]) == 0
        assert main(["plugins"]) == 0
        """,
        FLYDSL_RUNTIME_CACHE_DIR=str(there),
        FLYDSL_RUNTIME_ENABLE_CACHE="1",
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(f"{there}: ") == 3
    assert run.stdout.count("; there is no such folder yet") == 3
    assert '"entries": []' in run.stdout
    assert not there.parent.exists()


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["verify"], ["clear"]])
@pytest.mark.parametrize("below", ["", "folder"])
def test_a_file_is_no_cache(tmp_path, capsys, arguments, below):
    file = tmp_path / "file"
    file.write_text("in the way")
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=file / below):
        assert main(["cache", *arguments]) == 1
        with pytest.raises(NotADirectoryError) as caught:
            disk_cache().exists()
        assert not disk_cache().store(KEY, b"1", {})
    out = capsys.readouterr()
    assert out.out == ""
    for text in ("FLY-U524", f"value: {str(file / below)!r}", "FLYDSL_RUNTIME_CACHE_DIR names it"):
        assert text in out.err
    assert isinstance(caught.value, UserError)
    assert (caught.value.errno, caught.value.code) == (errno.ENOTDIR, "FLY-U524")
    with pytest.warns(FlyDSLWarning, match=f"SETTING names .*, but {file} is a file"):
        warn_if_no_folder(file / below, "SETTING")
    assert file.read_text() == "in the way"


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(store, capsys, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    store.store(KEY, b"1", {})
    with config.scope(FLYDSL_RUNTIME_CACHE_DIR=store.root), monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        assert main(["cache", "ls"]) == 1
    assert "Permission denied [FLY-U524]" in capsys.readouterr().err
    # One user may fill it for others: no reason to warn each of them.
    warn_if_no_folder(store.root, "SETTING")
    warn_if_no_folder(store.root / "not" / "there", "SETTING")
