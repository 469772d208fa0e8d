"""What a code object says about its kernels: arguments, limits and resources.

Source: "Code Object V5 Metadata" in LLVM's AMDGPU user guide (version 6 has the same contents).
"""

from __future__ import annotations

from typing import cast

from flydsl.errors import CompilerBug
from flydsl.plugins.payloads import KernelArg, KernelInfo
from flydsl_rocdl.arch import ArchFacts, occupancy
from flydsl_rocdl.hsaco.elf import ElfFile, read_elf
from flydsl_rocdl.hsaco.msgpack import Value, unpack

__all__ = ["kernel_infos", "read_metadata"]

_NT_AMDGPU_METADATA = 32
_HIDDEN_DYNAMIC_LDS = "hidden_dynamic_lds_size"

Record = dict[str, Value]


def read_metadata(obj: ElfFile) -> Record:
    """Return the metadata map of an object or a code object.

    Raises:
        CompilerBug: There is no metadata note.
    """
    for owner, kind, description in obj.notes():
        if owner == "AMDGPU" and kind == _NT_AMDGPU_METADATA:
            return cast(Record, unpack(description))
    raise CompilerBug("the code object has no AMDGPU metadata note", code="FLY-B605")


def _integer(record: Record, key: str, default: int = 0) -> int:
    value = record.get(key, default)
    return value if isinstance(value, int) else default


def _arguments(record: Record) -> tuple[KernelArg, ...]:
    out = []
    for item in cast(list[Record], record.get(".args", [])):
        kind = str(item.get(".value_kind", "by_value"))
        out.append(
            KernelArg(
                name=str(item.get(".name", "")),
                kind=kind,
                offset=_integer(item, ".offset"),
                size=_integer(item, ".size"),
                hidden=kind.startswith("hidden_"),
            )
        )
    return tuple(out)


def _required_block(record: Record) -> tuple[int, int, int] | None:
    sizes = record.get(".reqd_workgroup_size")
    if not isinstance(sizes, list) or len(sizes) != 3:
        return None
    x, y, z = (int(cast(int, size)) for size in sizes)
    return x, y, z


def _kernel(record: Record, facts: ArchFacts, dynamic_lds: frozenset[str]) -> KernelInfo:
    name = str(record[".name"])
    args = _arguments(record)
    vgpr, sgpr = _integer(record, ".vgpr_count"), _integer(record, ".sgpr_count")
    lds = _integer(record, ".group_segment_fixed_size")
    threads = _integer(record, ".max_flat_workgroup_size", facts.max_threads_per_block)
    occupied = occupancy(facts, vgpr=vgpr, sgpr=sgpr, lds_bytes=lds, threads=threads)
    return KernelInfo(
        name=name,
        args=args,
        kernarg_size=_integer(record, ".kernarg_segment_size"),
        kernarg_align=_integer(record, ".kernarg_segment_align", 8),
        lds_static=lds,
        uses_dynamic_lds=name in dynamic_lds or any(a.kind == _HIDDEN_DYNAMIC_LDS for a in args),
        vgpr=vgpr,
        agpr=_integer(record, ".agpr_count"),
        sgpr=sgpr,
        scratch=_integer(record, ".private_segment_fixed_size"),
        vgpr_spills=_integer(record, ".vgpr_spill_count"),
        sgpr_spills=_integer(record, ".sgpr_spill_count"),
        waves_per_simd=occupied.waves_per_simd,
        wave_size=_integer(record, ".wavefront_size", facts.wave_size),
        max_threads=threads,
        required_block=_required_block(record),
    )


def kernel_infos(
    data: bytes, facts: ArchFacts, dynamic_lds: frozenset[str] = frozenset()
) -> tuple[KernelInfo, ...]:
    """Return the information of every kernel of a code object, in metadata order.

    `KernelInfo.vgpr` is the metadata's count: on architectures with one file for both kinds it
    includes the accumulation registers that `KernelInfo.agpr` counts.

    Args:
        data: The code object.
        facts: Its architecture, for the occupancy.
        dynamic_lds: Kernels that use dynamic LDS; the metadata does not always tell.

    Raises:
        CompilerBug: The code object has no metadata.
    """
    metadata = read_metadata(read_elf(data))
    kernels = cast(list[Record], metadata.get("amdhsa.kernels", []))
    return tuple(_kernel(record, facts, dynamic_lds) for record in kernels)
