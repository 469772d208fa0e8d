"""Assembler text of gfx11 and later, as LLVM's disassembler prints it.

`wave32` prints instructions; `names` the immediates that name things, `policy` the modifiers of
memory instructions and `products` those of matrix products.
"""

from __future__ import annotations

from flydsl_emu.decode.printing.wave32 import format_wave32

__all__ = ["format_wave32"]
