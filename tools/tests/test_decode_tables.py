"""The committed decode tables are what the generator makes of LLVM."""

from __future__ import annotations

from importlib.resources import files

import pytest
from decode_tables import table_text

from flydsl_emu.decode.oracle import find_library
from flydsl_emu.decode.table import SAME_TABLE


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250"])
def test_a_table_is_reproduced(arch: str) -> None:
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")
    committed = files("flydsl_emu.decode").joinpath("data", f"{arch}.txt")
    assert table_text(arch) == committed.read_text(encoding="ascii")


@pytest.mark.nightly
@pytest.mark.parametrize(("arch", "same"), SAME_TABLE.items())
def test_a_shared_table_holds_for_all_that_use_it(arch: str, same: str) -> None:
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")
    assert table_text(arch).splitlines()[1:] == table_text(same).splitlines()[1:]
