"""Every opcode that compiled kernels were seen to use decodes and has a meaning."""

from __future__ import annotations

import opcode_census
import pytest


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_every_opcode_in_use_decodes(arch: str) -> None:
    assert len(opcode_census.census(arch)) > 200
    assert opcode_census.undecodable(arch) == []


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_every_opcode_in_use_has_a_meaning(arch: str) -> None:
    assert opcode_census.without_meaning(opcode_census.census(arch)) == []


def test_an_opcode_without_meaning_is_reported() -> None:
    names = ["v_add_f32", "v_dual_mul_f32", "s_endpgm", "v_no_such_thing"]
    assert opcode_census.without_meaning(names) == ["v_no_such_thing"]
