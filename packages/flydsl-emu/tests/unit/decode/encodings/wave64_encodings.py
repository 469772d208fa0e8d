"""Random well-formed encodings of gfx9."""

from __future__ import annotations

import random
import struct

from flydsl_emu.decode.table import Entry

__all__ = ["BASE", "SKIP", "random_encoding"]

# Fixed bits of each format, and where its opcode goes.
BASE = {
    "SOP1": (0xBE800000, 8),
    "SOP2": (0x80000000, 23),
    "SOPC": (0xBF000000, 16),
    "SOPK": (0xB0000000, 23),
    "SOPP": (0xBF800000, 16),
    "SMEM": (0xC0000000, 18),
    "VOP1": (0x7E000000, 9),
    "VOP2": (0x00000000, 25),
    "VOPC": (0x7C000000, 17),
    "VOP3": (0xD0000000, 16),
    "VOP3P": (0xD3800000, 16),
    "DS": (0xD8000000, 17),
    "FLAT0": (0xDC000000, 18),
    "FLAT1": (0xDC004000, 18),
    "FLAT2": (0xDC008000, 18),
    "MUBUF": (0xE0000000, 18),
    "MTBUF": (0xE8000000, 15),
}
FREE = {
    "SOP1": 0xFF,
    "SOP2": 0xFFFF,
    "SOPC": 0xFFFF,
    "SOPK": 0xFFFF,
    "SOPP": 0xFFFF,
    "SMEM": 0x34000,
    "VOP1": 0x01FE0000,
    "VOP2": 0x01FFFE00,
    "VOPC": 0x0001FE00,
    "VOP3": 0x8700,
    "VOP3P": 0x0000,
    "DS": 0xFFFF,
    "FLAT0": 0x02030FFF,
    "FLAT1": 0x02033FFF,
    "FLAT2": 0x02033FFF,
    "MUBUF": 0x0002FFFF,
    "MTBUF": 0x03F87FFF,
}
SCALARS = [*range(0, 100, 2), 106, 126, *range(128, 209), *range(240, 249)]
VECTORS = list(range(256, 510, 2))
DPP = [*range(256), *range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130)]
DPP += [0x130, 0x134, 0x138, 0x13C, 0x140, 0x141, 0x142, 0x143, *range(0x150, 0x160)]

# Encodings that no compiler emits for these chips, or whose unused bits LLVM prints or ignores.
SKIP = (
    "s_cbranch_i_fork s_cbranch_g_fork s_sendmsg s_sendmsghalt s_set_gpr_idx_mode "
    "s_dcache_discard s_dcache_discard_x2 s_ttracedata buffer_wbl2 buffer_inv "
    "v_readfirstlane_b32 s_rfe_restore_b64 s_getreg_b32 s_setreg_b32 s_setreg_imm32_b32"
).split()


def _unused(entry: Entry, fields: dict[str, int]) -> int:
    """Bits of the byte fields that the opcode does not have."""
    present = {s.field for s in entry.slots}
    return sum(255 << shift for name, shift in fields.items() if name not in present)


def random_encoding(entry: Entry, rng: random.Random) -> bytes:
    base, shift = BASE[entry.format]
    word = base | entry.opcode << shift | rng.getrandbits(32) & FREE[entry.format]
    second = rng.getrandbits(32)
    form = entry.format
    if form in ("VOP1", "VOP2", "VOPC"):
        extra = [] if "lit" in {s.field for s in entry.slots} else [249, 250, 255]
        plain = {s.count for s in entry.slots} <= {1} or form == "VOPC"
        source = rng.choice(SCALARS + VECTORS + (extra * 40 if plain else []))
        word = word & ~511 | source
        word &= ~(1 << 17 | 1 << 9) if form != "VOPC" else ~(1 << 9)
        if form == "VOP1":
            word = base | entry.opcode << shift | source | rng.randrange(0, 100, 4) << 17
        selections = rng.randrange(7) << 8 | rng.randrange(7) << 16 | rng.randrange(7) << 24
        if source == 249:
            second = second & ~(0x07071F00) | selections | rng.randrange(3) << 11
            second &= ~(1 << 23 | 1 << 31 | 1 << 22 | 1 << 30)
            if "_pk_" in entry.name:
                second &= ~(3 << 20 | 3 << 28)
        if source == 250:
            second = second & ~(511 << 8 | 15 << 16) | rng.choice(DPP) << 8
            if not entry.name.endswith(("f16", "f32")) or "ldexp" in entry.name:
                second &= ~(15 << 20)
    elif form in ("VOP3", "VOP3P"):
        sources = [rng.choice(SCALARS + VECTORS * 2) for _ in range(3)]
        second = sources[0] | sources[1] << 9 | sources[2] << 18
        word = word & ~255 | rng.randrange(0, 100, 4)
        if any(s.field == "sdst" for s in entry.slots):
            word = word & ~0x7F00 | rng.randrange(0, 100, 2) << 8
        elif form == "VOP3":
            word &= ~0x700
    elif form in ("SOP1", "SOP2", "SOPC"):
        word = word & ~255 | rng.choice([*SCALARS, 255])
        if form != "SOP1":
            word = word & ~0xFF00 | rng.choice(SCALARS) << 8
        if form != "SOPC":
            word = word & ~(127 << 16) | rng.randrange(0, 100, 4) << 16
    elif form == "SOPK":
        word |= rng.randrange(0, 100, 4) << 16
    elif form == "SMEM":
        word |= rng.randrange(0, 50, 2) | rng.randrange(0, 80, 4) << 6
        second = second & ~(127 << 25) | rng.randrange(100) << 25
        if not word >> 17 & 1:
            second = second & ~127 | rng.randrange(100)
    elif form.startswith("FLAT"):
        second = second & ~(127 << 16) | rng.choice([*range(0, 102, 2), 127]) << 16
        second &= ~0x01010101 & ~_unused(entry, {"addr": 0, "data": 8, "vdst": 24})
        if form == "FLAT0":
            second &= ~(127 << 16)
    elif form == "MUBUF":
        second = second & 0x00FEFEFE & ~(31 << 16) | rng.randrange(25) << 16
        second |= rng.choice(SCALARS) << 24
    elif form == "MTBUF":
        second = second & 0x00FEFEFE & ~(31 << 16 | 1 << 23) | rng.randrange(25) << 16
        second |= rng.choice(SCALARS) << 24
    elif form == "DS":
        second &= ~0x01010101 & ~_unused(entry, {"addr": 0, "d0": 8, "d1": 16, "vdst": 24})
    return struct.pack("<4I", word, second, 0xBF800000, 0xBF800000)
