"""Transfers of gfx1250 between memory and LDS, and transposing loads of gfx12."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.decode.instruction import M0
from flydsl_emu.execution.barriers import SplitBarriers
from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.semantics.value_types import U32
from flydsl_emu.testing import InstructionBench

Array = Any
LDS = 4096
V8, V9, BASE, OFF = Operand("v", 8), Operand("v", 9), Operand("s", 8, 2), Operand("off", 0)
MASK = Operand("s", M0)


def run(b: InstructionBench, name: str, *operands: Operand, **mods: int) -> None:
    b.execute(Instruction(0, 8, "VGLOBAL", name, "", operands, mods, None, (), b.arch))


def pointer(b: InstructionBench, operand: Operand, address: int) -> None:
    for k in range(2):
        b.write(Operand("s", operand.index + k), np.full(b.waves, address >> 32 * k & 2**32 - 1,
                                                        np.uint32), U32)  # fmt: skip


@pytest.mark.opcodes("global_load_async_to_lds_b{bits} global_store_async_from_lds_b{bits}")
@pytest.mark.parametrize("bits", [8, 32, 64, 128])
def test_lanes_transfer_between_memory_and_lds(bits: int) -> None:
    size = bits // 8
    rng = np.random.default_rng(size)
    memory = rng.integers(0, 256, 64 * size + 64, np.uint8)
    b = InstructionBench("gfx1250", 2, memory=(memory,))
    order = np.stack([rng.permutation(32) for _ in range(2)])
    mask = rng.random((2, 32)) < 0.7
    b.set_exec(mask)
    lanes = np.arange(64).reshape(2, 32)
    b.write(V8, 128 + order * size, U32)
    b.write(V9, lanes * size, U32)
    pointer(b, BASE, memory.ctypes.data)
    run(b, f"global_load_async_to_lds_b{8 * size}", V8, V9, BASE, offset=16)
    want = np.zeros((2, LDS), np.uint8)
    for wave, lane in zip(*np.nonzero(mask), strict=True):
        at, start = 144 + order[wave, lane] * size, 16 + (32 * wave + lane) * size
        want[wave, at : at + size] = memory[start : start + size]
    assert np.array_equal(b.lds, want)
    before = memory.copy()
    b.lds[...] = rng.integers(0, 256, b.lds.shape, np.uint8)
    run(b, f"global_store_async_from_lds_b{8 * size}", V9, V8, BASE, offset=16)
    for wave, lane in zip(*np.nonzero(mask), strict=True):
        at, start = 144 + order[wave, lane] * size, 16 + (32 * wave + lane) * size
        before[start : start + size] = b.lds[wave, at : at + size]
    assert np.array_equal(memory, before)


@pytest.mark.opcodes("cluster_load_async_to_lds_b{bits}")
@pytest.mark.parametrize("bits", [8, 32, 64, 128])
def test_clusters_share_loads(bits: int) -> None:
    size = bits // 8
    rng = np.random.default_rng(size)
    memory = rng.integers(0, 256, 64 * size, np.uint8)
    b = InstructionBench("gfx1250", 4, memory=(memory,), cluster=2)
    b.set_exec(np.repeat([[True], [False], [True], [False]], 32, axis=1))
    lanes = np.arange(32) * np.ones((4, 1), int)
    b.write(V8, lanes * size, U32)
    b.write(V9, lanes * size + [[0], [0], [32 * size], [0]], U32)
    pointer(b, BASE, memory.ctypes.data)
    b.write(MASK, np.array([3, 3, 2, 0], np.uint32), U32)
    run(b, f"cluster_load_async_to_lds_b{8 * size}", V8, V9, BASE)
    halves = memory.reshape(2, -1)
    for wave, want in enumerate((halves[0], halves[0], halves[0] * 0, halves[1])):
        assert np.array_equal(b.lds[wave, : 32 * size], want)
    b.write(MASK, np.array([4, 0, 0, 0], np.uint32), U32)
    with pytest.raises(KernelFault, match="workgroup 2 of a cluster of 2"):
        run(b, f"cluster_load_async_to_lds_b{8 * size}", V8, V9, BASE)


@pytest.mark.opcodes("ds_load_tr16_b128 global_load_tr16_b128 global_load_tr_b128")
def test_eight_lanes_transpose_halves() -> None:
    rng = np.random.default_rng(1)
    memory = rng.integers(0, 2**16, (64, 8), np.uint16)
    rows = rng.permutation(64).reshape(2, 32)
    want = memory[rows].reshape(2, 4, 8, 8).transpose(0, 1, 3, 2).reshape(2, 32, 8)
    for arch, name in (("gfx1250", "tr16_b128"), ("gfx1201", "tr_b128")):
        b = InstructionBench(arch, 2, memory=(memory,))
        b.lds[:, : memory.nbytes] = memory.reshape(-1).view(np.uint8)
        b.write(V9, rows * 16, U32)
        pointer(b, BASE, memory.ctypes.data)
        loads = [(f"global_load_{name}", (V9, BASE))]
        if arch == "gfx1250":
            loads.append((f"ds_load_{name}", (V9,)))
        for load, sources in loads:
            run(b, load, Operand("v", 20, 4), *sources)
            got = np.stack([b.read(Operand("v", 20 + k), U32) for k in range(4)], axis=-1)
            assert np.array_equal(np.ascontiguousarray(got).view(np.uint16), want), load


@pytest.mark.opcodes("ds_load_tr8_b64 global_load_tr8_b64")
def test_eight_lanes_transpose_bytes() -> None:
    """Lanes 0 to 3 and 8 to 11 feed lanes 0 to 7, the others of sixteen the next eight."""
    rng = np.random.default_rng(2)
    memory = rng.integers(0, 256, (64, 8), np.uint8)
    rows = rng.permutation(64).reshape(2, 32)
    b = InstructionBench("gfx1250", 2, memory=(memory,))
    b.lds[:, : memory.nbytes] = memory.reshape(-1)
    b.write(V9, rows * 8, U32)
    pointer(b, BASE, memory.ctypes.data)
    for load, sources in (("global_load_tr8_b64", (V9, BASE)), ("ds_load_tr8_b64", (V9,))):
        run(b, load, Operand("v", 20, 2), *sources)
        got = np.stack([b.read(Operand("v", 20 + k), U32) for k in range(2)], axis=-1)
        got = np.ascontiguousarray(got).view(np.uint8)
        for half in range(2):
            for group in range(2):
                sources_of = [16 * half + 4 * group + x for x in (0, 1, 2, 3, 8, 9, 10, 11)]
                tile = memory[rows[:, sources_of]]
                lanes = slice(16 * half + 8 * group, 16 * half + 8 * group + 8)
                assert np.array_equal(got[:, lanes], tile.transpose(0, 2, 1)), load


# Tensors ------------------------------------------------------------------------------------------
def descriptor(address: int, lds: int, **fields: Any) -> list[int]:
    """Return the 20 words of a descriptor, packed as one long integer by hand."""
    total = 0

    def put(word: int, bit: int, width: int, value: int) -> None:
        nonlocal total
        assert 0 <= value < 1 << width
        total |= value << 32 * word + bit

    put(0, 0, 2, fields.get("valid", 1))
    put(0, 30, 1, fields.get("wide", 0))
    put(0, 31, 1, "rows" in fields)
    put(1, 0, 32, lds)
    put(2, 0, 57, address)
    put(3, 30, 2, fields.get("type", 2))
    put(4, 0, 16, fields.get("workgroups", 0))
    put(4, 16, 2, {1: 0, 2: 1, 4: 2, 8: 3}[fields["element"]])
    put(4, 18, 2, fields.get("unmodelled", 0))
    if "pad" in fields:
        interval, amount = fields["pad"]
        put(4, 20, 1, 1)
        put(4, 22, 3, interval.bit_length() - 2)
        put(4, 25, 7, amount - 1)
    sizes, extents, strides = fields["sizes"], fields["extents"], fields["strides"]
    for k, (word, bit) in enumerate([(5, 16), (6, 16), (12, 0), (13, 0), (17, 16)][: len(sizes)]):
        put(word, bit, 32, extents[k])
    for k, (word, bit) in enumerate([(7, 16), (8, 0), (8, 16), (15, 16), (18, 16)][: len(sizes)]):
        put(word, bit, 16, sizes[k])
    places = [(9, 0), (10, 16), (14, 0), (16, 0)]
    for k, (word, bit) in enumerate(places[: len(strides) - 1]):
        put(word, bit, 48, strides[k + 1])
    for k, row in enumerate(fields.get("rows", ())):
        bits = 32 if fields.get("wide") else 16
        put(12 + k * bits // 32, k * bits % 32, bits, row)
    return [total >> 32 * k & 2**32 - 1 for k in range(20)]


def transfer(b: InstructionBench, words: list[list[int]], store: bool = False) -> None:
    """Run a transfer with the descriptor of each wave."""
    groups = []
    at = 8
    for count in (4, 8, 4, 4):
        groups.append(Operand("s", at, count))
        at += count
    for k in range(20):
        b.write(Operand("s", 8 + k), np.array([w[k] for w in words], np.uint32), U32)
    rank_two = all(not any(w[12:]) for w in words)
    name = "tensor_store_from_lds" if store else "tensor_load_to_lds"
    b.execute(Instruction(0, 12, "TENSOR", name, "", tuple(groups[: 2 if rank_two else 4]), {},
                          None, (), "gfx1250"))  # fmt: skip


def expected(memory: Array, start: int, fields: dict[str, Any]) -> Array:
    """Return a tile in LDS order: dimension 0 fastest, zeros where nothing exists."""
    sizes, extents, strides = fields["sizes"], fields["extents"], fields["strides"]
    out = []
    for index in np.ndindex(*reversed(sizes)):
        c = list(reversed(index))
        if "rows" in fields:
            c[1] = fields["rows"][c[1]]
        inside = all(x < e for x, e in zip(c, extents, strict=True))
        place = start + sum(x * s for x, s in zip(c, strides, strict=True))
        out.append(memory[place] if inside else 0)
    return np.array(out, memory.dtype)


TILES = [
    {"sizes": (40,), "extents": (33,), "strides": (1,)},
    {"sizes": (16, 6), "extents": (16, 6), "strides": (1, 37)},
    {"sizes": (8, 5), "extents": (7, 3), "strides": (1, 50)},
    {"sizes": (8, 5), "extents": (0, 3), "strides": (1, 50)},
    {"sizes": (8, 3, 4), "extents": (5, 9, 2), "strides": (1, 20, 70)},
    {"sizes": (4, 3, 2, 3), "extents": (4, 2, 2, 2), "strides": (1, 9, 33, 80)},
    {"sizes": (4, 2, 3, 2, 2), "extents": (3, 2, 2, 2, 1), "strides": (1, 5, 21, 70, 141)},
    {"sizes": (8, 4), "extents": (8, 6), "strides": (1, 30), "rows": (5, 0, 6, 2)},
    {"sizes": (8, 5), "extents": (6, 9), "strides": (1, 30), "rows": (8, 9, 1, 1, 0), "wide": 1},
    {"sizes": (4, 16), "extents": (4, 11), "strides": (1, 25), "rows": tuple(range(15, -1, -1))},
]


@pytest.mark.opcodes("tensor_load_to_lds tensor_store_from_lds")
@pytest.mark.parametrize("element", [1, 2, 4, 8])
@pytest.mark.parametrize("tile", TILES)
def test_tiles(tile: dict[str, Any], element: int) -> None:
    rng = np.random.default_rng(element)
    memory = rng.integers(1, 200, 512).astype(f"u{element}")
    fields = {**tile, "element": element}
    b = InstructionBench("gfx1250", 2, memory=(memory,))
    b.set_exec(np.zeros((2, 32), np.bool_))  # it does not matter
    b.lds[...] = 255
    starts = (3, 10)
    words = [descriptor(memory.ctypes.data + s * element, 64, **fields) for s in starts]
    transfer(b, words)
    count = int(np.prod(tile["sizes"])) * element
    for wave, start in enumerate(starts):
        got = b.lds[wave, 64 : 64 + count].view(memory.dtype)
        assert np.array_equal(got, expected(memory, start, fields))
        assert (b.lds[wave, :64] == 255).all()
        assert (b.lds[wave, 64 + count :] == 255).all()
    # A store writes what exists, nothing else, and needs only a descriptor each.
    b.lds[...] = rng.integers(0, 256, b.lds.shape, np.uint8)
    before = memory.copy()
    idle = [0] * 20
    transfer(b, [words[0], idle], store=True)
    numbers = expected(np.arange(512), starts[0], fields)
    values = b.lds[0, 64 : 64 + count].view(memory.dtype)
    for place, value in zip(numbers, values, strict=True):
        if place:  # place 0 cannot be in a tile that starts at 3
            before[place] = value
    assert np.array_equal(memory, before)


@pytest.mark.parametrize(("interval", "amount"), [(2, 1), (4, 3), (16, 128)])
def test_pads(interval: int, amount: int) -> None:
    memory = np.arange(1, 129, dtype=np.uint32)
    fields = {"sizes": (8, 4), "extents": (7, 4), "strides": (1, 20), "element": 4,
              "pad": (interval, amount)}  # fmt: skip
    b = InstructionBench("gfx1250", 1, memory=(memory,))
    words = descriptor(memory.ctypes.data, 0, **fields)
    transfer(b, [words])
    tile = expected(memory, 0, fields)
    want = np.zeros(1024, np.uint32)
    for n, value in enumerate(tile):
        want[n + n // interval * amount] = value
    assert np.array_equal(b.lds[0].view(np.uint32)[:1024], want)
    b.lds[0].view(np.uint32)[:32] = np.arange(1000, 1032)
    transfer(b, [words], store=True)  # without pads
    assert memory[0] == 1000
    assert memory[20] == 1008


def test_transfers_serve_clusters() -> None:
    memory = np.arange(64, dtype=np.uint16)
    fields = {"sizes": (16, 2), "extents": (16, 2), "strides": (1, 32), "element": 2}
    b = InstructionBench("gfx1250", 4, memory=(memory,), cluster=2)
    words = descriptor(memory.ctypes.data, 0, **fields, workgroups=3)
    transfer(b, [words, [0] * 20, [0] * 20, [0] * 20])
    tile = expected(memory, 0, fields)
    for wave, want in enumerate((tile, tile, tile * 0, tile * 0)):
        assert np.array_equal(b.lds[wave, :64].view(np.uint16), want)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"type": 1}, "not valid"),
        ({"valid": 2}, "not valid"),
        ({"unmodelled": 1}, "does not model LDS barriers"),
        ({"unmodelled": 2}, "does not model iterated"),
        ({"sizes": (0, 4)}, "no tile"),
        ({"rows": (1, 2), "sizes": (8, 0)}, "number of rows"),
    ],
)
def test_wrong_descriptors(changes: dict[str, Any], text: str) -> None:
    memory = np.zeros(256, np.uint16)
    fields = {"sizes": (8, 4), "extents": (8, 4), "strides": (1, 16), "element": 2, **changes}
    b = InstructionBench("gfx1250", 1, memory=(memory,))
    with pytest.raises(KernelFault, match=text):
        transfer(b, [descriptor(memory.ctypes.data, 0, **fields)])


def test_transfers_out_of_bounds() -> None:
    memory = np.zeros(64, np.uint16)
    fields = {"sizes": (8, 4), "extents": (8, 4), "strides": (1, 20), "element": 2}
    b = InstructionBench("gfx1250", 1, memory=(memory,))
    with pytest.raises(AccessFault, match="read of 2 bytes"):
        transfer(b, [descriptor(memory.ctypes.data, 0, **fields)])
    with pytest.raises(AccessFault, match="LDS offset"):
        transfer(b, [descriptor(memory.ctypes.data, LDS - 16, **{**fields, "strides": (1, 16)})])


# Clusters -----------------------------------------------------------------------------------------
def test_clusters_number_workgroups() -> None:
    geometry = Geometry((6, 4, 2), (64, 1, 1), cluster=(3, 2, 1))
    seen = set()
    for number in range(48):
        x, y, z = geometry.coordinates(number)
        assert geometry.number((x, y, z)) == number
        assert (x // 3, y // 2, z) == geometry.clusters(number)
        assert (x % 3, y % 2, 0) == geometry.places(number)
        seen.add((x, y, z))
    assert len(seen) == 48
    plain = Geometry((6, 4, 2), (64, 1, 1))
    assert plain.coordinates(31) == (1, 1, 1)
    assert plain.number((1, 1, 1)) == 31


def test_a_clusters_barrier_waits_for_its_workgroups() -> None:
    workgroup = np.repeat(np.arange(4), 2)
    barriers, live = SplitBarriers(workgroup, 4, 2), np.ones(8, np.bool_)

    def do(name: str, *waves: int) -> Any:
        current = np.isin(np.arange(8), waves)
        value = np.full(8, -3 if name != "wait" else 0xFFFD)
        return barriers.execute(f"s_barrier_{name}", value, current, live)

    do("signal", 0)
    do("wait", 0, 1, 2, 3)
    assert np.flatnonzero(barriers.held).tolist() == [0, 1, 2, 3]
    do("signal", 4)  # of another cluster
    assert np.flatnonzero(barriers.held).tolist() == [0, 1, 2, 3]
    assert not do("signal_isfirst", 3)[3]
    assert not barriers.held.any()
    live[6:] = False  # a workgroup that has ended is not waited for
    do("wait", 4, 5)
    barriers.ended(live)
    assert not barriers.held[4:6].any()
    alone = SplitBarriers(workgroup, 4)
    alone.execute("s_barrier_wait", np.full(8, 0xFFFD), live, live)
    assert not alone.held.any()
