"""Text of the messages that gfx9 sends: a number, an operation and a stream."""

from __future__ import annotations

__all__ = ["message_text"]

_SIMPLE = {
    1: "MSG_INTERRUPT",
    4: "MSG_SAVEWAVE",
    5: "MSG_STALL_WAVE_GEN",
    6: "MSG_HALT_WAVES",
    7: "MSG_ORDERED_PS_DONE",
    8: "MSG_EARLY_PRIM_DEALLOC",
    9: "MSG_GS_ALLOC_REQ",
    10: "MSG_GET_DOORBELL",
}
_GEOMETRY = ("GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT")
_SYSTEM = {1: "SYSMSG_OP_ECC_ERR_INTERRUPT", 2: "SYSMSG_OP_REG_RD", 4: "SYSMSG_OP_TTRACE_PC"}
_FIELDS = 0x37F


def message_text(value: int) -> str:
    """Return the operand of ``s_sendmsg``."""
    number, operation, stream = value & 15, value >> 4 & 7, value >> 8 & 3
    if number in _SIMPLE and operation == stream == 0:
        return f"sendmsg({_SIMPLE[number]})"
    if number in (2, 3) and 0 < operation < len(_GEOMETRY):
        name = "MSG_GS" if number == 2 else "MSG_GS_DONE"
        return f"sendmsg({name}, {_GEOMETRY[operation]}, {stream})"
    if number == 3 and operation == stream == 0:
        return "sendmsg(MSG_GS_DONE, GS_OP_NOP)"
    if number == 15 and operation in _SYSTEM and stream == 0:
        return f"sendmsg(MSG_SYSMSG, {_SYSTEM[operation]})"
    return str(value) if value & ~_FIELDS else f"sendmsg({number}, {operation}, {stream})"
