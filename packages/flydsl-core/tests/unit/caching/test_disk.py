"""The store: atomic, checked, bounded, shared."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from flydsl import config
from flydsl.caching import DiskCache, disk_cache
from flydsl.cli import main

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
    assert store.verify() == (1, 1)
    assert store.clear() == 1
    assert list(store.entries()) == []
    assert not left.exists()


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
