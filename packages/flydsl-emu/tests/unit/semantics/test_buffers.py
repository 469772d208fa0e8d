"""Buffer descriptors with strides, swizzling and lane ids, and typed accesses."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.testing import InstructionBench

Array = Any
WAVES = 2
SIZE = 1 << 14
V40 = Operand("v", 40)
DESCRIPTOR = Operand("s", 16, 4)
ZERO = Operand("i", 0, 1, 0)


class Buffer:
    """A bench over a buffer of random bytes and its descriptor in s[16:19]."""

    def __init__(self, seed: int, stride: int = 0, records: int = SIZE, last: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.data = self.rng.integers(0, 256, SIZE).astype(np.uint8)
        self.bench = InstructionBench("gfx942", WAVES, memory=[self.data])
        start = self.data.ctypes.data
        words = (start & 0xFFFFFFFF, start >> 32 | (stride & 0x3FFF) << 16, records, last)
        for k, word in enumerate(words):
            self.bench.state.scalar[16 + k] = np.uint32(word)
        self.old = self.rng.integers(0, 2**32, (4, WAVES, 64), dtype=np.uint32)
        self.bench.state.vector[40:44] = self.old

    def swizzle(self) -> None:
        self.bench.state.scalar[17] |= np.uint32(1 << 31)

    def run(
        self, name: str, count: int, index: Array | None, byte: Array | None, **mods: int
    ) -> Array:
        address: list[Array] = []
        for flag, x in (("idxen", index), ("offen", byte)):
            if x is not None:
                mods[flag] = 1
                self.bench.state.vector[8 + len(address)] = x
                address.append(x)
        where = Operand("v", 8, len(address)) if address else Operand("off")
        form = "MTBUF" if name.startswith("t") else "MUBUF"
        operands = (Operand("v", 40, count), where, DESCRIPTOR, ZERO)
        self.bench.execute(Instruction(0, 8, form, name, "", operands, mods))
        return self.bench.state.vector[40 : 40 + count]

    def word(self, at: int) -> int:
        return int.from_bytes(bytes(self.data[at : at + 4]), "little")


def lanes(rng: np.random.Generator, limit: int) -> Array:
    return rng.integers(0, limit, (WAVES, 64)).astype(np.uint32)


def swizzled(index: int, offset: int, stride: int, group: int) -> int:
    """Byte offset of element `offset` of record `index` with groups of records interleaved."""
    line = index // group * stride + offset // 4 * 4
    return line * group + index % group * 4 + offset % 4


@pytest.mark.parametrize("field", range(4))
@pytest.mark.opcodes("buffer_load_dwordx2 buffer_store_dword buffer_load_ubyte buffer_atomic_add")
def test_swizzled_descriptors(field: int) -> None:
    group, stride = 8 << field, 16
    buffer = Buffer(field, stride, 900, field << 21)
    buffer.swizzle()
    index, offset = lanes(buffer.rng, 1000), lanes(buffer.rng, 2) * np.uint32(4)
    index[0] = np.arange(64)
    offset[1] = 4
    got = buffer.run("buffer_load_dwordx2", 2, index, offset, offset=4)
    for w in range(WAVES):
        for lane in range(64):
            for k in (0, 1):
                row, at = int(index[w, lane]), int(offset[w, lane]) + 4 + 4 * k
                want = buffer.word(swizzled(row, at, stride, group)) if row < 900 else 0
                assert got[k, w, lane] == want
    (byte,) = buffer.run("buffer_load_ubyte", 1, index, offset, offset=1)
    at = swizzled(int(index[0, 9]), int(offset[0, 9]) + 1, stride, group)
    assert byte[0, 9] == buffer.data[at]
    index = np.arange(128, dtype=np.uint32).reshape(WAVES, 64)
    values = lanes(buffer.rng, 1 << 31)
    buffer.bench.state.vector[40] = values
    buffer.run("buffer_store_dword", 1, index, None, offset=8)
    at = swizzled(int(index[1, 7]), 8, stride, group)
    assert buffer.word(at) == values[1, 7]
    buffer.run("buffer_atomic_add", 1, index, None, offset=8)
    assert buffer.word(at) == 2 * int(values[1, 7]) & 0xFFFFFFFF


@pytest.mark.opcodes("buffer_load_dword")
def test_some_waves_swizzle() -> None:
    buffer = Buffer(1, 16, 900)
    buffer.bench.state.scalar[17, 1] |= np.uint32(1 << 31)
    index = lanes(buffer.rng, 800)
    (got,) = buffer.run("buffer_load_dword", 1, index, None, offset=4)
    for w in range(WAVES):
        row = int(index[w, 5])
        at = 16 * row + 4 if not w else swizzled(row, 4, 16, 8)
        assert got[w, 5] == buffer.word(at)


@pytest.mark.opcodes("buffer_load_dword")
def test_lane_ids_extend_index_and_stride() -> None:
    for stride in (8, 128):
        buffer = Buffer(2, stride, SIZE, 1 << 23)
        (got,) = buffer.run("buffer_load_dword", 1, None, None, offset=4)
        want = [buffer.word(stride * lane + 4) for lane in range(64)]
        assert got[1].tolist() == want
    # The data format holds bits 14 to 17 of the stride.
    buffer = Buffer(3, 0, 1 << 31, 1 << 23 | 1 << 15)
    only_first = np.zeros((WAVES, 64), bool)
    only_first[:, 0] = True
    buffer.bench.set_exec(only_first)
    (got,) = buffer.run("buffer_load_dword", 1, None, None)
    assert got[0, 0] == buffer.word(0)
    buffer.bench.set_exec(~only_first)
    with pytest.raises(KernelFault, match="read of 4 bytes"):
        buffer.run("buffer_load_dword", 1, None, None)


@pytest.mark.opcodes("buffer_load_dword")
def test_records_count_bytes_without_an_index() -> None:
    buffer = Buffer(4, 16, 100)
    offset = np.arange(128, dtype=np.uint32).reshape(WAVES, 64) * 4
    (got,) = buffer.run("buffer_load_dword", 1, None, offset)
    assert got[0].tolist() == [buffer.word(4 * k) if 4 * k + 4 <= 100 else 0 for k in range(64)]


# Typed accesses ----------------------------------------------------------------------------------
# Component widths from the lowest bits, by data format.
WIDTHS = {
    1: (8,),
    2: (16,),
    3: (8, 8),
    4: (32,),
    5: (16, 16),
    6: (11, 11, 10),
    7: (10, 11, 11),
    8: (2, 10, 10, 10),
    9: (10, 10, 10, 2),
    10: (8, 8, 8, 8),
    11: (32, 32),
    12: (16, 16, 16, 16),
    13: (32, 32, 32),
    14: (32, 32, 32, 32),
}
UNORM, SNORM, USCALED, SSCALED, UINT, SINT, _, FLOAT = range(8)
LETTERS = ("x", "xy", "xyz", "xyzw")


def valid(data: int, number: int) -> bool:
    widths = WIDTHS[data]
    if number == 6:
        return False
    if number == FLOAT:
        return set(widths) <= {10, 11, 16, 32} and 2 not in widths
    return number in (UINT, SINT) or 32 not in widths


FORMATS = [(d, n) for d in WIDTHS for n in range(8) if valid(d, n)]


def value_of(code: int, width: int, number: int) -> float | int:
    """What a component's bits mean."""
    signed = (code ^ 1 << (width - 1)) - (1 << (width - 1))
    if number == UNORM:
        return float(np.float32(code) / np.float32(2**width - 1))
    if number == SNORM:
        return max(float(np.float32(signed) / np.float32(2 ** (width - 1) - 1)), -1.0)
    if number in (USCALED, UINT):
        return float(code) if number == USCALED else code
    if number in (SSCALED, SINT):
        return float(signed) if number == SSCALED else signed & 0xFFFFFFFF
    if width == 32:
        return float(np.uint32(code).view(np.float32))
    if width == 16:
        return float(np.uint16(code).view(np.float16))
    mantissa = width - 5
    exponent, fraction = code >> mantissa, code & (1 << mantissa) - 1
    if exponent == 31:
        return math.nan if fraction else math.inf
    unit = fraction / 2**mantissa
    return math.ldexp(1 + unit, exponent - 15) if exponent else math.ldexp(unit, -14)


