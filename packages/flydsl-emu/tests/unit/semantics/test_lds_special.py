"""Exchanges, counters, lane-addressed accesses and the 6-bit transposing read of LDS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.decode.instruction import M0
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
V8, V20 = Operand("v", 8), Operand("v", 20)


def bench(seed: int, active: float = 0.7) -> tuple[InstructionBench, np.random.Generator, Array]:
    rng = np.random.default_rng(seed)
    b = InstructionBench("gfx950", WAVES, 8192)
    b.lds[...] = rng.integers(0, 256, b.lds.shape)
    mask = rng.random((WAVES, 64)) < active
    b.set_exec(mask)
    return b, rng, mask


def word(raw: Array, at: int, size: int = 4) -> int:
    return int.from_bytes(bytes(raw[at : at + size]), "little")


def put(raw: Array, at: int, value: int, size: int = 4) -> None:
    raw[at : at + size] = list(value.to_bytes(size, "little"))


def random_words(b: InstructionBench, rng: np.random.Generator, at: int, count: int) -> Array:
    x = rng.integers(0, 2**32, (count, WAVES, 64), dtype=np.uint32)
    b.state.vector[at : at + count] = x
    return x


def joined(x: Array, w: int, lane: int) -> int:
    return sum(int(x[k, w, lane]) << 32 * k for k in range(len(x)))


EXCHANGE = {
    f"ds_wrxchg{tag}_rtn_b{bits}": (bits // 8, bits // 8 * scale)
    for bits in (32, 64)
    for tag, scale in (("2", 1), ("2st64", 64))
}


@pytest.mark.parametrize("name", EXCHANGE)
def test_exchanges_two(name: str) -> None:
    size, stride = EXCHANGE[name]
    b, rng, mask = bench(len(name))
    count = size // 4
    data = [random_words(b, rng, 10, count), random_words(b, rng, 14, count)]
    # All lanes meet at a few addresses, so order matters.
    address = rng.integers(0, 6, (WAVES, 64)).astype(np.uint32) * 64
    b.state.vector[8] = address
    memory = b.lds.copy()
    operands = (Operand("v", 20, 2 * count), V8, Operand("v", 10, count), Operand("v", 14, count))
    b.execute(Instruction(0, 8, "DS", name, "", operands, {"offset0": 1, "offset1": 2}))
    for w in range(WAVES):
        for k in (0, 1):
            for lane in np.flatnonzero(mask[w]):
                at = int(address[w, lane]) + (k + 1) * stride
                got = joined(b.state.vector[20 + k * count : 20 + (k + 1) * count], w, lane)
                assert got == word(memory[w], at, size)
                put(memory[w], at, joined(data[k], w, lane), size)
    assert np.array_equal(memory, b.lds)


def masked_or(old: int, a: int, b: int) -> int:
    return old & ~a | b


def wrapped(old: int, a: int, b: int) -> int:
    return (old - a if old >= a else old + b) & 0xFFFFFFFF


TWO = {f"ds_mskor{r}_b{bits}": (bits // 8, masked_or) for bits in (32, 64) for r in ("", "_rtn")}
TWO["ds_wrap_rtn_b32"] = (4, wrapped)


@pytest.mark.parametrize("name", TWO)
def test_updates_with_two_operands(name: str) -> None:
    size, update = TWO[name]
    b, rng, mask = bench(len(name))
    count = size // 4
    first, second = random_words(b, rng, 10, count), random_words(b, rng, 14, count)
    address = rng.integers(0, 8, (WAVES, 64)).astype(np.uint32) * 8
    b.state.vector[8] = address
    memory = b.lds.copy()
    sources = (V8, Operand("v", 10, count), Operand("v", 14, count))
    returns = "_rtn" in name
    operands = (Operand("v", 20, count), *sources) if returns else sources
    b.execute(Instruction(0, 8, "DS", name, "", operands, {"offset": 16}))
    for w in range(WAVES):
        for lane in np.flatnonzero(mask[w]):
            at = int(address[w, lane]) + 16
            old = word(memory[w], at, size)
            if returns:
                assert joined(b.state.vector[20 : 20 + count], w, lane) == old
            put(memory[w], at, update(old, joined(first, w, lane), joined(second, w, lane)), size)
    assert np.array_equal(memory, b.lds)


COMPARE = {f"ds_cmpst{r}_f{bits}": bits for bits in (32, 64) for r in ("", "_rtn")}


@pytest.mark.parametrize("name", COMPARE)
def test_float_compare_and_store(name: str) -> None:
    bits = COMPARE[name]
    kind = np.float32 if bits == 32 else np.float64
    b, rng, mask = bench(len(name))
    choices = np.array([0.0, -0.0, 1.5, np.nan, np.inf], kind)
    slots = rng.choice(choices, (WAVES, 64))
    b.lds.view(kind)[:, :64] = slots
    compared, new = (rng.choice(choices, (WAVES, 64)) for _ in range(2))
    count = bits // 32
    for at, x in ((10, compared), (14, new)):
        raw = np.ascontiguousarray(x).view(np.uint32).reshape(WAVES, 64, count)
        for k in range(count):
            b.state.vector[at + k] = raw[:, :, k]
    b.state.vector[8] = np.arange(64, dtype=np.uint32) * (bits // 8)
    sources = (V8, Operand("v", 10, count), Operand("v", 14, count))
    operands = (Operand("v", 20, count), *sources) if "_rtn" in name else sources
    b.execute(Instruction(0, 8, "DS", name, "", operands))
    hit = mask & (slots == compared)
    want = np.where(hit, new, slots)
    raw = f"u{bits // 8}"
    assert np.array_equal(b.lds.view(kind)[:, :64].view(raw), want.view(raw))
    if "_rtn" in name:
        got = np.stack([b.state.vector[20 + k] for k in range(count)], -1)
        got = np.ascontiguousarray(got).view(raw)[..., 0]
        assert np.array_equal(got[mask], slots.view(raw)[mask])


@pytest.mark.parametrize("name", ["ds_condxchg32_rtn_b64"])
def test_conditional_exchange(name: str) -> None:
    b, rng, mask = bench(1)
    data = random_words(b, rng, 10, 2)
    b.state.vector[8] = np.arange(64, dtype=np.uint32) * 8
    before = b.lds.copy()
    operands = (Operand("v", 20, 2), V8, Operand("v", 10, 2))
    b.execute(Instruction(0, 8, "DS", name, "", operands, {"offset": 8}))
    for w in range(WAVES):
        for lane in np.flatnonzero(mask[w]):
            for k in (0, 1):
                at = 8 * lane + 8 + 4 * k
                old, new = word(before[w], at), int(data[k, w, lane])
                assert b.state.vector[20 + k, w, lane] == old
                assert word(b.lds[w], at) == (new & 0x7FFFFFFF if new >> 31 else old)


@pytest.mark.parametrize("name", ["ds_append", "ds_consume"])
def test_counters(name: str) -> None:
    b, _, mask = bench(2)
    b.state.scalar[M0] = 64
    before = b.lds.copy()
    b.execute(Instruction(0, 8, "DS", name, "", (V20,), {"offset": 12}))
    for w in range(WAVES):
        old = word(before[w], 76)
        assert (b.state.vector[20, w][mask[w]] == old).all()
        step = int(mask[w].sum()) * (1 if name == "ds_append" else -1)
        assert word(b.lds[w], 76) == old + step & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["ds_read_addtid_b32", "ds_write_addtid_b32"])
def test_addresses_from_the_lane(name: str) -> None:
    b, rng, mask = bench(3)
    b.state.scalar[M0] = 128
    x = random_words(b, rng, 20, 1)[0].copy()
    before = b.lds.copy()
    b.execute(Instruction(0, 8, "DS", name, "", (V20,), {"offset": 8}))
    slots = before[:, 136 : 136 + 256].copy().view(np.uint32)
    if "read" in name:
        assert np.array_equal(b.state.vector[20], np.where(mask, slots, x))
    else:
        after = b.lds[:, 136 : 136 + 256].copy().view(np.uint32)
        assert np.array_equal(after, np.where(mask, x, slots))


@pytest.mark.parametrize("name", ["ds_read_b96_tr_b6"])
def test_transposes_six_bit_tiles(name: str) -> None:
    b, rng, _ = bench(4, 1.1)
    address = rng.permutation(256)[: WAVES * 64].reshape(WAVES, 64).astype(np.uint32) * 16
    b.state.vector[8] = address
    b.execute(Instruction(0, 8, "DS", name, "", (Operand("v", 20, 3), V8), {"offset": 32}))
    for w in range(WAVES):
        rows = [word(b.lds[w], int(address[w, lane]) + 32, 12) for lane in range(64)]
        for lane in range(64):
            got = joined(b.state.vector[20:23], w, lane)
            tile, column = lane // 16 * 16, lane % 16
            for element in range(16):
                want = rows[tile + element] >> 6 * column & 63
                assert got >> 6 * element & 63 == want
