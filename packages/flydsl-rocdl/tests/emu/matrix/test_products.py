"""Every dense, sparse and scaled matrix operation against a float64 or integer product.

The operands go through tiled copies and fragments, so that a wrong layout shows as a wrong product.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl_rocdl.arch import INSTRUCTION_TYPES, ArchFacts, MatrixShape, lookup

ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
KINDS = {"mfma": "MFMA", "smfmac": "SMFMAC", "mfma_scale": "MFMA_Scale", "wmma": "WMMA"}
KINDS |= {"swmmac": "SWMMAC", "wmma_scale": "WMMAScale"}
ELEMENT_BITS = {"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "i4": 4}
ELEMENT_BITS |= {"f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4}
ARRANGED = {
    (4, 16): [(4, 64), (64, 4), (8, 32), (32, 8)],
    (16, 4): [(16, 64), (64, 16)],
    (32, 2): [(32, 64), (64, 32)],
    (4, 4): [(4, 16), (16, 4), (8, 8)],
}
BACK = {"iu8": "i8", "iu4": "i4"}


def _element(name: str, flavour: str) -> str:
    """Return the element type that instructions call `name`."""
    for element, short in INSTRUCTION_TYPES.items():
        eight = element.startswith("f8")
        if short == name and (not eight or element.endswith("FNUZ") == (flavour == "fnuz")):
            return element
    return BACK.get(name, name)


def _load_bits(shape: MatrixShape, element: str, side: int, facts: ArchFacts) -> int:
    """Return how many bits of one row a lane can load at once."""
    bits = ELEMENT_BITS.get(element, 8)
    if shape.family in ("mfma_scale", "wmma_scale"):
        return bits * (32 if bits < 8 else 16)
    values = shape.m * shape.k * shape.blocks // facts.wave_size
    if shape.family in ("smfmac", "swmmac"):
        values = values // 2 if side == 0 else values
    if shape.family == "smfmac" and side and values * bits > 128:
        values //= 2
    if shape.family == "wmma" and shape.k > 16 and "wmma-reuse" in facts.has:
        values = 8
    return min(values * bits, 128)


def _cases(arch: str) -> Iterator[tuple[Any, ...]]:
    facts = lookup(arch)
    for shape in facts.matrix:
        if arch == "gfx1250" and shape.family == "swmmac":
            continue  # where their operands lie is not published
        if (
            shape.family == "wmma_scale"
            and len({"fp6" in x or "bf6" in x for x in (shape.a, shape.b)}) > 1
        ):
            continue  # nor how 6 bits meet other widths
        types = (_element(shape.a, facts.fp8), _element(shape.b, facts.fp8), shape.acc)
        sizes = [(shape.m, shape.n)]
        if shape.blocks > 1:
            sizes = ARRANGED[shape.m, shape.blocks]
        for m, n in sizes:
            name = f"{shape.mnemonic[2:]}-{m}x{n}-{shape.a}-{shape.b}"
            yield pytest.param(arch, shape, (m, n, shape.k), types, id=f"{arch}-{name}")


CASES = [case for arch in ARCHES for case in _cases(arch)]


class Operands:
    """Random matrices of one case and the exact product."""

    def __init__(self, rng: Any, shape: tuple[int, int, int], types: Any, stored: Any) -> None:
        self.rng, self.mnk, self.types = rng, shape, types
        self.kinds = [np.dtype(stored[t]) for t in types]

    def small(self, rows: int, columns: int, which: int) -> Any:
        """Return integers (floats: quarters) whose products sum exactly."""
        element, kind = self.types[which], self.kinds[which]
        if element == "i4":
            return self.rng.integers(-8, 8, (rows, columns)).astype(np.int8)
        if element[0] == "i":
            return self.rng.integers(-128, 128, (rows, columns)).astype(kind)
        low, scale = (-6, 2) if "E" in element else (-8, 4)
        if element == "f4E2M1FN":
            low = -3
        return (self.rng.integers(low, 1 - low, (rows, columns)) / scale).astype(kind)

    def wild(self, rows: int, columns: int, which: int) -> Any:
        """Return any values, with extremes; NaN and infinities only in row 1."""
        element, kind = self.types[which], self.kinds[which]
        if element[0] == "i":
            edge = self.small(rows, columns, which)
            low = {"i4": -8, "i8": -128}.get(element, -(2**31))
            edge[self.rng.random((rows, columns)) < 0.5] = low
            return edge
        if "E" in element:
            bits = ELEMENT_BITS.get(element, 8)
            codes = self.rng.integers(0, 2**bits, (rows, columns)).astype(np.uint8)
            values = codes.view(kind)
            wide = np.abs(values.astype(np.float64))
            # Large products would leave nothing finite in a result of 16 bits.
            bad = ~(wide <= (8 if self.types[2] == "f16" else np.finfo(np.float64).max))
            bad[1] = False
            codes[bad] = 0
            return codes.view(kind)
        info = ml_dtypes.finfo(kind)
        spread = 2.0 ** self.rng.integers(-12, 12, (rows, columns))
        values = (self.rng.standard_normal((rows, columns)) * spread).astype(kind)
        tiny = self.rng.random((rows, columns)) < 0.05
        values[tiny] = info.smallest_subnormal
        values[self.rng.random((rows, columns)) < 0.05] = -0.0
        if which < 2:
            values[1, 0], values[1, -1] = np.inf, info.max
            values[1, columns // 2] = np.nan if which else -info.max
        return values


def _rounded(values: Any) -> Any:
    """Return float32 values rounded to 10 bits of mantissa, ties to even."""
    bits = values.view(np.uint32).astype(np.uint64)
    out = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
    special = (bits & 0x7F800000) == 0x7F800000
    return np.where(special, bits, out).astype(np.uint32).view(np.float32)


def _reference(a: Any, b: Any, c: Any, acc: Any, scales: Any = None) -> tuple[Any, Any]:
    """Return a b' + c exactly or in float64, and the sum of the magnitudes."""
    if np.issubdtype(acc, np.integer):
        total = a.astype(np.int64) @ b.astype(np.int64).T + c
        return ((total + 2**31) % 2**32 - 2**31).astype(acc), None
    wide = [x.astype(np.float64) for x in (a, b)]
    if scales is not None:
        wide = [x * s for x, s in zip(wide, scales, strict=True)]
    with np.errstate(all="ignore"):
        total = wide[0] @ wide[1].T + c.astype(np.float64)
        size = np.abs(wide[0]) @ np.abs(wide[1]).T + np.abs(c.astype(np.float64))
    return total, size


