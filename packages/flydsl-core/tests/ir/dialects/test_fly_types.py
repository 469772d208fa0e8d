"""Types: text, wrappers, per-context caching."""

from __future__ import annotations

from typing import Any

import pytest

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import atoms
from flydsl.dialects import fly_types as ft
from flydsl.errors import UserError
from flydsl.mlir import ir

COPY = ft.CopyAtomType(atoms.UniversalCopy(128), 16)
MMA = ft.MmaAtomType(atoms.UniversalFMA("f32"))
KINDS = [
    (ft.IntTupleType((4, (fl.Dyn(32, 8), None))), '!fly.int_tuple<"(4,(?{div=8},*))">'),
    (ft.LayoutType(fl.Layout((4, fl.Dyn()), (1, 4))), '!fly.layout<"(4,?):(1,4)">'),
    (
        ft.ComposedLayoutType(fl.ComposedLayout(fl.Swizzle(3, 0, 3), 0, fl.Layout(64, 1))),
        '!fly.composed_layout<"S<3,0,3> o 0 o 64:1">',
    ),
    (ft.SwizzleType(fl.Swizzle(3, 4, 3)), '!fly.swizzle<"S<3,4,3>">'),
    (ft.TileType(fl.Tile((4, None))), '!fly.tile<"[4|*]">'),
    (ft.PtrType("f32", "global", 16), '!fly.ptr<f32, "global", 16 : i64, "">'),
    (
        ft.PtrType("bf16", "shared", 128, fl.Swizzle(2, 4, 3)),
        '!fly.ptr<bf16, "shared", 128 : i64, "S<2,4,3>">',
    ),
    (
        ft.MemRefType("f8E4M3FNUZ", "global", fl.Layout(fl.Dyn(64), 1), 1),
        '!fly.memref<f8E4M3FNUZ, "global", "?{i64}:1", 1 : i64>',
    ),
    (
        ft.CoordTensorType(fl.CoordTensor((0, 0), fl.make_identity_layout((4, 8)))),
        '!fly.coord_tensor<"(0,0)", "(4,8):(1E0,1E1)">',
    ),
    (COPY, '!fly.copy_atom<"universal_copy<128>", 16 : i64>'),
    (MMA, '!fly.mma_atom<"universal_fma<f32>">'),
    (
        ft.TiledCopyType(COPY, fl.Layout((4, 8), (8, 1)), fl.Tile((4, 8))),
        '!fly.tiled_copy<"universal_copy<128>", 16 : i64, "(4,8):(8,1)", "[4|8]">',
    ),
    (
        ft.TiledMmaType(MMA, fl.Layout((2, 2, 1), (1, 2, 0)), fl.Tile((None, None, 32))),
        '!fly.tiled_mma<"universal_fma<f32>", "(2,2,1):(1,2,0)", "[*|*|32]">',
    ),
]


@pytest.mark.parametrize(("kind", "text"), KINDS, ids=[kind.mnemonic for kind, _ in KINDS])
def test_a_type_prints_and_reads_back(kind: ft.FlyType, text: str) -> None:
    assert str(kind) == text
    with mlir.new_context():
        parsed = ir.Type.parse(text)
        assert ft.of(parsed) == kind
        assert kind.ir == parsed
        assert str(kind.ir) == text


def test_wrappers_are_cached_per_context() -> None:
    kind = ft.PtrType("f32", "global", 16)
    with mlir.new_context():
        first = kind.ir
        assert ft.of(first) is ft.of(first)
        assert kind.ir is first
    with mlir.new_context():
        assert kind.ir != first


def test_other_types_have_no_wrapper() -> None:
    with mlir.thread_context():
        assert ft.of(ir.Type.parse("vector<4xf32>")) is None
        assert ft.of(ir.Type.parse("!llvm.ptr<3>")) is None


@pytest.mark.parametrize(
    "text",
    [
        '!fly.layout<"(4,8):(1)">',
        '!fly.layout<"4">',
        '!fly.tile<"4:1">',
        '!fly.ptr<f32, "global", 12 : i64, "">',
        '!fly.memref<!llvm.ptr, "global", "4:1", 4 : i64>',
        '!fly.memref<f32, "global", "(4,8):(1E0,1E1)", 4 : i64>',
        '!fly.copy_atom<"universal_copy<100>", 16 : i64>',
        '!fly.copy_atom<"universal_copy<32>", 24 : i64>',
        '!fly.copy_atom<"universal_copy<32,4>", 32 : i64>',
        '!fly.copy_atom<"universal_copy<x>", 32 : i64>',
        '!fly.copy_atom<"no_such_copy<32>", 32 : i64>',
        '!fly.copy_atom<"universal_fma<f32>", 32 : i64>',
        '!fly.copy_atom<"universal_atomic<and,f32,>", 32 : i64>',
        '!fly.copy_atom<"universal_atomic<xor,i32,>", 32 : i64>',
    ],
)
def test_malformed_parameters_are_refused(text: str) -> None:
    with mlir.thread_context(), pytest.raises(UserError):
        ft.of(ir.Type.parse(text))


@pytest.mark.parametrize(
    ("offset", "alignment"),
    [(0, 16), (4, 16), (2, 8), (-1, 4), (fl.Dyn(), 4), (fl.Dyn(32, 4), 16), (fl.Dyn(64, 6), 8)],
)
def test_moving_a_pointer_keeps_the_alignment_that_is_known(offset: Any, alignment: int) -> None:
    assert ft.PtrType("f32", "global", 16).moved(offset).alignment == alignment


def test_moving_by_part_of_a_byte_leaves_no_alignment() -> None:
    kind = ft.PtrType("f4E2M1FN", "global", 16)
    assert kind.moved(1).alignment == 1
    assert kind.moved(8).alignment == 4


def test_atoms_read_their_text_back() -> None:
    for operation in (
        atoms.UniversalCopy(96),
        atoms.UniversalAtomic("max", "ui32", "workgroup"),
        atoms.UniversalAtomic("add", "f32"),
    ):
        assert atoms.parse_copy(str(operation)) == operation
    assert atoms.parse_mma("universal_fma<bf16>") == atoms.UniversalFMA("bf16")
