from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from flydsl.cli.app import run


def test_describes_and_draws(capsys):
    assert run(["layout", "((2,2),2):((1,4),2)"]) == 0
    out = capsys.readouterr().out
    assert "cosize: 8" in out
    assert "coalesced: (2,2,2):(1,4,2)" in out
    assert "0 |0 2" in out


def test_json(capsys):
    assert run(["layout", "(4,?):(1,4)", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["size"] is None
    assert found["rank"] == 2


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_writes_files(tmp_path, capsys, suffix):
    path = tmp_path / f"out.{suffix}"
    assert run(["layout", "((8,2),4):((1,32),8)", f"--{suffix}", str(path)]) == 0
    assert "<svg" in path.read_text("utf-8")
    if suffix == "svg":
        assert ET.parse(path).getroot().tag.endswith("svg")
    assert "((8,2),4):((1,32),8)" in capsys.readouterr().out


def test_thread_value_layouts_and_banks(capsys):
    assert run(["layout", "((2,4),2):((8,1),4)", "--tile", "(4,4)"]) == 0
    assert "T1:V0" in capsys.readouterr().out
    arguments = ["--element-bits", "16", "--access-bits", "128", "--no-color"]
    assert run(["layout", "(16,64):(64,1)", "--banks", "32", *arguments]) == 0
    assert "up to 8-way bank conflicts" in capsys.readouterr().out
    swizzled = "S<3,3,3> o 0 o (16,64):(64,1)"
    assert run(["layout", swizzled, "--target", "gfx942", *arguments]) == 0
    assert "32 banks" in capsys.readouterr().out


def test_swizzles_tuples_and_large_layouts(capsys):
    assert run(["layout", "S<2,0,3>"]) == 0
    assert "S<2,0,3> o 0 o (4,8):(8,1)" in capsys.readouterr().out
    for text in ("(3,4)", "[4|8]", "(4096,4096):(1,4096)"):
        assert run(["layout", text]) == 0
        assert f"text: {text}" in capsys.readouterr().out


def test_colour(capsys):
    assert run(["layout", "(2,2):(1,2)", "--color"]) == 0
    assert "\x1b[30;48;5;" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["(4,4):(1,4"], "cannot read the layout text"),
        (["(4,4):(1,4)", "--banks", "32"], "element_bits"),
        (["(4096,4096):(1,4096)", "--svg", "never.svg"], "too large to draw"),
        (["(4,4):(1,4)", "--tile", "(2,2)"], "leaves its tile"),
        (["(4,4):(1,4)", "--target", "nothing1", "--element-bits", "8"], "target"),
        (["(4,4):(1,4)", "--html", "/no/such/folder/x.html"], "cannot be written"),
    ],
)
def test_mistakes(tmp_path, monkeypatch, capsys, arguments, rule):
    monkeypatch.chdir(tmp_path)
    assert run(["layout", *arguments]) == 1
    assert rule in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