def _assert_equal(result: Any, total: Any, size: Any, exact: bool, terms: int) -> None:
    """Compare with exact sums; `terms`: how many are added to the result one by one, in its type.

    A chain of n additions, each rounded to nearest, errs by at most n * u / (1 - n * u) of the sum
    of all sizes, with u half the distance from 1 to the next number (Higham, "Accuracy and
    Stability of Numerical Algorithms", section 3.1). Sums that are not chains are rounded once.
    """
    if size is None:
        assert np.array_equal(result, total)
        return
    kind = result.dtype
    with np.errstate(all="ignore"):
        rounded = total.astype(kind).astype(np.float64)
    got = result.astype(np.float64)
    if exact:
        assert np.array_equal(got, rounded)
        return
    finite = np.isfinite(total) & np.isfinite(size)
    assert np.array_equal(np.isnan(got), np.isnan(total))
    kept = finite & np.isfinite(rounded) & np.isfinite(got)
    info = ml_dtypes.finfo(kind)
    if terms:
        half = terms * float(info.eps) / 2
        room = np.where(finite, size, 0) * (half / (1 - half) + 2.0**-48)
    else:
        room = np.where(finite, size, 0) * 2.0**-48
        room += np.abs(np.where(kept, total, 0)) * float(info.eps)
    room += max(terms, 1) * float(info.smallest_subnormal)
    assert (np.abs(got[kept] - total[kept]) <= room[kept]).all()
    assert np.array_equal(got[~kept], rounded[~kept], equal_nan=True)
    assert kept.sum() > result.size // 4