def components(raw: bytes, data: int, number: int) -> list[float | int]:
    whole = number in (UINT, SINT)
    bits, at, out = int.from_bytes(raw, "little"), 0, []
    for width in WIDTHS[data]:
        out.append(value_of(bits >> at & (1 << width) - 1, width, number))
        at += width
    missing: list[float | int] = [0, 0, 0, 1] if whole else [0.0, 0.0, 0.0, 1.0]
    return out + missing[len(out) :]


def size_of(data: int) -> int:
    return sum(WIDTHS[data]) // 8


def agrees(register: int, want: float | int) -> bool:
    if isinstance(want, int):
        return register == want
    got = float(np.uint32(register).view(np.float32))
    return (math.isnan(got) and math.isnan(want)) or got == want


TYPED = [f"{unit}_load_format_{x}" for unit in ("buffer", "tbuffer") for x in LETTERS]


@pytest.mark.parametrize("name", TYPED)
def test_typed_loads(name: str) -> None:
    count = len(name.rsplit("_", 1)[1])
    # x, y, z, w; and 1, 0, w, y.
    selectors = [(4, 5, 6, 7)] if name[0] == "t" else [(4, 5, 6, 7), (1, 0, 7, 5)]
    for data, number in FORMATS:
        for chosen in selectors:
            last = sum(s << 3 * k for k, s in enumerate(chosen)) | number << 12 | data << 15
            buffer = Buffer(data * 8 + number, 0, 4000, 0 if name[0] == "t" else last)
            offset = np.arange(128, dtype=np.uint32).reshape(WAVES, 64) * 32
            mods = {"dfmt": data, "nfmt": number} if name[0] == "t" else {}
            got = buffer.run(name, count, None, offset, **mods)
            for lane in (0, 1, 17, 60, 63):
                at = int(offset[1, lane])
                inside = at + size_of(data) <= 4000
                raw = bytes(buffer.data[at : at + size_of(data)]) if inside else bytes(16)
                parts = components(raw, data, number)
                one = 1 if number in (UINT, SINT) else 1.0
                zero = 0 if number in (UINT, SINT) else 0.0
                for k in range(count):
                    want = {0: zero, 1: one}.get(chosen[k])
                    want = parts[chosen[k] - 4] if want is None else want
                    assert agrees(int(got[k, 1, lane]), want), (data, number, lane, k)


