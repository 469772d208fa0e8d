"""Instruction decoding for gfx942 and gfx950, table driven, in pure Python.

`decode` turns code bytes into `Instruction` objects and ``str(instruction)`` prints one as LLVM's
disassembler does. `generate` probes LLVM to write the tables under ``data``; `oracle` is LLVM's own
disassembler, for tests. A new architecture is a table and, where its encodings differ, one more
format function beside `vector.py`, `scalar.py` and `memory.py`.
"""

from __future__ import annotations

from flydsl_emu.decode.decoder import decode, decode_one
from flydsl_emu.decode.instruction import EXEC, M0, NULL, SCC, VCC, Instruction, Operand
from flydsl_emu.decode.table import ARCHITECTURES
from flydsl_emu.decode.text import format_instruction

__all__ = [
    "ARCHITECTURES",
    "EXEC",
    "M0",
    "NULL",
    "SCC",
    "VCC",
    "Instruction",
    "Operand",
    "decode",
    "decode_one",
    "format_instruction",
]
