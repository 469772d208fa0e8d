"""Immediates that print as names against LLVM's disassembler, on up to all 65,536 values."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest

from flydsl_emu.decode import decode_one
from flydsl_emu.decode.oracle import Disassembler, find_library

GFX9 = {
    "s_waitcnt": 0xBF8C0000,
    "s_sendmsg": 0xBF900000,
    "s_set_gpr_idx_mode": 0xBF9D0000,
    "s_getreg_b32": 0xB8900000,
    "ds_swizzle_b32": 0xD87A0000,
}
WAVE32 = {
    "s_delay_alu": 0xBF870000,
    "s_waitcnt_depctr": 0xBF880000,
    "s_waitcnt": 0xBF890000,
    "s_sendmsg": 0xBFB60000,
    "s_getreg_b32": 0xB8900000,
    "s_version": 0xB0800000,
    "ds_swizzle_b32": 0xD8D40000,
}
CASES = [("gfx942", name) for name in GFX9]
CASES += [(arch, name) for arch in ("gfx1100", "gfx1201", "gfx1250") for name in WAVE32]
CASES.remove(("gfx1250", "s_waitcnt"))  # it has only the split counters


STEP = 17


@pytest.mark.parametrize(("arch", "name"), CASES)
def test_values_print_as_llvm_prints_them(arch: str, name: str) -> None:
    compare(arch, name, [*range(1024), *range(1024, 0x10000, STEP)])


@pytest.mark.nightly
@pytest.mark.parametrize(("arch", "name"), CASES)
def test_every_value_prints_as_llvm_prints_it(arch: str, name: str) -> None:
    compare(arch, name, range(0x10000))


def compare(arch: str, name: str, values: Iterable[int]) -> None:
    """Compare the text of one instruction with each of the immediates."""
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")
    base = (GFX9 if arch == "gfx942" else WAVE32)[name]
    oracle = Disassembler(arch)
    compared = 0
    for value in values:
        code = struct.pack("<4I", base | value, 10, 0xBF800000, 0xBF800000)
        _, text = oracle.first(code)
        if text is None or "nvalid" in text:
            continue
        assert str(decode_one(arch, code)) == " ".join(text.split()), hex(value)
        compared += 1
    assert compared > 30