HALVES = [f"{u}_load_format_d16_{x}" for u in ("buffer", "tbuffer") for x in LETTERS]


@pytest.mark.parametrize("name", [*HALVES, "buffer_load_format_d16_hi_x"])
def test_typed_loads_of_halves(name: str) -> None:
    count = len(name.rsplit("_", 1)[1])
    for data, number in ((12, FLOAT), (12, SINT), (10, UNORM), (10, UINT), (5, SNORM)):
        last = 4 | 5 << 3 | 6 << 6 | 7 << 9 | number << 12 | data << 15
        buffer = Buffer(data, 0, SIZE, 0 if name[0] == "t" else last)
        offset = np.arange(128, dtype=np.uint32).reshape(WAVES, 64) * 8
        mods = {"dfmt": data, "nfmt": number} if name[0] == "t" else {}
        registers = (count + 1) // 2
        got = buffer.run(name, registers, None, offset, **mods)
        for lane in (0, 5, 63):
            at = int(offset[1, lane])
            parts = components(bytes(buffer.data[at : at + size_of(data)]), data, number)[:count]
            codes = [
                int(x) & 0xFFFF if number in (UINT, SINT) else int(np.float16(x).view(np.uint16))
                for x in parts
            ]
            old = [int(x) for x in buffer.old[:registers, 1, lane]]
            if "_hi_" in name:
                want = [codes[0] << 16 | old[0] & 0xFFFF]
            else:
                if count % 2:
                    codes.append(old[-1] >> 16)
                want = [codes[k] | codes[k + 1] << 16 for k in range(0, len(codes), 2)]
            for k, w in enumerate(want):
                have = int(got[k, 1, lane])
                assert have == w or np.isnan(np.uint32(have).view(np.uint32).view("2f2")).any()


