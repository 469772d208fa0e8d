"""Kernels whose barriers are for some waves only."""

from __future__ import annotations

import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.sanitizer.meeting import uses_named_barriers


@pytest.mark.parametrize(
    ("name", "operands", "named"),
    [
        ("s_barrier", (), False),
        ("s_barrier_signal", (Operand("i", 193, 1, -1),), False),
        ("s_barrier_signal", (Operand("i", 129, 1, 1),), True),
        ("s_barrier_signal_isfirst", (Operand("s", 125),), True),
        ("s_barrier_join", (Operand("i", 129, 1, 1),), True),
        ("s_barrier_wait", (Operand("k", 0, 1, 0xFFFF),), False),
    ],
)
def test_named_barriers(name: str, operands: tuple[Operand, ...], named: bool) -> None:
    assert uses_named_barriers([Instruction(0, 4, "SOP1", name, "", operands)]) == named
