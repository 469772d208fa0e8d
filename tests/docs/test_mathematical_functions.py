"""The accuracies that ``docs/kernels.md`` lists are those that tests of the functions hold."""

from __future__ import annotations

import re
from pathlib import Path

from flydsl_rocdl.devlib import FUNCTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
# Where the hardware or the back end computes f32, see `flydsl_rocdl.passes.mathops`.
EXPANDED = {"exp": 2.0, "exp2": 2.0, "log": 2.0, "log2": 2.0, "log10": 2.0, "rsqrt": 1.0}


def test_every_bound_is_listed() -> None:
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text("utf-8"), re.M)
    listed = {name: (float(single), float(double)) for name, single, double in rows}
    names = {n.removesuffix("_f64") for n in FUNCTIONS if n.endswith("_f64")} - {"fmod"}
    expected = {}
    for name in names:
        single = EXPANDED.get(name) or FUNCTIONS[name].ulp
        expected[name] = (single, FUNCTIONS[f"{name}_f64"].ulp)
    assert listed.pop("sqrt") == (0.5, 0.5)
    assert listed == expected