def encoded(x: float, width: int, number: int) -> int:
    if number == UNORM:
        return int(np.rint(np.float32(min(max(x, 0.0), 1.0)) * np.float32(2**width - 1)))
    if number == SNORM:
        top = np.float32(2 ** (width - 1) - 1)
        return int(np.rint(np.float32(min(max(x, -1.0), 1.0)) * top)) & (1 << width) - 1
    return int(np.float16(x).view(np.uint16)) if width == 16 else int(np.float32(x).view(np.uint32))


STORES = [f"{u}_store_format_{x}" for u in ("buffer", "tbuffer") for x in LETTERS]
STORES += [f"{u}_store_format_d16_{x}" for u in ("buffer", "tbuffer") for x in LETTERS]


@pytest.mark.parametrize("name", [*STORES, "buffer_store_format_d16_hi_x"])
def test_typed_stores(name: str) -> None:
    count = len(name.rsplit("_", 1)[1])
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    d16 = "d16" in name
    for data, number in (
        (10, UNORM),
        (12, SNORM),
        (12, FLOAT),
        (14, FLOAT),
        (9, UINT),
        (10, SINT),
        (5, UINT),
    ):
        if d16 and data == 14:
            continue
        last = number << 12 | data << 15
        buffer = Buffer(data, 0, 4000, 0 if name[0] == "t" else last)
        offset = np.arange(128, dtype=np.uint32).reshape(WAVES, 64) * 32
        widths = WIDTHS[data] + (0,) * (4 - len(WIDTHS[data]))
        if number in (UINT, SINT):
            top = 2 if number == SINT else 4
            values = rng.integers(-2 if number == SINT else 0, top, (count, WAVES, 64))
            raw = values.astype(np.int64) & (0xFFFF if d16 else 0xFFFFFFFF)
        else:
            values = (rng.standard_normal((count, WAVES, 64)) * 0.8).astype(np.float16)
            wide = values.astype(np.float32).view(np.uint32)
            raw = (values.view(np.uint16) if d16 else wide).astype(np.int64)
        if "_hi_" in name:
            registers = raw << 16 | 0x5555
        elif d16:
            padded = np.concatenate([raw, raw[:1]]) if count % 2 else raw
            registers = padded[0::2] | padded[1::2] << 16
        else:
            registers = raw
        buffer.bench.state.vector[40 : 40 + len(registers)] = registers.astype(np.uint32)
        before = buffer.data.copy()
        mods = {"dfmt": data, "nfmt": number} if name[0] == "t" else {}
        buffer.run(name, len(registers), None, offset, **mods)
        model = before.copy()
        for w in range(WAVES):
            for lane in range(64):
                at, total, shift = int(offset[w, lane]), 0, 0
                if at + size_of(data) > 4000:
                    continue
                for k, width in enumerate(widths):
                    if k < count and width:
                        x = values[k, w, lane]
                        whole = number in (UINT, SINT)
                        code = int(x) if whole else encoded(float(x), width, number)
                        total |= (code & (1 << width) - 1) << shift
                    shift += width
                model[at : at + size_of(data)] = list(total.to_bytes(size_of(data), "little"))
        assert np.array_equal(buffer.data, model), (data, number)


@pytest.mark.parametrize(
    ("data", "number", "value", "text"),
    [
        (10, UINT, 256, "do not fit"),
        (10, SINT, 128, "do not fit"),
        (6, FLOAT, 0, "small floats"),
        (10, USCALED, 0, "scaled"),
        (15, UINT, 0, "reserved"),
        (10, 6, 0, "reserved"),
    ],
)
@pytest.mark.opcodes("tbuffer_store_format_x")
def test_typed_stores_that_are_refused(data: int, number: int, value: int, text: str) -> None:
    buffer = Buffer(1)
    buffer.bench.state.vector[40] = np.uint32(value)
    with pytest.raises(KernelFault, match=text):
        buffer.run("tbuffer_store_format_x", 1, None, None, dfmt=data, nfmt=number)
