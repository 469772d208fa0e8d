"""Assembler text of instructions, as LLVM's disassembler prints it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flydsl_emu.decode.literals import could_be_inline
from flydsl_emu.decode.printing.messages import message_text
from flydsl_emu.decode.printing.wave32 import format_wave32, truth_table
from flydsl_emu.decode.swizzle import swizzle_text

if TYPE_CHECKING:
    from flydsl_emu.decode.instruction import Instruction, Operand

__all__ = ["format_instruction", "format_operand"]

_SCALAR_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec"}
_SCALARS = {
    124: "m0",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "7")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "3")
_OMOD = ("", " mul:2", " mul:4", " div:2")
_DPP_NAMES = {
    0x130: "wave_shl:1",
    0x134: "wave_rol:1",
    0x138: "wave_shr:1",
    0x13C: "wave_ror:1",
    0x140: "row_mirror",
    0x141: "row_half_mirror",
    0x142: "row_bcast:15",
    0x143: "row_bcast:31",
}
_HWREGS = {
    1: "HW_REG_MODE",
    2: "HW_REG_STATUS",
    3: "HW_REG_TRAPSTS",
    4: "HW_REG_HW_ID",
    5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC",
    7: "HW_REG_IB_STS",
    15: "HW_REG_SH_MEM_BASES",
    16: "HW_REG_TBA_LO",
    17: "HW_REG_TBA_HI",
    18: "HW_REG_TMA_LO",
    19: "HW_REG_TMA_HI",
    20: "HW_REG_XCC_ID",
    21: "HW_REG_SQ_PERF_SNAPSHOT_DATA",
    22: "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
    23: "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
    24: "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
}
_DATA_FORMATS = (
    "INVALID 8 16 8_8 32 16_16 10_11_11 11_11_10 10_10_10_2 2_10_10_10 8_8_8_8 32_32 16_16_16_16 "
    "32_32_32 32_32_32_32 RESERVED_15"
).split()
_NUMBER_FORMATS = "UNORM SNORM USCALED SSCALED UINT SINT RESERVED_6 FLOAT".split()
_HALF_TYPES = ("_f16", "_u16", "_i16", "_b16")
# Names that end like 16-bit operations but whose constants are 32 bits wide.
_WHOLE_CONSTANTS = frozenset(
    "v_madmk_f16 v_madak_f16 v_dot2c_i32_i16 v_sat_pk_u8_i16 s_sext_i32_i16 s_pack_ll_b32_b16 "
    "s_pack_lh_b32_b16 s_pack_hh_b32_b16 v_sad_u16 v_dot2c_f32_f16 "
    "v_pk_fmac_f16".split()
)
# The literal of these is a field of its own.
_WITH_LITERAL = frozenset(
    "v_fmamk_f32 v_fmaak_f32 v_madmk_f16 v_madak_f16 v_madmk_f32 v_madak_f32 "
    "s_setreg_imm32_b32".split()
)
# 16-bit products with a 32-bit addend.
_WIDE_LAST = ("v_mad_u32_u16", "v_mad_i32_i16")
_HALF_BITS = {
    0.5: 0x3800,
    -0.5: 0xB800,
    1.0: 0x3C00,
    -1.0: 0xBC00,
    2.0: 0x4000,
    -2.0: 0xC000,
    4.0: 0x4400,
    -4.0: 0xC400,
    0.15915494309189532: 0x3118,
}
_PLAIN_IMMEDIATE = frozenset(
    "s_nop s_sleep s_setprio s_sethalt s_trap "
    "s_incperflevel s_decperflevel s_setkill s_code_end".split()
)


def format_operand(operand: Operand) -> str:
    """Return the assembler text of one operand, with its input modifiers."""
    text = _plain(operand)
    if operand.extend:
        return f"sext({text})"
    if operand.absolute:
        text = f"|{text}|"
    if operand.negate:
        return f"neg({text})" if operand.constant and not operand.absolute else f"-{text}"
    return text


def _plain(operand: Operand) -> str:
    kind, index, count = operand.kind, operand.index, operand.count
    if kind in ("v", "a"):
        return _range(kind, index, count)
    if kind == "s":
        return _scalar(index, count)
    if kind == "i":
        return str(operand.value)
    if kind == "k":
        value = int(operand.value)
        return f"{value & 0xFFFF:#x}" if operand.index else f"{value:#x}"
    if kind == "f":
        if operand.value == 0.15915494309189532:
            return "0.15915494309189532" if count == 2 else "0.15915494"
        return str(operand.value)
    if kind == "l":
        return hex(int(operand.value))
    return "off"


def _immediate(value: int) -> str:
    return str(value) if -16 <= value <= 64 else f"{value:#x}"


def _range(kind: str, index: int, count: int) -> str:
    return f"{kind}{index}" if count == 1 else f"{kind}[{index}:{index + count - 1}]"


def _scalar(index: int, count: int) -> str:
    if index in _SCALARS:
        return _SCALARS[index]
    pair = _SCALAR_PAIRS.get(index & ~1)
    if pair is not None:
        return pair if count == 2 else f"{pair}_{'hi' if index & 1 else 'lo'}"
    if 108 <= index < 124:
        return _range("ttmp", index - 108, count)
    return _range("s", index, count)


def _bits(name: str, value: int, count: int) -> str:
    return f" {name}:[{','.join(str(value >> i & 1) for i in range(count))}]"


def format_instruction(instruction: Instruction) -> str:
    """Return the assembler text of `instruction`."""
    if instruction.isa != "gfx9":
        return format_wave32(instruction)
    name = instruction.name
    if instruction.encoding:
        name += "_" + instruction.encoding
    special = _SPECIAL.get(instruction.format)
    tail = special(instruction) if special is not None else ""
    words = [format_operand(o) for o in instruction.operands]
    if instruction.name == "s_set_gpr_idx_on":
        mode = int(instruction.operands[1].value)
        if mode < 16:
            words[1] = f"gpr_idx({_index_mode(mode)})"
    if "hwreg" in instruction.mods:
        at = 1 if instruction.name == "s_getreg_b32" else 0
        words.insert(at, _hwreg(instruction.mods["hwreg"]))
    if instruction.name.endswith(_HALF_TYPES) and instruction.name not in _WHOLE_CONSTANTS:
        pairs = zip(instruction.operands, words, strict=True)
        halves = [_half_constant(instruction, o, w) for o, w in pairs]
        words = halves[:-1] + words[-1:] if instruction.name in _WIDE_LAST else halves
    if instruction.name not in _WITH_LITERAL:
        pairs = zip(instruction.operands, words, strict=False)
        words = [_marked(instruction.name, o, w) for o, w in pairs] + words[
            len(instruction.operands) :
        ]
    operands = ", ".join(words)
    if not operands:
        return name + tail
    return f"{name} {operands}{tail}"


def _marked(name: str, operand: Operand, text: str) -> str:
    if operand.kind != "l":
        return text
    if "_f64" in name and operand.count == 2:
        return text
    halves = name.endswith("_f16") and name not in _WHOLE_CONSTANTS
    value = int(operand.value)
    if could_be_inline(value, operand.count, "f16" if halves else "b32"):
        return f"lit({value:#x})"
    return text


def _half_constant(i: Instruction, operand: Operand, text: str) -> str:
    if operand.kind == "l":
        return hex(int(operand.value) & 0xFFFF)
    if operand.kind == "f" and not i.name.endswith("_f16") and i.format != "VOP3P":
        return f"{_HALF_BITS[float(operand.value)]:#x}"
    return text


def _vop(i: Instruction) -> str:
    if i.encoding == "sdwa":
        return _sdwa(i)
    if i.encoding == "dpp":
        return _dpp(i)
    return ""


def _sdwa(i: Instruction) -> str:
    mods = i.mods
    text = " clamp" if "clamp" in mods else ""
    text += _OMOD[mods.get("omod", 0)]
    if "dst_sel" in mods:
        text += f" dst_sel:{_SELECTIONS[mods['dst_sel']]}"
        text += f" dst_unused:{_UNUSED[mods['dst_unused']]}"
    for name in ("src0_sel", "src1_sel"):
        if name in mods:
            text += f" {name}:{_SELECTIONS[mods[name]]}"
    return text


def dpp_control(control: int) -> str:
    """Return the text of a 9-bit DPP control field."""
    if control < 0x100:
        return f"quad_perm:[{','.join(str(control >> 2 * i & 3) for i in range(4))}]"
    if control in _DPP_NAMES:
        return _DPP_NAMES[control]
    kind = {0x10: "row_shl", 0x11: "row_shr", 0x12: "row_ror", 0x15: "row_newbcast"}
    return f"{kind.get(control >> 4, 'dpp')}:{control & 15}"


def _dpp(i: Instruction) -> str:
    mods = i.mods
    text = f" {dpp_control(mods['dpp_ctrl'])}"
    text += f" row_mask:{mods['row_mask']:#x} bank_mask:{mods['bank_mask']:#x}"
    return text + (" bound_ctrl:0" if "bound_ctrl" in mods else "")


def _vop3(i: Instruction) -> str:
    mods = i.mods
    sources = sum(1 for _ in i.operands) - (2 if _has_scalar_result(i) else 1)
    text = ""
    if "bitop3" in mods:
        text += f" bitop3:{truth_table(mods['bitop3'])}"
    if "op_sel" in mods:
        value = mods["op_sel"] & 7
        high = mods["op_sel"] >> 3
        text += _bits("op_sel", value & ((1 << sources) - 1) | high << sources, sources + 1)
    if "bound_ctrl" in mods:
        text += " bound_ctrl:1"
    if "fi" in mods:
        text += " fi:1"
    if "clamp" in mods:
        text += " clamp"
    return text + _OMOD[mods.get("omod", 0)]


def _has_scalar_result(i: Instruction) -> bool:
    return (
        len(i.operands) > 1
        and i.operands[0].kind == "v"
        and i.operands[1].kind == "s"
        and (
            "_co_" in i.name or "div_scale" in i.name or "mad_u64" in i.name or "mad_i64" in i.name
        )
    )


def _vop3p(i: Instruction) -> str:
    mods = i.mods
    text = ""
    if i.name.startswith(("v_mfma", "v_smfmac")):
        if i.size == 16:
            text += _bits("op_sel", mods["op_sel"], 3) if mods["op_sel"] else ""
            text += _bits("op_sel_hi", mods["op_sel_hi"], 3)
        for name in ("cbsz", "abid", "blgp"):
            if name in mods:
                if name == "blgp" and "_f64_" in i.name:
                    text += _bits("neg", mods[name], 3)
                else:
                    text += f" {name}:{mods[name]}"
        return text
    sources = len(i.operands) - 1
    every = (1 << sources) - 1
    if "op_sel" in mods:
        text += _bits("op_sel", mods["op_sel"], sources)
    default = 0 if "_mix" in i.name else every
    whole = i.name.startswith(("v_dot4", "v_dot8"))
    if not whole and mods.get("op_sel_hi", default) != default:
        text += _bits("op_sel_hi", mods["op_sel_hi"], sources)
    for name in ("neg_lo", "neg_hi"):
        if name in mods:
            text += _bits(name, mods[name], sources)
    return text + (" clamp" if "clamp" in mods else "")


def _ds(i: Instruction) -> str:
    mods = i.mods
    text = ""
    if i.name == "ds_swizzle_b32" and "offset" in mods:
        return f" offset:{swizzle_text(mods['offset'])}" + (" gds" if "gds" in mods else "")
    for name in ("offset", "offset0", "offset1"):
        if name in mods:
            text += f" {name}:{mods[name]}"
    return text + (" gds" if "gds" in mods else "")


def _flags(i: Instruction, names: tuple[str, ...]) -> str:
    return "".join(f" {name}" for name in names if name in i.mods)


def _flat(i: Instruction) -> str:
    text = f" offset:{i.mods['offset']}" if "offset" in i.mods else ""
    return text + _flags(i, ("sc0", "nt", "sc1"))


def _mtbuf(i: Instruction) -> str:
    names = []
    if i.mods["dfmt"] != 1:
        names.append(f"BUF_DATA_FORMAT_{_DATA_FORMATS[i.mods['dfmt']]}")
    if i.mods["nfmt"]:
        names.append(f"BUF_NUM_FORMAT_{_NUMBER_FORMATS[i.mods['nfmt']]}")
    return (f" format:[{','.join(names)}]" if names else "") + _mubuf(i)


def _mubuf(i: Instruction) -> str:
    text = _flags(i, ("idxen", "offen"))
    if "offset" in i.mods:
        text += f" offset:{i.mods['offset']}"
    return text + _flags(i, ("sc0", "nt", "sc1", "lds"))


def _smem(i: Instruction) -> str:
    if "offset" in i.mods:
        return f" offset:{i.mods['offset']:#x}" + _flags(i, ("glc",))
    return _flags(i, ("glc",))


def _sopp(i: Instruction) -> str:
    value = i.mods["simm16"]
    name = i.name
    if name == "s_waitcnt":
        return " " + _waitcnt(value)
    if i.target is not None or name == "s_endpgm":
        return f" {value}" if value or name != "s_endpgm" else ""
    if name == "s_set_gpr_idx_mode":
        return f" gpr_idx({_index_mode(value)})" if value < 16 else f" {value:#x}"
    if name in _PLAIN_IMMEDIATE:
        return f" {_immediate(value)}"
    if name in ("s_sendmsg", "s_sendmsghalt"):
        return f" {message_text(value)}"
    return ""


def _waitcnt(value: int) -> str:
    vector = value & 15 | (value >> 14 & 3) << 4
    export = value >> 4 & 7
    local = value >> 8 & 15
    parts = []
    if vector != 63:
        parts.append(f"vmcnt({vector})")
    if export != 7:
        parts.append(f"expcnt({export})")
    if local != 15:
        parts.append(f"lgkmcnt({local})")
    if not parts:
        return "vmcnt(63) expcnt(7) lgkmcnt(15)"
    return " ".join(parts)


def _index_mode(value: int) -> str:
    return ",".join(n for bit, n in enumerate(("SRC0", "SRC1", "SRC2", "DST")) if value >> bit & 1)


def _hwreg(value: int) -> str:
    register, offset, width = value & 63, value >> 6 & 31, (value >> 11 & 31) + 1
    name = _HWREGS.get(register, str(register))
    if offset == 0 and width == 32:
        return f"hwreg({name})"
    return f"hwreg({name}, {offset}, {width})"


_SPECIAL: dict[str, Callable[[Instruction], str]] = {
    "VOP1": _vop,
    "VOP2": _vop,
    "VOPC": _vop,
    "VOP3": _vop3,
    "VOP3P": _vop3p,
    "DS": _ds,
    "FLAT0": _flat,
    "FLAT1": _flat,
    "FLAT2": _flat,
    "MTBUF": _mtbuf,
    "MUBUF": _mubuf,
    "SMEM": _smem,
    "SOPP": _sopp,
}
