"""Products of floats of 8, 6 and 4 bits where 32 columns share an E8M0 scale, on gfx1250.

Both operands are rows of codes along k, as they are usually kept: nothing is rearranged. Lanes load
what the instruction wants straight into registers, a step of 128 columns ahead: 16 bytes at a time,
of which the halves of a wave take turns, and a word with the four scales of a row. Memory past the
last row and codes and scales past the last column count as zeros.

How the instruction's scales meet elements of 6 bits is not published, so these become floats of 8
bits first: the same sign, exponent and mantissa bits with the larger bias, hence the same number
times a power of two that the sums make up for (`KINDS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.gemm.device.epilogue import Extras, Finish, corner, deliver
from flydsl_kernels.gemm.device.order import spot
from flydsl_kernels.gemm.device.windows import OUTSIDE, load_words, wide, window
from flydsl_kernels.gemm.plan import EpiloguePlan

__all__ = ["KINDS", "Kind", "MxPlan", "launch_mx"]

_STEP = 128
_SHARED = 32
_WAVE = 32
_VALUES = 8
_GROUP = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """How codes of one format reach the instruction.

    Attributes:
        code: The format's number in the instruction.
        run: Neighbouring k that a lane loads at once.
        distance: Bytes from one half of a wave to the other.
        deficit: Power of two by which the numbers are too small after widening.
    """

    code: int
    run: int
    distance: int = 16
    deficit: int = 0

    @property
    def loads(self) -> int:
        """Loads of a lane for one step."""
        return _STEP // 2 // self.run


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "fp8": Kind(0, 16),
        "bf8": Kind(1, 16),
        "fp6": Kind(0, 16, 12, 6),
        "bf6": Kind(1, 16, 12, 12),
        "fp4": Kind(4, 32),
    }
)
"""Formats: E4M3, E5M2, E2M3, E3M2 and E2M1. Those of 6 bits lie as `pack_fp6` packs them."""


@dataclass(frozen=True, slots=True)
class MxPlan:
    """What a kernel is compiled for.

    Attributes:
        a: Format of A, a key of `KINDS`.
        b: Format of B.
        tiles: Instruction tiles of 16 x 16 of a wave, along M and N.
        waves: Waves of a workgroup along M and N.
        ragged: Whether the last step along k is not full.
        epilogue: How results are finished.
    """

    a: str
    b: str
    tiles: tuple[int, int]
    waves: tuple[int, int]
    ragged: bool
    epilogue: EpiloguePlan

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C of a workgroup."""
        return 16 * self.tiles[0] * self.waves[0], 16 * self.tiles[1] * self.waves[1]

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return _WAVE * self.waves[0] * self.waves[1]


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand of a wave.

    Attributes:
        kind: Its format.
        tiles: Instruction tiles.
        ragged: Whether the last step is not full.
        codes: Window of the workgroup's rows of codes.
        scales: Window of their scales.
        pitch: Bytes of a row of codes.
        row: The lane's row of the first tile within the workgroup's.
        k: Columns of A.
    """

    kind: Kind
    tiles: int
    ragged: bool
    codes: Any
    scales: Any
    pitch: Any
    row: Any
    k: Any


def _loaded(side: _Side, k: Any) -> list[Any]:
    """Load a lane's part of the step that begins at column `k`: for each tile pieces and scales."""
    kind = side.kind
    half = fx.thread_idx.x % _WAVE // 16
    per_byte = 2 if kind.run == 32 else 1
    blocks = side.k // _SHARED
    found = []
    for tile in range(side.tiles):
        row = side.row + 16 * tile
        start = row * side.pitch + k // per_byte + half * kind.distance
        for load in range(kind.loads):
            place = start + load * 32
            if side.ragged:
                inside = k + (2 * load * kind.run + half * kind.run) < side.k
                place = fx.arith.select(inside, place, fx.Int32(OUTSIDE))
            found.append((side.codes + place).load(vector_alias(fx.Int32, (4,))))
        first = k // _SHARED
        limit = blocks - first if side.ragged else None
        place = row * blocks + first
        found.append(load_words(side.scales, place, 1, 1 if side.ragged else 4, limit))
    return found


def _widened(words: Any) -> Any:
    """Return four words of 8-bit floats of the 16 codes of 6 bits in the first three words."""
    w = words.bitcast(fx.Uint32)
    parts = [w[0], (w[0] >> 24) | (w[1] << 8), (w[1] >> 16) | (w[2] << 16), w[2] >> 8]
    x: Any = fx.Vector.from_elements(parts, fx.Uint32)
    codes = (x & 0x3F) | ((x & 0xFC0) << 2) | ((x & 0x3F000) << 4) | ((x & 0xFC0000) << 6)
    return ((codes & 0x1F1F1F1F) | ((codes & 0x20202020) << 2)).bitcast(fx.Int32)


def _operand(side: _Side, loaded: list[Any], tile: int) -> tuple[Any, Any]:
    """Return the registers of one tile, and the word of its scales."""
    each = side.kind.loads + 1
    *parts, scale = loaded[tile * each : (tile + 1) * each]
    if side.kind.deficit:
        parts = [_widened(part) for part in parts]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [a.shuffle(b, range(2 * a.numel)) for a, b in pairs]
    return parts[0], scale[0]


