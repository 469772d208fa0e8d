"""The decoder of gfx11 and later against LLVM's disassembler, on random well-formed encodings."""

from __future__ import annotations

import pytest
from wave32_encodings import EncodingSource

from flydsl_emu.decode import decode_one, format_instruction
from flydsl_emu.decode.oracle import find_library
from flydsl_emu.decode.table import load_table

DRAWS = 10
MANY = 150
ARCHES = ("gfx1100", "gfx1151", "gfx1201", "gfx1250")
CASES = [(a, form) for a in ARCHES for form in sorted(load_table(a))]


@pytest.mark.parametrize(("arch", "form"), CASES)
def test_decodes_as_llvm_does(arch: str, form: str) -> None:
    compare(arch, form, DRAWS, "")


@pytest.mark.nightly
@pytest.mark.parametrize(("arch", "form"), CASES)
def test_decodes_many_encodings_as_llvm_does(arch: str, form: str) -> None:
    compare(arch, form, MANY, "many")


def compare(arch: str, form: str, draws: int, seed: str) -> None:
    """Compare `draws` encodings of every opcode of a format."""
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")
    source = EncodingSource(arch, form + seed)
    missing = []
    for entry in source.table[form].values():
        compared = 0
        for sample in source.samples(entry, draws):
            instruction = decode_one(arch, sample.code)
            assert format_instruction(instruction) == sample.text, sample.code[:16].hex()
            assert instruction.size == sample.size, sample.text
            compared += 1
        if not compared:
            missing.append(entry.name)
    assert not missing
