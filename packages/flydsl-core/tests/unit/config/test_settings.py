from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flydsl import config
from flydsl.config import Setting, core, parsers, setting
from flydsl.errors import CompilerBug, UserError, UserValueError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), ("TRUE", True), ("Yes", True), ("on", True), ("0", False), ("OFF", False)],
)
def test_booleans_accept_the_usual_words(monkeypatch, text, expected):
    monkeypatch.setenv("FLYDSL_DUMP_IR", text)
    assert core.DUMP_IR.get() is expected


@pytest.mark.parametrize(
    ("name", "text", "accepted"),
    [
        ("FLYDSL_DUMP_IR", "maybe", "1/true/yes/on"),
        ("FLYDSL_COMPILE_OPT_LEVEL", "4", "from 0 to 3"),
        ("FLYDSL_COMPILE_OPT_LEVEL", "-1", "from 0 to 3"),
        ("FLYDSL_COMPILE_OPT_LEVEL", "two", "an integer"),
    ],
)
def test_unusable_text_is_an_error_that_names_the_variable(monkeypatch, name, text, accepted):
    monkeypatch.setenv(name, text)
    with pytest.raises(UserError) as caught:
        config.catalogue()[name].get()
    shown = str(caught.value)
    assert name in shown
    assert repr(text) in shown
    assert accepted in shown
    assert isinstance(caught.value, ValueError)


def test_blank_text_means_unset(monkeypatch):
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "  ")
    assert core.OPT_LEVEL.get() == 3


def test_own_name_comes_before_aliases_and_the_error_names_the_one_used(monkeypatch):
    for name in ("FLYDSL_TARGET", "ARCH", "FLYDSL_GPU_ARCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYDSL_GPU_ARCH", "third")
    assert core.TARGET.get() == "third"
    monkeypatch.setenv("ARCH", "second")
    assert core.TARGET.get() == "second"
    monkeypatch.setenv("FLYDSL_TARGET", "first")
    assert core.TARGET.get() == "first"
    assert core.TARGET.source() == "FLYDSL_TARGET"
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "perhaps")
    monkeypatch.delenv("FLYDSL_VERIFY", raising=False)
    with pytest.raises(UserValueError, match="FLYDSL_DEBUG_ENABLE_VERIFIER"):
        core.VERIFY.get()


def test_scope_overrides_nests_and_ends(monkeypatch):
    monkeypatch.setenv("FLYDSL_TARGET", "outer")
    with config.scope(FLYDSL_TARGET="inner", COMPILE_ONLY=True, FLYDSL_DUMP_DIR="~/x"):
        assert core.TARGET.get() == "inner"
        assert core.COMPILE_ONLY.get() is True
        assert core.DUMP_DIR.get() == Path("~/x").expanduser()
        with config.scope(FLYDSL_TARGET=None):
            assert core.TARGET.get() is None
            assert core.COMPILE_ONLY.get() is True
        assert core.TARGET.get() == "inner"
    assert core.TARGET.get() == "outer"


def test_scope_ends_when_the_block_raises():
    with pytest.raises(KeyError), config.scope(FLYDSL_COMPILE_OPT_LEVEL=1):
        raise KeyError
    assert core.OPT_LEVEL.get() == 3


def test_scope_refuses_unknown_names_and_bad_text():
    with (
        pytest.raises(UserValueError, match="FLYDSL_DUMP_IR") as caught,
        config.scope(FLYDSL_DUMP_IT=True),
    ):
        pass
    assert caught.value.code == "FLY-U502"
    with (
        pytest.raises(UserValueError, match="OPT_LEVEL"),
        config.scope(FLYDSL_COMPILE_OPT_LEVEL="9"),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLYDSL_OUTPUT_BYTES", 1000),
        ("FLYDSL_OUTPUT_BYTES", 1 << 31),
        ("FLYDSL_COMPILE_OPT_LEVEL", 4),
        ("FLYDSL_COMPILE_OPT_LEVEL", -1),
        ("FLYDSL_COMPILE_OPT_LEVEL", True),
        ("FLYDSL_COMPILE_OPT_LEVEL", 2.0),
        ("FLYDSL_COMPILE_OPT_LEVEL", ()),
        ("FLYDSL_RUNTIME_CACHE_SIZE", 0),
        ("COMPILE_ONLY", 2),
        ("COMPILE_ONLY", "maybe"),
        ("FLYDSL_DUMP_DIR", 3),
        ("FLYDSL_TARGET", 942),
        ("FLYDSL_PLUGINS_DISABLE", 3),
        ("FLYDSL_PLUGINS_DISABLE", ("a", 3)),
    ],
)
def test_scope_checks_values_as_it_checks_text(name, value):
    before = config.catalogue()[name].get()
    with pytest.raises(UserValueError, match=name) as caught, config.scope(**{name: value}):
        pass
    assert caught.value.code == "FLY-U501"
    assert caught.value.allowed
    assert config.catalogue()[name].get() == before


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("FLYDSL_OUTPUT_BYTES", 2048, 2048),
        ("FLYDSL_COMPILE_OPT_LEVEL", 0, 0),
        ("FLYDSL_COMPILE_OPT_LEVEL", 2, 2),
        ("COMPILE_ONLY", 1, True),
        ("COMPILE_ONLY", False, False),
        ("FLYDSL_DUMP_DIR", Path("a b"), Path("a b")),
        ("FLYDSL_PLUGINS_DISABLE", ["b", "a"], ("b", "a")),
        ("FLYDSL_PLUGINS_DISABLE", (), ()),
        ("FLYDSL_TARGET", None, None),
    ],
)
def test_scope_takes_values_of_the_settings_kind(name, value, meant):
    with config.scope(**{name: value}):
        found = config.catalogue()[name].get()
    assert found == meant
    assert type(found) is type(meant)


