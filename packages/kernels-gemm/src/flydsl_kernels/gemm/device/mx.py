"""Products of floats of 8, 6 and 4 bits where 32 columns share an E8M0 scale, on gfx1250.

Both operands are rows of codes along k, as they are usually kept, or B is rearranged so that a wave
reads neighbouring memory: codes in layout ``cdna5_16x16``, scales in ``cdna5_32x4``. Lanes load
what the instruction wants straight into registers, a step of 128 columns ahead: 16 bytes at a time,
of which the halves of a wave take turns, and a word with the four scales of a row. Memory past the
last row and codes and scales past the last column count as zeros. Where K is split, a workgroup's
columns end at a step, and so do those that count.

How the instruction's scales meet elements of 6 bits is not published, so these become floats of 8
bits first: the same sign, exponent and mantissa bits with the larger bias, hence the same number
times a power of two that the sums make up for (`KINDS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.gemm.device.epilogue import Extras, Finish, corner, deliver
from flydsl_kernels.gemm.device.order import spot
from flydsl_kernels.gemm.device.windows import load_words, wide, window
from flydsl_kernels.gemm.plan import KINDS, Kind, MxPlan
from flydsl_rocdl.kernels.word_buffers import OUTSIDE, beyond

__all__ = ["launch_mx", "mx_kernel"]

_STEP = 128
_SHARED = 32
_WAVE = 32
_VALUES = 8
_BLOCK = 256
"""Bytes of a piece of 16 rows."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand of a wave.

    Attributes:
        kind: Its format.
        tiles: Instruction tiles.
        ragged: Whether the last step is not full.
        rearranged: Whether codes and scales are.
        codes: Window of the workgroup's rows of codes.
        scales: Window of their scales.
        pitch: Bytes of a row of codes.
        blocks: Scales of a row.
        row: The lane's row of the first tile within the workgroup's.
        begin: First column of A of the workgroup's part.
        end: Where the part ends.
    """

    kind: Kind
    tiles: int
    ragged: bool
    rearranged: bool
    codes: Any
    scales: Any
    pitch: Any
    blocks: Any
    row: Any
    begin: Any
    end: Any


def _loaded(side: _Side, k: Any) -> list[Any]:
    """Load a lane's part of the step that begins at column `k`: for each tile pieces and scales.

    Steps past the end of the part are zeros.
    """
    kind = side.kind
    half = fx.thread_idx.x % _WAVE // 16
    there = k < side.end
    found = []
    for tile in range(side.tiles):
        start, scale, apart = (_rearranged if side.rearranged else _in_rows)(side, tile, k, half)
        start = fx.arith.select(there, start, fx.Int32(OUTSIDE))
        for load in range(kind.loads):
            place = beyond(start, load * apart)
            if side.ragged:
                inside = k + (2 * load * kind.run + half * kind.run) < side.end
                place = fx.arith.select(inside, place, fx.Int32(OUTSIDE))
            found.append(load_words(side.codes, place, 4, 16))
        limit = side.end // _SHARED - k // _SHARED if side.ragged else None
        place = fx.arith.select(there, scale, fx.Int32(OUTSIDE))
        found.append(load_words(side.scales, place, 1, 1 if side.ragged else 4, limit))
    return found


def _in_rows(side: _Side, tile: int, k: Any, half: Any) -> tuple[Any, Any, int]:
    """Return where a lane's codes and scales are, and the bytes from one load to the next."""
    row = side.row + 16 * tile
    per_byte = 2 if side.kind.run == 32 else 1
    start = row * side.pitch + k // per_byte + half * side.kind.distance
    return start, row * side.blocks + k // _SHARED, 32


