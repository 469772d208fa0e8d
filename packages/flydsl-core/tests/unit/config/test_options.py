from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.config import CompileOptions, compile_options, scope
from flydsl.errors import UserError, UserTypeError, UserValueError


class Relax(enum.Flag):
    NNAN = 1
    CONTRACT = 2


def test_read_from_the_environment_once(monkeypatch):
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    monkeypatch.setenv("FLYDSL_DUMP_IR", "on")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", "somewhere")
    monkeypatch.setenv("COMPILE_ONLY", "1")
    options = compile_options()
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "2")
    assert options.opt_level == 1
    assert options.dump_ir
    assert options.dump_dir == Path("somewhere")
    assert options.compile_only
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.opt_level = 2


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, ""),
        (False, ""),
        (True, "fast"),
        ("none", ""),
        ("FAST", "fast"),
        ("contract, nnan", "nnan,contract"),
        (["afn", "reassoc"], "reassoc,afn"),
        (Relax.NNAN | Relax.CONTRACT, "nnan,contract"),
        ("reassoc,nnan,ninf,nsz,arcp,contract,afn", "fast"),
    ],
)
def test_fastmath_has_one_spelling(given, stored):
    assert CompileOptions(fastmath=given).fastmath == stored


@pytest.mark.parametrize(
    ("given", "stored"),
    [(None, ()), (0, ()), (2, (2,)), ((1, 4), (1, 4)), ("2,4", (2, 4)), ("3", (3,)), ([0, 0], ())],
)
def test_waves_per_eu_has_one_spelling(given, stored):
    assert CompileOptions(waves_per_eu=given).waves_per_eu == stored


@pytest.mark.parametrize(
    ("field", "value", "kind", "code"),
    [
        ("waves_per_eu", True, UserTypeError, "FLY-U506"),
        ("waves_per_eu", 2.0, UserTypeError, "FLY-U506"),
        ("waves_per_eu", -1, UserValueError, "FLY-U506"),
        ("waves_per_eu", (4, 2), UserValueError, "FLY-U506"),
        ("waves_per_eu", (1, 2, 3), UserValueError, "FLY-U506"),
        ("waves_per_eu", "few", UserValueError, "FLY-U506"),
        ("fastmath", "faster", UserValueError, "FLY-U505"),
        ("fastmath", 3, UserTypeError, "FLY-U505"),
        ("opt_level", 4, UserValueError, "FLY-U503"),
        ("opt_level", True, UserValueError, "FLY-U503"),
        ("verify", 1, UserTypeError, "FLY-U503"),
        ("llvm_options", {"x": 1.5}, UserTypeError, "FLY-U507"),
        ("llvm_options", 7, UserTypeError, "FLY-U507"),
    ],
)
def test_bad_values_are_refused(field, value, kind, code):
    with pytest.raises(kind) as caught:
        CompileOptions(**{field: value})
    assert caught.value.code == code
    assert field in str(caught.value)


def test_cache_key_covers_what_changes_the_code_and_nothing_else():
    base = CompileOptions()
    changed = {
        "opt_level": 2,
        "debug_info": True,
        "fastmath": "contract",
        "unsafe_fp_math": True,
        "flush_denormals": True,
        "waves_per_eu": 2,
        "llvm_options": {"misched": "ilp"},
    }
    keys = {base.cache_key()} | {
        dataclasses.replace(base, **{name: value}).cache_key() for name, value in changed.items()
    }
    assert len(keys) == len(changed) + 1
    same = CompileOptions(
        dump_ir=True, dump_dir=Path("x"), verify=True, compile_only=True, want_isa=True
    )
    assert same.cache_key() == base.cache_key()
    unkeyed = {"dump_ir", "dump_dir", "verify", "compile_only", "want_isa"}
    assert {f.name for f in dataclasses.fields(base)} == changed.keys() | unkeyed


def test_cache_key_does_not_depend_on_the_process():
    script = (
        "from flydsl.config import CompileOptions\n"
        "options = CompileOptions(llvm_options={'b': 1, 'a': 'x'}, fastmath={'nsz', 'nnan'})\n"
        "print(options.cache_key())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = CompileOptions(llvm_options={"a": "x", "b": 1}, fastmath="nnan,nsz").cache_key()
    assert run.stdout.strip() == here


def test_hints_overlay_and_none_changes_nothing():
    base = CompileOptions(waves_per_eu=2, llvm_options={"a": 1, "b": 2})
    hinted = base.with_hints({"waves_per_eu": None, "llvm_options": {"b": 3}, "fast_fp_math": 1})
    assert hinted.waves_per_eu == (2,)
    assert hinted.llvm_options == (("a", 1), ("b", 3))
    assert hinted.fastmath == "fast"
    assert base.with_hints({"fast_fp_math": True, "fastmath": "nnan"}).fastmath == "nnan"
    assert base.with_hints({}) is base
    with scope(FLYDSL_COMPILE_OPT_LEVEL=0):
        assert compile_options({"unsafe_fp_math": True}).unsafe_fp_math


@pytest.mark.parametrize("name", ["maxnreg", "wave_per_eu"])
def test_unknown_hints_are_refused(name):
    with pytest.raises(UserError, match=name) as caught:
        CompileOptions().with_hints({name: 1})
    assert "waves_per_eu" in str(caught.value)
