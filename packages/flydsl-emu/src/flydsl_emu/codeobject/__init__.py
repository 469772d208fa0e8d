"""AMD code objects (HSACO) as the emulator needs them.

`read_code_object` gives a `LoadableCode`: the architecture, the load segments, dynamic relocations
and one `Kernel` per entry point with its descriptor, arguments and byte range. `lines` maps
addresses to source lines (`LoadableCode.line_table`). A further metadata field is one more
attribute of `Kernel`, filled in `reader.py`.
"""

from __future__ import annotations

from flydsl_emu.codeobject.descriptor import KernelDescriptor
from flydsl_emu.codeobject.elf import ElfFile, ElfSection, ElfSegment, ElfSymbol, read_elf
from flydsl_emu.codeobject.lines import LineTable, SourceLine, read_lines
from flydsl_emu.codeobject.messagepack import unpack
from flydsl_emu.codeobject.reader import Kernel, KernelArgument, LoadableCode, read_code_object

__all__ = [
    "ElfFile",
    "ElfSection",
    "ElfSegment",
    "ElfSymbol",
    "Kernel",
    "KernelArgument",
    "KernelDescriptor",
    "LineTable",
    "LoadableCode",
    "SourceLine",
    "read_code_object",
    "read_elf",
    "read_lines",
    "unpack",
]
