"""Host code that is the same in every process, kept in the disk cache."""

from __future__ import annotations

import hashlib
import marshal
import sys
from collections.abc import Callable
from pathlib import Path

from flydsl.caching import (
    SourcesState,
    compiler_fingerprint,
    disk_cache,
    keep,
    sources_hold,
    sources_state,
)
from flydsl.codegen.machine_code import MachineCode, host_triple
from flydsl.config import core as settings

__all__ = ["kept_host", "offer", "used"]

_OWN = Path(__file__).parent


class _Used:
    """Codes of this process, by the symbol and the module that makes them."""

    codes: dict[tuple[str, str], MachineCode] = {}  # noqa: RUF012 - one in a process


def used() -> list[tuple[str, str, int, bytes]]:
    """Return the codes that this process has used, as plain values for `offer`."""
    return [(*what, code.entry, code.data) for what, code in _Used.codes.items()]


def offer(codes: list[tuple[str, str, int, bytes]]) -> None:
    """Take codes that were made from the same sources, so that they need not be fetched."""
    machine = host_triple().partition("-")[0]
    for symbol, module, entry, data in codes:
        _Used.codes.setdefault((symbol, module), MachineCode(data, entry, machine))


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
    what = symbol, llvm_ir.__module__
    found = _Used.codes.get(what)
    if found is None:
        found = _Used.codes[what] = _found(symbol, llvm_ir)
    return found


def _found(symbol: str, llvm_ir: Callable[[], str]) -> MachineCode:
    if not settings.ENABLE_CACHE.get():
        return _compiled(symbol, llvm_ir)
    triple = host_triple()
    parts = ("host", compiler_fingerprint(()), llvm_ir.__module__, triple, symbol)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    kept = _kept(disk_cache().fetch(key), triple)
    if kept is not None:
        return kept
    code = _compiled(symbol, llvm_ir)
    home = Path(sys.modules[llvm_ir.__module__].__file__ or "").parent
    folders = (str(_OWN), str(_OWN.parent / "runtime"), str(home))
    state = (tuple(sources_state(folders)), code.entry, code.data)
    keep(key, marshal.dumps(state), {"name": symbol, "target": code.machine})
    return code


def _kept(data: bytes | None, triple: str) -> MachineCode | None:
    """Return the code of an entry, if the sources that made it are the same."""
    if data is None:
        return None
    try:
        sources, entry, code = marshal.loads(data)
        held = sources_hold(SourcesState(*sources))
    except (ValueError, TypeError, EOFError):
        return None
    return MachineCode(code, entry, triple.partition("-")[0]) if held else None


def _compiled(symbol: str, llvm_ir: Callable[[], str]) -> MachineCode:
    from flydsl.codegen.host import compile_host

    return compile_host(llvm_ir(), symbol)
