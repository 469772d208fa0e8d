"""Memory instructions by family: float atomics of buffers, cache modifiers, loads into LDS.

Sources: the CDNA3, CDNA4, RDNA3 and RDNA4 ISA reference guides (MUBUF atomics, SC0/SC1/NT and
GLC/SLC/DLC and TH/SCOPE bits; "LDS memory loads", which step a lane by the size of the transfer),
and what LLVM 22 selects, which a codegen test compares for every operation and type. What lanes get
from transposing loads of groups of eight is as AMD describes ``ds_load_tr`` for Triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from flydsl_rocdl.arch.facts import ArchFacts

__all__ = [
    "INTEGER_ATOMICS",
    "buffer_atomics",
    "cache_bits",
    "global_to_lds_bits",
    "lds_dma_bits",
    "lds_transposes",
    "memory_transposes",
]

INTEGER_ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "inc", "dec")
"""Operations of buffer atomics on integers of 32 and 64 bits, signed and unsigned."""

_ADD_F32 = {"f32": ("add",)}
_ALL_F64 = {"f64": ("add", "min", "max")}
_ALL_F32 = {"f32": ("add", "min", "max")}
_PAIR_F16 = {"vector<2xf16>": ("add",)}
_PAIR_BF16 = {"vector<2xbf16>": ("add",)}
_FLOATS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cdna3": {**_ADD_F32, **_ALL_F64, **_PAIR_F16},
        "cdna4": {**_ADD_F32, **_ALL_F64, **_PAIR_F16, **_PAIR_BF16},
        "rdna3": _ALL_F32,
        "rdna4": {**_ALL_F32, **_PAIR_F16, **_PAIR_BF16},
        "cdna5": {**_ALL_F32, **_ALL_F64, **_PAIR_F16, **_PAIR_BF16},
    }
)
_CACHE_BITS = MappingProxyType(
    {"cdna3": 0x13, "cdna4": 0x13, "rdna3": 0x7, "rdna4": 0x1F, "cdna5": 0x1F}
)
_IN_EIGHTS = ((16, 128, 8), (8, 64, 8))
_TRANSPOSES = MappingProxyType(
    {"cdna4": ((4, 64, 16), (6, 96, 16), (8, 64, 16), (16, 64, 16)), "cdna5": _IN_EIGHTS}
)
_FROM_MEMORY = MappingProxyType({"rdna4": ((16, 128, 8),), "cdna5": _IN_EIGHTS})


def buffer_atomics(facts: ArchFacts) -> Mapping[str, tuple[str, ...]]:
    """Return the operations of buffer atomics by element type (``ui32`` is unsigned)."""
    integers = dict.fromkeys(("i32", "ui32", "i64", "ui64"), INTEGER_ATOMICS)
    return {**integers, **_FLOATS.get(facts.family, {})}


def cache_bits(facts: ArchFacts) -> int:
    """Return the bits that a cache modifier may have."""
    return _CACHE_BITS.get(facts.family, 0)


def lds_dma_bits(facts: ArchFacts) -> tuple[int, ...]:
    """Return the bits per lane of loads into LDS that fill it without gaps."""
    return tuple(8 * size for size in facts.lds_dma_bytes if size % 4 == 0)


def global_to_lds_bits(facts: ArchFacts) -> tuple[int, ...]:
    """Return the bits per lane of loads from global memory into LDS."""
    own = tuple(8 * size for size in facts.lds_async_bytes if size % 4 == 0)
    return own or lds_dma_bits(facts)


def lds_transposes(facts: ArchFacts) -> tuple[tuple[int, int, int], ...]:
    """Return the (granularity, bits per lane, group) of transposing LDS reads.

    The group is how many lanes' values a lane gets its own from. Other widths of CDNA5 and RDNA4
    (4, 6 bits; 8 bits from memory on RDNA4) exist, but what they do is not published.
    """
    return _TRANSPOSES.get(facts.family, ())


def memory_transposes(facts: ArchFacts) -> tuple[tuple[int, int, int], ...]:
    """Return the (granularity, bits per lane, group) of transposing loads from global memory."""
    return _FROM_MEMORY.get(facts.family, ())
