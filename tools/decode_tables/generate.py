"""Table files from probed entries."""

from __future__ import annotations

from decode_tables import wave32, wave64

__all__ = ["isa_of", "table_text"]


def isa_of(arch: str) -> str:
    """Return the instruction set of an architecture, such as ``gfx11``."""
    if arch.startswith("gfx125"):
        return "gfx1250"
    return arch[:4] if arch.startswith("gfx9") else arch[:5]


def table_text(arch: str) -> str:
    """Return the content of the table file of `arch`."""
    lines = [f"# Decode table of {arch}; the format is described in flydsl_emu/decode/table.py."]
    isa = isa_of(arch)
    found = wave64.entries(arch) if isa == "gfx9" else wave32.entries(arch, isa)
    lines += [entry.line() for entry in found]
    return "\n".join(lines) + "\n"
