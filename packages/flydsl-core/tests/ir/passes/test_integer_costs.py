"""Integer operations that layout operations cost: the table of the documentation holds.

``docs/integer-costs.md`` lists, case by case, the most operations that `fly-layout-lowering` may
leave and how many of them divide. The cases are built here; a case in only one place fails.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import atoms, fly, fly_types, tiled
from flydsl.dialects.verify import verify_module
from flydsl.mlir import ir
from flydsl.passes import PASSES

L = fl.Layout
PAGE = Path(__file__).parents[5] / "docs" / "integer-costs.md"
_ROW = re.compile(
    r"^\| (?P<name>[^|]+?) +\| (?P<ops>\d+) +\| (?P<divisions>\d+) +\|$", re.MULTILINE
)
_DIVISIONS = ("divui", "divsi", "remui", "remsi", "floordivsi", "ceildivsi")


def memref(layout: str, element: str = "f16", space: str = "global") -> str:
    return f'!fly.memref<{element}, "{space}", "{layout}", 16 : i64>'


def i32(value: Any) -> Any:
    return mlir.arith.index_cast(ir.IntegerType.get_signless(32), value)


def thread() -> Any:
    return i32(mlir.gpu.thread_id(mlir.gpu.Dimension.x))


def block() -> Any:
    return i32(mlir.gpu.block_id(mlir.gpu.Dimension.x))


def keep(value: Any) -> None:
    """Use a tuple's run-time leaves, or the address of a tensor's first element."""
    kind = fly_types.of(value.type)
    if isinstance(kind, fly_types.MemRefType):
        fly.memref_load(value, _origin(kind.layout.shape))
        return
    for leaf in fly.unpack(value)[1] if kind is not None else [value]:
        wide = ir.IntegerType.get_signless(64)
        pointer = fly_types.PtrType(str(leaf.type), "global", 8)
        fly.ptr_store(leaf, fly.inttoptr(pointer, mlir.arith.constant(wide, 4096)))


def _origin(shape: Any) -> Any:
    return tuple(_origin(s) for s in shape) if isinstance(shape, tuple) else 0


def tiled_copy() -> Any:
    atom = fly.make_copy_atom(atoms.UniversalCopy(128), 16)
    tile, tv = fl.make_layout_tv(L((32, 8), (8, 1)), L((1, 8), (1, 1)))
    return fly.make_tiled_copy(atom, tv, tile)


class Mma(atoms.MmaOp):
    """16 x 16 x 16 over 64 threads with four values each."""

    prefix = "cost16"
    shape_mnk = (16, 16, 16)
    elements = ("f16", "f16", "f32", "f32")

    def thr_layout(self) -> fl.Layout:
        return L(64, 1)

    def layout_a_tv(self) -> fl.Layout:
        return L(((16, 4), 4), ((1, 64), 16))

    layout_b_tv = layout_a_tv

    def layout_c_tv(self) -> fl.Layout:
        return L(((16, 4), (4, 1)), ((16, 4), (1, 0)))


atoms.register([Mma])


def tiled_mma() -> Any:
    return fly.make_tiled_mma(fly.make_mma_atom(Mma()), L((2, 2, 1), (1, 2, 0)))


def swizzled(pointer: Any) -> Any:
    layout = fl.make_composed_layout(fl.Swizzle(3, 3, 3), L((64, 64), (64, 1)))
    return fly.make_view(pointer, layout)


def two(a: Any, b: Any, layout: Any) -> None:
    keep(fly.crd2idx((a, b), layout))


DYNAMIC = '!fly.layout<"(?,?):(?{i64},1)">'
COLUMN = '!fly.layout<"(?,?):(1,?)">'
ROWS = memref("(?,?):(?{i64},1)")
SHARED = '!fly.ptr<f16, "shared", 1024 : i64, "">'

CASES: dict[str, tuple[list[str], Callable[..., None]]] = {
    "crd2idx: constants in a static layout": (
        [], lambda: keep(fly.crd2idx((3, 5), L((8, 16), (16, 1)))),
    ),
    "crd2idx: (i, j) in a static layout": (
        ["i32", "i32"], lambda i, j: two(i, j, L((8, 16), (16, 1))),
    ),
    "crd2idx: (3, j) in a static layout": (["i32"], lambda j: two(3, j, L((8, 16), (16, 1)))),
    "crd2idx: thread in a compact layout": (
        [], lambda: keep(fly.crd2idx(thread(), L((8, 32), (1, 8)))),
    ),
    "crd2idx: thread in a layout whose first mode holds all threads": (
        [], lambda: keep(fly.crd2idx(thread(), L((256, 4), (1, 512)))),
    ),
    "crd2idx: thread in (8,32):(32,1)": (
        [], lambda: keep(fly.crd2idx(thread(), L((8, 32), (32, 1)))),
    ),
    "crd2idx: thread in (6,43):(43,1)": (
        [], lambda: keep(fly.crd2idx(thread(), L((6, 43), (43, 1)))),
    ),
    "crd2idx: (i, j) with a run-time 64-bit stride": (["i32", "i32", DYNAMIC], two),
    "crd2idx: (i, j) with a run-time 32-bit stride": (["i32", "i32", COLUMN], two),
    "crd2idx: a linear coordinate with run-time extents": (
        ["i32", COLUMN], lambda i, layout: keep(fly.crd2idx(i, layout)),
    ),
    "idx2crd: thread in (8,32):(1,8)": (
        [], lambda: keep(fly.idx2crd(thread(), L((8, 32), (1, 8)))),
    ),
    "idx2crd: thread in (6,43):(1,6)": (
        [], lambda: keep(fly.idx2crd(thread(), L((6, 43), (1, 6)))),
    ),
    "idx2crd: a linear index with run-time extents": (
        ["i32", COLUMN], lambda i, layout: keep(fly.idx2crd(i, layout)),
    ),
    "crd2idx of idx2crd: thread and back": (
        [], lambda: keep(fly.crd2idx(fly.idx2crd(thread(), L((4, 8, 8), (1, 4, 32))),
                                     L((4, 8, 8), (1, 4, 32)))),
    ),
    "slice: tile of the block, one mode": (
        [memref("?:1")],
        lambda t: keep(fly.slice(fly.logical_divide(t, L(256, 1)), (None, block()))),
    ),
    "slice: tile of the block, then element of the thread": (
        [memref("?:1")],
        lambda t: keep(fly.slice(
            fly.logical_divide(fly.slice(fly.logical_divide(t, L(1024, 1)), (None, block())),
                               L(4, 1)), (None, thread()))),
    ),
    "slice: row of a row-major matrix with a run-time stride": (
        [ROWS, "i32"], lambda t, i: keep(fly.slice(t, (i, None))),
    ),
    "divide: tile (i, j) of a row-major matrix with a run-time stride": (
        [ROWS, "i32", "i32"],
        lambda t, i, j: keep(fly.slice(fly.zipped_divide(t, fl.make_tile(128, 64)),
                                       ((None, None), (i, j)))),
    ),
    "size: product of an extent with a static one": (
        [ROWS], lambda t: keep(fly.size(fly.make_layout((fly.get(fly.get_shape(t), mode=(0,)), 8),
                                                        (8, 1)))),
    ),
    "ceil_div: blocks of 256 in an extent": (
        [memref("?:1")], lambda t: keep(fly.ceil_div(fly.get_shape(t), 256)),
    ),
    "shape_div: an extent that is a multiple of 64": (
        ['!fly.int_tuple<"?{div=64}">'], lambda n: keep(fly.shape_div(n, 64)),
    ),
    "elem_less: a constant inside known extents": (
        [], lambda: keep(fly.elem_less((thread(), 3), (256, 8))),
    ),
    "elem_less: (i, j) against run-time extents": (
        ["i32", "i32", ROWS], lambda i, j, t: keep(fly.elem_less((i, j), fly.get_shape(t))),
    ),
    "tiled copy: a thread's part of a static matrix": (
        [memref("(128,64):(64,1)")],
        lambda t: keep(fly.tiled_copy_partition_src(tiled_copy(), t, thread())),
    ),
    "tiled copy: a thread's part of a matrix with a run-time stride": (
        [memref("(128,64):(?{i64 div=8},1)")],
        lambda t: keep(fly.tiled_copy_partition_src(tiled_copy(), t, thread())),
    ),
    "tiled MMA: a thread's part of A, static": (
        [memref("(128,64):(64,1)")],
        lambda t: keep(fly.tiled_mma_partition("A", tiled_mma(), t, thread())),
    ),
    "tiled MMA: a thread's part of C, static": (
        [memref("(128,128):(128,1)", "f32")],
        lambda t: keep(fly.tiled_mma_partition("C", tiled_mma(), t, thread())),
    ),
    "swizzled LDS: a thread's eight values of a 64 x 64 tile": (
        [SHARED],
        lambda p: keep(fly.slice(fly.tiled_copy_partition_dst(tiled_copy(), swizzled(p), thread()),
                                 (None, 0, 0))),
    ),
    "swizzled LDS: an MMA's values of A, static": (
        [SHARED],
        lambda p: keep(fly.slice(fly.tiled_mma_partition("A", tiled_mma(), swizzled(p), thread()),
                                 (None, 0, 0))),
    ),
}  # fmt: skip


def lowered(parameters: list[str], build: Callable[..., None]) -> list[str]:
    """Return the names of the arith operations that are left of a case."""
    context = mlir.thread_context()
    listed = ", ".join(f"%a{i}: {t}" for i, t in enumerate(parameters))
    module = mlir.parse_module(
        f"gpu.module @k {{ gpu.func @f({listed}) kernel attributes "
        "{known_block_size = array<i32: 256, 1, 1>} { gpu.return } }",
        context,
    )
    function = module.body.operations[0].regions[0].blocks[0].operations[0]
    entry = function.regions[0].blocks[0]
    with context, ir.Location.unknown(), ir.InsertionPoint(entry.operations[0]):
        build(*entry.arguments)
    names = list(PASSES)
    for name in names[: names.index("fly-int-swizzle-simplify") + 1]:
        where, run = PASSES[name].split(":")
        getattr(importlib.import_module(where), run)(module, None)
        verify_module(module, name)
    mlir.run_pipeline(module, "builtin.module(canonicalize,cse)")
    found = [view.operation.name for view in entry.operations]
    arith = [name.removeprefix("arith.") for name in found if name.startswith("arith.")]
    return [name for name in arith if name not in ("constant", "index_cast")]


def table() -> dict[str, tuple[int, int]]:
    rows = _ROW.finditer(PAGE.read_text())
    return {row["name"]: (int(row["ops"]), int(row["divisions"])) for row in rows}


@pytest.mark.parametrize("name", CASES)
def test_costs_stay_within_the_table(name: str) -> None:
    operations, divisions = table()[name]
    found = lowered(*CASES[name])
    assert len(found) <= operations, found
    assert sum(op in _DIVISIONS for op in found) <= divisions, found


def test_the_table_lists_the_cases() -> None:
    assert list(table()) == list(CASES)


def test_tiled_layouts_are_what_the_cases_say() -> None:
    """The cases partition whole tiles, so every thread has a part."""
    kind = fly_types.TiledMmaType(fly_types.MmaAtomType(Mma()), L((2, 2, 1), (1, 2, 0)),
                                  fl.make_tile(None, None, None))  # fmt: skip
    assert tiled.tile_size_mnk(kind) == (32, 32, 16)
