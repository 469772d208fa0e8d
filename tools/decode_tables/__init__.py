"""Make the emulator's decode tables by probing LLVM's disassembler.

A development tool: it needs a shared LLVM 22 library with the AMDGPU target (Debian's
``libllvm22``). ``PYTHONPATH=tools python -m decode_tables [--check] arch ...`` writes (or compares)
the files under ``flydsl_emu/decode/data``. For every opcode of every encoding it disassembles words
whose register fields hold distinct numbers, and reads off the text which operand comes from which
field, how many registers it covers and how constants print. `probe` is the machinery; `wave32`
knows the encodings of gfx11 and later.
"""

from __future__ import annotations

from decode_tables.generate import table_text

__all__ = ["table_text"]
