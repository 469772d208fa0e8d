"""Contexts, dialect sources, and diagnostics as exceptions."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from flydsl import mlir
from flydsl.dialects.definition import OpSpec, irdl_source
from flydsl.errors import CompilerBug, TargetError, UserError
from flydsl.mlir import contexts, loading


def test_importing_costs_no_bindings() -> None:
    code = (
        "import sys, flydsl.mlir, flydsl.dialects, flydsl.passes\n"
        "assert not {'mlir', 'numpy'} & set(sys.modules), sorted(sys.modules)\n"
        "flydsl.mlir.ir.Context\n"
        "assert 'mlir.ir' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mlir.nonsense  # noqa: B018


def test_a_thread_reuses_its_context_and_threads_have_their_own() -> None:
    seen: list[Any] = []
    worker = threading.Thread(target=lambda: seen.append(mlir.thread_context()))
    worker.start()
    worker.join()
    assert mlir.thread_context() is mlir.thread_context()
    assert seen[0] is not mlir.thread_context()


def test_dialects_registered_later_load_into_existing_contexts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contexts, "_SOURCES", dict(contexts._SOURCES))
    context = mlir.thread_context()
    text = irdl_source("later", {"box": ("value",)}, {"open": OpSpec(("box", "key?"), ("result",))})
    mlir.register_dialect_source("later", text)
    assert mlir.thread_context() is context
    module = mlir.parse_module(
        'func.func @f(%b: !later.box<"x">) {\n'
        '  %0 = "later.open"(%b) : (!later.box<"x">) -> i32\n  return\n}',
        context,
    )
    assert "later.open" in str(module)
    with pytest.raises(CompilerBug, match="two different definitions"):
        mlir.register_dialect_source("later", text + "\n")


def test_a_definition_that_does_not_parse_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "_SOURCES", dict(contexts._SOURCES))
    mlir.register_dialect_source("broken", "irdl.dialect @broken { nonsense }")
    with pytest.raises(CompilerBug, match="broken"):
        mlir.new_context()


def test_builders_need_a_context_of_ours() -> None:
    with mlir.ir.Context(), pytest.raises(CompilerBug, match="outside a context"):
        mlir.context_state()


def test_text_that_does_not_parse_is_the_user_s() -> None:
    with pytest.raises(UserError, match="nonsense") as caught:
        mlir.parse_module("func.func @f() { fly.nonsense }", mlir.thread_context(), "input.mlir")
    assert "input.mlir" in str(caught.value)


def test_a_failing_pass_names_the_user_s_line(capfd: pytest.CaptureFixture[str]) -> None:
    text = (
        'func.func @f(%x: i32) -> (i32, i32) {\n  return %x, %x : i32, i32\n} loc("kernel.py":12:5)'
    )
    module = mlir.parse_module(text, mlir.thread_context())
    with pytest.raises(CompilerBug, match="failed to legalize") as caught:
        mlir.run_pipeline(module, "builtin.module(convert-func-to-emitc)")
    location = caught.value.location
    assert location is not None
    assert (location.file, location.line) == ("kernel.py", 12)
    assert capfd.readouterr().err == ""


def test_a_pipeline_that_does_not_parse_is_a_bug() -> None:
    module = mlir.parse_module("func.func @f() { return }", mlir.thread_context())
    with pytest.raises(CompilerBug, match="no-such-pass") as caught:
        mlir.run_pipeline(module, "builtin.module(no-such-pass)")
    assert caught.value.code == "FLY-B303"


def test_verification_carries_the_location(capfd: pytest.CaptureFixture[str]) -> None:
    context = mlir.thread_context()
    module = mlir.parse_module("func.func @f(%x: i32) -> i32 { return %x : i32 }", context)
    function = module.body.operations[0]
    block = function.regions[0].blocks[0]
    with (
        context,
        mlir.ir.Location.file("kernel.py", 31, 9),
        mlir.ir.InsertionPoint(block.operations[0]),
    ):
        mlir.ir.Operation.create(
            "arith.addi",
            results=[mlir.ir.IntegerType.get_signless(64)],
            operands=[block.arguments[0], block.arguments[0]],
        )
    with pytest.raises(CompilerBug, match="after a-pass") as caught:
        mlir.verify(module, "a-pass")
    location = caught.value.location
    assert location is not None
    assert (location.file, location.line, location.column) == ("kernel.py", 31, 8)
    assert capfd.readouterr().err == ""


def test_too_old_bindings_are_refused(tmp_path: Any) -> None:
    class Package:
        __path__ = (str(tmp_path / "mlir"),)

    (tmp_path / "mlir_python_bindings-21.1.0.dist-info").mkdir()
    with pytest.raises(TargetError, match="too old") as caught:
        loading._check_version(Package)  # type: ignore[arg-type]
    assert "22.1" in str(caught.value)


def test_missing_bindings_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlir", None)
    with pytest.raises(TargetError, match="pip install") as caught:
        loading.load("ir")
    assert caught.value.code == "FLY-T301"
