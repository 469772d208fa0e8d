"""The examples are right at small sizes too, and say so when a result is wrong."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("count", [1, 1023, 1024, 3001])
def test_vector_add(target: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = load("01_vector_add", monkeypatch).run(target, count)
    assert [figure.passed for figure in figures] == [True]


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 256), (3, 781)])
def test_row_softmax(target: str, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = load("02_row_softmax", monkeypatch).run(target, rows, columns)
    assert [figure.passed for figure in figures] == [True]


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (2, 168), (3, 1000)])
def test_layer_norm(target: str, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = load("06_layer_norm", monkeypatch).run(target, rows, columns)
    assert [figure.passed for figure in figures] == [True]


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_find_a_bug(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load("08_find_a_bug", monkeypatch)
    figures = example.run(target, 2)
    assert [figure.passed for figure in figures] == [True]
    printed = capsys.readouterr().out
    lines = (FOLDER / "08_find_a_bug.py").read_text().splitlines()
    culprit = next(n for n, x in enumerate(lines, start=1) if "j = fx.min(i + 1, last)" in x)
    assert f"08_find_a_bug.py:{culprit}:" in printed.partition("stopped at")[0]
    assert "0x3f against 0x40" in printed
    assert "the assertion: row 0 reads element 64 in block (0, 0, 0), thread (63, 0, 0)" in printed


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_tiled_mma(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = load("03_tiled_mma", monkeypatch).run(target)
    assert [figure.passed for figure in figures] == [True]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (64, 128, 96)])
def test_preshuffle_gemm(
    target: str, m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = load("04_preshuffle_gemm", monkeypatch).run(target, m, n, k)
    assert [figure.passed for figure in figures] == [True]


def test_wrong_results_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = load("01_vector_add", monkeypatch).run("gfx942", 10)
    report = load("example_report", monkeypatch)
    assert report.print_report(figures) == 0
    for error in (1e-3, float("nan")):
        assert report.print_report([figures[0].checked(error, 1e-6)]) == 1
    assert report.print_report([]) == 1
    printed = capsys.readouterr().out
    assert printed.count("on gfx942: ok") == 1
    assert printed.count("on gfx942: WRONG") == 2


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_find_a_race(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("07_find_a_race", monkeypatch)
    right, report = example.check(target, True, tiles=1)
    assert right
    assert not report
    _, report = example.check(target, False, tiles=2)
    (finding,) = report.findings
    assert finding.check == "race"
    assert finding.place.source is not None
    assert "07_find_a_race.py" in finding.place.source


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_swizzle(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = load("05_swizzle", monkeypatch).run(target, 1)
    assert [figure.passed for figure in figures] == [True, True]
    lines = capsys.readouterr().out.splitlines()
    ratios = [[float(word) for word in re.findall(r"x([0-9.]+)", line)] for line in lines]
    for predicted, emulated in ((ratios[1], ratios[2]), (ratios[4], ratios[5])):
        assert emulated[0] in predicted
    assert ratios[2][0] > 4
    assert ratios[5] == [1.0]


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_gemm(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = load("09_gemm", monkeypatch).run(target, 17, 40, 72)
    assert {figure.passed for figure in figures} == {True}


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("rows", "columns", "k"), [(1, 32, 128), (40, 96, 192)])
def test_preshuffled_weights(
    target: str, rows: int, columns: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = load("11_preshuffled_weights", monkeypatch).run(target, rows, columns, k)
    assert [figure.passed for figure in figures] == [True, True]


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("rows", "columns"), [(3, 1000), (2, 32768)])
def test_quantised_norm(
    target: str, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = load("12_quantised_norm", monkeypatch).run(target, rows, columns)
    assert [figure.passed for figure in figures] == [True] * (2 if columns > 30000 else 1)
