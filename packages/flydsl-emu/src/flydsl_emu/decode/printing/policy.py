"""Text of memory instructions' modifiers: offsets and cache policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl_emu.decode.swizzle import swizzle_text

if TYPE_CHECKING:
    from flydsl_emu.decode.instruction import Instruction

__all__ = ["memory_modifiers"]

_SCOPES = ("SCOPE_CU", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS")
_LOAD = ("RT", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", "")
_STORE = ("RT", "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB")
_ATOMIC = ("RT", "RETURN", "NT", "NT_RETURN")
_SYSTEM = 3
_DEVICE = 2
_STORES = ("store", "tensor_save", "tensor_stop")


def memory_modifiers(i: Instruction) -> str:
    """Return what follows the operands of a memory instruction."""
    mods = i.mods
    if not mods:
        return ""
    text = ""
    for name in ("idxen", "offen", "addr64"):
        if name in mods:
            text += " " + name
    if i.name == "ds_swizzle_b32" and "offset" in mods:
        text += f" offset:{swizzle_text(mods['offset'])}"
    elif i.format == "SMEM" and "offset" in mods:
        text += f" offset:{mods['offset']:#x}"
    else:
        for name in ("offset", "offset0", "offset1"):
            if name in mods:
                text += f" {name}:{mods[name]}"
    for name in ("r128", "scale_offset", "glc", "slc", "dlc"):
        if name in mods:
            text += " " + name
    text += _hint(i)
    if "scope" in mods:
        text += f" scope:{_SCOPES[mods['scope']]}"
    for name in ("nv", "tfe", "gds"):
        if name in mods:
            text += " " + name
    return text


def _hint(i: Instruction) -> str:
    hint, scope = i.mods.get("th", 0), i.mods.get("scope", 0)
    if not hint:
        return ""
    if "atomic" in i.name:
        if hint & 4:
            if scope < _DEVICE:
                return f" th:TH_ATOMIC_{hint:#x}"
            return f" th:TH_ATOMIC_CASCADE_{'NT' if hint & 2 else 'RT'}"
        return f" th:TH_ATOMIC_{_ATOMIC[hint]}"
    store = any(word in i.name for word in _STORES)
    if hint == 3 and scope == _SYSTEM:
        return f" th:TH_{'STORE' if store else 'LOAD'}_BYPASS"
    name = (_STORE if store else _LOAD)[hint]
    if not name:
        return f" th:{hint:#x}"
    return f" th:TH_{'STORE' if store else 'LOAD'}_{name}"
