"""The wait-counter immediate."""

from __future__ import annotations

import pytest

from flydsl.errors import UserTypeError, UserValueError
from flydsl_rocdl.arch import KNOWN, lookup


@pytest.mark.parametrize("name", [n for n, f in KNOWN.items() if f.waits is not None])
def test_every_counter_value_survives_encoding(name: str) -> None:
    waits = lookup(name).waits
    assert waits is not None
    for counter in ("vmcnt", "lgkmcnt", "expcnt"):
        others = {c: waits.limit(c) for c in ("vmcnt", "lgkmcnt", "expcnt") if c != counter}
        for value in range(waits.limit(counter) + 1):
            immediate = waits.encode(**{counter: value})
            assert 0 <= immediate < 1 << 16
            assert waits.decode(immediate) == {**others, counter: value}


@pytest.mark.parametrize(
    ("name", "arguments", "immediate"),
    [
        # What LLVM's assembler makes of s_waitcnt with these counters.
        ("gfx942", {"vmcnt": 0}, 0x0F70),
        ("gfx942", {"lgkmcnt": 0}, 0xC07F),
        ("gfx942", {"vmcnt": 63, "lgkmcnt": 0, "expcnt": 7}, 0xC07F),
        ("gfx942", {"vmcnt": 17, "lgkmcnt": 3, "expcnt": 2}, 0x4321),
        ("gfx1100", {"vmcnt": 0}, 0x03F7),
        ("gfx1100", {"lgkmcnt": 0}, 0xFC07),
    ],
)
def test_known_immediates(name: str, arguments: dict[str, int], immediate: int) -> None:
    waits = lookup(name).waits
    assert waits is not None
    assert waits.encode(**arguments) == immediate


def test_a_counter_out_of_range_names_the_limit() -> None:
    waits = lookup("gfx950").waits
    assert waits is not None
    with pytest.raises(UserValueError, match="vmcnt") as caught:
        waits.encode(vmcnt=64)
    assert "0 to 63" in caught.value.allowed
    with pytest.raises(UserValueError, match="lgkmcnt"):
        waits.encode(lgkmcnt=-1)


def test_a_run_time_counter_is_refused() -> None:
    waits = lookup("gfx950").waits
    assert waits is not None
    with pytest.raises(UserTypeError, match="compile-time"):
        waits.encode(vmcnt="4")  # type: ignore[arg-type]


def test_the_split_counter_architecture_has_no_combined_wait() -> None:
    facts = lookup("gfx1250")
    assert facts.waits is None
    assert "tensorcnt" in facts.split_counters
