"""Host code that is the same in every process, kept in the disk cache."""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from flydsl.caching import compiler_fingerprint, disk_cache
from flydsl.codegen.machine_code import MachineCode, host_triple
from flydsl.config import core as settings

__all__ = ["kept_host"]

_ENTRY = struct.Struct("<Q")
_OWN = Path(__file__).parent


def kept_host(symbol: str, llvm_ir: Callable[[], str]) -> MachineCode:
    """Return code for this host, compiled only if the cache does not have it.

    Args:
        symbol: The function to call; different code has different symbols.
        llvm_ir: Returns the module. What it returns may change only with the sources of this
            package, of `flydsl.runtime` and of the package that the function is defined in.

    Raises:
        TargetError: Code cannot be made for this kind of host.
        CompilerBug: The code needs something outside itself.
    """
    if not settings.ENABLE_CACHE.get():
        return _compiled(symbol, llvm_ir)
    triple = host_triple()
    home = Path(sys.modules[llvm_ir.__module__].__file__ or "").parent
    folders = (str(_OWN), str(_OWN.parent / "runtime"), str(home))
    parts = ("host", compiler_fingerprint(folders), triple, symbol)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = disk_cache()
    kept = store.fetch(key)
    if kept is not None:
        (entry,) = _ENTRY.unpack_from(kept)
        return MachineCode(kept[_ENTRY.size :], entry, triple.partition("-")[0])
    code = _compiled(symbol, llvm_ir)
    store.store(key, _ENTRY.pack(code.entry) + code.data, {"name": symbol, "target": code.machine})
    return code


def _compiled(symbol: str, llvm_ir: Callable[[], str]) -> MachineCode:
    from flydsl.codegen.host import compile_host

    return compile_host(llvm_ir(), symbol)