def _rearranged(side: _Side, tile: int, k: Any, half: Any) -> tuple[Any, Any, int]:
    """Return the same where 16 rows have a piece of 16 bytes each in turn.

    Of scales, four of each of 32 rows are neighbours; the workgroup's tile begins with 32 rows.
    """
    row = side.row + 16 * tile
    inner = fx.thread_idx.x % 16
    start = (row - inner) * side.pitch + inner * 16 + (k // side.kind.run + half) * _BLOCK
    scale = row // 32 * (side.blocks * 32) + k // _STEP * 128 + row % 32 * 4
    return start, scale, 2 * _BLOCK


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
    """Return a wave's sums over the columns of its part.

    Steps take turns with two sets of registers, so that nothing is copied; the second one of the
    last turn may be past the end, of zeros.
    """
    zeros = fx.Vector.filled((_VALUES,), 0, fx.Float32)
    acc = [[zeros] * b.tiles for _ in range(a.tiles)]
    even = _both(a, b, a.begin)
    # One turn at least: loads before a loop that may be skipped are moved behind the test.
    for past in range(fx.Int32(0), fx.max(a.end - a.begin, fx.Int32(1)), 2 * _STEP):
        k = a.begin + past
        odd = _both(a, b, k + _STEP)
        acc = _multiplied(a, b, even, acc)
        even = _both(a, b, k + 2 * _STEP)
        acc = _multiplied(a, b, odd, acc)
    return acc


def _both(a: _Side, b: _Side, k: Any) -> list[list[Any]]:
    """Load both operands of a step; no product moves across."""
    fx.rocdl.sched_barrier("salu")
    found = [_loaded(a, k), _loaded(b, k)]
    fx.rocdl.sched_barrier("salu")
    return found


def _side(
    plan: MxPlan, which: int, tensors: tuple[Any, Any], where: tuple[Any, Any, Any],
    part: tuple[Any, Any],
) -> _Side:  # fmt: skip
    """Return an operand of the workgroup's tile.

    Args:
        plan: The plan.
        which: 0 for A, 1 for B.
        tensors: Codes and scales, (batch, rows, bytes) each.
        where: Matrix of the batch, the tile's first row, and the lane's row within the tile.
        part: First column of A, and where the columns end.
    """
    (codes, scales), (layer, first, row) = tensors, where
    windows = []
    for tensor in tensors:
        pitch = wide(tensor.shape[2])
        offset = wide(layer) * tensor.stride[0] + wide(first) * pitch
        windows.append(window(tensor.iter, offset, wide(fx.Int32(tensor.shape[1]) - first) * pitch))
    return _Side(
        KINDS[(plan.a, plan.b)[which]], plan.tiles[which], plan.ragged,
        plan.rearranged and which == 1, windows[0], windows[1], fx.Int32(codes.shape[2]),
        fx.Int32(scales.shape[2]), row, *part,
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
    """C = finished((A SA) (B SB)^T), for every matrix of the batch; with split K, of each part."""
    rows, columns = fx.Int32(C.shape[1]), fx.Int32(C.shape[2])
    tile_m, tile_n = plan.tile
    tiles = (rows + (tile_m - 1)) // tile_m, (columns + (tile_n - 1)) // tile_n
    layers = fx.Int32(C.shape[0])
    own = spot(tiles, layers, plan.group_m, 1)
    layer, begin, end = own.layer, fx.Int32(0), fx.Int32(SA.shape[2]) * _SHARED
    if fx.const_expr(plan.split_k > 1):
        batches = layers // plan.split_k
        part, layer = own.layer // batches, own.layer % batches
        each = ((end + (_STEP - 1)) // _STEP + (plan.split_k - 1)) // plan.split_k * _STEP
        begin = part * each
        end = fx.min(end, begin + each)
    row, column = own.tile_m * tile_m, own.tile_n * tile_n
    wave = fx.rocdl.readfirstlane(fx.Int32, fx.thread_idx.x // _WAVE)
    inner, half = fx.thread_idx.x % 16, fx.thread_idx.x % _WAVE // 16
    below = wave // plan.waves[1] * (16 * plan.tiles[0])
    beside = wave % plan.waves[1] * (16 * plan.tiles[1])
    a = _side(plan, 0, (A, SA), (layer, row, below + inner), (begin, end))
    b = _side(plan, 1, (B, SB), (layer, column, beside + inner), (begin, end))
    acc = _sums(a, b)
    finish = Finish(plan.epilogue, extras, layer, row, column, rows, columns)
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
        B: The same of B's columns, (batch, N, bytes of a row), perhaps rearranged.
        SA: E8M0 scales, (batch, M, K / 32).
        SB: E8M0 scales, (batch, N, K / 32).
        C: (batch, M, N); with split K, f32 sums of each part, (parts * batch, M, N).
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
