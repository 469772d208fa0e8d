"""Assembler text of gfx11 and later, as LLVM's disassembler prints it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flydsl_emu.decode.printing.names import control_text, version_text
from flydsl_emu.decode.printing.policy import memory_modifiers
from flydsl_emu.decode.printing.products import matrix_modifiers
from flydsl_emu.decode.registers import NULL

if TYPE_CHECKING:
    from flydsl_emu.decode.instruction import Instruction, Operand

__all__ = ["format_wave32", "truth_table"]

_SCALAR_PAIRS = {106: "vcc", 126: "exec"}
_SCALARS = {
    124: "m0",
    NULL: "null",
    230: "src_flat_scratch_base_lo",
    231: "src_flat_scratch_base_hi",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
# VOP3P operations that do not choose halves of their sources.
_WHOLE = ("v_dot4", "v_dot8")
# The greatest truth table that prints in decimal.
_DECIMAL = 10
_OMOD = ("", " mul:2", " mul:4", " div:2")
_DPP_NAMES = {0x140: "row_mirror", 0x141: "row_half_mirror"}
_DPP_KINDS = {
    0x10: "row_shl",
    0x11: "row_shr",
    0x12: "row_ror",
    0x15: "row_share",
    0x16: "row_xmask",
}


def format_wave32(i: Instruction) -> str:
    """Return the assembler text of `i`."""
    if i.parts:
        return " :: ".join(_dual(part, i.format == "VOPD") for part in i.parts)
    name = i.name
    if i.encoding and not _unmarked(i):
        name += "_" + i.encoding
    tail = _TAILS[i.format](i) if i.format in _TAILS else ""
    words = [format_operand(o) for o in i.operands]
    if "hwreg" in i.mods or "message" in i.mods:
        words.insert(1 if i.name.startswith(("s_getreg", "s_sendmsg_rtn")) else 0, control_text(i))
    if i.name == "s_version":
        words = [version_text(int(i.operands[0].value) & 0xFFFF)]
    operands = ", ".join(words)
    return f"{name} {operands}{tail}" if operands else name + tail


def _unmarked(i: Instruction) -> bool:
    """LLVM leaves the suffix off comparisons through DPP."""
    return i.format == "VOPC" and i.encoding == "dpp"


def _dual(part: Instruction, hides_vcc: bool) -> str:
    operands = part.operands
    if hides_vcc and part.name == "v_cndmask_b32":
        operands = operands[:-1]
    words = ", ".join(format_operand(o) for o in operands)
    text = f"v_dual_{part.name.removeprefix('v_')} {words}"
    if "bitop3" not in part.mods:
        return text
    return f"{text} bitop3:{truth_table(part.mods['bitop3'])}"


def truth_table(value: int) -> str:
    """Return the text of the truth table of a bitwise operation."""
    return str(value) if value <= _DECIMAL else f"{value:#x}"


def format_operand(operand: Operand) -> str:
    """Return the assembler text of one operand, with its input modifiers."""
    text = _plain(operand)
    if operand.absolute:
        text = f"|{text}|"
    if operand.negate:
        marked = operand.kind in ("l", "q") and operand.index == 1
        plain = operand.absolute or marked or not operand.constant
        return f"-{text}" if plain else f"neg({text})"
    return text


def _plain(operand: Operand) -> str:
    kind, index, count = operand.kind, operand.index, operand.count
    if kind == "v":
        if operand.half:
            return f"v{index}.{'_lh'[operand.half]}"
        return f"v{index}" if count == 1 else f"v[{index}:{index + count - 1}]"
    if kind == "s":
        return _scalar(index, count)
    if kind == "i":
        return str(operand.value)
    if kind == "f":
        return _float(operand)
    if kind == "k":
        value = int(operand.value)
        return f"{value & 0xFFFF:#x}" if index else f"{value:#x}"
    if kind == "l":
        return _literal(int(operand.value), index)
    if kind == "q":
        return f"lit64({operand.value:#x})" if index else f"{operand.value:#x}"
    return "off"


def _literal(value: int, index: int) -> str:
    """Text of a literal: marked (1), of 16 bits (16), or plain."""
    if index == 1:
        return f"lit({value:#x})"
    return f"{value & 0xFFFF:#x}" if index == 16 else f"{value:#x}"


def _float(operand: Operand) -> str:
    if operand.index:
        code = {16: "<e", 32: "<f"}[operand.index]
        value = 0.15915494309189532 if operand.value == 0.15915494309189532 else operand.value
        if operand.index == 16 and value == 0.15915494309189532:
            return "0x3118"
        return hex(int.from_bytes(struct.pack(code, value), "little"))
    if operand.value == 0.15915494309189532:
        return "0.15915494309189532" if operand.count == 2 else "0.15915494"
    return str(operand.value)


def _scalar(index: int, count: int) -> str:
    if index in _SCALARS:
        return _SCALARS[index]
    pair = _SCALAR_PAIRS.get(index & ~1)
    if pair is not None:
        return pair if count == 2 else f"{pair}_{'hi' if index & 1 else 'lo'}"
    name = "s"
    if 108 <= index < 124:
        name, index = "ttmp", index - 108
    return f"{name}{index}" if count == 1 else f"{name}[{index}:{index + count - 1}]"


def _bits(name: str, value: int, count: int) -> str:
    return f" {name}:[{','.join(str(value >> i & 1) for i in range(count))}]"


def _dpp(mods: Mapping[str, int]) -> str:
    if "dpp8" in mods:
        lanes = ",".join(str(mods["dpp8"] >> 3 * k & 7) for k in range(8))
        return f" dpp8:[{lanes}]" + (" fi:1" if "fi" in mods else "")
    if "dpp_ctrl" not in mods:
        return ""
    control = mods["dpp_ctrl"]
    if control < 0x100:
        text = f" quad_perm:[{','.join(str(control >> 2 * k & 3) for k in range(4))}]"
    elif control in _DPP_NAMES:
        text = " " + _DPP_NAMES[control]
    else:
        text = f" {_DPP_KINDS.get(control >> 4, 'dpp')}:{control & 15}"
    text += f" row_mask:{mods['row_mask']:#x} bank_mask:{mods['bank_mask']:#x}"
    return text + _dpp_flags(mods)


def _dpp_flags(mods: Mapping[str, int]) -> str:
    return "".join(f" {name}:1" for name in ("bound_ctrl", "fi") if name in mods)


def _short(i: Instruction) -> str:
    return _dpp(i.mods) if i.mods else ""


def _vop3(i: Instruction) -> str:
    mods = i.mods
    if not mods:
        return ""
    text = f" bitop3:{truth_table(mods['bitop3'])}" if "bitop3" in mods else ""
    if "op_sel" in mods and i.name != "v_cndmask_b16":
        text += _select(i, mods["op_sel"])
    for name in ("byte_sel", "scale_sel"):
        if name in mods:
            text += f" {name}:{mods[name]}"
    if "_swap_b32" in i.name:
        text += _dpp_flags(mods)
    if "clamp" in mods:
        text += " clamp"
    return text + _OMOD[mods.get("omod", 0)] + _dpp(mods)


def _select(i: Instruction, value: int) -> str:
    through_dpp = i.encoding == "e64_dpp" and i.name.startswith("v_cmp")
    if through_dpp or "permlane" in i.name or i.name.startswith("v_cmpx"):
        return _bits("op_sel", value, 2)
    sources = len(i.operands) - 1
    if i.name == "v_fmac_f16":
        sources = 3
    low = value & (1 << sources) - 1
    return _bits("op_sel", low | value >> 3 << sources, sources + 1)


def _vop3p(i: Instruction) -> str:
    mods = i.mods
    if i.name.startswith(("v_wmma", "v_swmmac")):
        return matrix_modifiers(i)
    sources = len(i.operands) - 1
    text = ""
    if "op_sel" in mods:
        text += _bits("op_sel", mods["op_sel"], sources)
    default = 0 if "_mix" in i.name else (1 << sources) - 1
    whole = i.name.startswith(_WHOLE)
    if not whole and mods.get("op_sel_hi", default) != default:
        text += _bits("op_sel_hi", mods["op_sel_hi"], sources)
    for name in ("neg_lo", "neg_hi"):
        if name in mods:
            text += _bits(name, mods[name], sources)
    return text + (" clamp" if "clamp" in mods else "") + _dpp(mods)


def _sopp(i: Instruction) -> str:
    text = control_text(i)
    return " " + text if text else ""


_TAILS: dict[str, Callable[[Instruction], str]] = {
    "VOP1": _short,
    "VOP2": _short,
    "VOPC": _short,
    "VOP3": _vop3,
    "VOP3P": _vop3p,
    "SOPP": _sopp,
    "DS": memory_modifiers,
    "FLAT0": memory_modifiers,
    "FLAT1": memory_modifiers,
    "FLAT2": memory_modifiers,
    "MUBUF": memory_modifiers,
    "TENSOR": memory_modifiers,
    "SMEM": memory_modifiers,
}
