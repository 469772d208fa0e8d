"""Text of immediates that name things: counters, messages, hardware registers, delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl_emu.decode.instruction import Instruction

__all__ = ["control_text", "version_text"]

_PLAIN = frozenset(
    "s_nop s_sleep s_setprio s_sethalt s_setkill s_trap s_incperflevel s_decperflevel "
    "s_denorm_mode s_barrier_wait s_monitor_sleep s_set_vgpr_msb s_setprio_inc_wg".split()
)
_SILENT = frozenset(
    "s_wait_idle s_code_end s_endpgm_saved s_endpgm_ordered_ps_done s_wakeup s_ttracedata "
    "s_icache_inv s_barrier s_barrier_leave".split()
)
_DEPENDENCIES = (
    "NO_DEP",
    "VALU_DEP_1",
    "VALU_DEP_2",
    "VALU_DEP_3",
    "VALU_DEP_4",
    "TRANS32_DEP_1",
    "TRANS32_DEP_2",
    "TRANS32_DEP_3",
    "FMA_ACCUM_CYCLE_1",
    "SALU_CYCLE_1",
    "SALU_CYCLE_2",
    "SALU_CYCLE_3",
)
_SKIPS = ("SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4")
# Counters of s_waitcnt_depctr and s_wait_alu: name, shift, width.
_DEPCTR = (
    ("hold_cnt", 7, 1),
    ("sa_sdst", 0, 1),
    ("va_vdst", 12, 4),
    ("va_sdst", 9, 3),
    ("va_ssrc", 8, 1),
    ("va_vcc", 1, 1),
    ("vm_vsrc", 2, 3),
)
_DEPCTR_UNUSED = 0x60
_VERSIONS = {0: "GFX7", 4: "GFX10", 6: "GFX11", 9: "GFX12"}


def control_text(i: Instruction) -> str:
    """Return the text of the immediate of a control instruction, or of a register or message."""
    if "hwreg" in i.mods:
        return _hwreg(i.mods["hwreg"], i.isa)
    if "message" in i.mods:
        return _message(i.mods["message"], i.isa)
    value = i.mods["simm16"]
    name = i.name
    if i.target is not None or name == "s_endpgm" or name.startswith("s_cbranch_cdbg"):
        return "" if name == "s_endpgm" and not value else str(value)
    if name in _PLAIN:
        return str(value) if value <= 64 else f"{value:#x}"
    if name in _SILENT:
        return ""
    if name == "s_waitcnt":
        return _waitcnt(value)
    if name in ("s_sendmsg", "s_sendmsghalt"):
        return _message(value, i.isa)
    if name == "s_delay_alu":
        return _delay(value)
    if name in ("s_waitcnt_depctr", "s_wait_alu"):
        return _depctr(value)
    return f"{value:#x}"


def _waitcnt(value: int) -> str:
    counters = (("vmcnt", value >> 10, 63), ("expcnt", value & 7, 7), ("lgkmcnt", value >> 4, 63))
    every = [f"{name}({number & most})" for name, number, most in counters]
    parts = [
        text
        for text, (_, number, most) in zip(every, counters, strict=True)
        if number & most != most
    ]
    return " ".join(parts or every)


def _delay(value: int) -> str:
    fields = (
        ("instid0", value & 15, _DEPENDENCIES, "instid"),
        ("instskip", value >> 4 & 7, _SKIPS, "instskip"),
        ("instid1", value >> 7 & 15, _DEPENDENCIES, "instid"),
    )
    parts = []
    for name, number, names, kind in fields:
        if number:
            text = names[number] if number < len(names) else f"/* invalid {kind} value */"
            parts.append(f"{name}({text})")
    return " | ".join(parts) or "0"


def _depctr(value: int) -> str:
    if value & _DEPCTR_UNUSED:
        return f"{value:#x}"
    every, parts = [], []
    for name, shift, width in _DEPCTR:
        most = (1 << width) - 1
        number = value >> shift & most
        every.append(f"depctr_{name}({number})")
        if number != most:
            parts.append(every[-1])
    return " ".join(parts or every)


def version_text(value: int) -> str:
    """Return the text of the immediate of ``s_version``: a microcode version and flags."""
    if value & 0x1F00:
        return f"{value:#x}"
    code = value & 0xFF
    text = f"UC_VERSION_{_VERSIONS[code]}" if code in _VERSIONS else str(code)
    for bit, flag in ((13, "W64_BIT"), (14, "W32_BIT"), (15, "MDP_BIT")):
        if value >> bit & 1:
            text = f"({text}|UC_VERSION_{flag})"
    return text[1:-1] if text[0] == "(" else text


_MESSAGES = {1: "INTERRUPT", 2: "HS_TESSFACTOR", 3: "DEALLOC_VGPRS", 9: "GS_ALLOC_REQ"}
_RETURNING = {
    128: "RTN_GET_DOORBELL",
    129: "RTN_GET_DDID",
    130: "RTN_GET_TMA",
    131: "RTN_GET_REALTIME",
    132: "RTN_SAVE_WAVE",
    133: "RTN_GET_TBA",
    134: "RTN_GET_TBA_TO_PC",
}
_NEWER_RETURNING = {**_RETURNING, 135: "RTN_GET_SE_AID_ID"}
_MESSAGES_OF = {
    "gfx11": {**_MESSAGES, 5: "STALL_WAVE_GEN", 6: "HALT_WAVES", **_RETURNING},
    "gfx12": {**_MESSAGES, **_NEWER_RETURNING},
    "gfx1250": {
        **_MESSAGES,
        10: "SAVEWAVE_HAS_TDM",
        **_NEWER_RETURNING,
        136: "RTN_GET_CLUSTER_BARRIER_STATE",
    },
}


def _message(value: int, isa: str) -> str:
    name = _MESSAGES_OF[isa].get(value & 0xFF)
    if name is not None:
        return f"sendmsg(MSG_{name})"
    return f"sendmsg({value}, 0, 0)" if value < 256 else str(value)


_HWREGS_12 = {
    1: "WAVE_MODE",
    2: "WAVE_STATUS",
    4: "WAVE_STATE_PRIV",
    5: "WAVE_GPR_ALLOC",
    6: "WAVE_LDS_ALLOC",
    7: "IB_STS",
    10: "PERF_SNAPSHOT_DATA",
    11: "PERF_SNAPSHOT_PC_LO",
    12: "PERF_SNAPSHOT_PC_HI",
    15: "PERF_SNAPSHOT_DATA1",
    16: "PERF_SNAPSHOT_DATA2",
    17: "WAVE_EXCP_FLAG_PRIV",
    18: "WAVE_EXCP_FLAG_USER",
    19: "WAVE_TRAP_CTRL",
    20: "WAVE_SCRATCH_BASE_LO",
    21: "WAVE_SCRATCH_BASE_HI",
    23: "WAVE_HW_ID1",
    24: "WAVE_HW_ID2",
    26: "WAVE_SCHED_MODE",
    29: "SHADER_CYCLES_LO",
    30: "SHADER_CYCLES_HI",
    31: "WAVE_DVGPR_ALLOC_LO",
    32: "WAVE_DVGPR_ALLOC_HI",
}
_HWREGS = {
    "gfx11": {
        1: "MODE",
        2: "STATUS",
        3: "TRAPSTS",
        5: "GPR_ALLOC",
        6: "LDS_ALLOC",
        7: "IB_STS",
        15: "SH_MEM_BASES",
        18: "PERF_SNAPSHOT_PC_LO",
        19: "PERF_SNAPSHOT_PC_HI",
        20: "FLAT_SCR_LO",
        21: "FLAT_SCR_HI",
        23: "HW_ID1",
        24: "HW_ID2",
        27: "PERF_SNAPSHOT_DATA",
        29: "SHADER_CYCLES",
    },
    "gfx12": _HWREGS_12,
    "gfx1250": {**_HWREGS_12, 28: "IB_STS2", 33: "XNACK_STATE_PRIV", 34: "XNACK_MASK"},
}


def _hwreg(value: int, isa: str) -> str:
    register, offset, width = value & 63, value >> 6 & 31, (value >> 11 & 31) + 1
    known = _HWREGS[isa].get(register)
    name = f"HW_REG_{known}" if known else str(register)
    if offset == 0 and width == 32:
        return f"hwreg({name})"
    return f"hwreg({name}, {offset}, {width})"
