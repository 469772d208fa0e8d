"""Patterns of instruction classes: everything is there, once, and evenly spread."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flydsl_rocdl.kernels.scheduling import pattern, spread


def test_patterns_hold_every_instruction_once() -> None:
    random = np.random.default_rng(2)
    for _ in range(40):
        mfma, reads, loads, writes = (int(n) for n in random.integers(0, 70, 4))
        others = {"ds-read": reads, "vmem-read": loads, "ds-write": writes}
        found = pattern(mfma, others)
        for name, count in {"mfma": mfma, **others}.items():
            assert sum(size for kind, size in found if kind == name) == count
        assert all(size > 0 for _, size in found)
        assert all(a != b for (a, _), (b, _) in itertools.pairwise(found))


def test_patterns_are_even() -> None:
    assert pattern(8, {"ds-read": 4}) == (
        ("mfma", 1), ("ds-read", 1), ("mfma", 2), ("ds-read", 1), ("mfma", 2), ("ds-read", 1),
        ("mfma", 2), ("ds-read", 1), ("mfma", 1),
    )  # fmt: skip
    gaps = [size for kind, size in pattern(128, {"vmem-read": 20}) if kind == "mfma"][1:-1]
    assert max(gaps) - min(gaps) <= 1


def test_positions_are_spread_over_the_whole_range() -> None:
    assert spread(0, 3, 9) == ()
    assert spread(1, 3, 9) == (3,)
    assert spread(4, 0, 9) == (0, 3, 6, 9)
    assert spread(5, 2, 3) == (2, 2, 2, 2, 3)
    for bad in ((-1, 0, 1), (2, 5, 4)):
        with pytest.raises(ValueError, match="cannot spread"):
            spread(*bad)


@pytest.mark.parametrize("counts", [(-1, {}), (4, {"ds-read": -2}), (4, {"tensor": 1})])
def test_impossible_counts_are_refused(counts: tuple[int, dict[str, int]]) -> None:
    with pytest.raises(ValueError, match=r"counts|classes"):
        pattern(*counts)
