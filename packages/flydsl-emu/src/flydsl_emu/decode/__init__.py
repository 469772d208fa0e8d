"""Instruction decoding for all architectures, table driven, in pure Python.

`decode` turns code bytes into `Instruction` objects and ``str(instruction)`` prints one as LLVM's
disassembler does. The tables under ``data`` are made by ``tools/decode_tables``, which probes LLVM;
`oracle` is LLVM's own disassembler, for that tool and for tests. gfx9 is decoded by `vector`,
`scalar` and `memory`; gfx11 and later by the package `rdna`. A new architecture is a table, an
entry of `table.ARCHITECTURES` and, where its encodings differ, a layout or format function.
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
