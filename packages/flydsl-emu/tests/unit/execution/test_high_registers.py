"""Upper bits of register numbers on gfx1250."""

from __future__ import annotations

from flydsl_emu.decode import decode
from flydsl_emu.execution.high_registers import with_high_registers

# Encodings from llvm-mc: hwreg(HW_REG_WAVE_MODE, 25, 1) and (…, 4, 2), v_add_nc_u32 v84, v0, v3.
ONE_BIT, TWO_BITS = bytes.fromhex("410680b9"), bytes.fromhex("010980b9")
ADD = bytes.fromhex("0007a84a")


def setreg(field: bytes, literal: int) -> bytes:
    return field + literal.to_bytes(4, "little")


def test_writes_of_the_mode_set_the_upper_bits_too() -> None:
    """As s_set_vgpr_msb does, but with the destination's bits first, from bit 12 of the literal."""
    code = (
        setreg(ONE_BIT, 0x1001) + ADD
        + bytes.fromhex("040086bf") + ADD  # s_set_vgpr_msb: second source
        + setreg(TWO_BITS, 0x24003) + ADD  # first source, and twice that for the second
        + setreg(ONE_BIT, 1) + ADD
    )  # fmt: skip
    found = with_high_registers(decode("gfx1250", code))
    adds = [[o.index for o in i.operands] for i in found if i.name == "v_add_nc_u32"]
    assert adds == [[340, 0, 3], [84, 0, 259], [84, 256, 515], [84, 0, 3]]
