"""The 304 results read off the reference system, and each deliberate difference from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flydsl.layout as fl
from flydsl.errors import FlyDSLError

_CASES = json.loads((Path(__file__).parent / "data" / "layout_cases.json").read_text("utf-8"))

# Ours gives the right result, or a refusal ("error"), where the reference does something else.
_DIFFERENCES = {
    "L((4,-2),(1,4))": ("error", "an extent cannot be negative"),
    "make_ordered_layout((4,8),(5,5))": ("(4,8):(1,4)", "equal orders must not alias"),
    "make_layout_like(L((4,8),(0,1)))": ("(4,8):(0,1)", "a broadcast mode keeps stride 0"),
    "make_int_tuple(2**31)": ("2147483648", "ints are not truncated to 32 bits"),
    "int_tuple_mod((-7,9),(2,4))": ("(1,1)", "the remainder floors, as in Python"),
    "elem_less((1,2),(3,4))": ("True", "static operands fold"),
    "elem_less((1,5),(3,4))": ("False", "static operands fold"),
    "equal((1,2),(1,3))": ("False", "static operands fold"),
    "equal((1,2),(1,2,3))": ("False", "static operands fold"),
    "get(make_int_tuple((4,5)),1)": ("5", "a static entry stays static"),
    "get_leaves(make_int_tuple((4,(m,8))))": ("(4,?,8)", "outside a kernel, leaves are plain"),
    "get_leaves(make_int_tuple((4,(m,8))),dynamic_only=True)": ("(?)", "as above"),
    "composition(L((m,8),(8,1)),L((4,8),(1,m)))": ("error", "not decidable before run time"),
    "composition(L((4,8),(1,4)),8)": ("8:1", "an int n is the tiler n:1"),
    "composition(S(2,0,3),L((8,8),(8,1)))": ("S<2,0,3> o 0 o (8,8):(8,1)", "a swizzle composes"),
    "composition(L((8,8),(8,1)),make_identity_layout((8,8)))": ("(8,8):(8,1)", "by coordinate"),
    "composition(L((8,8),(8,1)),L((2,4),(E(1),E(0))))": ("(2,4):(1,8)", "by coordinate"),
    "complement(L((4,4),(1,2)),24)": ("error", "the layout overlaps itself"),
    "left_inverse(L((4,6),(3,16)))": ("error", "the listed result is no inverse: 48 maps to 13"),
    "zipped_divide(L((8,16),(16,1)),(2,None))": ("((2,16),(4,1)):((16,1),(32,0))", "None keeps"),
    "slice((4,8,16),(None,3,None))": ("(4,16)", "tuples are int tuples"),
    "slice(L((4,8),(1,4)),None)": ("(4,8):(1,4)", "None keeps everything"),
    "dice((4,8,16),(None,3,None))": ("8", "tuples are int tuples"),
    "L((4,8),(8,1))((1,2))": ("10", "one tuple is a coordinate"),
    "idx2crd(3,L((4,8),(0,1)))": ("(0,3)", "a stride of 0 gives coordinate 0"),
    "right_inverse(make_composed_layout(S(3,0,3), L((8,8),(8,1))))": (
        "(8,8):(8,1) o 0 o S<3,0,3> o 0 o 64:1",
        "the listed result has the swizzle on the wrong side",
    ),
}

# Names that belong to kernels (types, SSA values, views of pointers) are tested with `fx`.
_NEEDS_FX = ("fx.", "is_profile", "static(", "make_rmem", "inttoptr", "make_view", "get_dyn_shared")


def _namespace() -> dict[str, object]:
    names = {name: getattr(fl, name) for name in fl.__all__}
    symbols = {"m": fl.Dyn(32), "n": fl.Dyn(32), "k": fl.Dyn(64)}
    return names | symbols | {"L": fl.make_layout, "S": fl.Swizzle}


def _bare(text: str) -> str:
    for prefix in ("composed_layout<", "swizzle<", "tile<"):
        if text.startswith(prefix) and text.endswith(">"):
            return text[len(prefix) : -1]
    return text.replace(", ", ",") if text.startswith("(") else text


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(_text(e) for e in value) + ")"
    return "*" if value is None else str(value)


_PURE = [case for case in _CASES if not any(name in case["expr"] for name in _NEEDS_FX)]


def test_the_list_is_whole() -> None:
    assert len(_CASES) == 304
    assert len(_PURE) >= 250
    assert set(_DIFFERENCES) <= {case["expr"] for case in _PURE}


@pytest.mark.parametrize("case", _PURE, ids=[case["expr"] for case in _PURE])
def test_case(case: dict[str, str]) -> None:
    expression = case["expr"]
    listed = "error" if case["result"].strip("*").startswith(("error", "abort")) else case["result"]
    expected, _ = _DIFFERENCES.get(expression, (_bare(listed), ""))
    try:
        value = eval(expression, _namespace())
    except FlyDSLError:
        assert expected == "error"
    else:
        assert _text(value) == expected
