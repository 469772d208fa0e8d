"""Support routines by name: text on demand, compiled once, kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from flydsl.locking import ProcessLock
from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.jit_tier.atomic_text import atomic_text
from flydsl_emu.jit_tier.builder import ModuleParts
from flydsl_emu.jit_tier.driver_text import driver_text
from flydsl_emu.jit_tier.host_code import CodeCache, MappedImage, compiled
from flydsl_emu.jit_tier.memory_text import load_text, load_to_text
from flydsl_emu.jit_tier.outlining import routine_text
from flydsl_emu.jit_tier.product_text import product_text
from flydsl_emu.jit_tier.store_text import store_text
from flydsl_emu.jit_tier.support_text import (
    elementary_text,
    lookup_text,
    permute_text,
    scalar_text,
)
from flydsl_emu.jit_tier.translate import ATTRIBUTES

__all__ = ["Library", "shared_library"]

Maker = Callable[[str, ModuleParts], str]

_MAKERS: dict[str, Maker] = {
    "atomic": atomic_text,
    "cos": elementary_text,
    "driver": driver_text,
    "exp2": elementary_text,
    "load": load_text,
    "loadto": load_to_text,
    "log2": elementary_text,
    "lookup": lookup_text,
    "permute": permute_text,
    "product": product_text,
    "scalar": scalar_text,
    "sin": elementary_text,
    "store": store_text,
}


class Library:
    """Support routines in memory.

    Args:
        cache: Where compiled routines are kept.
        level: Optimisation level.
    """

    def __init__(self, cache: CodeCache, level: int = 2) -> None:
        self.cache = cache
        self.level = level
        self._images: dict[str, MappedImage] = {}
        self._lock = ProcessLock()

    def address(self, name: str, symbol: str = "") -> int:
        """Return the address of a routine that `require` has provided."""
        return self._images[name].address(symbol or name)

    def has(self, name: str) -> bool:
        """Return whether a routine is in memory or on disk."""
        return name in self._images or self.cache.has(self._key(name))

    def _key(self, name: str) -> str:
        return f"routine {self.level} {name}"

    def require(
        self, names: Iterable[str], instructions: Mapping[str, Instruction], arch: str, lanes: int
    ) -> None:
        """Provide routines.

        Args:
            names: Their names.
            instructions: For routines that are instructions (``op.``), one such instruction.
            arch: Architecture of these.
            lanes: Lanes of a wave.

        Raises:
            TargetError: The host's code generator cannot compile them.
        """
        with self._lock:
            for name in names:
                if name in self._images:
                    continue
                found = self.cache.load(self._key(name))
                if found is None:
                    parts = ModuleParts()
                    text = self._text(name, parts, instructions, arch, lanes)
                    # A routine of a routine would need a table of its own.
                    own = self._inlined(parts)
                    image = compiled(parts.text() + own + text + ATTRIBUTES, self.level)
                    found = self.cache.keep(self._key(name), image, {})
                self._images[name] = found

    @staticmethod
    def _text(
        name: str,
        parts: ModuleParts,
        instructions: Mapping[str, Instruction],
        arch: str,
        lanes: int,
    ) -> str:
        if name.startswith("op."):
            return routine_text(name, instructions[name], arch, lanes, parts)
        return _MAKERS[name.split(".", 1)[0]](name, parts)

    @staticmethod
    def _inlined(parts: ModuleParts) -> str:
        """Return definitions of the routines that a routine calls."""
        text = ""
        for name in list(parts.imports):
            text += _MAKERS[name.split(".", 1)[0]](name, parts)
        return text


@cache
def shared_library() -> Library:
    """Return the support routines of this process."""
    return Library(CodeCache())