def _multiplied(a: _Side, b: _Side, loaded: list[list[Any]], acc: list[list[Any]]) -> Any:
    """Return the sums after one step: rows of B are first, so that a lane has columns of C."""
    rows = [_operand(a, loaded[0], tile) for tile in range(a.tiles)]
    columns = [_operand(b, loaded[1], tile) for tile in range(b.tiles)]
    call = fx.rocdl.wmma_scale_f32_16x16x128_f8f6f4
    return [
        [
            call(None, [column, row, total, scale_b, scale_a], fmtA=b.kind.code, fmtB=a.kind.code)
            for (column, scale_b), total in zip(columns, sums, strict=True)
        ]
        for (row, scale_a), sums in zip(rows, acc, strict=True)
    ]


@flyc.jit
def _sums(a: _Side, b: _Side) -> Any:
    """Return a wave's sums over all columns of A."""
    zeros = fx.Vector.filled((_VALUES,), 0, fx.Float32)
    acc = [[zeros] * b.tiles for _ in range(a.tiles)]
    ahead = [_loaded(a, fx.Int32(0)), _loaded(b, fx.Int32(0))]
    for k in range(fx.Int32(0), a.k, _STEP):
        here = ahead
        ahead = [_loaded(a, k + _STEP), _loaded(b, k + _STEP)]
        acc = _multiplied(a, b, here, acc)
    return acc


def _side(
    plan: MxPlan, which: int, tensors: tuple[Any, Any], layer: Any, first: Any, row: Any
) -> _Side:
    """Return an operand of the workgroup's tile.

    Args:
        plan: The plan.
        which: 0 for A, 1 for B.
        tensors: Codes and scales, (batch, rows, bytes) each.
        layer: Matrix of the batch.
        first: The tile's first row.
        row: The lane's row within the tile.
    """
    codes, scales = tensors
    windows = []
    for tensor in tensors:
        pitch = wide(tensor.shape[2])
        offset = wide(layer) * tensor.stride[0] + wide(first) * pitch
        windows.append(window(tensor.iter, offset, wide(fx.Int32(tensor.shape[1]) - first) * pitch))
    k = fx.Int32(scales.shape[2]) * _SHARED
    return _Side(
        KINDS[(plan.a, plan.b)[which]], plan.tiles[which], plan.ragged, windows[0], windows[1],
        fx.Int32(codes.shape[2]), row, k,
    )  # fmt: skip


def _delivered(acc: Any, deficit: int, place: tuple[Any, Any], finish: Finish, target: Any) -> None:
    """Finish and store a wave's sums, of which the lane's first is at `place` within the tile."""
    for i, sums in enumerate(acc):
        for j, total in enumerate(sums):
            whole = total * float(1 << deficit) if deficit else total
            deliver(whole, place[0] + i * 16, place[1] + j * 16, finish, target)


@flyc.kernel
def mx_kernel(
    A: fx.Tensor, B: fx.Tensor, SA: fx.Tensor, SB: fx.Tensor, C: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[MxPlan],
) -> None:  # fmt: skip
    """C = finished((A SA) (B SB)^T), for every matrix of the batch."""
    rows, columns = fx.Int32(C.shape[1]), fx.Int32(C.shape[2])
    tile_m, tile_n = plan.tile
    tiles = (rows + (tile_m - 1)) // tile_m, (columns + (tile_n - 1)) // tile_n
    own = spot(tiles, fx.Int32(C.shape[0]), _GROUP, 1)
    row, column = own.tile_m * tile_m, own.tile_n * tile_n
    wave = fx.rocdl.readfirstlane(fx.Int32, fx.thread_idx.x // _WAVE)
    inner, half = fx.thread_idx.x % 16, fx.thread_idx.x % _WAVE // 16
    below = wave // plan.waves[1] * (16 * plan.tiles[0])
    beside = wave % plan.waves[1] * (16 * plan.tiles[1])
    a = _side(plan, 0, (A, SA), own.layer, row, below + inner)
    b = _side(plan, 1, (B, SB), own.layer, column, beside + inner)
    acc = _sums(a, b)
    finish = Finish(plan.epilogue, extras, own.layer, row, column, rows, columns)
    place = below + inner, beside + half * _VALUES
    _delivered(
        acc, a.kind.deficit + b.kind.deficit, place, finish, (C, corner(C, own.layer, finish))
    )


@flyc.jit
def launch_mx(
    A: fx.Tensor, B: fx.Tensor, SA: fx.Tensor, SB: fx.Tensor, C: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[MxPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch one workgroup for every tile of every matrix.

    Args:
        A: Codes as bytes, (batch, M, bytes of a row), rows adjacent.
        B: The same of B's columns, (batch, N, bytes of a row).
        SA: E8M0 scales, (batch, M, K / 32).
        SB: E8M0 scales, (batch, N, K / 32).
        C: (batch, M, N).
        extras: What goes into results besides.
        plan: The plan.
        stream: Where to launch.
    """
    tile_m, tile_n = plan.tile
    tiles_m = (C.shape[1] + (tile_m - 1)) // tile_m
    tiles_n = (C.shape[2] + (tile_n - 1)) // tile_n
    groups = tiles_m * tiles_n * C.shape[0]
    mx_kernel(A, B, SA, SB, C, extras, plan).launch(
        grid=(groups,), block=(plan.threads,), stream=stream
    )
