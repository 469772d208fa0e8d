"""The immediates of waits against what LLVM's assembler makes of the counters' names."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence

import pytest

from flydsl_rocdl.arch import KNOWN, lookup

COUNTERS = ("vmcnt", "expcnt", "lgkmcnt")
COMBINED = [name for name, facts in KNOWN.items() if facts.waits is not None]


def _assembled(llvm_mc: str, arch: str, lines: Sequence[str]) -> list[int]:
    """Return the 16-bit immediate of each SOPP instruction."""
    done = subprocess.run(
        [llvm_mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-encoding"],
        input="\n".join(lines), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.findall(r"encoding: \[0x(..),0x(..),0x..,0x..\]", done.stdout)
    assert len(found) == len(lines), done.stderr
    return [int(high + low, 16) for low, high in found]


@pytest.mark.parametrize("arch", COMBINED)
def test_every_value_of_every_counter(llvm_mc: str, arch: str) -> None:
    waits = lookup(arch).waits
    assert waits is not None
    cases: list[dict[str, int]] = [
        {counter: value} for counter in COUNTERS for value in range(waits.limit(counter) + 1)
    ]
    generator = random.Random(arch)
    for _ in range(60):
        chosen = generator.sample(COUNTERS, generator.randint(2, 3))
        cases.append({c: generator.randint(0, waits.limit(c)) for c in chosen})
    lines = [
        "s_waitcnt " + " ".join(f"{c}({v})" for c, v in case.items()) for case in cases
    ]  # fmt: skip
    for case, immediate in zip(cases, _assembled(llvm_mc, arch, lines), strict=True):
        assert waits.encode(**case) == immediate, case


@pytest.mark.parametrize("arch", [name for name, facts in KNOWN.items() if facts.split_counters])
def test_every_value_of_every_split_counter(llvm_mc: str, arch: str) -> None:
    counters = lookup(arch).split_counters
    cases = [(name, value) for name, limit in counters.items() for value in range(limit + 1)]
    lines = [f"s_wait_{name} {value:#x}" for name, value in cases]
    assert _assembled(llvm_mc, arch, lines) == [value for _, value in cases]
