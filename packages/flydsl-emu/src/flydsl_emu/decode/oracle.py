"""LLVM's disassembler through its C interface: the oracle of decoder tests and table generation.

Needs a shared LLVM 22 library with the AMDGPU target (Debian's ``libllvm22``); nothing in the
emulator uses it at run time.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache

__all__ = ["Disassembler", "find_library"]

_CANDIDATES = ("libLLVM.so.22.1", "libLLVM-22.so", "libLLVM-22.so.1")


@cache
def find_library() -> ctypes.CDLL | None:
    """Return the LLVM 22 library with its AMDGPU target initialised, or None."""
    for name in _CANDIDATES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if not hasattr(library, "LLVMInitializeAMDGPUDisassembler"):
            continue
        for part in ("TargetInfo", "TargetMC", "Disassembler"):
            getattr(library, f"LLVMInitializeAMDGPU{part}")()
        create = library.LLVMCreateDisasmCPUFeatures
        create.restype = ctypes.c_void_p
        create.argtypes = [
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        run = library.LLVMDisasmInstruction
        run.restype = ctypes.c_size_t
        run.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.c_uint64,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ]
        return library
    return None


def _features(arch: str) -> bytes:
    """16-bit operands name register halves from gfx11 on; that is what code generation does."""
    return b"" if arch.startswith("gfx9") else b"+real-true16"


class Disassembler:
    """LLVM's disassembler for one architecture.

    Raises:
        OSError: No LLVM library with an AMDGPU disassembler was found.
    """

    def __init__(self, arch: str) -> None:
        library = find_library()
        if library is None:
            raise OSError("no LLVM 22 library with an AMDGPU disassembler was found")
        self._run = library.LLVMDisasmInstruction
        self._context = library.LLVMCreateDisasmCPUFeatures(
            b"amdgcn-amd-amdhsa", arch.encode(), _features(arch), None, 0, None, None
        )
        if not self._context:
            raise OSError(f"LLVM cannot disassemble {arch}")
        self._text = ctypes.create_string_buffer(512)

    def first(self, code: bytes, base: int = 0) -> tuple[int, str | None]:
        """Return size and text of the first instruction; ``(4, None)`` if it is not decodable.

        Only well-formed encodings should be given: LLVM crashes on some reserved ones.
        """
        buffer = ctypes.create_string_buffer(code, len(code) + 16)
        start = ctypes.addressof(buffer)
        used = self._run(self._context, start, len(code), base, self._text, 512)
        return (used, self._text.value.decode().strip()) if used else (4, None)

    def lines(self, code: bytes, base: int = 0) -> list[tuple[int, int, str | None]]:
        """Return ``(address, size, text)`` of each instruction; text None for undecodable words."""
        size = len(code)
        buffer = ctypes.create_string_buffer(code, size + 16)
        start = ctypes.addressof(buffer)
        out: list[tuple[int, int, str | None]] = []
        at = 0
        while at < size:
            used = self._run(self._context, start + at, size - at, base + at, self._text, 512)
            if used:
                out.append((base + at, used, self._text.value.decode().strip()))
            else:
                out.append((base + at, 4, None))
            at += used or 4
        return out
