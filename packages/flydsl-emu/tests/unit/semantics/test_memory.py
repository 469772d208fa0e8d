"""Loads and stores of every space, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl.errors import FlyDSLError
from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.execution.faults import AccessFault
from flydsl_emu.numpy_tier.state import pack_mask
from flydsl_emu.semantics.value_types import U32, U64
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2

LOADS = {
    "ubyte": (1, 1, False, ""),
    "sbyte": (1, 1, True, ""),
    "ushort": (2, 1, False, ""),
    "sshort": (2, 1, True, ""),
    "dword": (4, 1, False, ""),
    "dwordx2": (4, 2, False, ""),
    "dwordx3": (4, 3, False, ""),
    "dwordx4": (4, 4, False, ""),
    "ubyte_d16": (1, 1, False, "lo"),
    "ubyte_d16_hi": (1, 1, False, "hi"),
    "sbyte_d16": (1, 1, True, "lo"),
    "sbyte_d16_hi": (1, 1, True, "hi"),
    "short_d16": (2, 1, False, "lo"),
    "short_d16_hi": (2, 1, False, "hi"),
}
STORES = {
    "byte": (1, 1, 0),
    "byte_d16_hi": (1, 1, 16),
    "short": (2, 1, 0),
    "short_d16_hi": (2, 1, 16),
    "dword": (4, 1, 0),
    "dwordx2": (4, 2, 0),
    "dwordx3": (4, 3, 0),
    "dwordx4": (4, 4, 0),
}
DS_READS = dict(
    zip(
        (
            "u8 i8 u16 i16 b32 b64 b96 b128 u8_d16 u8_d16_hi i8_d16 i8_d16_hi u16_d16 u16_d16_hi"
        ).split(),
        LOADS.values(),
        strict=True,
    )
)
DS_WRITES = dict(
    zip("b8 b8_d16_hi b16 b16_d16_hi b32 b64 b96 b128".split(), STORES.values(), strict=True)
)
# The names of gfx11 and gfx12.
NEW_LOADS = dict(
    zip(
        (
            "u8 i8 u16 i16 b32 b64 b96 b128 d16_u8 d16_hi_u8 d16_i8 d16_hi_i8 d16_b16 d16_hi_b16"
        ).split(),
        LOADS.values(),
        strict=True,
    )
)
NEW_STORES = dict(
    zip("b8 d16_hi_b8 b16 d16_hi_b16 b32 b64 b96 b128".split(), STORES.values(), strict=True)
)
SPACES = ("global", "flat", "scratch", "buffer")
TWO = {"2_b32": (1, 4), "2_b64": (2, 8), "2st64_b32": (1, 256), "2st64_b64": (2, 512)}
NEW_TWO = ("_2addr_b32", "_2addr_b64", "_2addr_stride64_b32", "_2addr_stride64_b64")
LDS_DMA = ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4")


def expected_load(raw: bytes, shape: tuple[int, int, bool, str], old: list[int]) -> list[int]:
    size, count, is_signed, half = shape
    words = [
        int.from_bytes(raw[k * size : (k + 1) * size], "little", signed=is_signed) & 0xFFFFFFFF
        for k in range(count)
    ]
    if half == "lo":
        return [old[0] & 0xFFFF0000 | words[0] & 0xFFFF]
    if half == "hi":
        return [old[0] & 0xFFFF | words[0] << 16 & 0xFFFFFFFF]
    return words


class Memory:
    """A bench over 4096 bytes of a space, with random contents and a share of the lanes active."""

    def __init__(self, space: str, seed: int, arch: str = "gfx942", share: float = 0.7) -> None:
        self.space = space
        self.rng = np.random.default_rng(seed)
        self.data = self.rng.integers(0, 256, 4096).astype(np.uint8)
        self.bench = InstructionBench(arch, WAVES, 4096, 64, [self.data])
        self.lanes = lanes = self.bench.lane_count
        self.exec = self.rng.random((WAVES, lanes)) < share
        self.bench.set_exec(self.exec)
        if space == "lds":
            self.bench.lds[...] = self.rng.integers(0, 256, (WAVES, 4096))
        if space == "scratch":
            self.bench.scratch[...] = self.rng.integers(0, 256, (WAVES, lanes, 64))
        self.old = self.rng.integers(0, 2**32, (4, WAVES, lanes), dtype=np.uint32)
        self.bench.state.vector[40:44] = self.old
        self.values = self.rng.integers(0, 2**32, (4, WAVES, lanes), dtype=np.uint32)
        self.bench.state.vector[50:54] = self.values

    def offsets(self, bytes_each: int, aligned: int) -> Array:
        """Distinct byte offsets, apart from one another."""
        limit = 64 if self.space == "scratch" else 4096
        if self.space == "scratch":
            slots = (limit - bytes_each) // aligned + 1
            return self.rng.integers(0, slots, (WAVES, self.lanes)) * aligned
        slots = self.rng.permutation(4096 // 16 - 1)[: WAVES * self.lanes]
        shift = self.rng.integers(0, (16 - bytes_each) // aligned + 1, WAVES * self.lanes) * aligned
        return (slots * 16 + shift).reshape(WAVES, self.lanes)

    def instruction(self, name: str, data: Operand, offsets: Array, extra: int) -> Instruction:
        """The instruction with its address registers filled; `extra` is the immediate offset."""
        store = "_store" in name or "write" in name
        bench, space = self.bench, self.space
        mods = {"offset": extra} if extra else {}
        if space in ("global", "flat") and name.split("_", maxsplit=1)[0] != "buffer":
            address = Operand("v", 8, 2)
            bench.write(address, offsets + self.data.ctypes.data - extra, U64)
            tail = (Operand("off"),) if space == "global" else ()
            operands = (address, data, *tail) if store else (data, address, *tail)
            return Instruction(0, 8, "FLAT2", name, "", operands, mods)
        if space == "buffer":
            descriptor = Operand("s", 16, 4)
            start = self.data.ctypes.data
            check = 0 if self.lanes == 64 else 3 << 28  # later generations choose the check
            for k, word in enumerate((start & 0xFFFFFFFF, start >> 32, 4096, check)):
                bench.state.scalar[16 + k] = word
            bench.state.scalar[24] = 4
            bench.write(Operand("v", 8, 1), offsets - extra - 4, U32)
            operands = (data, Operand("v", 8, 1), descriptor, Operand("s", 24, 1))
            return Instruction(0, 8, "MUBUF", name, "", operands, {**mods, "offen": 1})
        address = Operand("v", 8, 1)
        bench.write(address, offsets - extra, U32)
        if space == "scratch":
            tail = (Operand("off"),)
            operands = (address, data, *tail) if store else (data, address, *tail)
            return Instruction(0, 8, "FLAT1", name, "", operands, mods)
        operands = (address, data) if store else (data, address)
        return Instruction(0, 8, "DS", name, "", operands, mods)

    def content(self, wave: int, lane: int, offset: int, size: int) -> bytes:
        if self.space == "lds":
            return bytes(self.bench.lds[wave, offset : offset + size])
        if self.space == "scratch":
            return bytes(self.bench.scratch[wave, lane, offset : offset + size])
        return bytes(self.data[offset : offset + size])


def cases_of(kind: str) -> list[tuple[str, str, str, tuple[Any, ...]]]:
    """Return architecture, space, mnemonic and shape of every load or store."""
    old, new, ds = (
        (LOADS, NEW_LOADS, DS_READS) if kind == "load" else (STORES, NEW_STORES, DS_WRITES)
    )
    out: list[tuple[str, str, str, tuple[Any, ...]]] = []
    for arch, table, verb in (
        ("gfx942", old, "read" if kind == "load" else "write"),
        ("gfx1100", new, kind),
    ):
        out += [
            (arch, space, f"{space}_{kind}_{n}", shape)
            for space in SPACES
            for n, shape in table.items()
        ]
        out += [(arch, "lds", f"ds_{verb}_{n}", shape) for n, shape in ds.items()]
    return out


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("arch", "space", "name", "shape"), cases_of("load"))
def test_load(
    arch: str, space: str, name: str, shape: tuple[int, int, bool, str], aligned: bool
) -> None:
    for share in (0.7, 1.0):
        check_load(Memory(space, len(name), arch, share), name, shape, aligned)


def check_load(memory: Memory, name: str, shape: tuple[int, int, bool, str], aligned: bool) -> None:
    size, count, _, _ = shape
    offsets = np.maximum(memory.offsets(size * count, size if aligned else 1), 16)
    extra = 4 if memory.space in ("buffer", "scratch") else 12
    memory.bench.execute(memory.instruction(name, Operand("v", 40, count), offsets, extra))
    got = memory.bench.state.vector[40 : 40 + count]
    for wave in range(WAVES):
        for lane in range(memory.lanes):
            old = [int(x) for x in memory.old[:, wave, lane]]
            want = old[:count]
            if memory.exec[wave, lane]:
                raw = memory.content(wave, lane, int(offsets[wave, lane]), size * count)
                want = expected_load(raw, shape, old)
            assert got[:, wave, lane].tolist() == want


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("arch", "space", "name", "shape"), cases_of("store"))
def test_store(
    arch: str, space: str, name: str, shape: tuple[int, int, int], aligned: bool
) -> None:
    for share in (0.7, 1.0):
        check_store(Memory(space, len(name), arch, share), name, shape, aligned)


def check_store(memory: Memory, name: str, shape: tuple[int, int, int], aligned: bool) -> None:
    space, (size, count, shift) = memory.space, shape
    offsets = np.maximum(memory.offsets(size * count, size if aligned else 1), 16)
    before = {
        (w, l): memory.content(w, l, 0, 64 if space == "scratch" else 4096)
        for w in range(WAVES)
        for l in range(memory.lanes)
    }
    extra = 4 if space in ("buffer", "scratch") else 12
    memory.bench.execute(memory.instruction(name, Operand("v", 50, count), offsets, extra))
    model = {k: bytearray(x) for k, x in before.items()}
    shared: dict[int, bytearray] = {}
    for wave in range(WAVES):
        for lane in range(memory.lanes):
            if space == "scratch":
                target = model[wave, lane]
            elif space == "lds":
                target = shared.setdefault(wave, model[wave, 0])
            else:
                target = shared.setdefault(0, model[0, 0])
            if not memory.exec[wave, lane]:
                continue
            at = int(offsets[wave, lane])
            for k in range(count):
                word = int(memory.values[k, wave, lane]) >> shift
                part = (word & (1 << 8 * size) - 1).to_bytes(size, "little")
                target[at + k * size : at + (k + 1) * size] = part
    for wave in range(WAVES):
        for lane in range(memory.lanes):
            after = memory.content(wave, lane, 0, 64 if space == "scratch" else 4096)
            want = (
                model[wave, lane] if space == "scratch" else shared[wave if space == "lds" else 0]
            )
            assert after == bytes(want)


@pytest.mark.opcodes("{reading} {writing}")
@pytest.mark.parametrize(
    ("arch", "reading", "writing", "shape"),
    [("gfx942", f"ds_read{name}", f"ds_write{name}", shape) for name, shape in TWO.items()]
    + [
        ("gfx1201", f"ds_load{name}", f"ds_store{name}", shape)
        for name, shape in zip(NEW_TWO, TWO.values(), strict=True)
    ],
)
def test_two_accesses(arch: str, reading: str, writing: str, shape: tuple[int, int]) -> None:
    dwords, stride = shape
    memory = Memory("lds", 5, arch)
    lanes = memory.lanes
    offsets = np.arange(lanes)[None, :].repeat(WAVES, 0) * 16
    memory.bench.write(Operand("v", 8, 1), offsets, U32)
    first, second = 0, 3 if stride > 200 else 2
    mods = {"offset1": second}
    read = Instruction(
        0, 8, "DS", reading, "", (Operand("v", 40, 2 * dwords), Operand("v", 8, 1)), mods
    )
    memory.bench.execute(read)
    for wave in range(WAVES):
        for lane in range(lanes):
            if not memory.exec[wave, lane]:
                continue
            raw = b"".join(
                memory.content(wave, lane, int(offsets[wave, lane]) + n * stride, 4 * dwords)
                for n in (first, second)
            )
            words = np.frombuffer(raw, np.uint32).tolist()
            assert memory.bench.state.vector[40 : 40 + 2 * dwords, wave, lane].tolist() == words
    memory.bench.set_exec(np.arange(lanes)[None, :].repeat(WAVES, 0) == 9)
    data = (Operand("v", 50, dwords), Operand("v", 52, dwords))
    write = Instruction(0, 8, "DS", writing, "", (Operand("v", 8, 1), *data), mods)
    memory.bench.execute(write)
    at = int(offsets[1, 9])
    for n, base in ((first, 50), (second, 52)):
        got = np.frombuffer(memory.content(1, 9, at + n * stride, 4 * dwords), np.uint32)
        assert got.tolist() == memory.bench.state.vector[base : base + dwords, 1, 9].tolist()


@pytest.mark.parametrize(
    "name",
    [f"global_load_lds_{n}" for n in LDS_DMA]
    + [f"scratch_load_lds_{n}" for n in LDS_DMA[:5]]
    + [f"buffer_load_{n}" for n in LDS_DMA],
)
def test_loads_into_lds(name: str) -> None:
    kind, moved = name.split("_", maxsplit=1)[0], name.rsplit("_", maxsplit=1)[-1]
    size, count, is_signed, _ = LOADS[moved]
    memory = Memory(kind, 3)
    memory.bench.lds[...] = 0
    offsets = np.maximum(memory.offsets(size * count, size), 16)
    memory.bench.state.scalar[124] = 64
    i = memory.instruction(name, Operand("v", 40, 1), offsets, 0)
    mods = {**i.mods, "lds": 1} if kind == "buffer" else i.mods
    i = Instruction(0, 8, i.format, name, "", i.operands[1:], mods)
    memory.bench.execute(i)
    width = 4 * count
    for wave in range(WAVES):
        for lane in range(64):
            got = bytes(memory.bench.lds[wave, 64 + lane * width : 64 + (lane + 1) * width])
            if not memory.exec[wave, lane]:
                assert got == bytes(width)
                continue
            raw = memory.content(wave, lane, int(offsets[wave, lane]), size * count)
            words = expected_load(raw, (size, count, is_signed, ""), [0])
            assert got == b"".join(w.to_bytes(4, "little") for w in words)


def test_buffer_range_check_drops_lanes() -> None:
    memory = Memory("buffer", 1)
    memory.bench.set_exec(np.ones((WAVES, 64), bool))
    offsets = np.zeros((WAVES, 64), np.int64) + 8
    i = memory.instruction("buffer_load_dwordx2", Operand("v", 40, 2), offsets, 0)
    at = np.zeros((WAVES, 64), np.uint32)
    at[:, 1], at[:, 2], at[:, 3] = 0xFFFFFFFC, 4096 - 4 - 4, 4096 - 8 - 4
    memory.bench.write(Operand("v", 8, 1), at, U32)
    memory.bench.execute(i)
    words = memory.data.view(np.uint32)
    got = memory.bench.state.vector[40:42]
    assert got[:, 0, 0].tolist() == words[1:3].tolist()
    assert got[:, 0, 1].tolist() == [0, 0]
    assert got[:, 0, 2].tolist() == [words[-1], 0]
    assert got[:, 0, 3].tolist() == words[-2:].tolist()


def test_buffer_with_stride_checks_the_index() -> None:
    memory = Memory("buffer", 1)
    memory.bench.set_exec(np.ones((WAVES, 64), bool))
    start = memory.data.ctypes.data
    for k, word in enumerate((start & 0xFFFFFFFF, start >> 32 | 16 << 16, 3, 0)):
        memory.bench.state.scalar[16 + k] = word
    memory.bench.write(Operand("v", 8, 1), np.arange(64)[None, :].repeat(WAVES, 0), U32)
    operands = (Operand("v", 40, 1), Operand("v", 8, 1), Operand("s", 16, 4), Operand("i"))
    i = Instruction(0, 8, "MUBUF", "buffer_load_dword", "", operands, {"idxen": 1, "offset": 4})
    memory.bench.execute(i)
    words = memory.data.view(np.uint32)
    assert memory.bench.state.vector[40, 0, :4].tolist() == [words[1], words[5], words[9], 0]


@pytest.mark.parametrize("saddr", [True, False])
def test_global_address_forms(saddr: bool) -> None:
    memory = Memory("global", 1)
    memory.bench.set_exec(np.ones((WAVES, 64), bool))
    lanes = np.arange(64)[None, :].repeat(WAVES, 0) * 4
    if saddr:
        start = memory.data.ctypes.data + 16
        memory.bench.state.scalar[16], memory.bench.state.scalar[17] = (
            start & 0xFFFFFFFF,
            start >> 32,
        )
        memory.bench.write(Operand("v", 8, 1), lanes, U32)
        operands = (Operand("v", 40, 1), Operand("v", 8, 1), Operand("s", 16, 2))
    else:
        memory.bench.write(Operand("v", 8, 2), lanes + memory.data.ctypes.data + 16, U64)
        operands = (Operand("v", 40, 1), Operand("v", 8, 2), Operand("off"))
    i = Instruction(0, 8, "FLAT2", "global_load_dword", "", operands, {"offset": -16})
    memory.bench.execute(i)
    assert np.array_equal(memory.bench.state.vector[40, 0], memory.data.view(np.uint32)[:64])


@pytest.mark.parametrize(("high", "space"), [(0x10000, "lds"), (0x20000, "scratch")])
def test_flat_apertures(high: int, space: str) -> None:
    memory = Memory(space, 1)
    memory.bench.set_exec(np.ones((WAVES, 64), bool))
    address = np.full((WAVES, 64), high << 32 | 8, np.int64)
    memory.bench.write(Operand("v", 8, 2), address, U64)
    operands = (Operand("v", 40, 1), Operand("v", 8, 2))
    memory.bench.execute(Instruction(0, 8, "FLAT0", "flat_load_dword", "", operands))
    want = int.from_bytes(memory.content(1, 5, 8, 4), "little")
    assert int(memory.bench.state.vector[40, 1, 5]) == want


SCALAR = [("gfx942", f"dword{'' if n == 1 else f'x{n}'}", n) for n in (1, 2, 4, 8, 16)]
SCALAR += [("gfx1201", f"b{32 * n}", n) for n in (1, 2, 3, 4, 8, 16)]


@pytest.mark.opcodes("s_load_{suffix}")
@pytest.mark.parametrize(("arch", "suffix", "dwords"), SCALAR)
@pytest.mark.parametrize("form", ["immediate", "register", "both"])
def test_scalar_load(arch: str, suffix: str, dwords: int, form: str) -> None:
    memory = Memory("global", 1, arch)
    start = memory.data.ctypes.data
    memory.bench.state.scalar[16], memory.bench.state.scalar[17] = start & 0xFFFFFFFF, start >> 32
    memory.bench.state.scalar[20] = 24
    offset = Operand("k", 0, 1, 40) if form == "immediate" else Operand("s", 20, 1)
    mods = {"offset": 16} if form == "both" else {}
    name = f"s_load_{suffix}"
    operands = (Operand("s", 32, dwords), Operand("s", 16, 2), offset)
    memory.bench.execute(Instruction(0, 8, "SMEM", name, "", operands, mods))
    at = {"immediate": 40, "register": 24, "both": 40}[form] // 4
    want = memory.data.view(np.uint32)[at : at + dwords].tolist()
    assert memory.bench.state.scalar[32 : 32 + dwords, 1, 0].tolist() == want


@pytest.mark.opcodes("s_buffer_load_{suffix}")
@pytest.mark.parametrize(("arch", "suffix", "dwords"), SCALAR)
def test_scalar_buffer_load_clips_to_the_records(arch: str, suffix: str, dwords: int) -> None:
    memory = Memory("global", 1, arch)
    start = memory.data.ctypes.data
    for k, word in enumerate((start & 0xFFFFFFFF, start >> 32, 16, 0)):
        memory.bench.state.scalar[16 + k] = word
    name = f"s_buffer_load_{suffix}"
    operands = (Operand("s", 32, dwords), Operand("s", 16, 4), Operand("k", 0, 1, 8))
    memory.bench.execute(Instruction(0, 8, "SMEM", name, "", operands))
    words = memory.data.view(np.uint32)
    want = [int(words[2 + k]) if k < 2 else 0 for k in range(dwords)]
    assert memory.bench.state.scalar[32 : 32 + dwords, 0, 0].tolist() == want


@pytest.mark.opcodes("s_buffer_load_dwordx4")
def test_scalar_buffer_load_counts_strided_records() -> None:
    memory = Memory("global", 1)
    start = memory.data.ctypes.data
    for k, word in enumerate((start & 0xFFFFFFFF, start >> 32 | 4 << 16, 3, 0)):
        memory.bench.state.scalar[16 + k] = word
    operands = (Operand("s", 32, 4), Operand("s", 16, 4), Operand("k", 0, 1, 4))
    memory.bench.execute(Instruction(0, 8, "SMEM", "s_buffer_load_dwordx4", "", operands))
    words = memory.data.view(np.uint32)
    want = [int(words[1]), int(words[2]), 0, 0]
    assert memory.bench.state.scalar[32:36, 0, 0].tolist() == want


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("scalar", [True, False])
@pytest.mark.opcodes("scratch_load_dword scratch_store_dword")
def test_scratch_address_forms(vector: bool, scalar: bool) -> None:
    memory = Memory("scratch", 1)
    bench = memory.bench
    bench.set_exec(np.ones((WAVES, 64), bool))
    lanes = memory.rng.integers(0, 4, (WAVES, 64)) * 4
    bench.write(Operand("v", 8), lanes, U32)
    bench.state.scalar[20] = 16
    address = Operand("v", 8) if vector else Operand("off")
    base = Operand("s", 20) if scalar else Operand("off")
    at = np.full((WAVES, 64), 8) + (lanes if vector else 0) + (16 if scalar else 0)
    load = (Operand("v", 40), address, base)
    bench.execute(Instruction(0, 8, "FLAT1", "scratch_load_dword", "", load, {"offset": 8}))
    for w in range(WAVES):
        for lane in range(64):
            want = int.from_bytes(memory.content(w, lane, int(at[w, lane]), 4), "little")
            assert bench.state.vector[40, w, lane] == want
    store = (address, Operand("v", 50), base)
    bench.execute(Instruction(0, 8, "FLAT1", "scratch_store_dword", "", store, {"offset": 8}))
    stored = memory.content(1, 9, int(at[1, 9]), 4)
    assert int.from_bytes(stored, "little") == memory.values[0, 1, 9]


def test_faults_name_wave_and_lane() -> None:
    memory = Memory("global", 1)
    memory.bench.set_exec(np.ones((WAVES, 64), bool))
    offsets = np.zeros((WAVES, 64), np.int64)
    offsets[1, 33] = 4094
    i = memory.instruction("global_load_dword", Operand("v", 40, 1), offsets, 0)
    with pytest.raises(AccessFault) as caught:
        memory.bench.execute(i)
    assert (caught.value.wave, caught.value.lane) == (1, 33)
    mask = np.ones((WAVES, 64), bool)
    mask[1, 33] = False
    memory.bench.set_exec(mask)
    memory.bench.execute(i)


@pytest.mark.parametrize(("space", "limit"), [("lds", 4096), ("scratch", 64)])
def test_local_bounds(space: str, limit: int) -> None:
    memory = Memory(space, 1)
    name = "ds_write_b32" if space == "lds" else "scratch_store_dword"
    memory.bench.set_exec(np.ones((WAVES, 64), bool))
    memory.bench.execute(
        memory.instruction(name, Operand("v", 50, 1), np.full((WAVES, 64), limit - 4), 0)
    )
    i = memory.instruction(name, Operand("v", 50, 1), np.full((WAVES, 64), limit - 3), 0)
    with pytest.raises(AccessFault):
        memory.bench.execute(i)


def test_unknown_instruction_is_an_error() -> None:
    bench = InstructionBench("gfx942")
    with pytest.raises(FlyDSLError) as caught:
        bench.execute(Instruction(0x40, 4, "SOPP", "s_made_up", "", (), {"simm16": 0}))
    assert caught.value.code == "FLY-T704"
    assert "0x40" in str(caught.value)


def test_scalar_write_follows_active_waves() -> None:
    bench = InstructionBench("gfx942")
    bench.state.active = np.array([True, False])
    bench.state.refresh()
    operands = (Operand("s", 8, 1), Operand("i", 0, 1, 5))
    bench.execute(Instruction(0, 4, "SOP1", "s_mov_b32", "", operands))
    assert bench.state.scalar[8, :, 0].tolist() == [5, 0]
    mask = pack_mask(np.ones((2, 64), bool))
    assert mask.tolist() == [[0xFFFFFFFF] * 2] * 2
