"""From the bytes of a code object to kernels with descriptors and arguments."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flydsl.errors import TargetError
from flydsl_emu.codeobject.descriptor import KernelDescriptor
from flydsl_emu.codeobject.elf import ElfFile, ElfRelocation, ElfSegment, read_elf
from flydsl_emu.codeobject.lines import DEBUG_SECTIONS, LineTable, read_lines
from flydsl_emu.codeobject.messagepack import unpack

__all__ = ["Kernel", "KernelArgument", "LoadableCode", "read_code_object"]

_NOTE_METADATA = 32
_PT_LOAD = 1
_SHT_NOTE = 7
# e_flags & 0xff -> architecture, for the machines whose instruction sets have decode tables.
_MACHINES = {
    0x4C: "gfx942",
    0x4F: "gfx950",
    0x41: "gfx1100",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x44: "gfx1103",
    0x4A: "gfx1151",
    0x48: "gfx1200",
    0x4E: "gfx1201",
    0x49: "gfx1250",
}


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One entry of the metadata's argument list; offset and size in bytes."""

    name: str
    kind: str
    offset: int
    size: int

    @property
    def hidden(self) -> bool:
        """Whether the runtime, not the caller, supplies the value."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry point of a code object.

    Attributes:
        name: Symbol of the code.
        arch: Architecture name.
        address: Virtual address of the first instruction.
        code: The kernel's instruction bytes.
        descriptor: Decoded kernel descriptor.
        descriptor_address: Virtual address of the descriptor.
        arguments: Explicit and hidden arguments in metadata order.
        vgprs, agprs, sgprs: Registers as the metadata counts them (vgprs include agprs).
        wave_size: Lanes per wave.
        max_threads: Largest workgroup the kernel was compiled for.
        vgpr_spills, sgpr_spills: Registers spilled to scratch.
        text: Contents of the section that holds the code, for functions that it calls.
        text_address: Virtual address of the section.
    """

    name: str
    arch: str
    address: int
    code: bytes
    descriptor: KernelDescriptor
    descriptor_address: int
    arguments: tuple[KernelArgument, ...]
    vgprs: int
    agprs: int
    sgprs: int
    wave_size: int
    max_threads: int
    vgpr_spills: int = 0
    sgpr_spills: int = 0
    text: bytes = b""
    text_address: int = 0


@dataclass(frozen=True, slots=True)
class LoadableCode:
    """A code object ready to be placed in memory.

    Attributes:
        arch: Architecture name.
        segments: Load segments with virtual addresses.
        relocations: Relocations to apply once the load address is known.
        symbol_values: Values of the dynamic symbols, by index.
        kernels: Entry points by name.
        debug_sections: Contents of the sections that hold the line table, by name.
    """

    arch: str
    segments: tuple[ElfSegment, ...]
    relocations: tuple[ElfRelocation, ...]
    symbol_values: tuple[int, ...]
    kernels: Mapping[str, Kernel]
    debug_sections: Mapping[str, bytes] = field(default_factory=dict)

    def line_table(self) -> LineTable:
        """Read the source lines; the table is empty without debug information."""
        return read_lines(self.debug_sections)

    @property
    def memory_size(self) -> int:
        """Bytes from virtual address zero to the end of the last segment."""
        return max((s.address + s.memory_size for s in self.segments), default=0)


def read_code_object(data: bytes) -> LoadableCode:
    """Parse a linked AMDGPU code object (an HSACO file).

    Raises:
        TargetError: Not such a file, an architecture without a decode table, or damaged metadata.
    """
    elf = read_elf(data)
    metadata = _metadata(elf)
    arch = _architecture(elf, metadata)
    kernels = {}
    for entry in metadata.get("amdhsa.kernels", ()):
        kernel = _kernel(elf, arch, entry)
        kernels[kernel.name] = kernel
    return LoadableCode(
        arch,
        tuple(s for s in elf.segments if s.type == _PT_LOAD),
        elf.dynamic,
        tuple(s.value for s in elf.dynamic_symbols),
        kernels,
        {s.name: s.data for s in elf.sections if s.name in DEBUG_SECTIONS},
    )


def _metadata(elf: ElfFile) -> Mapping[str, Any]:
    for section in elf.sections:
        if section.type != _SHT_NOTE:
            continue
        at = 0
        while at + 12 <= len(section.data):
            name_size, size, kind = struct.unpack_from("<III", section.data, at)
            body = at + 12 + (name_size + 3 & ~3)
            owner = section.data[at + 12 : at + 12 + name_size].rstrip(b"\0")
            if kind == _NOTE_METADATA and owner == b"AMDGPU":
                value = unpack(section.data[body : body + size])
                if isinstance(value, dict):
                    return value
            at = body + (size + 3 & ~3)
    raise TargetError("the code object has no AMDGPU metadata note", code="FLY-T701")


def _architecture(elf: ElfFile, metadata: Mapping[str, Any]) -> str:
    arch = _MACHINES.get(elf.flags & 0xFF)
    if arch is None:
        raise TargetError(
            "the emulator cannot run this code object's architecture",
            code="FLY-T702",
            value=metadata.get("amdhsa.target", hex(elf.flags & 0xFF)),
            allowed=", ".join(sorted(_MACHINES.values())),
        )
    return arch


def _kernel(elf: ElfFile, arch: str, entry: Mapping[str, Any]) -> Kernel:
    name = str(entry[".name"])
    symbol, descriptor = elf.symbol(name), elf.symbol(str(entry[".symbol"]))
    if symbol is None or descriptor is None:
        raise TargetError(
            f"the code object lists kernel {name!r} but does not define it", code="FLY-T701"
        )
    home = elf.sections[descriptor.section]
    offset = descriptor.value - home.address
    text = elf.sections[symbol.section]
    start = symbol.value - text.address
    arguments = tuple(
        KernelArgument(
            str(a.get(".name", "")), str(a[".value_kind"]), int(a[".offset"]), int(a[".size"])
        )
        for a in entry.get(".args", ())
    )
    return Kernel(
        name=name,
        arch=arch,
        address=symbol.value,
        code=text.data[start : start + symbol.size],
        descriptor=KernelDescriptor.parse(home.data[offset : offset + 64]),
        descriptor_address=descriptor.value,
        arguments=arguments,
        vgprs=int(entry.get(".vgpr_count", 0)),
        agprs=int(entry.get(".agpr_count", 0)),
        sgprs=int(entry.get(".sgpr_count", 0)),
        wave_size=int(entry.get(".wavefront_size", 64)),
        max_threads=int(entry.get(".max_flat_workgroup_size", 1024)),
        vgpr_spills=int(entry.get(".vgpr_spill_count", 0)),
        sgpr_spills=int(entry.get(".sgpr_spill_count", 0)),
        text=text.data,
        text_address=text.address,
    )
