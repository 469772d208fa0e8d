from __future__ import annotations

import io
import sys
import types

import pytest

from flydsl.cli import main
from flydsl.cli.opt_command import parse_stage
from flydsl.errors import UserValueError
from flydsl.plugins import hookimpl, isolated

FOLDS = """
func.func @f() -> i32 {
  %0 = arith.constant 2 : i32
  %1 = arith.addi %0, %0 : i32
  return %1 : i32
}
"""


def rename(module, target, *, to="g"):
    """A pass: give the first function another name."""
    from flydsl.mlir import ir

    operation = module.body.operations[0]
    operation.attributes["sym_name"] = ir.StringAttr.get(to, module.context)


def break_module(module, target):
    """A pass: leave a block without a terminator."""
    module.body.operations[0].regions[0].blocks[0].operations[-1].operation.erase()


@pytest.fixture(autouse=True)
def passes(monkeypatch):
    module = types.ModuleType("opt_test_passes")
    module.rename, module.break_module = rename, break_module
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = {"rename": "opt_test_passes:rename", "break": "opt_test_passes:break_module"}
    with isolated(types.SimpleNamespace(flydsl_passes=hookimpl(lambda: names))):
        yield


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.mlir"
    path.write_text(FOLDS)
    return str(path)


def test_passes_and_pipelines_run_in_the_order_given(source, capsys):
    arguments = ["-p", "rename:to=first", "--mlir", "builtin.module(canonicalize)"]
    assert main(["opt", source, *arguments, "--pass", "rename:to='last'"]) == 0
    printed = capsys.readouterr().out
    assert "@last" in printed
    assert "arith.constant 4 : i32" in printed
    assert "addi" not in printed


def test_standard_input_and_output_file(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.StringIO(FOLDS))
    out = tmp_path / "out.mlir"
    assert main(["opt", "-o", str(out), "-p", "rename"]) == 0
    assert "@g" in out.read_text()


def test_an_output_file_that_cannot_be_written_is_an_error(source, tmp_path, capsys):
    assert main(["opt", source, "-o", str(tmp_path / "none" / "out"), "-p", "rename"]) == 1
    assert "cannot be written: No such file or directory [FLY-U525]" in capsys.readouterr().err


def test_list(capsys):
    assert main(["opt", "--list"]) == 0
    assert "rename  (opt_test_passes:rename)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-p", "renam"], ["'renam'", "rename"]),
        (["--mlir", "builtin.module(no-such-pass)"], ["no-such-pass"]),
        (["--target", "nothing"], ["FLY-T513"]),
        (["--pipeline"], ["FLY-T514"]),
        (["--pipeline", "-p", "rename"], ["FLY-U522"]),
        (["-p", "break", "--verify"], ["after break"]),
    ],
)
def test_failures_are_reported_on_stderr(source, arguments, words, capsys, monkeypatch):
    for name in ("FLYDSL_TARGET", "ARCH", "FLYDSL_GPU_ARCH"):
        monkeypatch.delenv(name, raising=False)
    assert main(["opt", source, *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    for word in words:
        assert word in captured.err


def test_unreadable_and_malformed_input(tmp_path, capsys):
    assert main(["opt", str(tmp_path / "none.mlir")]) == 1
    assert "FLY-U523" in capsys.readouterr().err
    bad = tmp_path / "bad.mlir"
    bad.write_text("this is not mlir")
    assert main(["opt", str(bad)]) == 1
    assert "bad.mlir is not valid MLIR" in capsys.readouterr().err


def test_stage_text():
    stage = parse_stage("name:count=3,on=True,word=fast")
    assert stage.name == "name"
    assert dict(stage.options) == {"count": 3, "on": True, "word": "fast"}
    assert parse_stage("name").options == ()
    with pytest.raises(UserValueError, match="count"):
        parse_stage("name:count")