def test_plugins_settings_are_known_before_anything_loads_them():
    pytest.importorskip("flydsl_emu", reason="a plugin with settings")
    code = """
import os, sys
from flydsl.config import catalogue, report, scope
assert "flydsl_emu" not in sys.modules
assert [r.problem for r in report() if r.name == "FLYDSL_EMU_TIER"] == [""]
with scope(FLYDSL_EMU_THREADS=3):
    assert catalogue()["FLYDSL_EMU_THREADS"].get() == 3
for wrong in ({"FLYDSL_EMU_THREADS": -1}, {"FLYDSL_EMU_TEIR": "jit"}):
    try:
        with scope(**wrong):
            raise SystemExit(1)
    except ValueError as error:
        print(error)
"""
    environment = {**os.environ, "FLYDSL_EMU_TIER": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert "from 0 to 256" in done.stdout
    assert "FLYDSL_EMU_TIER" in done.stdout


def test_same_declaration_is_shared_and_another_is_a_bug():
    first = setting("FLYDSL_TEST_SHARED", parsers.integer(low=1), 4, "a test")
    assert setting("FLYDSL_TEST_SHARED", parsers.integer(low=1), 4, "a test") is first
    with pytest.raises(CompilerBug, match="FLYDSL_TEST_SHARED"):
        setting("FLYDSL_TEST_SHARED", parsers.integer(low=1), 5, "a test")


def test_catalogue_describes_every_core_setting():
    listed = config.catalogue()
    for name in core.__all__:
        declared = getattr(core, name)
        assert listed[declared.name] is declared
        assert declared.help
        assert declared.parser.accepts


@pytest.mark.parametrize(
    ("parser", "good", "value", "bad"),
    [
        (parsers.names, " a, b ,,c", ("a", "b", "c"), None),
        (parsers.choice("Fast", "slow"), "fast", "Fast", "medium"),
        (parsers.number(0.0, 1.0), "0.25", 0.25, "1.5"),
        (parsers.number(), "-1e3", -1000.0, "inf"),
        (parsers.integer(low=1), "7", 7, "0"),
        (parsers.integer(high=1), "-7", -7, "0x1"),
        (parsers.text, "x", "x", None),
    ],
)
def test_parsers(parser, good, value, bad):
    assert parser.parse(good) == value
    if bad is not None:
        with pytest.raises(ValueError):  # noqa: PT011 - the caller words the message
            parser.parse(bad)


def test_watching_sees_variables_aliases_and_overrides(monkeypatch):
    current = config.watch(core.TARGET, core.VERIFY)
    before = current()
    assert current() == before
    monkeypatch.setenv("ARCH", "toy")
    changed = current()
    assert changed != before
    monkeypatch.delenv("ARCH")
    assert current() == before
    with config.scope(FLYDSL_VERIFY=True):
        assert current() != before
    assert current() == before


def test_watching_sees_another_environment_in_place_of_the_first(monkeypatch):
    current = config.watch(core.TARGET)
    before = current()
    monkeypatch.setattr(os, "environ", {**os.environ, "FLYDSL_TARGET": "toy"})
    changed = current()
    assert core.TARGET.get() == "toy"
    assert changed != before
    os.environ["FLYDSL_TARGET"] = "other"
    assert current() not in (before, changed)
    monkeypatch.undo()
    assert current() == before


def test_text_that_was_read_is_not_read_again_but_homes_are(monkeypatch, tmp_path):
    seen = []

    def parse(text):
        seen.append(text)
        return parsers.path.parse(text)

    counted = Setting("FLYDSL_X_PATH", replace(parsers.path, parse=parse), None, "")
    for text in ("/a", "/a", "/b", "/b", "/a"):
        monkeypatch.setenv("FLYDSL_X_PATH", text)
        assert counted.get() == Path(text)
    assert seen == ["/a", "/b", "/a"]
    monkeypatch.setenv("FLYDSL_X_PATH", "~/c")
    for home in (tmp_path / "one", tmp_path / "two"):
        monkeypatch.setenv("HOME", str(home))
        assert counted.get() == home / "c"
