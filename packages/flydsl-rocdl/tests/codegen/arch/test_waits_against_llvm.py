"""The encoder of waits against LLVM's assembler: every value of every counter."""

from __future__ import annotations

import itertools
import re
import subprocess

import pytest

from flydsl_rocdl.arch import KNOWN, ArchFacts

COMBINED = [facts for facts in KNOWN.values() if facts.waits is not None]
SPLIT = [facts for facts in KNOWN.values() if facts.split_counters]


def _encodings(llvm_mc: str, arch: str, lines: list[str]) -> list[int]:
    """Return the first dword of each assembled line."""
    done = subprocess.run(
        [llvm_mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-encoding"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:1000]
    found = re.findall(r"encoding: \[([0-9a-fx,]+)\]", done.stdout)
    assert len(found) == len(lines)
    return [
        int.from_bytes(bytes(int(b, 16) for b in text.split(",")[:4]), "little") for text in found
    ]


def _by_rules(facts: ArchFacts) -> str:
    """Architectures with equal rules need one run."""
    return f"{facts.family}"


@pytest.mark.parametrize(
    "facts", list({_by_rules(f): f for f in COMBINED}.values()), ids=lambda f: f.name
)
def test_every_combined_wait(llvm_mc: str, facts: ArchFacts) -> None:
    assert facts.waits is not None
    names = ("vmcnt", "lgkmcnt", "expcnt")
    limits = [facts.waits.limit(name) for name in names]
    values = list(itertools.product(*(range(limit + 1) for limit in limits)))
    lines = [
        "s_waitcnt " + " ".join(f"{n}({v})" for n, v in zip(names, row, strict=True))
        for row in values
    ]
    for row, word in zip(values, _encodings(llvm_mc, facts.name, lines), strict=True):
        assert facts.waits.encode(*row) == word & 0xFFFF, row
        assert facts.waits.decode(word & 0xFFFF) == dict(zip(names, row, strict=True))
    # An absent counter waits for nothing: what the assembler puts where it is not named.
    alone = [(n, v) for n, limit in zip(names, limits, strict=True) for v in range(limit)]
    words = _encodings(llvm_mc, facts.name, [f"s_waitcnt {n}({v})" for n, v in alone])
    for (name, value), word in zip(alone, words, strict=True):
        assert facts.waits.encode(**{name: value}) == word & 0xFFFF


@pytest.mark.parametrize(
    "facts", list({_by_rules(f): f for f in SPLIT}.values()), ids=lambda f: f.name
)
def test_every_split_wait(llvm_mc: str, facts: ArchFacts) -> None:
    rows = [(n, v) for n, limit in facts.split_counters.items() for v in range(limit + 1)]
    words = _encodings(llvm_mc, facts.name, [f"s_wait_{n} {v}" for n, v in rows])
    for (_, value), word in zip(rows, words, strict=True):
        assert word & 0xFFFF == value
    opcodes = {name: {w >> 16 for (n, _), w in zip(rows, words, strict=True) if n == name}
               for name in facts.split_counters}  # fmt: skip
    assert all(len(found) == 1 for found in opcodes.values())
    assert len(set().union(*opcodes.values())) == len(facts.split_counters)
