"""Stable error codes of the AMD target; `flydsl.diagnostics` explains the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-U610": "A wait counter is not a compile-time integer.",
        "FLY-U611": "A wait counter is out of range for the architecture.",
        "FLY-U612": "An immediate operand is not a compile-time integer.",
        "FLY-U613": "An immediate operand is out of range.",
        "FLY-U614": "An operand is not a 32-bit number.",
        "FLY-U615": "s_waitcnt got its raw immediate and counters at once.",
        "FLY-U616": "An instruction class of a scheduling mask is unknown.",
        "FLY-U617": "A raw operation was asked for another result type than it has.",
        "FLY-U620": "The bytes are not a 64-bit little-endian ELF file.",
        "FLY-U621": "The ELF file is not for an AMD GPU.",
        "FLY-U622": "MessagePack data ends too early.",
        "FLY-U623": "A MessagePack map has a collection as a key.",
        "FLY-U624": "MessagePack data holds an extension type.",
        "FLY-U630": "No matrix instruction has these extents or options.",
        "FLY-U631": "No buffer instruction moves this many bits.",
        "FLY-U632": "The cache modifier of a buffer copy is unknown.",
        "FLY-U633": "A buffer pointer is made from something else than a global pointer.",
        "FLY-U634": "The extent of a buffer is not an integer.",
        "FLY-U635": "The extent of a buffer does not fit its descriptor.",
        "FLY-U650": "A workgroup has more threads than the kernel was compiled for, or none.",
        "FLY-U651": "A grid has 2**32 threads or more along one axis.",
        "FLY-U652": "A launch asks for more local data share than a workgroup can have.",
        "FLY-U653": "A handle of shared device memory has the wrong length.",
        "FLY-T600": "The AMD architecture is not known.",
        "FLY-T601": "A target-id feature is unknown to the architecture or written wrongly.",
        "FLY-T610": "The kernel needs more local data share than a workgroup can have.",
        "FLY-T611": "The AMD back end refuses the kernel.",
        "FLY-T612": "waves_per_eu is outside what the architecture can hold.",
        "FLY-T620": "Device code refers to a function that nothing defines.",
        "FLY-T621": "The external linker cannot be started.",
        "FLY-T622": "The external linker reports an error.",
        "FLY-T623": "The kernel has inline assembly and there is no external assembler.",
        "FLY-T624": "The external assembler cannot be started or rejects the kernel.",
        "FLY-T630": "An operation has no lowering for AMD GPUs.",
        "FLY-T631": "A mathematical function is not available for the element type.",
        "FLY-T632": "A shuffle is wider than a wave, or moves a type that it cannot.",
        "FLY-T633": "A copy operation does not fit the address spaces or the type.",
        "FLY-T634": "The architecture has no such matrix instruction.",
        "FLY-T635": "An atomic operation is not available for the type.",
        "FLY-T640": "A function of fx.rocdl is used for a target that is not AMD's.",
        "FLY-T641": "The architecture does not have this wait counter.",
        "FLY-T642": "A lane operation got an operand of another type than it takes.",
        "FLY-T651": "The HIP library cannot be found or loaded.",
        "FLY-T652": "The HIP library is too old for what is asked.",
        "FLY-T653": "A call of HIP failed.",
        "FLY-T654": "A code object is not for this GPU.",
        "FLY-T655": "HIP reports an architecture that is not supported.",
        "FLY-T656": "Two GPUs cannot access one another's memory.",
        "FLY-B600": "The linker met an unknown relocation type.",
        "FLY-B601": "A relocation does not reach its target.",
        "FLY-B602": "A symbol was left for the linker to place.",
        "FLY-B603": "A read-only section needs a load-time address.",
        "FLY-B604": "The linker was given a file that is not relocatable.",
        "FLY-B605": "A code object has no metadata.",
        "FLY-B610": "A device-library call was left in the module.",
        "FLY-B611": "The lowered module holds an operation that cannot be translated.",
    }
)
"""Code to meaning."""
