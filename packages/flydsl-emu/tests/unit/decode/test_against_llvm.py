"""The decoder and its text against LLVM's disassembler, on random well-formed encodings."""

from __future__ import annotations

import random

import pytest
from wave64_encodings import BASE, SKIP, random_encoding

from flydsl_emu.decode import decode_one, format_instruction
from flydsl_emu.decode.oracle import Disassembler, find_library
from flydsl_emu.decode.table import ARCHITECTURES, load_table


@pytest.mark.parametrize("arch", [a for a, isa in ARCHITECTURES.items() if isa == "gfx9"])
@pytest.mark.parametrize("form", sorted(BASE))
def test_decodes_as_llvm_does(arch: str, form: str) -> None:
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")
    oracle = Disassembler(arch)
    rng = random.Random(f"{arch} {form}")
    compared = 0
    for entry in load_table(arch)[form].values():
        if entry.name in SKIP:
            continue
        for _ in range(10):
            code = random_encoding(entry, rng)
            size, text = oracle.first(code)
            if text is None or "Invalid" in text or "Warning" in text or "null" in text:
                continue
            instruction = decode_one(arch, code)
            assert format_instruction(instruction) == " ".join(text.split()), code[:8].hex()
            assert instruction.size == size
            compared += 1
    assert compared > 5 * len(load_table(arch)[form]) // 2
