"""The two symbol hash tables of a dynamic object.

Sources: the System V ABI (``.hash``) and the GNU hash section format (bloom filter words of 64
bits, shift 26, 12 filter bits a symbol).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["gnu_hash", "gnu_hash_order", "gnu_hash_section", "sysv_hash", "sysv_hash_section"]

_BLOOM_SHIFT = 26


def sysv_hash(name: str) -> int:
    """Return the System V hash of a symbol name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def gnu_hash(name: str) -> int:
    """Return the GNU hash of a symbol name (Bernstein's, times 33 from 5381)."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _bucket_count(symbols: int) -> int:
    return max(1, symbols // 4)


def gnu_hash_order(names: Sequence[str]) -> list[int]:
    """Return the order, as indices into `names`, that groups symbols by GNU hash bucket."""
    buckets = _bucket_count(len(names))
    return sorted(range(len(names)), key=lambda i: gnu_hash(names[i]) % buckets)


def gnu_hash_section(names: Sequence[str]) -> bytes:
    """Return the ``.gnu.hash`` contents for dynamic symbols in bucket order."""
    count = len(names)
    buckets = _bucket_count(count)
    words = 1 << (((count * 12 - 1) // 64).bit_length()) if count else 1
    bloom = [0] * words
    hashes = [gnu_hash(name) for name in names]
    heads = [0] * buckets
    chain = []
    for i, value in enumerate(hashes):
        bloom[(value // 64) % words] |= 1 << (value % 64) | 1 << ((value >> _BLOOM_SHIFT) % 64)
        bucket = value % buckets
        if heads[bucket] == 0:
            heads[bucket] = i + 1
        last = i + 1 == count or hashes[i + 1] % buckets != bucket
        chain.append((value & ~1) | int(last))
    return struct.pack(
        f"<IIII{words}Q{buckets}I{count}I",
        buckets, 1, words, _BLOOM_SHIFT, *bloom, *heads, *chain,
    )  # fmt: skip


def sysv_hash_section(names: Sequence[str]) -> bytes:
    """Return the ``.hash`` contents for dynamic symbols in table order."""
    count = len(names) + 1
    heads = [0] * count
    chain = [0] * count
    for index, name in enumerate(names, start=1):
        bucket = sysv_hash(name) % count
        chain[index] = heads[bucket]
        heads[bucket] = index
    return struct.pack(f"<II{2 * count}I", count, count, *heads, *chain)
