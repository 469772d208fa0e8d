"""The rows of the 304 reference results that need numbers, pointers and tensors of ``fx``.

The other rows are tested without MLIR in ``tests/unit/layout/test_cases.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.layout as fl
from flydsl import config
from flydsl.dialects.elements import element_bits
from flydsl.errors import FlyDSLError

_DATA = Path(__file__).parents[2] / "unit" / "layout" / "data"
_WORDS = ("fx.", "make_rmem_tensor", "inttoptr", "get_dyn_shared", ".dtype")
_CASES = [
    case
    for case in json.loads((_DATA / "layout_cases.json").read_text("utf-8"))
    if any(word in case["expr"] for word in _WORDS)
]
_DIFFERENCES = {
    row["expr"]: row["ours"] for row in json.loads((_DATA / "differences.json").read_text("utf-8"))
}


def _aligned(alignment: int, element: str) -> str:
    natural = max(element_bits(element) // 8, 1)
    return f", align<{alignment}>" if alignment != natural else ""


def shown(value: Any) -> str:
    """Return a result as the list writes it."""
    kind = getattr(value, "kind", value if "Type" in type(value).__name__ else None)
    if isinstance(value, fx.Vector):
        return f"vector<{fl.size(value.shape)}x{value.dtype.ir_text}>"
    if isinstance(value, fx.Numeric):
        return f"{type(value).__name__}("
    mnemonic = getattr(kind, "mnemonic", "")
    if mnemonic == "memref":
        align = _aligned(kind.alignment, kind.element)
        text = f"memref<{kind.element}, {kind.space}, {kind.layout}{align}>"
        return text if hasattr(value, "kind") else f"MemRefType({text})"
    if mnemonic == "ptr":
        swizzle = f", {kind.swizzle}" if kind.swizzle is not None else ""
        align = _aligned(kind.alignment, kind.element)
        return f"ptr<{kind.element}, {kind.space}{align}{swizzle}>"
    if mnemonic == "int_tuple":
        return fl.to_text(kind.value)
    if hasattr(value, "owner"):
        return str(value.type)
    return str(value)


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    """What each expression gives in a kernel with a 32-bit `m` and a 64-bit `k`."""
    found: dict[str, str] = {}

    @flyc.kernel
    def kernel(x: fx.Tensor, m: fx.Int32, k: fx.Int64):
        names = {name: getattr(fx, name) for name in fx.__all__}
        names |= {"fx": fx, "L": fx.make_layout, "S": fl.Swizzle, "m": m, "k": k}
        for index in fx.range_constexpr(len(_CASES)):
            expression = _CASES[index]["expr"]
            try:
                found[expression] = shown(eval(expression, names))
            except FlyDSLError:
                found[expression] = "error"

    @flyc.jit
    def launch(x: fx.Tensor, m: fx.Int32, k: fx.Int64):
        kernel(x, m, k).launch(grid=1, block=64)

    options = {"FLYDSL_TARGET": "gfx942", "COMPILE_ONLY": "1"}
    with config.scope(**options):
        launch(np.zeros(4, np.int32), 4, 8)
    return found


def test_these_and_the_pure_ones_are_all() -> None:
    assert len(_CASES) == 304 - 268


@pytest.mark.parametrize("case", _CASES, ids=[case["expr"] for case in _CASES])
def test_case(results: dict[str, str], case: dict[str, str]) -> None:
    expected = case["result"].strip("*")
    if expected.startswith(("error", "abort")):
        expected = "error"
    # A run-time number is listed with the operation that makes it.
    expected = re.sub(r"\(ArithValue\(.*$", "(", expected)
    if case["expr"] in _DIFFERENCES:
        assert _DIFFERENCES[case["expr"]] != expected
        expected = _DIFFERENCES[case["expr"]]
    assert results[case["expr"]] == expected
