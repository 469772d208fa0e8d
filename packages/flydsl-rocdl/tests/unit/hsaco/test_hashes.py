"""Symbol hash tables, read back the way a dynamic loader reads them."""

from __future__ import annotations

import struct

import pytest

from flydsl_rocdl.hsaco.hashes import (
    gnu_hash,
    gnu_hash_order,
    gnu_hash_section,
    sysv_hash,
    sysv_hash_section,
)


def test_known_hashes() -> None:
    # Values from the definitions' own examples.
    assert gnu_hash("") == 5381
    assert gnu_hash("printf") == 0x156B2BB8
    assert sysv_hash("printf") == 0x077905A6
    assert sysv_hash("exit") == 0x0006CF04


def _gnu_lookup(section: bytes, names: list[str], wanted: str) -> int | None:
    buckets, first, words, shift = struct.unpack_from("<IIII", section)
    bloom = struct.unpack_from(f"<{words}Q", section, 16)
    heads = struct.unpack_from(f"<{buckets}I", section, 16 + 8 * words)
    chain_at = 16 + 8 * words + 4 * buckets
    value = gnu_hash(wanted)
    word = bloom[(value // 64) % words]
    if not (word >> (value % 64)) & (word >> ((value >> shift) % 64)) & 1:
        return None
    index = heads[value % buckets]
    while index:
        (entry,) = struct.unpack_from("<I", section, chain_at + 4 * (index - first))
        if entry | 1 == value | 1 and names[index - 1] == wanted:
            return index
        if entry & 1:
            return None
        index += 1
    return None


def _sysv_lookup(section: bytes, names: list[str], wanted: str) -> int | None:
    buckets, _ = struct.unpack_from("<II", section)
    table = struct.unpack_from(f"<{(len(section) - 8) // 4}I", section, 8)
    index = table[sysv_hash(wanted) % buckets]
    while index and names[index - 1] != wanted:
        index = table[buckets + index]
    return index or None


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 33, 100])
def test_every_symbol_is_found_and_no_other(count: int) -> None:
    unordered = [f"kernel_{i}.kd" if i % 2 else f"kernel_{i}" for i in range(count)]
    names = [unordered[i] for i in gnu_hash_order(unordered)]
    assert sorted(names) == sorted(unordered)
    gnu, sysv = gnu_hash_section(names), sysv_hash_section(names)
    for index, name in enumerate(names, start=1):
        assert _gnu_lookup(gnu, names, name) == index
        assert _sysv_lookup(sysv, names, name) == index
    for absent in ("main", "kernel_1", "kernel_x"):
        assert _gnu_lookup(gnu, names, absent) is None
        assert _sysv_lookup(sysv, names, absent) is None
