"""AMD code objects: reading ELF files, linking, metadata.

`link_object` is the built-in linker, `kernel_infos` the resource report of the result. To support
another relocation type, add it to `relocate.py`; another section kind, to `sections.py`.
"""

from __future__ import annotations

from flydsl_rocdl.hsaco.assemble import assemble, find_assembler
from flydsl_rocdl.hsaco.elf import (
    ElfFile,
    ElfRelocation,
    ElfSection,
    ElfSymbol,
    read_elf,
)
from flydsl_rocdl.hsaco.link import link_object
from flydsl_rocdl.hsaco.lld import link_with_lld
from flydsl_rocdl.hsaco.metadata import kernel_infos, read_metadata

__all__ = [
    "ElfFile",
    "ElfRelocation",
    "ElfSection",
    "ElfSymbol",
    "assemble",
    "find_assembler",
    "kernel_infos",
    "link_object",
    "link_with_lld",
    "read_elf",
    "read_metadata",
]