def _sparse(a: Any, p: Any, shape: MatrixShape, rng: Any, lanes: int) -> tuple[Any, Any]:
    """Return A spread over K, and the index of each lane, with the part that counts at random."""
    m, kept = a.shape
    places = np.array([sorted(rng.permutation(4)[:2]) for _ in range(m * kept // 2)])
    places = places.reshape(m, kept)
    dense = np.zeros((m, 2 * kept), a.dtype)
    rows, columns = np.indices((m, kept))
    dense[rows, columns // 2 * 4 + places] = a
    per_lane = m * kept // lanes
    index = rng.integers(0, 2**32, lanes, dtype=np.uint64)
    at = dict(p.options).get("index_set", 0) * 2 * per_lane
    for lane in range(lanes):
        group, row = divmod(lane, m)
        bits = 0
        for e in range(per_lane):
            bits |= int(places[row, group * per_lane + e]) << (2 * e)
        mask = (2 ** (2 * per_lane) - 1) << at
        index[lane] = (int(index[lane]) & ~mask) | bits << at
    return dense, np.ascontiguousarray(index.astype(np.uint32).view(np.int32))


def _wave_scales(rng: Any, block: int, select: int) -> tuple[Any, Any]:
    """Return the four or eight bytes of each lane of 32 and the factor of each element."""
    lanes = rng.integers(118, 136, (32, 128 // block)).astype(np.uint8)
    powers = 2.0 ** (lanes[16 * select :][:16].astype(np.float64) - 127)
    kind = np.int32 if block == 32 else np.int64
    return lanes.view(kind).ravel(), np.repeat(powers, block, axis=1)


def _scales(rng: Any, rows: int, k: int, select: int) -> tuple[Any, Any]:
    """Return the four bytes of each lane and the factor of each element."""
    lanes = rng.integers(118, 136, (64, 4)).astype(np.uint8)
    blocks = lanes[:, select].reshape(64 // rows, rows).T  # row, block of 32
    factors = np.repeat(2.0 ** (blocks.astype(np.float64) - 127), 32, axis=1)
    assert factors.shape == (rows, k)
    return lanes.view(np.int32).ravel(), factors


@pytest.mark.parametrize(("arch", "shape", "mnk", "types"), CASES)
def test_product(
    multiply: Any, make_product: Any, stored: Any,
    arch: str, shape: MatrixShape, mnk: tuple[int, int, int], types: Any,
) -> None:  # fmt: skip
    rng = np.random.default_rng(zlib.crc32(repr((shape.mnemonic, mnk, types)).encode()))
    facts = lookup(arch)
    lanes = facts.wave_size
    m, n, k = mnk
    sparse = shape.family in ("smfmac", "swmmac")
    wave_scaled = shape.family == "wmma_scale"
    scaled = shape.family == "mfma_scale"
    block = 16 if "scale16" in shape.intrinsic else 32
    if wave_scaled:  # how scales meet 6 bits or 32 rows is not published
        scaled = m == 16 and "6" not in shape.a
    options: list[tuple[str, Any]] = []
    selects = (0, 0)
    if scaled:
        selects = tuple(int(x) for x in rng.integers(0, 2 if wave_scaled else 4, 2))
        options = [("opsel_a", selects[0]), ("opsel_b", selects[1])]
    if wave_scaled:
        options.append(("block_size", block))
    if sparse:
        per_lane = m * k // 2 // lanes
        options = [("index_set", int(rng.integers(0, 16 // per_lane)))]
    p = make_product(
        KINDS[shape.family], mnk, types, tuple(options), 2 if sparse else 1,
        ("scale_a", "scale_b") if scaled else ("index",) if sparse else (),
        (_load_bits(shape, types[0], 0, facts),
         _load_bits(shape, types[1], 1, facts)),
        threads=lanes,
    )  # fmt: skip
    operands = Operands(rng, mnk, types, stored)
    for exact in (True, False):
        make = operands.small if exact else operands.wild
        a, b, c = make(m, k // p.kept, 0), make(n, k, 1), make(m, n, 2)
        extras: list[Any] = []
        factors = None
        dense = a
        if sparse:
            dense, index = _sparse(a, p, shape, rng, lanes)
            extras = [index]
        if scaled:
            made = [
                _wave_scales(rng, block, s) if wave_scaled else _scales(rng, m, k, s)
                for s in selects
            ]
            extras, factors = [x[0] for x in made], [x[1] for x in made]
        result = multiply(arch, p, a, b, c, *extras)
        left, right = (_rounded(x) if types[0] == "xf32" else x for x in (dense, b))
        total, size = _reference(left, right, c, operands.kinds[2], factors)
        # The emulator chains what has no scales; see its documentation.
        chained = types[2] == "f32" and not shape.family.endswith("scale")
        terms = k // p.kept if chained else 0
        _assert_equal(result, total, size, exact and not scaled, terms)
