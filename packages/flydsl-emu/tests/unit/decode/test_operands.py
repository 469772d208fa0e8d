"""What decoding yields beyond text: parts of dual instructions, register halves, scalar numbers."""

from __future__ import annotations

import random
import struct

import pytest

from flydsl.errors import TargetError
from flydsl_emu.decode import M0, NULL, VCC, Instruction, Operand, decode, decode_one


def one(arch: str, *words: int) -> Instruction:
    (instruction,) = decode(arch, struct.pack(f"<{len(words)}I", *words), 0x100)
    return instruction


def test_a_dual_instruction_has_two_ordinary_parts() -> None:
    i = one("gfx1100", 0xC8C83D14, 0x0A0E6528)
    assert str(i) == "v_dual_mul_f32 v10, v20, v30 :: v_dual_add_f32 v15, v40, v50"
    x, y = i.parts
    assert (i.format, i.size, x.size, x.pc) == ("VOPD", 8, 0, 0x100)
    assert (x.name, x.format, y.name) == ("v_mul_f32", "VOP2", "v_add_f32")
    assert x.operands == (Operand("v", 10), Operand("v", 20), Operand("v", 30))
    assert y.operands == (Operand("v", 15), Operand("v", 40), Operand("v", 50))
    assert i.operands == x.operands + y.operands


def test_a_dual_selection_reads_vcc() -> None:
    i = one("gfx1201", 0xCA523D14, 0x0A0E6729)
    assert str(i) == "v_dual_cndmask_b32 v10, v20, v30 :: v_dual_cndmask_b32 v15, v41, v51"
    assert [part.operands[-1] for part in i.parts] == [Operand("s", VCC)] * 2


def test_both_halves_share_a_literal() -> None:
    i = one("gfx1100", 0xC9203CFF, 0x0A0E66FF, 0x12345678)
    assert i.size == 12
    assert [part.operands[1].value for part in i.parts] == [0x12345678] * 2


def test_wide_dual_instructions_have_three_sources() -> None:
    i = one("gfx1250", 0xCF4D3103, 0x05041108, 0x070A0902)
    assert str(i) == "v_dual_fma_f32 v2, v3, v4, v5 :: v_dual_fma_f32 v7, -v8, v9, v10"
    assert i.format == "VOPD3"
    assert i.parts[0].format == "VOP3"
    assert i.parts[1].operands[1] == Operand("v", 8, negate=True)


@pytest.mark.parametrize(
    ("words", "halves"),
    [
        ((0x65152996,), [(10, 2), (22, 2), (20, 2)]),  # short: bit 7 of a number
        ((0xD532500A, 0x00023D14), [(10, 2), (20, 1), (30, 2)]),  # long: op_sel
    ],
)
def test_16_bit_operands_name_register_halves(
    words: tuple[int, ...], halves: list[tuple[int, int]]
) -> None:
    i = one("gfx1201", *words)
    assert i.name == "v_add_f16"
    assert [(o.index, o.half) for o in i.operands] == halves


def test_m0_and_null_have_one_number_everywhere() -> None:
    to_m0 = 0xBEFD0001  # s_mov_b32 m0, s1 on gfx11 and later
    assert one("gfx1100", to_m0).operands[0] == Operand("s", M0)
    assert one("gfx942", 0xBEFC0001).operands[0] == Operand("s", M0)
    wait = one("gfx1100", 0xBC7C0000)
    assert str(wait) == "s_waitcnt_vscnt null, 0x0"
    assert wait.operands[0] == Operand("s", NULL)


def test_a_64_bit_literal_is_one_operand() -> None:
    i = one("gfx1250", 0xBE8001FE, 0x00000001, 0x00000002)
    assert (i.size, i.operands[1].kind, i.operands[1].value) == (12, "q", 0x2_00000001)
    negative = one("gfx1250", 0xBE8001FE, 0xFFFFFFFF, 0xFFFFFFFF)
    assert negative.operands[1] == Operand("i", 0, 2, -1)


def test_an_atomic_that_returns_has_a_destination() -> None:
    without = one("gfx1201", 0xEE0D407C, 0x14000000, 0x00000010)
    assert str(without) == "global_atomic_add_u32 v[16:17], v40, off"
    returns = one("gfx1201", 0xEE0D407C, 0x1410000A, 0x00000010)
    assert str(returns).startswith("global_atomic_add_u32 v10, v[16:17], v40, off th:")
    assert returns.mod("th") == 1


def test_dpp_has_either_kind_of_control() -> None:
    by_row = one("gfx1100", 0x060000FA, 0xFF0111E4)
    assert (by_row.encoding, by_row.mod("dpp_ctrl"), by_row.mod("row_mask")) == ("dpp", 0x111, 15)
    by_eight = one("gfx1100", 0xD503000A, 0x000200EA, 0x12345678)
    assert (by_eight.encoding, by_eight.mod("dpp8"), by_eight.mod("fi")) == ("e64_dpp", 0x123456, 1)
    assert by_eight.operands[1].index == 0x78


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_what_is_no_instruction_is_an_error(arch: str) -> None:
    with pytest.raises(TargetError) as caught:
        decode_one(arch, struct.pack("<2I", 0xFFFFFFFF, 0xFFFFFFFF), 0x40)
    assert caught.value.code == "FLY-T703"
    assert "0x40" in str(caught.value)


def test_an_unknown_architecture_is_an_error() -> None:
    with pytest.raises(TargetError) as caught:
        decode("gfx1030", b"")
    assert caught.value.code == "FLY-T702"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_random_words_decode_and_print_or_are_refused(arch: str) -> None:
    rng = random.Random(arch)
    leading = (
        0x1F,
        0x20,
        0x2C,
        0x2F,
        0x30,
        0x31,
        0x32,
        0x33,
        0x34,
        0x35,
        0x36,
        0x37,
        0x38,
        0x3B,
        0x3D,
    )
    decoded = 0
    for _ in range(4000):
        words = [rng.getrandbits(32) for _ in range(6)]
        if rng.random() < 0.7:
            words[0] = words[0] & 0x03FFFFFF | rng.choice(leading) << 26
        try:
            instruction = decode_one(arch, struct.pack("<6I", *words))
        except TargetError:
            continue
        assert str(instruction)
        decoded += 1
    assert decoded > 1000
