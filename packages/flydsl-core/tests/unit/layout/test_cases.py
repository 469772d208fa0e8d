"""The 304 results read off the reference system, and each deliberate difference from them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import flydsl.layout as fl
from flydsl.errors import FlyDSLError

_DATA = Path(__file__).parent / "data"
_DOCS = Path(__file__).parents[5] / "docs" / "layout-differences.md"
_CASES = json.loads((_DATA / "layout_cases.json").read_text("utf-8"))
# Ours gives the right result, or a refusal ("error"), where the reference does something else.
_DIFFERENCES = {
    row["expr"]: row for row in json.loads((_DATA / "differences.json").read_text("utf-8"))
}

# What needs the types, SSA values and memory views of `fx`: tests/ir/layout/test_fx_cases.py.
_LEFT_TO_FX = {
    "fx.": "element types and scalars",
    "make_rmem_tensor": "register tensors",
    "inttoptr": "pointers",
    "get_dyn_shared": "shared memory",
    ".dtype": "element types",
}


def _namespace() -> dict[str, object]:
    names = {name: getattr(fl, name) for name in fl.__all__}
    symbols = {"m": fl.Dyn(32), "n": fl.Dyn(32), "k": fl.Dyn(64)}
    aliases = {
        "L": fl.make_layout,
        "S": fl.Swizzle,
        "make_view": fl.CoordTensor,
        "is_profile_congruent": fl.congruent,
        "is_profile_weakly_congruent": fl.weakly_congruent,
        "static": lambda x: x,
        "CoordSwizzleType": SimpleNamespace(get=fl.CoordSwizzle),
    }
    return names | symbols | aliases


def _bare(text: str) -> str:
    for prefix in ("composed_layout<", "swizzle<", "tile<", "coord_tensor<"):
        if text.startswith(prefix) and text.endswith(">"):
            return text[len(prefix) : -1]
    return text.replace(", ", ",") if text.startswith("(") else text


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(_text(e) for e in value) + ")"
    return "*" if value is None else str(value)


_PURE = [case for case in _CASES if not any(name in case["expr"] for name in _LEFT_TO_FX)]


def test_the_list_is_whole() -> None:
    assert len(_CASES) == 304
    assert len(_PURE) == 268
    assert set(_DIFFERENCES) <= {case["expr"] for case in _CASES}


@pytest.mark.parametrize("case", _PURE, ids=[case["expr"] for case in _PURE])
def test_case(case: dict[str, str]) -> None:
    expression = case["expr"]
    listed = "error" if case["result"].strip("*").startswith(("error", "abort")) else case["result"]
    expected = _bare(listed)
    if expression in _DIFFERENCES:
        assert _DIFFERENCES[expression]["ours"] != expected
        expected = _DIFFERENCES[expression]["ours"]
    try:
        value = eval(expression, _namespace())
    except FlyDSLError:
        assert expected == "error"
    else:
        assert _text(value) == expected


@pytest.mark.parametrize("expression", _DIFFERENCES)
def test_the_documentation_lists_the_difference(expression: str) -> None:
    row = _DIFFERENCES[expression]
    listed = next(case["result"] for case in _CASES if case["expr"] == expression)
    ours = "refused" if row["ours"] == "error" else f"`{row['ours']}`"
    line = f"| `{expression}` | {_listed(listed)} | {ours} | {row['reason']} |"
    assert line in _DOCS.read_text("utf-8").splitlines()


def _listed(result: str) -> str:
    text = result.strip("*")
    return text if text.startswith(("error", "abort")) else f"`{result}`"
